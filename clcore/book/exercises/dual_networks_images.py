"""Exercises of chapter 4.3: operator and residue on images, and how to compare losses."""

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy import integrate
from scipy import stats as distributions

from clcore import random, stats
from clcore.book.exercises.judge import exercise, function, keyed, numeric, value
from clcore.experiments import residue_share
from clcore.losses import anchors
from clcore.theory.operator import covariance_operator as co


def _uniform(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(
        shape, generator=torch.Generator().manual_seed(keyed(seed)), dtype=torch.float64
    )


@exercise(
    "ex-ddn-images-1",
    "|m + t| / |m|, a function of ratio and overlap",
    bound=1e-9,
    wrong=(
        lambda ratio, overlap: (1 + ratio**2) ** 0.5,
        lambda ratio, overlap: (1 + overlap + ratio**2) ** 0.5,
        lambda ratio, overlap: 1 + 2 * overlap + ratio**2,
        lambda ratio, overlap: 1 - ratio,
    ),
)
def whole(answer: Any) -> float:
    """Distance from the length of m + t over that of m, for random vectors, some near opposite."""
    given, worst = function(answer), 0.0
    for seed in range(6):
        m, t = _uniform(seed, 2, 7) - 0.5
        t = t - m if seed % 2 else t
        ratio, overlap = t.norm() / m.norm(), (t @ m) / (m @ m)
        right = (m + t).norm() / m.norm()
        worst = max(worst, abs(float(value(given(ratio, overlap)) - right)))
    return worst


@exercise(
    "ex-ddn-images-2",
    "a constant weight, a function of the distances and the temperature",
    bound=1e-9,
    wrong=(
        lambda r, tau: torch.full_like(r, 1 / tau),
        lambda r, tau: torch.full_like(r, 0.5),
        co.infonce_weight,
        lambda r, tau: torch.full_like(r, tau / 2),
    ),
)
def constant(answer: Any) -> float:
    """Largest distance, over random r and tau, from the gradient of InfoNCE with one negative
    (by autograd) where both distances are zero."""
    given, worst = function(answer), 0.0
    for seed, tau in enumerate((0.3, 0.5, 2.0)):
        r = 2 * _uniform(seed, 4, 3)
        far = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        loss = anchors.infonce(torch.zeros((), dtype=torch.float64), far, tau)
        (slope,) = torch.autograd.grad(loss, far)
        worst = max(worst, float((value(given(r, tau), (4, 3)) + slope).abs().max()))
    return worst


def _power(n: int, difference: float, deviation: float) -> float:
    """Of a two-sample t-test at 0.05, by integrating over the spread that is estimated."""
    freedom = 2 * n - 2
    limit = distributions.t.ppf(0.975, freedom)
    shift = difference / (deviation * math.sqrt(2 / n))

    def seen(u: float) -> float:
        edge = limit * math.sqrt(u / freedom)
        tails = distributions.norm.sf(edge - shift) + distributions.norm.cdf(-edge - shift)
        return float(tails * distributions.chi2.pdf(u, freedom))

    return float(integrate.quad(seen, 0, freedom + 12 * math.sqrt(2 * freedom))[0])


@numeric(
    "ex-ddn-images-3",
    "a number of runs",
    within=0.05,
    wrong=(5, 11, 16, 44),
    varies={"true": ("If 0.13", (0.09, 0.1, 0.11, 0.15, 0.16))},
)
@cache
def runs(true: float = 0.13) -> int:
    """The least number with power 0.8; one run more or less of 22 is let pass."""
    deviation, n = math.hypot(0.16, 0.14) / math.sqrt(2), 2
    while _power(n, true, deviation) < 0.8:
        n += 1
    return n


@exercise(
    "ex-ddn-images-4",
    "the pull, a function of p, the temperature and beta",
    bound=1e-9,
    wrong=(
        lambda p, tau, beta: (1 - p) / tau - beta,
        lambda p, tau, beta: (1 - p + beta) / tau,
        lambda p, tau, beta: p / tau + beta,
        lambda p, tau, beta: (1 - p) * (1 / tau + beta),
    ),
)
def tilted(answer: Any) -> float:
    """Largest distance from autograd's derivative of InfoNCE plus beta r_+ by r_+, at random
    distances from six negatives."""
    given, worst = function(answer), 0.0
    for seed, (tau, beta) in enumerate(((0.5, -0.5), (0.5, 0.2), (0.2, 0.7), (1.5, -0.1))):
        near = _uniform(seed, 1)[0].requires_grad_()
        far = 2 * _uniform(seed + 30, 6)
        loss = anchors.infonce(near, far, tau) + beta * near
        (slope,) = torch.autograd.grad(loss, near)
        every = torch.cat([near.detach()[None], far])
        p = float(torch.softmax(-every / tau, 0)[0])
        worst = max(worst, abs(float(value(given(p, tau, beta)) - slope)))
    return worst


@exercise(
    "ex-ddn-images-5",
    "the descent of the exact loss, a function of g and t",
    bound=1e-9,
    wrong=(
        lambda g, t: t,
        lambda g, t: -t,
        lambda g, t: g + t,
        lambda g, t: g,
    ),
)
def leaves(answer: Any) -> float:
    """Relative distance from minus autograd's gradient of the loss with held weights, at the layers
    of a random net in a random world, where g and t are those of InfoNCE."""
    given = function(answer)
    world = co.random_world(random.key(keyed(5)), 4, 3, 5, "mask", 0.5)
    for first in range(1, 100, 2):  # where all outputs of a point are 0, no norm can be made 1
        weights = [_uniform(first, 6, 5) - 0.4, _uniform(first + 1, 3, 6) - 0.5]
        main, theta = residue_share.split_gradient(weights, world, 0.5)
        if all(bool(t.isfinite().all()) for t in theta):
            break
    held = [w.clone().requires_grad_() for w in weights]
    f = world.shaped(residue_share.outputs(held, world.points, True), 1)
    plain = residue_share.outputs(weights, world.samples, True)
    xi = co.infonce_weight(co.half_distances(plain, plain), 0.5)
    loss = co.weighted_loss(f, f.detach(), xi, world)
    worst = 0.0
    for m, t, slope in zip(main, theta, torch.autograd.grad(loss, held), strict=True):
        told = value(given(m + t, t), tuple(m.shape))
        worst = max(worst, float((told + slope).abs().max() / slope.abs().max()))
    return worst


def _wide(s: float, n: int) -> float:
    """Upper end of the library's paired interval of n differences of mean 0 and deviation s."""
    raw = np.arange(n) - (n - 1) / 2
    return float(stats.paired(raw * s / raw.std(ddof=1)).high)


@exercise(
    "ex-ddn-images-6",
    "the least number of seeds, a function of s",
    bound=0.5,
    wrong=(
        lambda s: max(2, math.ceil((1.96 * s) ** 2)),
        lambda s: max(2, math.ceil(2 * s)),
        lambda s: 5,
        lambda s: max(2, math.ceil((1.96 * s) ** 2)) + 1,
    ),
)
def seeds(answer: Any) -> float:
    """Largest distance, over several s, from the first number of seeds at which the library's
    paired interval of made-up differences, mean 0 and deviation s, lies within one point."""
    given, worst = function(answer), 0.0
    for s in (0.3, 0.9, 1.3, 2.1, 3.2):
        n = 2
        while _wide(s, n) > 1:
            n += 1
        worst = max(worst, abs(float(value(given(s))) - n))
    return worst
