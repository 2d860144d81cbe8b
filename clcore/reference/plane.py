"""Mixtures of two round Gaussians in the plane, and A(w) of ReLU nodes on them by quadrature.

Half planes are integrated in polar coordinates that start at their edge, so that the jump of the
gate costs no accuracy: Gauss-Legendre in angle and radius. Independent of
`clcore.theory.one_layer.one_layer`.
"""

from typing import NamedTuple

import numpy as np

from clcore.reference import Array

_ANGLES = np.polynomial.legendre.leggauss(64)
_RADII = np.polynomial.legendre.leggauss(64)


class Law(NamedTuple):
    """Means `2 2`, standard deviations `2` and shares `2` of two Gaussians; reach of the grid."""

    mean: Array
    deviation: Array
    share: Array
    reach: float = 8.0


def draw(rng: np.random.Generator) -> Law:
    """A random mixture of two round Gaussians in the plane."""
    share = rng.uniform(0.3, 0.7)
    deviation = rng.uniform(0.6, 0.9, 2)
    return Law(rng.uniform(-1, 1, (2, 2)), deviation, np.array([share, 1 - share]))


def density(law: Law, x: Array) -> Array:
    """p(x) at points [..., 2]."""
    away = ((x[..., None, :] - law.mean) ** 2).sum(-1) / law.deviation**2
    return (law.share * np.exp(-away / 2) / (2 * np.pi * law.deviation**2)).sum(-1)


def direction(angle: float) -> Array:
    """The unit vector [2] at an angle in radians."""
    return np.array([np.cos(angle), np.sin(angle)])


def _half(law: Law, angle: float) -> tuple[Array, Array]:
    """Nodes [m, 2] and masses [m] of the half plane w^T x > 0, w at this angle."""
    theta = angle + np.pi / 2 * _ANGLES[0]
    radius = law.reach / 2 * (_RADII[0] + 1)
    x = radius[:, None, None] * np.stack([np.cos(theta), np.sin(theta)], -1)
    weight = (law.reach / 2 * _RADII[1] * radius)[:, None] * np.pi / 2 * _ANGLES[1]
    return x.reshape(-1, 2), (weight * density(law, x)).ravel()


def grid(law: Law, angle: float = 0.0) -> tuple[Array, Array]:
    """Nodes and masses of the whole plane, split at the edge of one half plane."""
    halves = _half(law, angle), _half(law, angle + np.pi)
    return np.concatenate([h[0] for h in halves]), np.concatenate([h[1] for h in halves])


def gated_moments(law: Law, angle: float, lower: float = 0.0) -> tuple[Array, Array]:
    """(E[gated x], E[gated x gated x^T]); `lower` is the slope on the other side."""
    mean, square = np.zeros(2), np.zeros((2, 2))
    for gate, turn in ((1.0, 0.0), (lower, np.pi)):
        x, p = _half(law, angle + turn)
        mean += gate * p @ x
        square += gate**2 * (p[:, None] * x).T @ x
    return mean, square


def operator(law: Law, angle: float, lower: float = 0.0) -> Array:
    """A(w) = V[gated x] for w at this angle."""
    mean, square = gated_moments(law, angle, lower)
    return square - np.outer(mean, mean)
