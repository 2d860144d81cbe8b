"""The energy of one node on the circle, for depths that are taken relative to it (nl Fig. 8)."""

import numpy as np

from clcore.reference import Array

FIGURE8 = np.pi / 30 * np.array([-24, -15, -12, -5, 0, 6, 12, 18, 24])
"""The angles of the data of nl Fig. 8."""


def outputs(x: Array, angle: Array) -> Array:
    """ReLU of w.x, [t, n]."""
    return np.maximum(np.stack([np.cos(angle), np.sin(angle)], -1) @ x.T, 0)


def highest(x: Array, angle: Array, tau: float | None = None, axes: tuple[int, ...] = ()) -> float:
    """The greatest 1/2 C_alpha[h] over the angles, summed over pairs, alpha as in `clouds.push`.

    axes: over which alpha gets mean one, (1, 2) or (2,).
    """
    h = outputs(x, angle)
    square = (h[:, :, None] - h[:, None]) ** 2
    alpha = np.ones_like(square) if tau is None else np.exp(-square / (2 * tau))
    if axes:
        alpha = alpha / alpha.mean(axes, keepdims=True)
    return float((alpha * square).mean((1, 2)).max()) / 4
