"""The objects that the papers' theorems are about, in one room each.

Every room is a package of modules that uses `losses`, `nets` and `random` alone: deep linear
nets, ReLU nets, the covariance operator of deep nets, latent trees, one and two nonlinear layers,
masked sparse codes. Their results are exact (finite sums, closed forms) unless stated otherwise.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
