"""Exercises of chapters 3.1 and 3.2: one ReLU node, and when features are joined."""

import math
from typing import Any

import torch

from clcore.book.exercises.judge import exercise, function, keyed, value
from clcore.theory.relu import relu_two_layer as relu2

_F64 = torch.float64


def _draws(count: int, size: int, low: float = 0.2) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(keyed(size))
    return [low + 2 * torch.rand(size, generator=made, dtype=_F64) for _ in range(count)]


def _joined(a: torch.Tensor, t: float) -> float:
    """Energy of theta_Omega over p0 p1, one feature per field, from its definition."""
    delta = a.sqrt()
    X = torch.outer(delta, delta) - t * a.diag()
    return float(relu2.trace_energy(*relu2.compositional(delta[:, None]), X))


def _crossing(gap: Any, low: float, high: float) -> float:
    """Where `gap` changes its sign, by bisection; it is negative at `low`."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) < 0 else (low, middle)
    return low


@exercise(
    "ex-relu-1",
    "a function of X and w that gives the ReLU net's push on w",
    bound=1e-9,
    wrong=(lambda X, w: X @ w, lambda X, w: (X @ w).clamp(min=0)),
)
def sticky_push(answer: Any) -> float:
    """Largest difference from the sum over positive weights, entry by entry, of ten nodes."""
    push, made = function(answer), torch.Generator().manual_seed(keyed(1))
    worst = 0.0
    for _ in range(10):
        X = torch.randn(5, 5, generator=made, dtype=_F64)
        w = (torch.randn(5, generator=made, dtype=_F64)).clamp(min=0)
        own = value(push(X, w), (5,))
        for m in range(5):
            right = sum(float(X[m, n] * w[n]) for n in range(5)) if w[m] > 0 else 0.0
            worst = max(worst, abs(float(own[m]) - right))
    return worst


@exercise(
    "ex-relu-2",
    "three weights of norm one, the largest first",
    bound=1e-2,
    wrong=([1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [3**-0.5, 3**-0.5, 3**-0.5], [0.8, 0.6, 0.0]),
)
def equal_gaps(answer: Any) -> float:
    """How much the smallest gap between outputs falls short of the largest possible one, found by
    trying all nonnegative directions of a fine grid; and how far the norm is from one."""
    w = value(answer, (3,))
    steps = torch.linspace(0, math.pi / 2, 301, dtype=_F64)
    up, round_ = torch.meshgrid(steps, steps, indexing="ij")
    parts = (up.cos(), up.sin() * round_.cos(), up.sin() * round_.sin())
    gaps = torch.stack(parts, -1).sort(-1).values.diff(dim=-1).amin(-1)
    own = w.sort().values.diff().amin()
    below = (-w).clamp(min=0).max() + (w[1] - w[0]).clamp(min=0)
    return float((gaps.max() - own).clamp(min=0) + (w.norm() - 1).abs() + below)


@exercise(
    "ex-relu-3",
    "a function of the a_k, not all equal, that gives the strength at which they meet",
    bound=1e-6,
    wrong=(lambda a: 1 - a.mean() / a.max(), lambda a: a.mean() / a.max(), lambda a: 1.0),
)
def threshold(answer: Any) -> float:
    """Largest difference from the strength at which both energies, evaluated, are equal."""
    own, worst = function(answer), 0.0
    for a in _draws(4, 3) + _draws(4, 6):
        top = float(a.max())
        found = _crossing(lambda t, a=a, top=top: _joined(a, t) - (1 - t) * top, 0.0, 1.0)
        worst = max(worst, abs(float(value(own(a))) - found))
    return worst


@exercise(
    "ex-relu-4",
    "a function of p1 that gives a number of fields",
    bound=0.0,
    wrong=(lambda p1: 5, lambda p1: math.ceil(1 / (p1 * (1 - p1))), lambda p1: 2),
)
def fields_needed(answer: Any) -> float:
    """Largest difference from the first K at which the joined features, evaluated, are ahead."""
    own, worst = function(answer), 0.0
    for p1 in (0.5, 0.4, 0.3, 0.13):
        chance, K = p1 * (1 - p1), 2
        while chance * _joined(torch.ones(K, dtype=_F64), 1 / chance) <= 1e-9:
            K += 1
        worst = max(worst, abs(float(value(own(p1))) - K))
    return worst


@exercise(
    "ex-relu-5",
    "a function of the amplitude a that gives a share between 0 and 1",
    bound=1e-6,
    wrong=(
        lambda a: 0.5,
        lambda a: a / (1 + a),
        lambda a: a**2 / (1 + a**2),
        lambda a: 1 - math.atan(a) * 2 / math.pi,
    ),
)
def brighter(answer: Any) -> float:
    """Largest difference from the angle at which the push along the circle changes its sign, for
    the covariance of a batch of four samples."""
    own, worst = function(answer), 0.0
    for a in (0.4, 1.0, 2.0, 3.5):
        x = torch.tensor([[a, 0.0], [0.0, 1.0], [a, 0.0], [0.0, 1.0]], dtype=_F64)
        apart = (x[:, None] - x).flatten(0, 1)
        X = apart.T @ apart

        def turn(angle: float, X: torch.Tensor = X) -> float:
            c, s = math.cos(angle), math.sin(angle)
            push = X @ torch.tensor([c, s], dtype=_F64)
            return float(c * push[1] - s * push[0])  # negative: towards the first feature

        found = _crossing(turn, 1e-6, math.pi / 2 - 1e-6) / (math.pi / 2)
        worst = max(worst, abs(float(value(own(a))) - found))
    return worst


@exercise(
    "ex-relu-6",
    "a function of the a_k that gives the strength at which the joined energy is 0",
    bound=1e-6,
    wrong=(lambda a: len(a), lambda a: a.sum() / a.max(), lambda a: a.sum() ** 2),
)
def too_strong(answer: Any) -> float:
    """Largest difference from the strength at which the joined energy, evaluated, is 0."""
    own, worst = function(answer), 0.0
    for a in _draws(4, 3) + _draws(4, 6):
        found = _crossing(lambda t, a=a: -_joined(a, t), 0.0, 2.0 * len(a))
        worst = max(worst, abs(float(value(own(a))) - found))
    return worst


@exercise(
    "ex-relu-dead",
    "a function of M: the shares of dead nodes without augmentation and where all entries are -2",
    bound=1e-9,
    wrong=(
        lambda M: (2.0**-M, 2.0**-M),
        lambda M: (0.0, 1 - 2.0**-M),
        lambda M: (0.5, 0.5),
        lambda M: (2.0**-M, 1.0),
    ),
)
def dead(answer: Any) -> float:
    """Largest difference from the shares of the patterns of signs that the flow, in small steps on
    the sphere, leaves without a positive weight of any size."""
    told, worst = function(answer), 0.0
    for M in (2, 3, 4):
        signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=_F64)] * M)
        start = signs * torch.cat([_draws(1, M)[0][None]] * len(signs))
        own = value(told(M), (2,))
        plain = 2 * M * torch.eye(M, dtype=_F64) - 1
        for share, X in zip(own, (plain, torch.full((M, M), -2.0, dtype=_F64)), strict=True):
            w = start
            for _ in range(800):
                pushed = w + 0.02 * (w > 0) * (w.clamp(min=0) @ X)
                w = torch.where((w > 0) & (pushed < 0), 0.0, pushed)
                w = w / w.norm(dim=-1, keepdim=True)
            worst = max(worst, abs(float(share) - float((w.amax(-1) < 1e-6).double().mean())))
    return worst


@exercise(
    "ex-relu-cause",
    "a function of p1, q1 and q0 that gives a share between 0 and 1",
    bound=1e-9,
    wrong=(
        lambda p1, q1, q0: (q1 - q0) ** 2,
        lambda p1, q1, q0: p1 * (1 - p1) * (q1 - q0) ** 2,
        lambda p1, q1, q0: p1 * q1 / (p1 * q1 + (1 - p1) * q0),
        lambda p1, q1, q0: (q1 - q0) ** 2 / (p1 * q1 * (1 - q1) + (1 - p1) * q0 * (1 - q0)),
    ),
)
def due_to_cause(answer: Any) -> float:
    """Largest difference from the squared correlation of cause and feature over four states."""
    own, worst = function(answer), 0.0
    states = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=_F64)
    for p1, q1, q0 in ((0.5, 0.4, 0.2), (0.25, 0.8, 0.4), (0.9, 0.1, 0.7), (0.3, 0.55, 0.5)):
        mass = [(1 - p1) * (1 - q0), (1 - p1) * q0, p1 * (1 - q1), p1 * q1]
        spread = states.T.cov(correction=0, aweights=torch.tensor(mass, dtype=_F64))
        share = spread[0, 1] ** 2 / (spread[0, 0] * spread[1, 1])
        worst = max(worst, abs(float(value(own(p1, q1, q0))) - float(share)))
    return worst
