"""Exercises of chapter 1.1: what the min player weighs, envelopes, effective negatives."""

import math
from typing import Any

import torch

from clcore.book.exercises.judge import ExerciseError, exercise, function, keyed, numeric, value


def _distances(z: torch.Tensor, z2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared half distances d_ij (n, n) of first views and d_i (n,) of the two views."""
    return (z[:, None] - z[None]).square().sum(-1) / 2, (z - z2).square().sum(-1) / 2


def _objective(
    z: torch.Tensor, z2: torch.Tensor, tau: float, eps: float, through: tuple[bool, bool]
) -> torch.Tensor:
    """E_alpha - R_H at its minimiser; through: whether the gradient goes through alpha in the
    energy, and in the regulariser."""
    d, own = _distances(z, z2)
    off = ~torch.eye(len(z), dtype=torch.bool)
    pull = torch.where(off, torch.exp((own[:, None] - d) / tau), 0.0)
    alpha = pull / (pull.sum(1, keepdim=True) + eps)
    one, two = (alpha if open_ else alpha.detach() for open_ in through)
    energy = 2 * (one * (d - own[:, None])).sum()
    entropy = (two * torch.where(off, two, 1.0).log()).sum()
    return energy + 2 * tau * entropy


def _batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(keyed(seed))
    z = torch.randn(6, 3, generator=draw, dtype=torch.float64)
    return z, z + 0.3 * torch.randn(6, 3, generator=draw, dtype=torch.float64)


def _slope(z: torch.Tensor, z2: torch.Tensor, *more: Any) -> torch.Tensor:
    z = z.detach().requires_grad_()
    (found,) = torch.autograd.grad(_objective(z, z2, *more), z)
    return found


@numeric(
    "ex-minmax-1", "the distance at which the weight is a half, a number", wrong=(0.0, 0.5, 2.0)
)
def half() -> float:
    """The distance at which the softmax of two negatives is even, the other one at 1; bisection."""
    low, high = 0.0, 3.0
    for _ in range(50):
        d = (low + high) / 2
        weight = torch.softmax(torch.tensor([-d, -1.0], dtype=torch.float64) / 0.02, 0)[0]
        low, high = (d, high) if weight > 0.5 else (low, d)
    return low


@exercise(
    "ex-minmax-2",
    "a function of z, z2 and tau: the gradient with respect to z, shaped like z",
    bound=1e-9,
    wrong=(
        lambda z, z2, tau: 0 * z,
        lambda z, z2, tau: _slope(z, z2, tau, 0.0, (True, False)),
        lambda z, z2, tau: -_slope(z, z2, tau, 0.0, (False, False)),
    ),
)
def envelope(answer: Any) -> float:
    """Worst relative gap to autograd through the softmax, in energy and regulariser."""
    slope, gaps = function(answer), []
    for seed, tau in enumerate((0.2, 0.5, 1.5)):
        z, z2 = _batch(seed)
        truth = _slope(z, z2, tau, 0.0, (True, True))
        gaps.append(float((value(slope(z, z2, tau), (6, 3)) - truth).norm() / truth.norm()))
    return max(gaps)


@exercise(
    "ex-minmax-3",
    "a function of distances (n, n) and a temperature: pair weights (n, n)",
    bound=1e-9,
    wrong=(
        lambda d, tau: torch.softmax(-d / tau, 1),
        lambda d, tau: torch.ones_like(d) / (len(d) - 3),
    ),
)
def without_the_nearest(answer: Any) -> float:
    """Worst gap to weights made row by row, and entry by entry."""
    weigh, gaps = function(answer), []
    for seed in range(3):
        d, _ = _distances(*_batch(seed))
        truth = torch.zeros_like(d)
        for i in range(len(d)):
            kept = sorted((float(d[i, j]), j) for j in range(len(d)) if j != i)[2:]
            total = sum(math.exp(-x / 0.7) for x, _ in kept)
            for x, j in kept:
                truth[i, j] = math.exp(-x / 0.7) / total
        gaps.append(float((value(weigh(d, 0.7), tuple(d.shape)) - truth).abs().max()))
    return max(gaps)


@exercise(
    "ex-minmax-4",
    "a function of z and z2: the gradient of the missing term with respect to z, shaped like z",
    bound=1e-9,
    wrong=(
        lambda z, z2: 0 * z,
        lambda z, z2: _slope(z, z2, 0.5, 1.0, (True, True)),
        lambda z, z2: -_missing(z, z2),
    ),
)
def missing_term(answer: Any) -> float:
    """Worst relative gap to the value's gradient minus the energy's, by autograd."""
    slope, gaps = function(answer), []
    for seed in range(3):
        z, z2 = _batch(seed)
        truth = _missing(z, z2)
        gaps.append(float((value(slope(z, z2), (6, 3)) - truth).norm() / truth.norm()))
    return max(gaps)


def _missing(z: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
    both = _slope(z, z2, 0.5, 1.0, (True, True))
    return both - _slope(z, z2, 0.5, 1.0, (False, False))


@exercise(
    "ex-minmax-5",
    "a function of distances (n,) and a temperature: how many negatives count, a number",
    bound=1e-9,
    wrong=(
        lambda d, tau: len(d),
        lambda d, tau: 1 / torch.softmax(-d / tau, 0).square().sum(),
        lambda d, tau: 1 / torch.softmax(-d / tau, 0).max(),
    ),
)
def effective(answer: Any) -> float:
    """Worst relative gap to the exponential of the entropy, by torch.distributions."""
    count, gaps = function(answer), []
    for seed, tau in enumerate((0.05, 0.3, 3.0)):
        d = torch.rand(
            50, generator=torch.Generator().manual_seed(keyed(seed)), dtype=torch.float64
        )
        truth = torch.distributions.Categorical(logits=-d / tau).entropy().exp()
        gaps.append(float((value(count(d, tau)) / truth - 1).abs()))
    return max(gaps)


def _views(answer: Any) -> torch.Tensor:
    if not isinstance(answer, list | tuple | torch.Tensor) or len(answer) != 2:
        raise ExerciseError("expected a pair (before, after), each of shape (2, n, d)")
    given = torch.stack([torch.as_tensor(part, dtype=torch.float64) for part in answer])
    if given.ndim != 4 or given.shape[1] != 2 or given.shape[2] < 2:
        raise ExerciseError(f"expected two batches of shape (2, n, d), got {tuple(given.shape)}")
    return given


@exercise(
    "ex-minmax-6",
    "two batches of outputs, before and after, each (2, n, d)",
    bound=0,
    wrong=(torch.zeros(2, 2, 3, 3), torch.stack([torch.eye(3)] * 4).reshape(2, 2, 3, 3)),
)
def falls_apart(answer: Any) -> float:
    """0 where InfoNCE is lower after, and every positive pair further apart; else 1."""
    losses, apart = [], []
    for z, z2 in _views(answer):
        d, own = _distances(z, z2)
        off = ~torch.eye(len(z), dtype=torch.bool)
        pull = torch.where(off, torch.exp((own[:, None] - d) / 0.5), 0.0).sum(1)
        losses.append(float((0.5 * (1 + pull).log()).sum()))
        apart.append(own)
    return float(not (losses[1] < losses[0] and bool((apart[1] > apart[0]).all())))
