"""Exercises of chapter 6.4: how warm a start is, and which features it gives a neuron."""

import itertools
from typing import Any

import torch

from clcore.book.exercises.judge import exercise, function, keyed, scalar


@exercise(
    "ex-starts-warmth",
    "a function of p and c: the cosine of a row of the start with its column, for large p",
    bound=0.01,
    wrong=(
        lambda p, c: 1 / (1 + p ** (1 - c)),
        lambda p, c: 1 - p ** (-c / 2),
        lambda p, c: 1 / (1 + p**-c) ** 0.5,
    ),
)
def warmth(answer: Any) -> float:
    """Worst gap to the mean cosine of 500 noisy columns of 2000 entries, which varies by less than
    0.001."""
    told, gaps, p = function(answer), [], 2000
    draw = torch.Generator().manual_seed(keyed(0))
    for c in (0.9, 1.0, 1.25):
        rows = p ** (-c / 2) * torch.randn(500, p, generator=draw, dtype=torch.float64)
        rows[:, 0] += 1  # any column of norm one: the noise knows no direction
        cosine = float((rows[:, 0] / rows.norm(dim=1)).mean())
        gaps.append(abs(scalar(told(p, c)) - cosine))
    return max(gaps)


@exercise(
    "ex-starts-rows",
    "a function of m and d: the mean number of columns that no row starts at",
    bound=1e-9,
    wrong=(
        lambda m, d: (1 - 1 / d) ** m,
        lambda m, d: d * (1 - 1 / m) ** d,
        lambda m, d: max(d - m, 0),
    ),
)
def missed(answer: Any) -> float:
    """Worst gap to the mean over all ways to draw m columns out of d."""
    told, gaps = function(answer), []
    for m, d in ((4, 3), (5, 2), (3, 4)):
        ways = list(itertools.product(range(d), repeat=m))
        truth = sum(d - len(set(way)) for way in ways) / len(ways)
        gaps.append(abs(scalar(told(m, d)) - truth))
    return max(gaps)
