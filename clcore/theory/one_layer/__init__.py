"""One nonlinear layer: A(w), its fixed points and basins (nl Sec. 3)."""

from clcore._front import attach

_HOMES = {"": ("basins", "circle_landscape", "one_layer", "power_iteration", "roughness")}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
