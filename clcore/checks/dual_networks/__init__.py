"""Checks of chapters 4.1 to 4.3: dual deep networks (ddn Secs. 2 to 5)."""
