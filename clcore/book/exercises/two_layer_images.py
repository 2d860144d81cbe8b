"""Exercises of chapter 5.4: noise, false negatives, what a positive teaches, random crops."""

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


@exercise(
    "ex-image-1",
    "a function of the side: the mean total variation of Gaussian noise of norm 1",
    bound=0.02,
    wrong=(lambda n: n, lambda n: math.sqrt(2) * n, lambda n: math.sqrt(math.pi / 2) * n),
)
def noise(answer: Any) -> float:
    """Worst relative gap to the mean of two thousand random filters, at three sizes."""
    mean, gaps = function(answer), []
    for side in (8, 14, 20):
        draw = torch.Generator().manual_seed(keyed(side))
        w = torch.randn(2000, side, side, generator=draw, dtype=torch.float64)
        w = w / w.flatten(1).norm(dim=1)[:, None, None]
        down = torch.nn.functional.pad(w[:, 1:] - w[:, :-1], (0, 0, 0, 1))
        right = torch.nn.functional.pad(w[:, :, 1:] - w[:, :, :-1], (0, 1))
        truth = (down.square() + right.square()).sqrt().sum((1, 2)).mean()
        gaps.append(abs(float(mean(side)) / float(truth) - 1))
    return max(gaps)


@numeric("ex-image-2", "the smallest batch size, a whole number", within=0, wrong=(22, 24, 128))
def false_negatives() -> int:
    """The first batch in which the probability, multiplied up, reaches nine tenths."""
    missed, size = 1.0, 1
    while 1 - missed < 0.9:
        missed, size = missed * 0.9, size + 1
    return size


@exercise(
    "ex-image-3",
    "a function of two outputs (n, d): gradient of their summed cosines with respect to the first",
    bound=1e-9,
    wrong=(lambda a, b: b, lambda a, b: a - b, lambda a, b: 0 * a),
)
def positive(answer: Any) -> float:
    """Worst gap of the first output's gradient, at equal outputs and at random ones."""
    slope, gaps = function(answer), []
    for seed in range(3):
        draw = torch.Generator().manual_seed(keyed(seed))
        a, other = torch.randn(2, 5, 4, generator=draw, dtype=torch.float64)
        for b in (a.clone(), other):
            start = a.clone().requires_grad_()
            cosine = torch.nn.functional.cosine_similarity(start, b).sum()
            (truth,) = torch.autograd.grad(cosine, start)
            gaps.append(float((value(slope(a, b), (5, 4)) - truth).abs().max()))
    return max(gaps)


@exercise(
    "ex-image-4",
    "a function of two boxes (top, left, height, width): the pixels that they share",
    bound=0,
    wrong=(
        lambda a, b: min(a[2], b[2]) * min(a[3], b[3]),
        lambda a, b: (
            (min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]))
            * (min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]))
        ),
    ),
)
def overlap(answer: Any) -> float:
    """Largest gap to painting both boxes into an image and counting."""
    shared, gaps = function(answer), []
    draw = torch.Generator().manual_seed(keyed(0))
    for _ in range(40):
        boxes = []
        for _ in range(2):
            size = torch.randint(1, 8, (2,), generator=draw)
            corner = [int(torch.randint(0, 13 - int(s), (1,), generator=draw)) for s in size]
            boxes.append((*corner, int(size[0]), int(size[1])))
        painted = torch.zeros(2, 12, 12, dtype=torch.bool)
        for image, (top, left, high, wide) in zip(painted, boxes, strict=True):
            image[top : top + high, left : left + wide] = True
        gaps.append(abs(int(shared(*boxes)) - int(painted.all(0).sum())))
    return float(max(gaps))


@exercise(
    "ex-image-5",
    "a filter (14, 14) and an order of its 196 pixels",
    bound=0,
    wrong=((torch.ones(14, 14), torch.arange(196)), (torch.eye(14), torch.arange(196).flip(0))),
)
def shuffled(answer: Any) -> float:
    """0 where the filter, in the other order, has three times the total variation; else 1."""
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        raise ExerciseError("expected a pair of a filter and an order")
    w, order = value(answer[0], (14, 14)), value(answer[1], (196,)).long()
    if sorted(order.tolist()) != list(range(196)):
        raise ExerciseError("expected each of the places 0 to 195 once")

    def variation(image: torch.Tensor) -> float:
        down = torch.nn.functional.pad(image[1:] - image[:-1], (0, 0, 0, 1))
        right = torch.nn.functional.pad(image[:, 1:] - image[:, :-1], (0, 1))
        return float((down.square() + right.square()).sqrt().sum())

    before = variation(w)
    after = variation(w.flatten()[order].reshape(14, 14))
    return float(not after >= 3 * before > 0)


@exercise(
    "ex-image-6",
    "a function of filters (k, n): their effective number",
    bound=1e-8,
    wrong=(
        lambda w: len(w),
        lambda w: int(torch.linalg.matrix_rank(w)),
        lambda w: 1 / (torch.linalg.svdvals(w) / torch.linalg.svdvals(w).sum()).square().sum(),
    ),
)
def effective(answer: Any) -> float:
    """Worst relative gap to the exponential of the entropy of the Gram matrix's eigenvalues."""
    count, gaps = function(answer), []
    for seed in range(3):
        draw = torch.Generator().manual_seed(keyed(seed))
        w = torch.randn(5, 8, generator=draw, dtype=torch.float64)
        w[1] = w[0] + 0.1 * w[1]
        unit = torch.nn.functional.normalize(w)
        shares = torch.linalg.eigvalsh(unit @ unit.T).clamp(min=1e-300) / 5
        truth = torch.distributions.Categorical(probs=shares).entropy().exp()
        gaps.append(abs(scalar(count(w)) / float(truth) - 1))
    return max(gaps)
