"""Exercises of chapter 1.2: reading a printed table, seeds, players and their negatives."""

import math
from typing import Any

import torch

from clcore.book.exercises.judge import ExerciseError, exercise, function, keyed, scalar, value


def _numbers(answer: Any) -> list[float]:
    return [float(x) for x in value(answer, (len(answer),))]


@exercise(
    "ex-six-1",
    "a function of a, s, b and r: Welch's t if s and r are standard errors",
    bound=1e-9,
    wrong=(
        lambda a, s, b, r: (a - b) / math.sqrt((s * s + r * r) / 5),
        lambda a, s, b, r: (a - b) / (s + r),
    ),
)
def plus_minus(answer: Any) -> float:
    """Worst relative gap to Welch's statistic of five made-up runs with these standard errors."""
    told, gaps = function(answer), []
    for seed in range(4):
        draw = torch.Generator().manual_seed(keyed(seed))
        runs = torch.randn(2, 5, generator=draw, dtype=torch.float64) + torch.tensor([[84.0], [83]])
        error = runs.std(1) / 5**0.5
        truth = (runs[0].mean() - runs[1].mean()) / (runs.var(1) / 5).sum().sqrt()
        given = [float(x) for x in (runs[0].mean(), error[0], runs[1].mean(), error[1])]
        gaps.append(abs(scalar(told(*given)) / float(truth) - 1))
    return max(gaps)


@exercise(
    "ex-six-2",
    "a function of s, delta and rho: seeds per row for a power of 80 per cent, a number",
    bound=0.02,
    wrong=(
        lambda s, delta, rho: (1.96 + 0.84) ** 2 * s**2 / delta**2,
        lambda s, delta, rho: 2 * 1.96**2 * s**2 * (1 - rho) / delta**2,
        lambda s, delta, rho: 2 * (1.96 + 0.84) ** 2 * s**2 / delta**2,
    ),
)
def seeds(answer: Any) -> float:
    """How far from 0.8 the probability is that the mean paired difference lies beyond 1.96 of its
    standard errors, with so many seeds, by the normal law."""
    count, gaps = function(answer), []
    normal = torch.distributions.Normal(0.0, 1.0)
    for s, delta, rho in ((0.3, 0.1, 0.5), (1.0, 0.5, 0.3), (0.5, 0.2, 0.8)):
        n = scalar(count(s, delta, rho))
        if not n > 0:
            raise ExerciseError(f"expected a positive number of seeds, got {n:.3g}")
        error = math.sqrt(2 * (1 - rho) * s**2 / n)
        chance = normal.cdf(torch.tensor(delta / error - 1.96))
        gaps.append(abs(float(chance) - 0.8))
    return max(gaps)


@exercise(
    "ex-six-3",
    "a function of distances (n,), p and tau: the weights (n,) that minimise the objective",
    bound=1e-5,
    wrong=(
        lambda d, p, tau: torch.softmax(-d / tau, 0),
        lambda d, p, tau: torch.softmax(-2 * d**p / tau, 0),
    ),
)
def something_after_all(answer: Any) -> float:
    """Worst gap to the minimiser of sum 2 d^p a + 2 tau a log a that descent finds."""
    weigh, gaps = function(answer), []
    for seed, (p, tau) in enumerate(((2.0, 0.5), (1.0, 0.3))):
        d = torch.rand(6, generator=torch.Generator().manual_seed(keyed(seed)), dtype=torch.float64)
        scores = torch.zeros(6, dtype=torch.float64, requires_grad=True)
        # Without a line search, descent overshoots at some draws, and stays there.
        descent = torch.optim.LBFGS(
            [scores], 1.0, 300, None, 1e-12, 1e-15, line_search_fn="strong_wolfe"
        )

        def objective(
            scores: torch.Tensor = scores, d: torch.Tensor = d, p: float = p, tau: float = tau
        ) -> torch.Tensor:
            a = torch.softmax(scores, 0)
            return (2 * d**p * a + 2 * tau * a * a.log()).sum()

        def closure(
            descent: torch.optim.Optimizer = descent, objective: Any = objective
        ) -> torch.Tensor:
            descent.zero_grad()
            loss = objective()
            loss.backward()
            return loss

        descent.step(closure)
        truth = torch.softmax(scores.detach(), 0)
        gaps.append(float((value(weigh(d, p, tau), (6,)) - truth).abs().max()))
    return max(gaps)


@exercise(
    "ex-six-4",
    "a function of costs (n,) and tau: the weights (n,), with exact zeros",
    bound=1e-6,
    wrong=(
        lambda c, tau: torch.softmax(-c / tau, 0),
        lambda c, tau: torch.full_like(c, 1 / len(c)),
        lambda c, tau: torch.nn.functional.one_hot(c.argmin(), len(c)).double(),
    ),
)
def square_player(answer: Any) -> float:
    """Worst gap to (theta - c / tau)_+ with theta by bisection."""
    weigh, gaps = function(answer), []
    for seed, tau in enumerate((5.0, 1.0, 0.2)):
        c = 4 * torch.rand(
            9, generator=torch.Generator().manual_seed(keyed(seed)), dtype=torch.float64
        )
        low, high = float((c / tau).min()), float((c / tau).max()) + 1
        for _ in range(80):
            middle = (low + high) / 2
            full = float((middle - c / tau).clamp(min=0).sum()) > 1
            low, high = (low, middle) if full else (middle, high)
        truth = (low - c / tau).clamp(min=0)
        gaps.append(float((value(weigh(c, tau), (9,)) - truth).abs().max()))
    return max(gaps)


@exercise(
    "ex-six-5",
    "a function of n: how many of an image's n - 1 negatives are of its class, on average",
    bound=1e-9,
    wrong=(lambda n: n / 10, lambda n: n * (n - 1) / 10, lambda n: 1 - 0.9 ** (n - 1)),
)
def false_negatives(answer: Any) -> float:
    """Worst relative gap to the mean over every labelling of a small batch, by counting."""
    count, gaps = function(answer), []
    for n in (2, 3, 4, 5):
        labels = torch.cartesian_prod(*[torch.arange(10)] * n)  # (10^n, n), equally likely
        truth = (labels[:, 1:] == labels[:, :1]).sum(1).double().mean()
        gaps.append(abs(scalar(count(n)) / float(truth) - 1))
    return max(gaps)


@exercise(
    "ex-six-6",
    "accuracies of two losses, each (5,): the paired test significant, Welch's statistic below 1",
    bound=0,
    wrong=([[90.0] * 5, [80.0] * 5], [[1.0, 2, 3, 4, 5], [1.0, 2, 3, 4, 5]]),
)
def pairing(answer: Any) -> float:
    """0 where the paired t exceeds 2.78 (5 per cent, 4 degrees) and Welch's is below 1; else 1."""
    first, second = value(answer, (2, 5))
    apart = first - second
    paired = apart.mean() / (apart.std() / 5**0.5 + 1e-12)
    welch = apart.mean() / ((first.var() + second.var()) / 5).sqrt().clamp(min=1e-12)
    return float(not (float(paired) > 2.78 and abs(float(welch)) < 1))
