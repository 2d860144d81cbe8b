"""Exercises of chapters 2.1 and 2.2: deep linear nets, where they end and whether they arrive."""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from clcore import random
from clcore.book.exercises.judge import (
    ExerciseError,
    exercise,
    function,
    keyed,
    numeric,
    scalar,
    value,
)
from clcore.theory import deep_linear

_F64 = torch.float64


def _matrix(rows: list) -> Tensor:
    return torch.tensor(rows, dtype=_F64)


def _draw(made: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=made, dtype=_F64)


def _symmetric(made: torch.Generator, d: int) -> Tensor:
    """A random symmetric matrix whose largest eigenvalue is positive."""
    X = _draw(made, d, d)
    X = X + X.T
    return X if torch.linalg.eigvalsh(X)[-1] > 0 else -X


@numeric("ex-linear-1", "a share between 0 and 1", wrong=(0.5, 0.0, 0.26))
@cache
def narrow_share() -> float:
    """The share of a hundred starts, climbed here from separate keys."""
    keys = random.fold_in(random.key(2026), torch.arange(100))
    values = torch.tensor([1, -0.3, -0.6, -0.9, -1.2, -1.5], dtype=_F64).expand(100, -1)
    X = deep_linear.with_spectrum(keys, values)
    start = deep_linear.starts(random.fold_in(keys, 1), (6, 1, 1, 2))
    ends = deep_linear.ascend(start, X, steps=3000, tolerance=1e-7)
    return float(((ends.energy - 1).abs() < 1e-4).double().mean())


@exercise(
    "ex-linear-2",
    "a function of W_2 and X that gives the largest energy over W_1",
    bound=1e-6,
    wrong=(
        lambda W2, X: torch.linalg.eigvalsh(X)[-1] * (W2**2).sum(),
        lambda W2, X: torch.linalg.eigvalsh(X)[-1] * torch.linalg.matrix_norm(W2, 2),
        lambda W2, X: torch.linalg.eigvalsh(X)[-1],
    ),
)
def best_first_layer(answer: Any) -> float:
    """Largest difference, over five random pairs, from the maximum found by power iteration on W_1,
    shifted so that the largest eigenvalue is the largest in size."""
    best, made, worst = function(answer), torch.Generator().manual_seed(keyed(2)), 0.0
    for _ in range(5):
        W2, X = _draw(made, 3, 4), _symmetric(made, 5)
        shift = torch.linalg.matrix_norm(X) * (W2**2).sum()
        W1 = _draw(made, 4, 5)
        for _ in range(3000):
            W1 = W2.T @ W2 @ W1 @ X + shift * W1
            W1 = W1 / W1.norm()
        found = torch.trace(W2 @ W1 @ X @ W1.T @ W2.T)
        worst = max(worst, float((value(best(W2, X)) - found).abs() / found))
    return worst


@exercise(
    "ex-linear-3",
    "a function of the eigenvalues, largest first, that gives two rates",
    bound=1e-4,
    wrong=(
        lambda v: (v[0] - v[1], v[0] - v[1]),
        lambda v: (v[1], v[0]),
        lambda v: (v[0], v[0] - v[1]),
        lambda v: (2 * (v[0] - v[1]), 2 * v[0]),
    ),
)
def decay(answer: Any) -> float:
    """Largest difference from what the flow on the sphere does to small deviations of W_1, over
    five random spectra."""
    rates, made, worst = function(answer), torch.Generator().manual_seed(keyed(3)), 0.0
    for _ in range(5):
        values = torch.rand(4, generator=made, dtype=_F64).sort(descending=True).values + 0.1
        given = rates(values)
        try:
            given = [scalar(rate) for rate in given]
        except TypeError:
            raise ExerciseError(f"expected two rates, got {type(given).__name__}") from None
        given = value(given, (2,))
        for k, (row, column) in enumerate([(0, 1), (1, 2)]):
            layers = torch.zeros(2, 4, 4, dtype=_F64)
            layers[:, 0, 0] = 1
            layers[0, row, column] = 1e-6
            if row:
                # The upper layer does not see it, so its rate is the same along every column.
                layers[0, row, 3] = 1e-6
            at = list(layers)
            move = deep_linear.tangent(at, deep_linear.flow(at, values.diag()))[0]
            worst = max(worst, float((given[k] + move[row, column] / 1e-6).abs()))
    return worst


_AXES = (_matrix([[0, 1]]), _matrix([[1], [0]]), _matrix([[0, 1]]))
_BLIND = _matrix([[0.5**0.5, 0, 0], [0, 0.5**0.5, 0]])


@exercise(
    "ex-linear-4",
    "a pair: the four layers as a list, layer 1 first, and X",
    bound=1e-6,
    wrong=(
        # Layer 1 has one node, layer 1 sees negative directions alone, nothing cancels.
        ([*_AXES, _matrix([[1.0]])], _matrix([[1, 0], [0, -1]])),
        (
            [_BLIND, _matrix([[1, 0]]), *_AXES[1:]],
            torch.diag(_matrix([-1, -2, 1])),
        ),
        (
            [_BLIND, _matrix([[1, 0]]), _matrix([[1], [0]]), _matrix([[1, 0]])],
            torch.diag(_matrix([-1, 1, 1])),
        ),
    ),
)
def trap(answer: Any) -> float:
    """The worst of: how far norms are from one; the norm of W_4 W_3; the largest eigenvalue of what
    reaches layer 3, if it is not negative; the energy of two hundred nets nearby, if one is
    positive; and one for each of: layer 1 not of two nodes, what it hands on negative definite, X
    with no positive eigenvalue or not exactly one negative one."""
    try:
        layers, X = answer
        layers = [torch.as_tensor(w, dtype=_F64) for w in layers]
        X = torch.as_tensor(X, dtype=_F64)
    except (TypeError, ValueError, RuntimeError):
        raise ExerciseError("expected a pair of a list of matrices and a matrix") from None
    if len(layers) != 4 or any(w.ndim != 2 for w in layers):
        raise ExerciseError(f"expected four matrices, got {[tuple(w.shape) for w in layers]}")
    W1, W2, W3, W4 = layers
    low = W1 @ X @ W1.T
    values = torch.linalg.eigvalsh(X)
    off = [float((w.norm() - 1).abs()) for w in layers]
    off.append(float((W4 @ W3).norm()))
    top = float(torch.linalg.eigvalsh(W2 @ low @ W2.T)[-1])
    off.append(1.0 if top > -1e-9 else 0.0)
    off.append(float(W1.shape[0] != 2))
    off.append(float(torch.linalg.eigvalsh(low)[-1] < 0))
    off.append(float(values[-1] <= 0) + abs(int((values < 0).sum()) - 1))
    made = torch.Generator().manual_seed(keyed(4))
    for _ in range(200):
        near = [w + 0.01 * _draw(made, *w.shape) for w in layers]
        W = near[3] @ near[2] @ near[1] @ near[0]
        off.append(max(0.0, float(torch.trace(W @ X @ W.T))))
    return max(off)


@exercise(
    "ex-linear-5",
    "a function of δ that gives the largest share",
    bound=2e-4,
    wrong=(lambda d: 0.01, lambda d: 0.01 / d, lambda d: min(1.0, 0.99 / (1 - d)), lambda d: 1 - d),
)
def hidden_share(answer: Any) -> float:
    """Largest difference from the largest share on a fine grid of directions whose energy is at
    least 0.99, for gaps from 0.002 to 0.5."""
    share, worst = function(answer), 0.0
    angle = torch.linspace(0, torch.pi / 2, 40_001, dtype=_F64)
    v = torch.stack([angle.cos(), angle.sin()], -1)
    for gap in (0.002, 0.008, 0.013, 0.02, 0.05, 0.11, 0.5):
        X = torch.diag(_matrix([1.0, 1.0 - gap]))
        energy = ((v @ X) * v).sum(-1)
        most = (v[energy >= 0.99 - 1e-12, 1] ** 2).max()
        worst = max(worst, float((value(share(gap)) - most).abs()))
    return worst


@exercise(
    "ex-linear-6",
    "a function of n and L that gives the average",
    bound=0.05,
    wrong=(
        lambda n, L: float(n) ** -L,
        lambda n, L: n ** (-L / 2),
        lambda n, L: n ** ((1.0 - L) / 2),
        lambda n, L: 1.0,
    ),
)
def plateau(answer: Any) -> float:
    """Largest relative difference from the mean over 40,000 random nets, for three sizes."""
    mean, made, worst = function(answer), torch.Generator().manual_seed(keyed(6)), 0.0
    for n, depth in ((3, 2), (4, 3), (5, 4)):
        W = torch.eye(n, dtype=_F64)
        for _ in range(depth):
            layer = _draw(made, 40_000, n, n)
            W = layer / layer.norm(dim=(1, 2), keepdim=True) @ W
        found = (W**2).sum((1, 2)).mean()
        worst = max(worst, float((value(mean(n, depth)) / found - 1).abs()))
    return worst


@exercise(
    "ex-linear-noise",
    "a function of λ that gives the strength of the noise",
    bound=1e-6,
    wrong=(lambda v: v**0.5, lambda v: (v / 2) ** 0.5, lambda v: 2 * v, lambda v: v),
)
def turning_noise(answer: Any) -> float:
    """Largest eigenvalue in size over the variance, at the given noise, from sums over forty
    samples whose variance and noise are exact, for five variances."""
    strength, made, worst = function(answer), torch.Generator().manual_seed(keyed(7)), 0.0
    for _ in range(5):
        x, noise = _draw(made, 2, 40)
        variance = float(torch.rand((), generator=made, dtype=_F64)) * 3 + 0.1
        x = x / x.std() * variance**0.5
        noise = noise / noise.square().mean() ** 0.5
        far, near = (x[:, None] - x) ** 2, (value(strength(variance)) * noise) ** 2
        alpha = (1 - torch.eye(40, dtype=_F64)) / (2 * 40 * 39)
        left = (alpha * far).sum() - (alpha.sum(1) * near).sum()
        worst = max(worst, float(left.abs() / variance))
    return worst


@exercise(
    "ex-arrival-weights",
    "a function of a and b that gives the temperature",
    bound=1e-6,
    wrong=(
        lambda a, b: 4 * a**2 / math.log(2 * a**2 / b**2 - 1),
        lambda a, b: 2 * a**2 / math.log(2 * a**2 / b**2),
        lambda a, b: 2 * a**2 / math.log(a**2 / b**2),
        lambda a, b: a**2 / (2 * math.log(2 * a**2 / b**2 - 1)),
    ),
)
def overtaken(answer: Any) -> float:
    """Largest relative difference between the two diagonal entries of X at the given temperature,
    from sums over the pairs of corners, for five rectangles."""
    temperature, made, worst = function(answer), torch.Generator().manual_seed(keyed(8)), 0.0
    for _ in range(5):
        b, more = (0.5 + torch.rand(2, generator=made, dtype=_F64)).tolist()
        a = b * (1 + more)
        x = _matrix([[a, b], [a, -b], [-a, b], [-a, -b]])
        steps = (x[:, None] - x) ** 2
        far = steps[..., 0] / 2 / value(temperature(a, b))
        alpha = torch.softmax(torch.where(torch.eye(4, dtype=torch.bool), -torch.inf, -far), 1)
        one, two = (alpha[..., None] * steps).sum((0, 1))
        worst = max(worst, float((one / two - 1).abs()))
    return worst
