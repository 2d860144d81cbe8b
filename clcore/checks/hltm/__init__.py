"""Checks of chapters 4.4 and 4.5: hierarchical latent trees (ddn Secs. 6, 7)."""
