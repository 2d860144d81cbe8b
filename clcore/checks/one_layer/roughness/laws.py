"""One ReLU node along e_1 and laws for which e_1 is critical whatever alpha its outputs give.

x_1 is a share q of N(0, delta^2) and the rest N(m, sigma^2); x_2, apart from it, N(0, s2). alpha is
1, or the Gaussian of nl Corollary 2, frozen at e_1. Gap and roughness in closed form of sums over
x_1; the rate at which the flow of Eq. 7 leaves e_1 by quadrature of the flow itself near e_1.
"""

import math
from typing import NamedTuple

import numpy as np

from clcore.reference import Array

STEP = 1e-5


class Law(NamedTuple):
    """Sizes of the law; s2 is the variance of x_2."""

    q: float
    delta: float
    m: float
    sigma: float
    s2: float = 1.0


class Rates(NamedTuple):
    """At e_1: the eigenvalues of A along it and across it, and rho."""

    along: float
    across: float
    rho: float

    @property
    def gap(self) -> float:
        """The gap, where it is positive: e_1 is then an LME."""
        return self.along - self.across

    @property
    def ratio(self) -> float:
        """Across over along."""
        return self.across / self.along


def _density(law: Law, x: Array) -> Array:
    """The density of a law: Gaussians at 0 and at m, in shares q and 1 - q."""

    def bell(mean: float, scale: float) -> Array:
        return np.exp(-(((x - mean) / scale) ** 2) / 2) / (scale * math.sqrt(2 * math.pi))

    return law.q * bell(0.0, law.delta) + (1 - law.q) * bell(law.m, law.sigma)


def _nodes(law: Law, cut: float, order: int) -> tuple[Array, Array]:
    """Points of x_1 and their masses, by Gauss-Legendre between breaks; `cut` is one of them."""
    far = law.m + law.sigma * np.arange(-6, 7, 1.5)
    near = law.delta * np.array([-8, -4, -1.5, 0, 1.5, 4, 8]) if law.q else np.zeros(1)
    edges = np.unique(np.concatenate([far, near, [0.0, cut]]))
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    x = (middle[:, None] + half[:, None] * nodes).ravel()
    return x, (half[:, None] * weights).ravel() * _density(law, x)


def at_axis(law: Law, tau: float | None) -> Rates:
    """Gap and roughness at e_1; tau: of the Gaussian alpha, None for alpha = 1."""
    x, mass = _nodes(law, 0.0, 16)
    h, gate = np.maximum(x, 0), x > 0
    at_zero = float(_density(law, np.zeros(1))[0])
    if tau is None:
        mean = mass @ h
        along, across, push = mass @ h**2 - mean**2, mass @ gate, mean
    else:
        kernel = np.exp(-((h[:, None] - h) ** 2) / (2 * tau))
        along = mass @ (kernel * (h[:, None] - h) ** 2) @ mass / 2
        across, push = (mass * gate) @ kernel @ mass, mass @ (h * np.exp(-(h**2) / (2 * tau)))
    return Rates(*(float(v) for v in (along, law.s2 * across, law.s2 * at_zero * push)))


def leaving(law: Law, tau: float | None) -> float:
    """d(speed)/d(angle) of Eq. 7 at e_1, alpha frozen there, by quadrature at a small angle."""
    points, share = np.polynomial.hermite_e.hermegauss(12)
    parts = []
    for y, part in zip(math.sqrt(law.s2) * points, share / share.sum(), strict=True):
        x, mass = _nodes(law, -math.tan(STEP) * y, 8)
        parts.append((x, np.full_like(x, y), part * mass))
    x, y, mass = (np.concatenate(v) for v in zip(*parts, strict=True))
    along, across = (
        math.cos(STEP) * x + math.sin(STEP) * y,
        math.cos(STEP) * y - math.sin(STEP) * x,
    )
    gate, h = along > 0, np.maximum(x, 0)
    a, b = along * gate, across * gate
    if tau is None:
        return float(mass @ (a * b) * mass.sum() - (mass @ a) * (mass @ b)) / STEP
    kernel = np.exp(-((h[:, None] - h) ** 2) / (2 * tau))
    return float((mass * a * b) @ kernel @ mass - (mass * a) @ kernel @ (mass * b)) / STEP


def front(rng: np.random.Generator, tau: float) -> Law:
    """A law for which e_1 is an LME under both alpha: most data in front, thin across."""
    law = Law(*map(float, rng.uniform([0.02, 0.05, 0.8, 0.2], [0.1, 0.2, 1.4, 0.35])))
    bound = max(at_axis(law, t).ratio for t in (None, tau))
    return law._replace(s2=float(rng.uniform(0.2, 0.5)) / bound)


def rough(rng: np.random.Generator) -> tuple[Law, float]:
    """A law and a tau for which e_1 is an LME under both alpha: rho is above the gap for alpha = 1
    and below it under the Gaussian."""
    while True:
        law = Law(*map(float, rng.uniform([0.03, 0.001, 0.9, 0.15], [0.08, 0.003, 1.1, 0.25])))
        tau = float(rng.uniform(0.04, 0.08))
        plain, kernel = (at_axis(law, t) for t in (None, tau))
        # s2 times the ratio is that of the eigenvalues; the gap is rho where both add up to 1.
        low, high = (1 / (r.ratio + r.rho / r.along) for r in (plain, kernel))
        if low < 0.95 * high:
            return law._replace(s2=float(rng.uniform(0.2, 0.8)) * (high - low) + low), tau
