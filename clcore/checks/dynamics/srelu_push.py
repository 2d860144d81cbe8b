"""Theorem 3's half-rounds once more, in numpy (ncl Eq. 13): the push of the exact gradient, and
where it takes a network. In any region, not only where the simplified loss is exact.
"""

from math import inf

import numpy as np

from clcore.checks.dynamics.srelu import by_cases, law, signed, subsets
from clcore.reference import Array


def push(held: Array, b_held: Array, moved: Array, b: Array, alpha: float, kappa: float) -> Array:
    """-dL/dW of `moved`, [d, d], from Eq. 13 without noise: a sum over latents and masks."""
    d = len(held)
    D, total = subsets(d), np.zeros((d, d))
    keep, z = law(D, alpha, 1 - alpha), signed(d)
    for point, chance in zip(z, law(z, kappa / 2, 1 - kappa), strict=True):
        x = D * point
        passed = (np.abs(x @ moved.T) > b) * keep[:, None]
        total += 2 * chance * (keep @ by_cases(x @ held.T, b_held))[:, None] * (passed.T @ x)
    return total


def ends(
    held: Array, b_held: Array, moved: Array, b: Array, alpha: float, kappa: float, eta: float = inf
) -> Array:
    """Where a half-round takes `moved`, [d, d], by steps of eta, or by steps without end: W is
    its own push, row by row over its norm. While no gate changes, one such step gets there; where
    gates change, other steps may end elsewhere."""
    for _ in range(6 if eta == inf else 40):
        W = moved / eta + push(held, b_held, moved, b, alpha, kappa)
        W /= np.linalg.norm(W, axis=-1, keepdims=True)
        if np.array_equal(W, moved):
            break
        moved = W
    return moved
