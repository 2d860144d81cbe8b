"""Exercises of chapters 6.3 and 6.4: two networks that chase each other, thresholds, chance."""

import itertools
import math
from typing import Any

import pandas as pd
import torch

from clcore import _paths
from clcore.book.exercises.judge import ExerciseError, exercise, function, numeric, scalar
from clcore.theory.sparse import linear_noncontrastive as ln
from clcore.theory.sparse import proportional_update as pu
from clcore.theory.sparse import srelu_dynamics as srelu


@exercise(
    "ex-dynamics-linear-1",
    "a function of lambda and c: the coefficient of the online start over that of the target",
    bound=1e-8,
    wrong=(lambda lam, c: 1.0, lambda lam, c: lam**0.5, lambda lam, c: lam**0.5 + c / 2),
)
def taking_turns(answer: Any) -> float:
    """Worst relative gap to five hundred rounds in which the two nets, numbers here, take turns."""
    ratio, gaps = function(answer), []
    for lam, c in ((0.9, 0.1), (0.8, 0.3), (0.95, 0.02)):
        ends = []
        for online, target in ((1.0, 0.0), (0.0, 1.0)):
            one, two = online, target
            for _ in range(500):
                one = lam * one + c * two
                two = lam * two + c * one
            ends.append(one)
        gaps.append(abs(scalar(ratio(lam, c)) * ends[1] / ends[0] - 1))
    return max(gaps)


@numeric(
    "ex-dynamics-linear-2",
    "the max-cosine that all columns converge to, a number",
    wrong=(1.0, 1 / 20),
    varies={"d": ("for $d=20$", (12, 16, 30, 40, 50))},
)
def without_signs(d: int = 20) -> float:
    """The cosine of the top eigenvector of the latents' moment with a unit vector."""
    moment = ln.latent_moment(d, 0.2, "binary")
    top = torch.linalg.eigh(torch.as_tensor(moment, dtype=torch.float64)).eigenvectors[..., -1]
    return float(top.reshape(-1).abs().max())


@exercise(
    "ex-dynamics-warm-1",
    "a function of alpha and kappa: the bias above which the identity no longer attracts",
    bound=5e-3,
    wrong=(lambda a, k: 1 - a * k, lambda a, k: 1 - k, lambda a, k: a * a * k),
)
def threshold(answer: Any) -> float:
    """How far from 1 the factor of small errors in a half-round is at that bias, from exact sums
    over all latents and masks."""
    bias, gaps = function(answer), []
    for alpha, kappa in ((0.9, 0.3), (0.8, 0.4)):
        b = scalar(bias(alpha, kappa))
        if not 0 < b < 1:
            raise ExerciseError(f"expected a bias between 0 and 1, got {b:.3g}")
        shake = torch.tensor([[1.0, -0.7], [0.4, 1.0]], dtype=torch.float64) * 1e-4
        start = (torch.eye(2, dtype=torch.float64) + shake * (1 - torch.eye(2)))[None]
        level = torch.full((1, 2), b, dtype=torch.float64)
        chances = torch.tensor([kappa, alpha], dtype=torch.float64)
        slope = srelu.exact_slope(srelu.views(*srelu.latents(chances[0], 2), chances[1]))
        rate = torch.tensor([100.0], dtype=torch.float64)
        path = srelu.alternate(start, start, level, level, slope, rate, 10, 30)
        size = srelu.off_diagonal(path[1:, 0]).abs().amax((-3, -2, -1))
        gaps.append(abs(float((size[9] / size[1]) ** (1 / 8)) - 1))
    return max(gaps)


@exercise(
    "ex-dynamics-warm-2",
    "a function of a, c and d: the factor by which errors shrink in a step near the limit",
    bound=1e-4,
    wrong=(
        lambda a, c, d: 1 / math.sqrt(1 + (1 + (d - 1) * a * a) * c * c),
        lambda a, c, d: 1 / (1 + c),
    ),
)
def near_the_limit(answer: Any) -> float:
    """Worst gap to the factor of the last of sixty steps, in four settings."""
    factor, gaps = function(answer), []
    for a, c, d in ((0.5, 0.3, 10), (0.2, 0.2, 5), (1.0, 0.1, 4), (0.7, 0.15, 8)):
        g = pu.direction(torch.tensor([a], dtype=torch.float64), d)
        v = torch.zeros(1, d, dtype=torch.float64)
        v[0, 0] = 1.0
        path = pu.iterate(v, g, torch.full((45, 1), c, dtype=torch.float64))
        apart = (path[:, 0, 1] - a * path[:, 0, 0]).abs()
        gaps.append(abs(scalar(factor(a, c, d)) - float(apart[45] / apart[44])))
    return max(gaps)


@exercise(
    "ex-dynamics-loss",
    "one of the words 'warm', 'predictor' and 'both'",
    bound=0,
    wrong=("predictor", "both"),
)
def lowest_loss(answer: Any) -> float:
    """0 where the word names the net of the recorded runs whose mean loss at the end is lowest."""
    words = {"warm-0.14": "warm", "pred-random": "predictor", "pred-warm": "both"}
    if answer not in words.values():
        raise ExerciseError(f"expected one of {', '.join(words.values())}, got {answer!r}")
    runs = pd.read_csv(_paths.root() / "data" / "recorded" / "6-dynamics" / "runs.csv")
    last = runs[runs.panel.isin(words) & (runs.epoch == runs.epoch.max())]
    return float(words[str(last.groupby("panel").loss.mean().idxmin())] != answer)


@exercise(
    "ex-dynamics-chance",
    "a function of d: the chance that d rows choose d different latents",
    bound=1e-9,
    wrong=(lambda d: 1 / math.factorial(d), lambda d: 1 / d, lambda d: d**-d),
)
def by_chance(answer: Any) -> float:
    """Worst relative gap to counting all choices, for up to six rows."""
    chance, gaps = function(answer), []
    for d in range(2, 7):
        choices = list(itertools.product(range(d), repeat=d))
        truth = sum(len(set(choice)) == d for choice in choices) / len(choices)
        gaps.append(abs(scalar(chance(d)) / truth - 1))
    return max(gaps)
