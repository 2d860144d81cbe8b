"""The objects that the papers' theorems are about, in one room each.

Every room is a package of modules, and stands on `losses`, `nets` and `random` alone: deep linear
nets, ReLU nets, the covariance operator of deep nets, latent trees, one and two nonlinear layers,
masked sparse codes. What they compute is exact (finite sums, closed forms) unless they say
otherwise.
"""

from clcore._front import attach

_HOMES = {
    "": ("deep_linear", "one_layer", "operator", "relu", "sparse", "trees", "two_layer"),
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
