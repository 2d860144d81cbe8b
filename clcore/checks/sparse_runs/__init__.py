"""Checks of ncl's tables and figures against our runs, for both parts of chapter 6."""
