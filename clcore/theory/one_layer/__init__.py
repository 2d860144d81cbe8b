"""One nonlinear layer: A(w), its fixed points and basins (nl Sec. 3)."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
