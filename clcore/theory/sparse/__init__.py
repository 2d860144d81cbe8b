"""Masked sparse codes: landscapes and dynamics (ncl Secs. 4, 5, App. C, D)."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
