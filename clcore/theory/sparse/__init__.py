"""Masked sparse codes: landscapes and dynamics (ncl Secs. 4, 5, App. C, D)."""
