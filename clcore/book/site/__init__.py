"""The static site: its generated pages, laid out with the book's sources and handed to Sphinx."""
