"""Exercises of chapter 0: InfoNCE, collapse, temperature."""

import math
from typing import Any

import torch

from clcore.book.exercises.judge import exercise, function, keyed, numeric, scalar, value


@numeric(
    "ex-start-1",
    "the loss of a guess, a number",
    wrong=(0.0, 8.0),
    varies={"N": ("$N=256$", (48, 96, 160, 320, 640, 1000))},
)
def guessing(N: int = 256) -> float:
    """The cross-entropy of N equal scores."""
    scores = torch.zeros(1, N, dtype=torch.float64)
    return float(torch.nn.functional.cross_entropy(scores, torch.tensor([3])))


def _points(n: int, d: int, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(keyed(seed))
    z = torch.randn(n, d, generator=draw, dtype=torch.float64)
    return torch.nn.functional.normalize(z, dim=1)


@exercise(
    "ex-start-2",
    "a function of outputs (n, d), 0 when they are one point and 1 when their mean is zero",
    bound=1e-6,
    wrong=(lambda z: z.std(), lambda z: z.mean(0).norm(), lambda z: 1 - z[0] @ z[1]),
)
def collapsed(answer: Any) -> float:
    """Worst gap at a collapsed batch, at balanced ones, and how near 0 it comes at spread ones."""
    measure = function(answer)
    one = _points(1, 5, 0)
    gaps = [abs(scalar(measure(one.expand(40, 5))))]
    for seed in range(3):
        z = _points(20, 4, seed)
        gaps.append(abs(scalar(measure(torch.cat([z, -z]))) - 1))
        nearly = torch.nn.functional.normalize(_points(1, 4, seed) + 0.3 * z, dim=1)
        gaps.append(float(not 1e-4 < scalar(measure(nearly)) < 1))
    return max(gaps)


@exercise(
    "ex-start-3",
    "a function of similarities (n, n) and a temperature that returns the derivatives (n, n)",
    bound=1e-5,
    wrong=(
        lambda s, tau: torch.softmax(s / tau, 1) / (len(s) * tau),
        lambda s, tau: (torch.softmax(s / tau, 1) - torch.eye(len(s))) / len(s),
        lambda s, tau: (torch.softmax(s / tau, 0) - torch.eye(len(s))) / (len(s) * tau),
    ),
)
def pulls(answer: Any) -> float:
    """Largest gap to autograd through the cross-entropy, at three random tables of similarities."""
    slope, gaps = function(answer), []
    for seed, tau in enumerate((0.2, 0.5, 2.0)):
        z, z2 = _points(12, 3, seed), _points(12, 3, seed + 10)
        similarity = (z @ z2.T).requires_grad_()
        loss = torch.nn.functional.cross_entropy(similarity / tau, torch.arange(12))
        (truth,) = torch.autograd.grad(loss, similarity)
        given = value(slope(similarity.detach(), tau), (12, 12))
        gaps.append(float((given - truth).abs().max() / truth.abs().max()))
    return max(gaps)


@numeric(
    "ex-start-4",
    "a temperature, a number",
    wrong=(0.8, 0.8 / math.log2(10)),
    varies={"near": ("similarities 0.9", (0.4, 0.5, 0.6, 0.7, 0.8))},
)
def kinder(near: float = 0.9) -> float:
    """The temperature at which the ratio of the two pushes, by autograd, is ten, by bisection."""
    low, high = 0.01, 10.0
    for _ in range(50):
        tau = (low + high) / 2
        similarity = torch.tensor([0.3, near, 0.1], dtype=torch.float64, requires_grad=True)
        loss = torch.nn.functional.cross_entropy(similarity[None] / tau, torch.tensor([0]))
        (slope,) = torch.autograd.grad(loss, similarity)
        low, high = (tau, high) if slope[1] > 10 * slope[2] else (low, tau)
    return low
