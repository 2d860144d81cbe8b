"""The objects that the papers' theorems are about, in one folder each."""
