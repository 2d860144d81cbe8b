"""Exercises of chapters 4.1 and 4.2: the covariance operator, and the residue of InfoNCE."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from scipy.optimize import minimize_scalar

from clcore import random
from clcore.book.exercises.judge import exercise, function, keyed, value
from clcore.losses import anchors
from clcore.theory.operator import connection, translation
from clcore.theory.operator import covariance_operator as co


def _uniform(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(
        shape, generator=torch.Generator().manual_seed(keyed(seed)), dtype=torch.float64
    )


def _apart(given: Any, right: float) -> float:
    return abs(float(value(given)) / right - 1)


@exercise(
    "ex-dual-1",
    "the factor of one step, a function of d",
    bound=1e-9,
    wrong=(
        lambda d: 1 + 1 / (4 * d**2),
        lambda d: 1 + 2 / (4 * d**2),
        lambda d: 1 + 3 / (2 * d**2),
        lambda d: 3 / (4 * d**2),
    ),
)
def biased(answer: Any) -> float:
    """Relative distance from what one step of the library does to the answer to 11, on rings of
    several sizes, from random starts that 11 alone opens."""
    given, worst = function(answer), 0.0
    for d, u in zip((5, 8, 13), _uniform(1, 3).tolist(), strict=True):
        w = torch.tensor([0.6 + 0.3 * u, 0.9 - 0.3 * u, -1.0], dtype=torch.float64)
        seen = translation.with_bias(translation.window(translation.images(d)))
        x = translation.patterns(True)[3]
        factor = translation.step(w, seen, 1.0) @ x / (w @ x)
        worst = max(worst, _apart(given(d), float(factor)))
    return worst


@exercise(
    "ex-dual-2",
    "the rate, a function of d",
    bound=0.02,
    wrong=(
        lambda d: 1 / (4 * d**2),
        lambda d: 1 / (16 * d**2),
        lambda d: 1 / (2 * d**2),
        lambda d: 1 / (8 * d),
    ),
)
def along(answer: Any) -> float:
    """Relative distance from the rise of log w_1 over small steps from (1, -1), two rings."""
    given = function(answer)
    return max(_apart(given(d), _rise(d)) for d in (5, 9))


@cache
def _rise(d: int) -> float:
    x, rate, steps = translation.window(translation.images(d)), 0.004 * d * d, 1000
    w = torch.tensor([1.0, -1.0], dtype=torch.float64)
    late = translation.path(w, x, rate, steps)[:, 0].log()
    return float(late[-1] - late[0]) / (rate * steps)


@exercise(
    "ex-dual-3",
    "the largest possible rank, a function of c and k",
    bound=1e-9,
    wrong=(
        lambda c, k: c * k,
        lambda c, k: c - 1,
        lambda c, k: c,
        lambda c, k: k,
        lambda c, k: (c - 1) * (k - 1),
    ),
)
def rank(answer: Any) -> float:
    """Distance from the rank of the library's operator of a layer of 60 weights, c objects with
    three views each and random connections, over several c and k."""
    given, worst = function(answer), 0.0
    for c, k in ((2, 3), (4, 2), (3, 1)):
        K = _uniform(10 * c + k, c, 3, 60, k)
        even = torch.full((c,), 1 / c, dtype=K.dtype)
        spread = torch.full((c, 3), 1 / 3, dtype=K.dtype)
        place = torch.zeros(c, 1, dtype=K.dtype)
        world = co.World(place, even, place[:, None].expand(c, 3, 1), spread)
        found = int(torch.linalg.matrix_rank(co.between(K, world)))
        worst = max(worst, abs(float(value(given(c, k))) - found))
    return worst


def _no_means(f: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    chance = (p[:, None] * q)[..., None]
    return (chance * (f - (chance * f).sum((0, 1))).square()).sum()


def _inside(f: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    mean = (q[..., None] * f).sum(1, keepdim=True)
    return ((p[:, None] * q)[..., None] * (f - mean).square()).sum()


def _even(f: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return f.mean(1).var(0, correction=0).sum()


def _worlds(count: int) -> Iterator[tuple[co.World, list[torch.Tensor]]]:
    """Finite worlds with ReLU nets of three layers, of unlike sizes."""
    for seed in range(count):
        key = random.fold_in(random.key(keyed(91)), torch.tensor(seed))
        world = co.random_world(key, 4, 3, 5, "scale", 0.5)
        scales = zip((2.0, 0.4, 1.0), ((7, 5), (6, 7), (3, 6)), strict=True)
        yield (
            world,
            [s * (_uniform(50 * seed + k, *n) - 0.4) for k, (s, n) in enumerate(scales)],
        )


@exercise(
    "ex-dual-4",
    "the rate of half a squared norm, a function of the outputs and both sets of probabilities",
    bound=1e-9,
    wrong=(
        _no_means,
        _inside,
        _even,
        lambda f, p, q: 2 * _no_means(f, p, q) - 2 * _inside(f, p, q),
    ),
)
def norms(answer: Any) -> float:
    """Relative distance from minus the product of a layer's weights with autograd's gradient of the
    enumerated loss, one tower moving, at each layer of random nets in random worlds."""
    given, worst = function(answer), 0.0
    for world, start in _worlds(3):
        weights = [w.requires_grad_() for w in start]
        f = world.shaped(connection.trace(weights, world.points).output, 1)
        loss = co.population_loss(anchors.simple, f, f.detach(), world)
        slopes = torch.autograd.grad(loss, weights)
        told = given(f.detach(), world.chances, world.view_chances)
        for w, slope in zip(weights, slopes, strict=True):
            worst = max(worst, _apart(told, -float((w.detach() * slope).sum())))
    return worst


def _weight(r: float, tau: float) -> float:
    return float(torch.sigmoid(torch.tensor(-r / tau, dtype=torch.float64))) / tau


def _slope(a: float, s: float, beta: float) -> float:
    """d/dw at w = 1 of (1 + beta) r_+ - r_- of the neuron w x, over all samples and views."""
    w = torch.ones((), dtype=torch.float64, requires_grad=True)
    views = torch.tensor([[a + s, a - s], [-a + s, -a - s]], dtype=torch.float64)
    moves, rests = w * views, views
    near = (moves[:, :, None] - rests[:, None]).square().mean() / 2
    far = (moves.ravel()[:, None] - rests.ravel()).square().mean() / 2
    return float(torch.autograd.grad((1 + beta) * near - far, w)[0])


@exercise(
    "ex-residue-attraction",
    "the largest beta under which w does not shrink, a function of a and s",
    bound=1e-9,
    wrong=(
        lambda a, s: a / s,
        lambda a, s: (s / a) ** 2,
        lambda a, s: (a / s) ** 2 - 1,
        lambda a, s: (2 * a / s) ** 2,
    ),
)
def attraction(answer: Any) -> float:
    """Relative distance from the root of the slope in beta, by autograd over the enumerated loss;
    the slope is linear in beta."""
    given, worst = function(answer), 0.0
    for a, s in (0.3 + 2 * _uniform(8, 4, 2)).tolist():
        plain, strong = (_slope(a, s, beta) for beta in (0.0, 1.0))
        worst = max(worst, _apart(given(a, s), plain / (plain - strong)))
    return worst


@exercise(
    "ex-residue-temperature",
    "the temperature of the largest weight, a function of the distance r",
    bound=1e-3,
    wrong=(
        lambda r: r,
        lambda r: r / 2,
        lambda r: 2 * r,
        lambda r: 1 / r,
    ),
)
def hardest(answer: Any) -> float:
    """Relative distance from the maximum of the weight, searched for at random distances."""
    given, worst = function(answer), 0.0
    for r in (0.2 + 4 * _uniform(9, 4)).tolist():
        found = minimize_scalar(
            lambda tau, r=r: -_weight(r, tau), bounds=(0.1 * r, 10 * r), method="bounded"
        )
        worst = max(worst, _apart(given(r), float(found.x)))
    return worst


@exercise(
    "ex-dual-operator-1",
    "the upper left entry of the residue, a function of the temperature",
    bound=1e-6,
    wrong=(
        lambda tau: _weight(2.0, tau) - _weight(4.0, tau),
        lambda tau: 2 * (_weight(4.0, tau) - _weight(2.0, tau)),
        lambda tau: _weight(2.0, tau) - _weight(1.0, tau),
        lambda tau: 0.0,
    ),
)
def moved(answer: Any) -> float:
    """Relative distance from the gradient of one neuron at random temperatures, by autograd over
    the enumerated loss, minus the covariance with weights at the samples."""
    given, worst = function(answer), 0.0
    views = torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    for tau in (0.3 + 2 * _uniform(3, 4)).tolist():
        w = torch.eye(2, dtype=torch.float64, requires_grad=True)
        loss = torch.zeros((), dtype=torch.float64)
        for one in views:
            for other in views:
                far = (one @ w - (other @ w).detach()).square().sum() / 2
                near = (one @ w - (one @ w).detach()).square().sum() / 2
                loss = loss - 0.25 * torch.log_softmax(-torch.stack([near, far]) / tau, 0)[0]
        (slope,) = torch.autograd.grad(loss, w)
        right = -float(slope[0, 0]) - _weight(2.0, tau)
        worst = max(worst, _apart(given(tau), right))
    return worst


@exercise(
    "ex-dual-operator-2",
    "the matrix for tied towers, a function of the pull of one tower",
    bound=1e-9,
    wrong=(
        lambda pull: 2 * pull,
        lambda pull: pull.mT,
        lambda pull: pull,
        lambda pull: pull - pull.mT,
    ),
)
def tied(answer: Any) -> float:
    """Relative distance of the gradient by autograd, both towers of a linear net moving under
    random pulls, from the sum over pairs of views with the matrix given."""
    given, worst = function(answer), 0.0
    for seed in range(3):
        pull, x = _uniform(seed, 5, 5) - 0.5, _uniform(seed + 20, 5, 3)
        w = _uniform(seed + 40, 3, 2).requires_grad_()
        f = x @ w
        r = (f[:, None] - f[None]).square().sum(-1) / 2
        (slope,) = torch.autograd.grad((pull * r).sum(), w)
        mass = value(given(pull), (5, 5))
        found = torch.zeros_like(slope)
        for u in range(5):
            for v in range(5):
                found += mass[u, v] * x[u, :, None] * (f[u] - f[v]).detach()[None]
        worst = max(worst, float((found - slope).abs().max() / slope.abs().max()))
    return worst
