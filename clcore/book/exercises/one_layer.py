"""Exercises of chapters 5.1 and 5.2: one nonlinear layer, and how many optima it finds."""

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import torch

from clcore.book.exercises.judge import exercise, function, keyed, numeric, value
from clcore.theory.one_layer import circle_landscape, one_layer, roughness


def _uniform(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(
        shape, generator=torch.Generator().manual_seed(keyed(seed)), dtype=torch.float64
    )


def _turning(pm: float, pj: float, r: float) -> float:
    """Relative speed of w_j / w_m at the ratio r, three categories, the third one not seen."""
    p = torch.tensor([pm, pj, 1 - pm - pj], dtype=torch.float64)
    w = torch.tensor([1.0, r, -0.1], dtype=torch.float64)
    world = one_layer.categorical(p, torch.eye(3, dtype=torch.float64))
    push = one_layer.operator(world, w) @ w
    return float(push[1] / w[1] - push[0] / w[0])


@exercise(
    "ex-onelayer-1",
    "the critical ε, a function of p_m and p_j",
    bound=1e-6,
    wrong=(
        lambda pm, pj: pm / pj,
        lambda pm, pj: 1.0,
        lambda pm, pj: (pm * pj / abs(pj - pm)) / (1 - pm - pj),
    ),
)
def rare(answer: Any) -> float:
    """Relative distance, at random p_m and p_j, from where the library's A(w) turns neither way."""
    given, worst = function(answer), 0.0
    for a, b in _uniform(1, 6, 2).tolist():
        pm, pj = 0.05 + 0.4 * a, 0.05 + 0.4 * b
        low, high = math.log(1e-4), math.log(1e4)
        for _ in range(60):
            middle = (low + high) / 2
            if _turning(pm, pj, math.exp(middle)) < 0:
                low = middle
            else:
                high = middle
        worst = max(worst, abs(float(value(given(pm, pj))) / math.exp(low) - 1))
    return worst


def _wins(q: float, a: float) -> float:
    """Eigenvalue of a pattern of probability q minus that of another one, by all four states."""
    y = [(math.sqrt((1 - p) / p), -math.sqrt(p / (1 - p))) for p in (q, 0.2)]
    states = np.array([(own, other) for own in y[0] for other in y[1]])
    mass = np.array([m * k for m in (q, 1 - q) for k in (0.2, 0.8)])
    gated = states * np.where(states[:, :1] > 0, 1.0, a)
    mean = mass @ gated
    A = (mass[:, None] * gated).T @ gated - np.outer(mean, mean)
    return float(A[0, 0] - A[1, 1])


@exercise(
    "ex-onelayer-2",
    "the threshold of q, a function of the lower slope a",
    bound=1e-8,
    wrong=(
        lambda a: one_layer.SUMMATION_THRESHOLD,
        lambda a: 0.5,
        lambda a: one_layer.SUMMATION_THRESHOLD * (1 - a) + a / 2,
        lambda a: one_layer.SUMMATION_THRESHOLD * (1 - a),
    ),
)
def leaky(answer: Any) -> float:
    """Distance, at random slopes, from where two eigenvalues of all states of the model meet."""
    given, worst = function(answer), 0.0
    for a in (0.0, *(0.9 * _uniform(2, 5)).tolist()):
        low, high = 0.3, 0.55
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _wins(middle, a) > 0 else (low, middle)
        worst = max(worst, abs(float(value(given(a))) - low))
    return worst


@exercise(
    "ex-optima-weights",
    "z_0, a function of the temperature τ",
    bound=1e-6,
    wrong=(
        lambda tau: (tau / (1 + tau)) ** 0.5,
        lambda tau: (tau / (1 + tau)) ** 0.5 / 2,
        lambda tau: (1 + tau / (1 + tau)) / 2,
        lambda tau: 0.5,
    ),
)
def gaussian_mass(answer: Any) -> float:
    """Distance from the mean of exp(-h^2 / 2τ) by quadrature over a standard normal, h its ReLU."""
    given, worst = function(answer), 0.0
    y = np.linspace(-12, 12, 240_001)
    mass = np.exp(-(y**2) / 2) * (y[1] - y[0]) / math.sqrt(2 * math.pi)
    for tau in (0.02 + 2 * _uniform(7, 5)).tolist():
        truth = float(mass @ np.exp(-(np.maximum(y, 0) ** 2) / (2 * tau)))
        worst = max(worst, abs(float(value(given(tau))) - truth))
    return worst


@numeric(
    "ex-onelayer-3",
    "the radius below which the printed bound fails, a number",
    wrong=(4 / (9 * math.pi**2), 4 / 9, 2 / (3 * math.pi), (4 / (9 * math.pi)) ** 0.5),
)
@cache
def power() -> float:
    """The radius at which roughness and printed bound meet, by quadrature."""
    w = torch.tensor([1.0, 0.0], dtype=torch.float64)

    def excess(radius: float) -> float:
        def disc(x: torch.Tensor) -> torch.Tensor:
            return torch.full_like(x[..., 0], 1 / (math.pi * radius**2))

        parts = roughness.uniform(disc)
        most = roughness.bound(roughness.peak(parts, w, radius), 2, radius, 3)
        return float(roughness.roughness(parts, w, radius) - most)

    low, high = 0.01, 1.0
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


def _scanned(points: np.ndarray, slope: float, grid: int = 40_000) -> np.ndarray:
    """Angles of the maxima of the node's variance, on a grid."""
    angle = 2 * math.pi * (np.arange(grid) + 0.5) / grid - math.pi
    u = np.stack([np.cos(angle), np.sin(angle)], -1) @ points.T
    E = np.where(u > 0, u, slope * u).var(-1)
    return angle[(np.roll(E, 1) < E) & (np.roll(E, -1) <= E)]


@exercise(
    "ex-onelayer-4",
    "five pairs (maxima, smooth ones), a list",
    bound=0.0,
    wrong=(
        [(9, 0), (8, 1), (7, 1), (4, 2), (2, 2)],  # without the tenth point
        [(4, 4), (4, 4), (4, 4), (4, 4), (2, 2)],
        [(4, 0), (4, 0), (4, 0), (4, 0), (2, 0)],
    ),
)
def added(answer: Any) -> float:
    """Largest difference from counts on a grid of angles; a maximum is smooth off all gates."""
    theta = np.array(circle_landscape.FIGURE8)
    points = np.stack([np.cos(theta), np.sin(theta)], -1)
    points = np.concatenate([points, [[1.5, 0.0]]])
    counts = []
    for slope in (0.0, 0.1, 0.2, 0.5, 1.0):
        top = _scanned(points, slope)
        u = np.stack([np.cos(top), np.sin(top)], -1) @ points.T
        smooth = np.abs(u).min(-1) > 1e-3 if slope < 1 else np.ones(len(top), bool)
        counts.append((len(top), int(smooth.sum())))
    right = torch.tensor(counts, dtype=torch.float64)
    return float((value(answer, (5, 2)) - right).abs().max())


@exercise(
    "ex-onelayer-5",
    "the factor per step, a function of ε",
    bound=1e-6,
    wrong=(lambda e: 0.5, lambda e: e / (2 + e), lambda e: ((1 + e) / (2 + e)) ** 2),
)
def shifted(answer: Any) -> float:
    """Distance from the factor that sixty steps from a random start show, at random ε."""
    given, worst = function(answer), 0.0
    rng = np.random.default_rng(keyed(5))
    for e in rng.uniform(0.01, 1, 5):
        A, w, off = np.diag([2 + e, 1 + e, e]), rng.uniform(0.5, 1, 3), []
        for _ in range(40):
            w = A @ w / np.linalg.norm(A @ w)
            off.append(np.linalg.norm(w - [1, 0, 0]))
        worst = max(worst, abs(float(value(given(float(e)))) - off[-1] / off[-2]))
    return worst


@exercise(
    "ex-onelayer-6",
    "the average number of optima, a function of the shares and of K",
    bound=1e-9,
    wrong=(
        lambda shares, K: min(K, len(shares)),
        lambda shares, K: len(shares) * (1 - (1 - 1 / len(shares)) ** K),
        lambda shares, K: sum(1 - float(s) ** K for s in shares),
    ),
)
def wider(answer: Any) -> float:
    """Distance from the mean over all ways in which K nodes can end, for random shares."""
    given, worst = function(answer), 0.0
    for seed, (count, K) in enumerate(((3, 5), (4, 4), (2, 7))):
        shares = 0.05 + _uniform(60 + seed, count)
        shares = shares / shares.sum()
        mean = 0.0
        for ends in itertools.product(range(count), repeat=K):
            mean += math.prod(float(shares[k]) for k in ends) * len(set(ends))
        worst = max(worst, abs(float(value(given(shares, K))) - mean))
    return worst


@numeric("ex-onelayer-7", "the ratio of two energies, a number", wrong=(1.0, 1 / 9, 0.5))
def in_the_loss() -> float:
    """The ratio of mean to highest maximum of the energy, on a grid of angles."""
    theta = np.array(circle_landscape.FIGURE8)
    points = np.stack([np.cos(theta), np.sin(theta)], -1)
    top = _scanned(points, 0.0)
    outputs = np.maximum(np.stack([np.cos(top), np.sin(top)], -1) @ points.T, 0)
    heights = outputs.var(-1)
    return float(heights.mean() / heights.max())
