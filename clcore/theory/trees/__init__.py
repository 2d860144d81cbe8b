"""Latent trees, nets of their shape, and lucky nodes (ddn Secs. 6, 7)."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
