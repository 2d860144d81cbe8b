"""Checks of chapter 5, first part: one nonlinear layer (nl Secs. 2, 3)."""
