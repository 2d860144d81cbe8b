"""The covariance operator of dual deep networks (ddn Secs. 3 to 5)."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
