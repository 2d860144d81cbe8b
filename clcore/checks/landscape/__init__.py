"""Checks of chapter 6, first part: landscapes of masked sparse codes (ncl Secs. 4, 5)."""
