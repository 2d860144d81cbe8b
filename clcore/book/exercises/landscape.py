"""Exercises of chapter 6.1: minima with and without negatives, and what the metric sees."""

import itertools
import math
from typing import Any

import torch

from clcore.book.exercises.judge import (
    ExerciseError,
    exercise,
    function,
    keyed,
    numeric,
    scalar,
    value,
)
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc


def _matrix(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


_EYE = _matrix([[1, 0], [0, 1]])


def _columns(answer: Any, shape: tuple[int, int]) -> torch.Tensor:
    W = value(answer, shape)
    if float((W.norm(dim=0) - 1).abs().max()) > 1e-6:
        raise ExerciseError("expected columns of norm one")
    return W


@exercise(
    "ex-landscape-1",
    "a matrix (3, 2) with columns of norm one",
    bound=1e-9,
    wrong=(_matrix([[1, 0], [0, 1], [0, 0]]), _matrix([[0.6, 0], [0, 1], [-0.8, 0]])),
)
def spare(answer: Any) -> float:
    """How far its contrastive loss lies above the least one; 1 for a matrix of unit vectors."""
    W = _columns(answer, (3, 2))
    if float(W.abs().amax(0).min()) > 0.999:
        return 1.0
    best = ml.one_hot_contrastive(_matrix([[1, 0], [0, 1], [0, 0]]), 0.5, 2.0)
    return float((ml.one_hot_contrastive(W, 0.5, 2.0) - best).abs())


@exercise(
    "ex-landscape-2",
    "a function of alpha and B: the probability, a number",
    bound=1e-9,
    wrong=(lambda a, B: a * a, lambda a, B: a ** (2 + B), lambda a, B: 1 - (1 - a) ** B),
)
def one_is_enough(answer: Any) -> float:
    """Worst gap to counting all masks of the anchor's coordinate and of B negatives' own."""
    chance, gaps = function(answer), []
    for alpha, count in ((0.5, 1), (0.3, 3), (0.8, 4)):
        truth = 0.0
        for kept in itertools.product((0, 1), repeat=2 + count):
            weight = math.prod(alpha if k else 1 - alpha for k in kept)
            truth += weight * (kept[0] and kept[1] and any(kept[2:]))
        gaps.append(abs(scalar(chance(alpha, count)) - truth))
    return max(gaps)


@exercise(
    "ex-landscape-3",
    "a matrix (2, 2) with columns of norm one",
    bound=1e-9,
    wrong=(_EYE, _matrix([[0.6, 0.8], [0.8, 0.6]]), _matrix([[1, -1], [0, 0]])),
)
def signs(answer: Any) -> float:
    """How far its loss with signed latents lies above a permutation's; 1 for a permutation."""
    W = _columns(answer, (2, 2))
    if float(W.min()) > -1e-9:
        return 1.0
    law = ml.one_hot(2, signed=True)
    return float((ml.contrastive(W, law, 0.5, 2.0) - ml.contrastive(_EYE, law, 0.5, 2.0)).abs())


@numeric(
    "ex-landscape-4",
    "the Minimum max-cosine, a number",
    wrong=(1.0, 0.3837, 0.1472),
    varies={"d": ("$d=10$", (3, 4, 24, 32, 40))},
)
def from_practice(d: int = 10) -> float:
    """The cosine at the squared length that a fine grid finds to be best."""
    s = torch.linspace(0, 1, 200_001, dtype=torch.float64)
    inside = 1 - 0.5 + 0.5 / d * (torch.exp(20 * s) + d - 1)
    loss = -20 * 0.25 * s + 0.5 * inside.log()
    return math.sqrt(1 - float(s[loss.argmin()]))


@exercise(
    "ex-landscape-5",
    "a matrix (2, 2) with columns of norm one, not a permutation",
    bound=1e-9,
    wrong=(_EYE, _matrix([[0.8, 0.6], [0.6, 0.8]])),
)
def normalised(answer: Any) -> float:
    """How far its loss with normalised outputs is from a permutation's; 1 for a permutation."""
    W = _columns(answer, (2, 2))
    if float(W.abs().amax(0).min()) > 0.999:
        return 1.0
    outputs = torch.nn.functional.normalize(torch.relu(W), dim=0)
    loss = ml.one_hot_contrastive(torch.stack([outputs, _EYE]), 0.5, 2.0)
    return float((loss[0] - loss[1]).abs())


@exercise(
    "ex-landscape-noise",
    "a function of samples (n, p): the mean and the largest |cos| between different samples",
    bound=1e-9,
    wrong=(
        lambda x: [1.0, 1.0],
        lambda x: [float(torch.corrcoef(x).abs().mean()), 1.0],
    ),
)
def fingerprint(answer: Any) -> float:
    """Worst gap to both numbers, pair by pair."""
    told, gaps = function(answer), []
    for seed in range(3):
        draw = torch.Generator().manual_seed(keyed(seed))
        x = torch.randn(7, 4, generator=draw, dtype=torch.float64)
        cosines = [
            float((x[i] @ x[j]).abs() / (x[i].norm() * x[j].norm()))
            for i, j in itertools.combinations(range(7), 2)
        ]
        truth = torch.tensor([sum(cosines) / len(cosines), max(cosines)], dtype=torch.float64)
        gaps.append(float((value(told(x), (2,)) - truth).abs().max()))
    return max(gaps)


@exercise(
    "ex-landscape-rank",
    "a matrix (3, 3) of rank three: a minimum without negatives that has not found the features",
    bound=0,
    wrong=(
        torch.eye(3, dtype=torch.float64),
        torch.full((3, 3), 3**-0.5, dtype=torch.float64),
        _matrix([[0.6, 0, 0.8], [-0.8, 0.6, 0], [0, 0.8, 0.6]]),
    ),
)
def bad_but_full(answer: Any) -> float:
    """0 where the loss is least, the smallest singular value above 0.05 and max-cosine below 0.8;
    else 1."""
    W = _columns(answer, (3, 3))
    least = abs(float(ml.one_hot_non_contrastive(W, 0.5)) - 1.5) < 1e-9
    full = float(torch.linalg.svdvals(W)[-1]) > 0.05
    lost = float(sc.max_cosine(W, torch.eye(3, dtype=torch.float64)).min()) < 0.8
    return float(not (least and full and lost))


@exercise(
    "ex-landscape-share",
    "a function of d: the probability that a start is on the plateau, a number",
    bound=0.3,
    wrong=(
        lambda d: 2.0**-d,
        lambda d: d * 2.0 ** -(d * d),
        lambda d: 0.25,
        lambda d: 1 - 2.0 ** -(d * d),
    ),
)
def share(answer: Any) -> float:
    """Worst relative gap to the share of 100,000 random matrices whose loss is the least one. The
    count at d = 3 is near 195, which chance moves by seven per cent."""
    part, gaps = function(answer), []
    for d in (1, 2, 3):
        draw = torch.Generator().manual_seed(keyed(d))
        W = torch.randn(100_000, d, d, generator=draw, dtype=torch.float64)
        loss = ml.one_hot_non_contrastive(W / W.norm(dim=1, keepdim=True), 0.5)
        least = ml.one_hot_non_contrastive(torch.eye(d, dtype=torch.float64), 0.5)
        truth = float((loss < least + 1e-9).double().mean())
        gaps.append(abs(scalar(part(d)) / truth - 1))
    return max(gaps)
