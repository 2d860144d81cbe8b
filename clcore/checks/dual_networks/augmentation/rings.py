"""Neurons on the rings of ddn Eq. 11, enumerated in numpy.

Images by index loops, gradients of the population loss r_+ - r_- by complex steps in the first
tower.
"""

from collections.abc import Iterator

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.reference import Array

WINDOWS = ((0, 0), (0, 1), (1, 0), (1, 1))


def ring(d: int) -> Array:
    """The images of ddn Eq. 11, [2, d, d], index by index."""
    x = np.zeros((2, d, d))
    for z0, gap in enumerate((1, 2)):
        for place in range(d):
            x[z0, place, place] += 1
            x[z0, place, (place + gap) % d] += 1
    return x


def counts(d: int) -> Array:
    """How often object z_0 shows each window of two over the ring, [2, 4]."""
    seen = ring(d)[:, :, :2]
    return np.array([[(seen[o] == p).all(1).sum() for p in WINDOWS] for o in (0, 1)])


def descent(w: Array, x: Array, name: str, p: Array | None = None) -> Array:
    """-d/dw of E[r_+ - r_-] in the first tower, [draws, k], views x [o, v, k] of probability p."""
    p = np.full(x.shape[1], 1 / x.shape[1]) if p is None else p
    fixed = nets.act(name, np.einsum("...k,ovk->...ov", w, x))

    def loss(u: Array) -> Array:
        f = nets.act(name, np.einsum("...k,ovk->...ov", u, x))
        gaps = (f[..., :, None, :, None] - fixed[..., None, :, None, :]) ** 2 / 2
        pairs = np.einsum("...abvw,v,w->...ab", gaps, p, p)
        near = np.einsum("...aa->...", pairs) / len(x)
        return near - pairs.mean((-1, -2))

    return -ref.gradient(loss, w)


def operator(w: Array, x: Array) -> Array:
    """V_{z_0} of the average of (w . x > 0) x, [draws, k, k], object by object."""
    means = []
    for views in x:
        gates = (np.einsum("...k,vk->...v", w, views) > 0)[..., None]
        means.append((gates * views).mean(-2))
    middle = sum(means) / len(means)
    return sum((m - middle)[..., :, None] * (m - middle)[..., None, :] for m in means) / len(means)


def with_bias(x: Array) -> Array:
    return np.concatenate([x, np.ones((*x.shape[:-1], 1))], -1)


def starts(rng: np.random.Generator, count: int, bias: bool) -> tuple[Array, Array]:
    """(w [count, 2 or 3], which patterns open it [count, 4]), Gaussian."""
    w = rng.standard_normal((count, 3 if bias else 2))
    return w, w @ vectors(bias).T > 0


def vectors(bias: bool) -> Array:
    """The four windows of two pixels as vectors; a bias sees 1."""
    x = np.array(WINDOWS, float)
    return with_bias(x) if bias else x


def windows(d: int, bias: bool) -> Array:
    """What the neuron sees, [2, d, 2 or 3]."""
    x = ring(d)[:, :, :2]
    return with_bias(x) if bias else x


def selective(rng: np.random.Generator, count: int) -> Iterator[tuple[int, bool, Array]]:
    """(p, bias, w) for every pattern that can be the only one to open a neuron."""
    for bias in (False, True):
        w, open_ = starts(rng, 4000 + 100 * count, bias)
        single = open_.sum(1) == 1
        for p in np.unique(open_[single].argmax(1)):
            chosen = w[single & open_[:, p]][:count]
            yield int(p), bias, chosen
