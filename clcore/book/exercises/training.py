"""Exercises of chapter 6.2: numbers that a table cannot have, and what two masks share."""

import itertools
from typing import Any

import torch

from clcore.book.exercises.judge import exercise, function, scalar


@exercise(
    "ex-training-cell",
    "a function of the mean and of how many numbers there are: their largest standard deviation",
    bound=1e-6,
    wrong=(
        lambda mean, n: mean,
        lambda mean, n: mean * (n - 1) ** 0.5,
        lambda mean, n: (mean * (1 - mean)) ** 0.5,
    ),
)
def largest_spread(answer: Any) -> float:
    """Worst relative gap to the largest standard deviation at the corners of the set of n numbers
    between 0 and 1 with that mean, where a convex function is largest."""
    told, gaps = function(answer), []
    for mean, n in ((0.08, 5), (0.2, 5), (0.1, 3)):
        corners = mean * n * torch.eye(n, dtype=torch.float64)
        gaps.append(abs(scalar(told(mean, n)) / float(corners.std(dim=1).max()) - 1))
    return max(gaps)


@exercise(
    "ex-training-shared",
    "a function of alpha and p: the probability that two views share no coordinate",
    bound=1e-9,
    wrong=(
        lambda alpha, p: (1 - alpha) ** p,
        lambda alpha, p: 1 - alpha ** (2 * p),
        lambda alpha, p: (1 - alpha) ** (2 * p),
    ),
)
def nothing_shared(answer: Any) -> float:
    """Worst gap to the sum over all pairs of masks of up to four coordinates."""
    told, gaps = function(answer), []
    for alpha, p in ((0.1, 3), (0.5, 4), (0.3, 2)):
        truth = 0.0
        for one, two in itertools.product(itertools.product((0, 1), repeat=p), repeat=2):
            kept = sum(one) + sum(two)
            if not any(a and b for a, b in zip(one, two, strict=True)):
                truth += alpha**kept * (1 - alpha) ** (2 * p - kept)
        gaps.append(abs(scalar(told(alpha, p)) - truth))
    return max(gaps)
