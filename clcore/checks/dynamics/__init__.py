"""Checks of chapter 6, second part: dynamics without negatives (ncl Sec. 5, App. C, D)."""
