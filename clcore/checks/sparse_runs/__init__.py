"""Checks of ncl's tables and figures beside our runs, for both parts of chapter 6."""
