"""Checks of chapter 5, second part: two layers (nl Secs. 4, 5)."""
