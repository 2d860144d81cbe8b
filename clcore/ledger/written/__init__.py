"""What stands in a check, read from its source: its statement, its helpers, the lines of a part."""
