"""Checks of chapter 4, second part: hierarchical latent trees (ddn Secs. 6, 7)."""
