"""Exercises of chapters 4.4 and 4.5: latent trees, lucky nodes, what hidden groups learn."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linprog

from clcore import _paths, random
from clcore.book.exercises.judge import exercise, function, keyed, numeric, scalar, value
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import lucky_nodes, tree_nets


@exercise(
    "ex-tree-1",
    "a function of the path's polarity and the root's: the size o_mu",
    bound=1e-9,
    wrong=(
        lambda path, root: path**2 * (1 - path**2),
        lambda path, root: path * (1 - root**2),
        lambda path, root: path**2 * (1 - root) ** 2,
    ),
)
def what_survives(answer: Any) -> float:
    """Worst gap to the exact covariance over objects in random trees and nets, at a grandchild."""
    size, tree, draws = function(answer), lt.complete(3), 8
    keys = random.split(random.key(keyed(43)), draws)
    rho = random.uniform(keys, (len(tree.parents) - 1,), -1, 1, torch.float64)
    roots = torch.linspace(-0.9, 0.8, draws, dtype=torch.float64)
    model = lt.binary(tree, rho, roots)
    groups = tree_nets.laws(model, tree_nets.net(keys, tree, units=3))
    a = tree_nets.child_selectivity(model, groups, 3)
    means = tree_nets.root_means(model, groups, 3)
    outer = a[:, :, None] * a[:, None, :]
    kept = tree_nets.root_covariance(model.prior, means)
    measured = (kept * outer).sum((1, 2)) / (outer**2).sum((1, 2))
    path = rho[:, 0] * rho[:, 2]
    return max(
        abs(scalar(size(float(p), float(r))) - float(m))
        for p, r, m in zip(path, roots, measured, strict=True)
    )


@numeric(
    "ex-tree-2",
    "the smallest number of equal units per latent at which the bound fails, a whole number",
    within=0,
    wrong=(8, 3, 10),
)
def copies() -> int:
    """The first n at which the mean over all states of two fair coins exceeds the bound."""
    for n in range(1, 50):
        weight = (3 / (2 * n)) ** 0.5
        coins = itertools.product((0, 1), repeat=2)
        mean = np.mean([max(0.0, sum([weight * (one - two)] * n)) for one, two in coins])
        selectivity = 0.5  # every unit shows 0 or 1, and its latent knows nothing of the parent
        bound = (3 * np.mean([selectivity**2] * (2 * n))) ** 0.5
        if mean > bound + 1e-9:
            break
    return n


@exercise(
    "ex-hltm-nodes",
    "a function of c and gamma: the corrected number of nodes over the printed one",
    bound=1e-6,
    wrong=(
        lambda c, g: np.exp(c * g**2 / (1 - g**2)),
        lambda c, g: np.exp(c / 2 * g**2),
        lambda c, g: np.exp(-c / 2 * g**2 / (1 - g**2)),
    ),
)
def wrong_exponent(answer: Any) -> float:
    """Worst relative gap to the ratio of the two numbers of nodes, each computed in full."""
    ratio, gaps = function(answer), []
    for c, gamma in ((9.0, 0.2), (9.0, 0.8), (2.0, 0.5), (4.0, 0.05)):
        at = torch.tensor([c, gamma], dtype=torch.float64)
        printed, right = (float(lucky_nodes.nodes_asked(*at, 0.5, p)) for p in (True, False))
        gaps.append(abs(scalar(ratio(c, gamma)) * printed / right - 1))
    return max(gaps)


@exercise(
    "ex-hltm-few",
    "a function of n: the level c from which on no node is ever lucky",
    bound=1e-6,
    wrong=(lambda n: 3 * n, lambda n: n / 2, lambda n: 6 * n),
)
def too_few(answer: Any) -> float:
    """Worst relative gap to the level of the largest mean, found by linear programming."""
    level, gaps = function(answer), []
    for n in (2, 4, 10, 16):
        ones = np.repeat([1.0, 0.0], n // 2)
        edge = (3 / n) ** 0.5
        best = linprog(-ones, A_ub=[1 - ones], b_ub=[0.0], bounds=[(-edge, edge)] * n)
        gaps.append(abs(scalar(level(n)) * ones.sum() / n / best.fun**2 - 1))
    return max(gaps)


@exercise(
    "ex-hltm-depth",
    "a function of the polarity: the most edges at which a leaf's guess is right 3 times out of 4",
    bound=0,
    wrong=(lambda rho: 1, lambda rho: int(np.log(0.75) / np.log(rho)), lambda rho: 1 / (1 - rho)),
)
def how_deep(answer: Any) -> float:
    """Worst gap to a count of edges by which the transition matrix is multiplied by itself."""
    deepest, gaps = function(answer), []
    for rho in (0.45, 0.6, 0.8, 0.9, 0.97):
        step = np.array([[1 + rho, 1 - rho], [1 - rho, 1 + rho]]) / 2
        edges, down = 0, step
        while down[0, 0] >= 0.75:
            edges, down = edges + 1, down @ step
        gaps.append(abs(scalar(deepest(rho)) - edges))
    return max(gaps)


@exercise(
    "ex-trained-ceiling",
    "a function of two polarities: the largest correlation of a latent with a sum of two leaves",
    bound=1e-9,
    wrong=(
        lambda a, b: max(abs(a), abs(b)),
        lambda a, b: (a**2 + b**2 - a**2 * b**2) ** 0.5,
        lambda a, b: (a**2 + b**2 - 2 * a**2 * b**2) / (1 - a**2 * b**2),
    ),
)
def ceiling(answer: Any) -> float:
    """Worst gap to a least-squares fit over all states of the latent and its leaves."""
    told, gaps = function(answer), []
    states = np.array(list(itertools.product((-1, 1), repeat=3)))
    for rho in ((0.7, 0.7), (0.9, 0.75), (0.8, -0.3), (0.05, 0.95)):
        chance = np.prod(1 + states[:, :1] * states[:, 1:] * rho, axis=1) / 8
        root = chance[:, None] ** 0.5
        fit = np.linalg.lstsq(root * states[:, 1:], root[:, 0] * states[:, 0], rcond=None)[0]
        best = float(((states[:, 1:] @ fit) ** 2 * chance).sum() ** 0.5)
        gaps.append(abs(scalar(told(*rho)) - best))
    return max(gaps)


@numeric(
    "ex-trained-chance",
    "the mean number of the 90 cells that differ by more than two standard errors",
    wrong=(4.5, 90 * 0.02275, 90 * 0.3173),
)
def by_chance() -> float:
    """The mass of a normal density beyond two deviations, by quadrature, times 90."""
    at = np.linspace(-2, 2, 4001)
    inside = np.trapezoid(np.exp(-(at**2) / 2), at) / (2 * np.pi) ** 0.5
    return float(90 * (1 - inside))


@exercise(
    "ex-trained-scale",
    "a function of a and the numbers of layers below and above: the factors of both operators",
    bound=1e-9,
    wrong=(
        lambda a, below, above: (a ** (below + above), 1 / a),
        lambda a, below, above: (a ** (2 * (below + 1 + above)), a**-2),
        lambda a, below, above: (a ** (2 * (below + above)), 1.0),
        lambda a, below, above: (a ** (2 * above), a**-2),
    ),
)
def larger_weights(answer: Any) -> float:
    """Worst relative gap to the operators of random nets before and after, by autograd."""
    told, gaps = function(answer), []
    draw = torch.Generator().manual_seed(keyed(44))
    data = torch.randn(6, 4, generator=draw, dtype=torch.float64)
    for a, below, above in ((2.0, 0, 1), (0.5, 1, 2), (3.0, 2, 1)):
        weights = torch.randn(below + 1 + above, 4, 4, generator=draw, dtype=torch.float64)
        before, after = (_operators(scale * weights, data, below) for scale in (1.0, a))
        factors = value(told(a, below, above), (2,))
        gaps.append(float((factors * before / after - 1).abs().max()))
    return max(gaps)


def _operators(weights: torch.Tensor, data: torch.Tensor, below: int) -> torch.Tensor:
    """Norms of the covariance operators with the Jacobian of the output and of its direction."""

    def output(pre: torch.Tensor) -> torch.Tensor:
        for layer in weights[below + 1 :]:
            pre = layer @ pre.relu()
        return pre

    def direction(pre: torch.Tensor) -> torch.Tensor:
        return output(pre) / output(pre).norm()

    norms = []
    for end in (output, direction):
        factors = []
        for x in data:
            for layer in weights[:below]:
                x = (layer @ x).relu()
            jacobian = torch.func.jacrev(end)(weights[below] @ x)
            factors.append(torch.kron(x, jacobian.T.contiguous()).ravel())
        norms.append(torch.stack(factors).T.cov(correction=0).norm())
    return torch.stack(norms)


@numeric(
    "ex-hltm-bet",
    "the share of bets won over all groups and runs, a number",
    wrong=(0.1, 0.5, 1.0),
)
def bets() -> float:
    """The share in the recorded runs."""
    path = _paths.root() / "data" / "recorded" / "4-hltm" / "lucky.csv"
    runs = pd.read_csv(path).sort_values(["latent", "low", "seed", "node"])
    first, last = (
        runs[stage].abs().to_numpy().reshape(-1, runs.node.nunique())
        for stage in ("initial", "converged")
    )
    return float(np.mean(first.argmax(1) == last.argmax(1)))
