"""Two layers with disjoint receptive fields (nl Sec. 4)."""

from clcore._front import attach

_HOMES = {"": ("field_latent", "modulation", "two_layer")}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
