"""Operators A(v) with an LME whose roughness is known, and the push of Eq. 7 (nl Sec. 3.2)."""

import numpy as np

from clcore.checks.one_layer.power_iteration.steps import bases, matrix
from clcore.reference import Array, tangent, unit


def pushed(A: Array, v: Array) -> Array:
    """P_v A v for unit v [..., d], the right side of Eq. 7, in numpy."""
    return tangent(v, np.einsum("...ij,...j->...i", A, v))


def across(rng: np.random.Generator, w: Array) -> Array:
    """Random unit vectors orthogonal to w [..., d]."""
    return unit(tangent(w, rng.standard_normal(w.shape)))


def tight(rng: np.random.Generator, draws: int, share: Array, power: float | None = None) -> tuple:
    """Families with an LME at w whose roughness is `share` of the gap, and pushes outward.

    A(v) = A_* + s (phi_2.v) (phi_1 phi_2^T + phi_2 phi_1^T), so (A(v) - A_*) w = s (phi_2.v) phi_2.
    With a `power` gap |phi_2.v|^power phi_2 phi_2^T is added, 0 at phi_2.v = 0: it leaves the
    roughness as it is, jumps at w if the power is 0, and is continuous there if it is positive.
    Returns (A as a function of v in numpy, w, phi_2, gap).
    """
    values = -np.sort(-rng.uniform(0.1, 1, (draws, 4)), -1)
    values[:, 0] = values[:, 1] + rng.uniform(0.1, 1, draws)
    Q = bases(rng, draws, 4)
    w, second, gap = Q[..., 0], Q[..., 1], values[:, 0] - values[:, 1]
    turn = w[:, :, None] * second[:, None]
    turn = (share * gap)[:, None, None] * (turn + turn.swapaxes(1, 2))
    base, more = matrix(values, Q), gap[:, None, None] * second[:, :, None] * second[:, None]

    def A(v: Array) -> Array:
        along = (second * v).sum(-1)[:, None, None]
        if power is None:
            return base + along * turn
        size = np.abs(along)
        return base + along * turn + np.where(size > 1e-12, size**power, 0.0) * more

    return A, w, second, gap
