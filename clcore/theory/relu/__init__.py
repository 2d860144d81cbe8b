"""Two-layer ReLU nets and the data they compose (acl Sec. 5)."""

from clcore._front import attach

_HOMES = {"": ("binary_latent", "orthogonal_mixture", "relu_two_layer")}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
