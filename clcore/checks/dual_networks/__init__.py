"""Checks of chapter 4, first part: dual deep networks (ddn Secs. 2 to 5)."""
