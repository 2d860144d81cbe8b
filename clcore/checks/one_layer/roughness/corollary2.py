"""Corollary 2: the roughness bound under Gaussian and under uniform importance (nl Sec. 3.2)."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from clcore.checks.one_layer.roughness.theorem2 import unit
from clcore.checks.one_layer.unit_ball import gauss
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array
from clcore.theory.one_layer import roughness as ro


def halves(f: Callable[[Array], Array], radius: float, w: Array, order: int = 60) -> float:
    """The integral of f: [n, 2] -> [n] over the disc, in Cartesian coordinates along w; the two
    halves w.x < 0 and w.x > 0 apart."""
    nodes, weights = gauss(order)
    lift = radius * np.sin(nodes * math.pi / 2)
    thick = weights * radius * math.pi / 2 * np.cos(nodes * math.pi / 2)
    edge = np.sqrt(radius**2 - lift**2)
    t = np.concatenate([edge[:, None] * (nodes - 1) / 2, edge[:, None] * (nodes + 1) / 2], 1)
    weight = thick[:, None] * edge[:, None] / 2 * np.concatenate([weights, weights])
    x = t[..., None] * w + lift[:, None, None] * np.array([-w[1], w[0]])
    return float(f(x.reshape(-1, 2)) @ weight.flatten())


def crest(law: Callable[[Array], Array], radius: float, w: Array) -> tuple[float, float]:
    """The largest and the mean value of law: [n, 2] -> [n] on the line w.x = 0 within the disc."""
    height = np.linspace(-radius, radius, 4001)
    values = law(height[:, None] * np.array([-w[1], w[0]]))
    return float(values.max()), float(values.mean())


def _by_features(
    law: Callable[[Array], Array], radius: float, w: Array, at: Array, tau: float, shift: float
) -> float:
    """sum_l z_l max over w.x = 0 of phi_l law, for the weights of the output h(at.x) and Lemma 1's
    map with v = -shift sqrt(tau). law: [n, 2] -> [n], with any mass. Of all orders that matter: the
    squares of the features are a Poisson law's.
    """
    most = (radius / math.sqrt(tau) + shift) ** 2
    total = 0.0
    for order in range(int(most + 12 * math.sqrt(most) + 40)):

        def weighed(x: Array, order: int = order) -> Array:
            y = np.maximum(x @ at, 0) / math.sqrt(tau) + shift
            with np.errstate(divide="ignore"):
                log = order * np.log(y) if order else np.zeros_like(y)
            return law(x) * np.exp(log - y**2 / 2 - math.lgamma(order + 1) / 2)

        total += halves(weighed, radius, w) * crest(weighed, radius, w)[0]
    return total


@check("nl/cor2")
def cor2(t: Trial) -> None:
    """Gaussian α lowers the roughness bound of uniform α by the factor z₀ (Corollary 2).

    Given   mixtures on discs, ReLU, Gaussian alpha with w = w_* inside, tau in {0.02, 0.1, 0.5,
            2}.
    Claim   r(w_*, alpha_g) = z_0 r(w_*, alpha_u): 40 features against a Cartesian quadrature; also
            by another map of the same kernel; on the plane features are (1, 0, 0, ...). That z_0
            <= 1, the mean of values up to 1, is not tested.
    Fails   for z_0 squared, another w inside alpha, the mean for the maximum, points off the plane.
    """
    r = t.part("r", 1e-6, controls=pooled)
    maps = t.part("another map of the same kernel", 1e-6, controls=pooled)
    top = t.part("r as a maximum, Eqs. 95 and 99", 0.02, controls=pooled, draws=min(t.draws, 20))
    on = t.part("on the plane", 1e-12, controls=pooled)
    for k in range(min(t.draws, 20)):
        radius, w = 2.0, unit(t.rng, 2)
        side, here = np.array([-w[1], w[0]]), torch.tensor(w)
        means, scale = t.rng.standard_normal((2, 2)), float(t.rng.uniform(0.3, 0.8))
        p = ro.mixture(torch.tensor(means), scale, radius, 60)
        tau = float(t.rng.choice([0.02, 0.1, 0.5, 2.0]))

        # r under alpha = 1 and under alpha_g, by the library.
        uniform = float(ro.peak(ro.uniform(p), here, radius, 60))
        kernel = float(ro.peak(ro.gaussian(p, here, tau, 40), here, radius, 60))

        def law(x: Array, tau: float, w: Array = w, m: Array = means, s: float = scale) -> Array:
            """The mixture times the weight phi_0 of the output, without its mass."""
            bells = np.exp(-((x[:, None] - m) ** 2).sum(-1) / (2 * s**2)).sum(-1)
            return bells * np.exp(-(np.maximum(x @ w, 0) ** 2) / (2 * tau))

        # Mass and z_0 by another quadrature; the largest and the mean density on w_*^T x = 0.
        plain, weighted = (partial(law, tau=v) for v in (math.inf, tau))
        mass = halves(plain, radius, w)
        z0 = halves(weighted, radius, w) / mass
        most, mean = crest(plain, radius, w)

        # r under alpha_g is z_0 times that under alpha = 1.
        r.add(abs(kernel / (z0 * uniform) - 1))
        r.breaks("z_0 squared", abs(kernel / (z0**2 * uniform) - 1))

        # By the features of another map of the same kernel, and with another w inside alpha_g.
        if k < 4:
            other = (w + side) / math.sqrt(2)
            same, aside = (
                abs(_by_features(plain, radius, w, at, tau, shift) / mass / (z0 * most) - 1)
                for shift, at in ((0.6, w), (0.0, other))
            )
            maps.add(same).breaks("another w in alpha_g", aside)
            r.breaks("another w", aside)

        # Both are the largest density on the line, over the mass.
        for found in (uniform, kernel / z0):
            top.add(abs(found / (most / mass) - 1))
            top.breaks("mean for maximum", abs(found / (mean / mass) - 1))

        # The features on the plane are (1, 0, 0, ...), over the density there.
        plane = torch.tensor(np.outer([0.3, -0.7], side))
        target = p(plane)[:, None] * torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64)
        there, beside = (
            float(((ro.gaussian(p, here, tau, 5)(x) - target).abs() / p(plane)[:, None]).max())
            for x in (plane, plane + 0.1 * here)
        )
        on.add(there).breaks("off the plane", beside)
