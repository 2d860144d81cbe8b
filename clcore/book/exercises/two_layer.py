"""Exercises of chapter 5.3: modulation and its far end, merged filters, what decay leaves."""

from typing import Any

import torch
from scipy import integrate

from clcore.book.exercises.judge import ExerciseError, exercise, function, keyed, scalar, value
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import modulation, two_layer


def _end(start: list[float], c: float) -> torch.Tensor:
    """Where the flow on the sphere goes from a start, the first pattern raised by c."""
    y = torch.tensor([start], dtype=torch.float64)
    b = torch.full_like(y, 1.2)
    b[0, 0] += c
    return modulation.simulate(y, b)[0]


@exercise("ex-two-1", "the modulation c, a number", bound=0, wrong=(0.5, 2**0.5, 2.0))
def far_end(answer: Any) -> float:
    """0 where a start near the pattern's negative leaves it for a little less modulation and goes
    there for a little more; else 1."""
    c, near = float(value(answer)), [-1.0, 0.02, 0.01]
    leaves = float(_end(near, c - 0.1)[0]) > -0.9
    stays = float(_end(near, c + 0.1)[0]) < -0.99
    return float(not (leaves and stays))


@exercise(
    "ex-two-2",
    "a function of filters (1, 2, n) and c in [0, 1]: the filters at c on the path",
    bound=1e-9,
    wrong=(
        lambda W, c: W,
        lambda W, c: 0 * W,
        lambda W, c: (1 - c) * W + c * W.flip(1),
        lambda W, c: (1 - c) * W + c * W[:, :1] * torch.tensor([[[1.0], [0.0]]]).double(),
    ),
)
def path(answer: Any) -> float:
    """Largest of: gap at the start, difference of the filters at the end, slope on the way."""
    walk, gaps = function(answer), []
    s = torch.tensor([1.0, -1.0], dtype=torch.float64) / 2**0.5
    C = torch.diag(torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64))
    for seed in range(3):
        draw = torch.Generator().manual_seed(keyed(seed))
        W = torch.randn(1, 2, 3, generator=draw, dtype=torch.float64)
        W[:, 1, :2] = W[:, 0, :2]  # what C sees of both is the same
        gaps.append(float((value(walk(W, 0.0), (1, 2, 3)) - W).abs().max()))
        end = value(walk(W, 1.0), (1, 2, 3))
        gaps.append(float((end[:, 0] - end[:, 1]).abs().max()))
        for c in (0.25, 0.5, 0.75):
            slope = two_layer.common_direction(C, s, value(walk(W, c), (1, 2, 3)))
            gaps.append(float(slope.abs().max()))
    return max(gaps)


@exercise(
    "ex-two-3",
    "a function of the two switches: whether the length of a filter stays constant",
    bound=0,
    wrong=(lambda mean, deviation: mean, lambda mean, deviation: True),
)
def which_gradient(answer: Any) -> float:
    """How many of the four positions it has wrong, by autograd through BatchNorm."""
    told, wrong = function(answer), 0
    draw = torch.Generator().manual_seed(keyed(0))
    x = torch.randn(40, 2, 2, generator=draw, dtype=torch.float64)
    start = torch.randn(2, 3, 2, generator=draw, dtype=torch.float64)
    p = torch.full((40,), 1 / 40, dtype=torch.float64)
    for mean in (True, False):
        for deviation in (True, False):
            w = start.clone().requires_grad_()
            z = two_layer.batch_norm(two_layer.hidden(x, w), p, mean, deviation)
            energy = one_layer.covariance(one_layer.World(x, p), z).sum()
            (slope,) = torch.autograd.grad(energy, w)
            stays = float((slope * w).sum(-1).abs().max().detach()) < 1e-9
            wrong += bool(told(mean, deviation)) is not stays
    return float(wrong)


@exercise(
    "ex-two-4",
    "the number of random filters, a number",
    bound=0.004,
    wrong=(12, 20, 120),
)
def by_chance(answer: Any) -> float:
    """How far the mean of the best of so many cosines is from a half, by quadrature."""
    count = float(value(answer))
    if not 1 <= count < 1e6:
        raise ExerciseError(f"expected a number of filters, got {count:g}")
    whole = integrate.quad(lambda t: (1 - t * t) ** 8.5, -1, 1)[0]

    def below(t: float) -> float:
        return integrate.quad(lambda u: (1 - u * u) ** 8.5, -1, t)[0] / whole

    mean = 1 - integrate.quad(lambda t: below(t) ** count, -1, 1, limit=200)[0]
    return abs(mean - 0.5)


@exercise(
    "ex-two-5",
    "a start (3,) of norm one from which pattern 1 loses in spite of c = 0.5",
    bound=0,
    wrong=([1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 1.0, 0.0]),
)
def loses(answer: Any) -> float:
    """0 for a start with a first entry of 0.2 or more from which another pattern wins; else 1."""
    y = value(answer, (3,))
    if abs(float(y.norm()) - 1) > 1e-6:
        raise ExerciseError(f"expected norm one, got {float(y.norm()):.3g}")
    won = int(_end(y.tolist(), 0.5).argmax()) == 0
    return float(won or float(y[0]) < 0.2)


@exercise(
    "ex-two-6",
    "a function of rate, decay, momentum and steps: the share of the weight that is left",
    bound=0.02,
    wrong=(
        lambda eta, decay, m, steps: (1 - eta * decay) ** steps,
        lambda eta, decay, m, steps: m**steps,
        lambda eta, decay, m, steps: (1 - eta * decay) ** (2 * steps / (1 - m)),
    ),
)
def what_is_left(answer: Any) -> float:
    """Worst relative gap to SGD of torch on a weight that no gradient holds up."""
    left, gaps = function(answer), []
    for eta, decay, momentum, steps in ((2e-3, 5e-3, 0.9, 5000), (1e-2, 1e-2, 0.5, 2000)):
        w = torch.ones(1, dtype=torch.float64, requires_grad=True)
        sgd = torch.optim.SGD([w], lr=eta, momentum=momentum, weight_decay=decay)
        w.grad = torch.zeros_like(w)
        for _ in range(steps):
            sgd.step()
        gaps.append(abs(scalar(left(eta, decay, momentum, steps)) / float(w.detach()) - 1))
    return max(gaps)
