"""Latent trees, nets of their shape, and lucky nodes (ddn Secs. 6, 7)."""
