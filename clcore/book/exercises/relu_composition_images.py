"""Exercises of chapter 3.3: what total variation sees of a filter."""

import math
from typing import Any

import torch

from clcore.book.exercises.judge import exercise, function, keyed, numeric, value
from clcore.images.filter_variation import total_variation

_F64 = torch.float64


def _made(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(keyed(seed))


@exercise(
    "ex-seven-1",
    "two factors, that of the outputs first",
    bound=0.02,
    wrong=((5.0, 5.0), (1.0, 1.0), (1.0, 25.0), (5.0, 1.0)),
)
def size(answer: Any) -> float:
    """Largest difference from the factors of a convolution with a batch normalisation behind it,
    and of its filters' variation, times 5."""
    made = _made(1)
    x = torch.rand(16, 3, 12, 12, generator=made, dtype=_F64)
    w = torch.randn(8, 3, 7, 7, generator=made, dtype=_F64)

    def output(w: torch.Tensor) -> torch.Tensor:
        z = torch.nn.functional.conv2d(x, w)
        return (z - z.mean((0, 2, 3), True)) / z.std((0, 2, 3), keepdim=True)

    given = value(answer, (2,))
    outputs = output(5 * w).norm() / output(w).norm()
    variation = total_variation(5 * w).sum() / total_variation(w).sum()
    return float((given - torch.stack([outputs, variation])).abs().max())


@exercise(
    "ex-seven-2",
    "two counts of weights, at 32 and at 64 pixels",
    bound=0.0,
    wrong=((9, 9), (1, 4), (3, 9), (4, 9)),
)
def learning(answer: Any) -> float:
    """Largest difference from the counts of a single 3 by 3 convolution, padded by one pixel, of
    the one and the four pixels that five halvings leave."""
    counts = []
    for side in (32, 64):
        w = torch.ones(1, 1, 3, 3, dtype=_F64, requires_grad=True)
        x = torch.rand(1, 1, side // 32, side // 32, generator=_made(2), dtype=_F64) + 0.1
        (slope,) = torch.autograd.grad(torch.nn.functional.conv2d(x, w, padding=1).sum(), w)
        counts.append(float((slope > 0).sum()))
    return float((value(answer, (2,)) - torch.tensor(counts, dtype=_F64)).abs().max())


@exercise(
    "ex-seven-3",
    "a function of C and k that gives the total variation",
    bound=0.05,
    wrong=(
        lambda C, k: (2 * C) ** 0.5 * k,
        lambda C, k: (math.pi * C) ** 0.5 * k,
        lambda C, k: (math.pi / C) ** 0.5 * (k - 1) ** 2 / k,
    ),
)
def random_filter(answer: Any) -> float:
    """Largest relative difference from the mean over 500 random filters, for three shapes."""
    formula, worst = function(answer), 0.0
    for channels, side in ((3, 7), (64, 3), (128, 5)):
        w = torch.randn(500, channels, side, side, generator=_made(side), dtype=_F64)
        found = (total_variation(w) / w.flatten(1).norm(dim=1)).mean()
        worst = max(worst, float((value(formula(channels, side)) / found - 1).abs()))
    return worst


@numeric(
    "ex-seven-4",
    "a correlation between 0 and 1",
    within=0.04,  # the correlation takes few values, and each draw of orders its own
    wrong=(0.6, 0.95, 0.05, 0.33),
    varies={"tail": ("that 5", (1, 2, 10, 20))},
)
def chance(tail: int = 5) -> float:
    """The quantile of forty thousand random orders, by the sum of squares."""
    orders = torch.rand(40_000, 9, generator=_made(4), dtype=_F64).argsort(1)
    squares = ((orders - torch.arange(9)) ** 2).sum(1)
    rho = 1 - 6 * squares / (9 * 80)
    return float(rho.abs().quantile(1 - tail / 100))


@exercise(
    "ex-seven-5",
    "a function of h and k that gives the total variation",
    bound=1e-9,
    wrong=(
        lambda h, k: h,
        lambda h, k: k * k * h,
        lambda h, k: (k - 1) * h,
        lambda h, k: k * h / 2,
    ),
)
def rise(answer: Any) -> float:
    """Largest difference, over ten filters that rise at random places."""
    formula, made, worst = function(answer), _made(5), 0.0
    for k in range(3, 13):
        steps = torch.rand(k - 1, generator=made, dtype=_F64) ** 3
        row = torch.cat([torch.zeros(1, dtype=_F64), steps.cumsum(0)])
        found = total_variation(row.expand(1, 1, k, k))[0]
        worst = max(worst, float((value(formula(float(row[-1]), k)) - found).abs()))
    return worst


@exercise(
    "ex-seven-6",
    "a function of C that gives the factor",
    bound=1e-9,
    wrong=(lambda C: C, lambda C: 1.0, lambda C: C**-0.5, lambda C: C**1.5),
)
def grey(answer: Any) -> float:
    """Largest difference, over two to six channels, from the factor of a random pattern."""
    factor, worst = function(answer), 0.0
    for channels in range(2, 7):
        pattern = torch.randn(1, 1, 7, 7, generator=_made(channels), dtype=_F64)
        one = total_variation(pattern) / pattern.norm()
        both = pattern.expand(1, channels, 7, 7)
        found = total_variation(both) / both.norm() / one
        worst = max(worst, float((value(factor(channels)) - found).abs()))
    return worst
