"""Regularisers of the min player (acl Sec. 6.1): concave, one optimum, closed forms, hard pairs.

The closed forms of `clcore.losses.minplayer` meet generic solvers that are given only costs
and regulariser.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Trial, check, typical
from clcore.losses import contrast, minplayer
from clcore.reference import Array, absolute, relative, tensors


@check("acl/num3")
def num3(t: Trial) -> None:
    """The min player has a unique optimum (Sec. 4).

    Given   the regularisers r_H, r_gamma, r_s of Sec. 6.1 (tau = 1/2, gamma in {1.5, 2, 3}; see
            acl/def6) and costs of random batches, N = 8.
    Claim   (1) The min player's optimum is unique: 50 random starts of a solver end at one point.
            (2) R is strongly concave: -R'' is at least 2 tau, 2 tau gamma, tau for r_H, r_gamma,
            r_s, by central differences of r'.
    Fails   (1) for R = 0 with tied costs, which has many minimisers; (2) for an r that is concave
            but flat below 1/7, and for -r_s.
    """
    n, tau = 8, 0.5
    count = min(t.draws, 20)
    z, z2 = ref.views(t.rng, count, n, 3)
    inter, intra = ref.distances(z, z2)
    costs = np.broadcast_to(ref.off(ref.costs(inter, intra))[:, 0], (50, count, n - 1))
    start = ref.normalised(t.rng.dirichlet(np.ones(n - 1), (50, count)) + 1e-4)

    def spread(ends: Array) -> Array:
        return (ends.max(0) - ends.min(0)).max(-1)

    # (1) How far apart the ends of the 50 starts are.
    unique = t.part("unique", 1e-6, draws=count)
    unique.add(*(spread(ref.minimiser(name, costs, tau, start)) for name in ref.REGULARISERS))
    tied = np.round(costs)  # integer costs tie often; the first two share the least
    tied = np.where(np.arange(n - 1) < 2, tied.min(-1, keepdims=True), tied)
    unique.breaks("R = 0, tied costs", spread(ref.projected(tied, 0.0, start)))

    points = t.rng.dirichlet(np.ones(n - 1), max(t.draws, 1000))

    def curvature(slope: Callable, modulus: float) -> float:
        """-R is separable: its least Hessian eigenvalue is its least second derivative."""
        h = 1e-4 * points
        return float(((slope(points - h) - slope(points + h)) / (2 * h)).min() / modulus)

    # (2) The least of -r'' over the modulus that r should have.
    moduli = {"entropy": 2 * tau, "square": tau}
    moduli |= {f"inverse, gamma = {g:g}": 2 * tau * g for g in ref.GAMMAS}
    strongly = t.part("strongly concave", 1 - 1e-6, ">=", draws=len(points))
    for name, modulus in moduli.items():
        strongly.add(curvature(partial(ref.REGULARISERS[name][1], t=tau), modulus))
    flat = curvature(lambda a: -tau * np.maximum(a - 1 / 7, 0), tau)
    strongly.breaks("r flat below 1/7", flat)
    strongly.breaks("r_s of opposite sign", curvature(lambda a: tau * a, tau))


@check("acl/def6")
def def6(t: Trial) -> None:
    """Entropy, inverse and square regularisers of the min player (Sec. 6.1).

    Given   r_H = -2 tau a log a, r_gamma = 2 tau a^(1 - gamma)/(1 - gamma), r_s = -tau a^2/2;
            gamma in {1.5, 2, 3}, tau in {0.1, 0.5} (r_s 0.5, 5); weights >= 0 with row sums 1;
            costs c = 2 (d_ij - d_i) of random batches, N = 8.
    Claim   All are concave (second differences on (0, 1]), and the library's minimisers of c.a
            - R(a), in closed form or by bisection, are those of generic solvers that are given
            only costs and r.
    Fails   for a convex r; for r without its constant 2 or 1/2; with the diagonal among the pairs
            (entropy).
    """
    # r is concave: second differences on (0, 1].
    grid = np.linspace(0.01, 1, 400)
    concave = t.part("concave", -1e-9)
    for tau in (0.1, 0.5, 5.0):
        concave.add(*(np.diff(r(grid, tau), 2).max() for r, _, _ in ref.REGULARISERS.values()))
    concave.breaks("a convex r", np.diff(grid**2, 2))

    # The library's minimisers against Newton or projected gradient, and SLSQP for a few rows.
    samples, draws = 8, min(t.draws, 200)  # the generic solvers are slow
    z, z2 = ref.views(t.rng, draws, samples, 3)
    costs = ref.costs(*ref.distances(z, z2))
    c, (t_costs,) = ref.off(costs), tensors(costs)
    start = ref.normalised(t.rng.dirichlet(np.ones(samples - 1), (draws, samples)) + 1e-3)
    for kind, cases in MINIMISERS.items():
        part = t.part(kind, 1e-6, controls=typical, draws=draws)
        for name, tau, closed in cases:
            ours = ref.off(closed(t_costs, tau).numpy())
            generic = ref.minimiser(name, c, tau, start, steps=100)
            part.add(absolute(ours, generic))
            for k in range(min(draws, 2)):
                row = ref.slsqp(name, c[k, 0], 1.0, tau, np.ones(samples - 1))
                part.add(absolute(ours[k, :1], row[None]))
            scaled = closed(t_costs, 2 * tau if kind == "square" else tau / 2)
            part.breaks("r without its factor", absolute(ref.off(scaled.numpy()), generic))
            if kind == "entropy":
                whole = ref.off(ref.normalised(np.exp(-costs / (2 * tau))))
                part.breaks("diagonal included", absolute(whole, generic))


MINIMISERS: dict[str, list] = {
    "entropy": [("entropy", tau, minplayer.entropy_weights) for tau in (0.1, 0.5)],
    "inverse": [
        (f"inverse, gamma = {gamma:g}", tau, partial(minplayer.inverse_weights, gamma=gamma))
        for gamma in ref.GAMMAS
        for tau in (0.1, 0.5)
    ],
    "square": [("square", tau, minplayer.square_weights) for tau in (0.5, 5.0)],
}
"""(name in `ref.REGULARISERS`, tau, weights of the library), by kind."""


@check("acl/num5")
def num5(t: Trial) -> None:
    """Pairwise importance set directly from powers of the distances (Sec. 6.1).

    Given   random views, N = 8, tau = 1/2.
    Claim   alpha_ij = exp(-d_ij^p/tau) / sum_j exp(-d_ij^p/tau), as the library computes it. (1)
            At p = 1 it is Eq. 6, the softmax of -d_ij/tau. At (2) p = 2 and (3) p = 1.5 it is the
            formula written out; at p = 2 rows sum to 1.
    Fails   (1) for p = 1.5 and 2; (2) without normalisation, or with d^2 not divided by tau; (3)
            for p = 2.
    """
    tau = 0.5
    z, z2 = ref.views(t.rng, t.draws, 8, 3)
    inter, _ = ref.distances(z, z2)
    (t_inter,) = tensors(inter)
    eq6, ones = ref.softmax(inter, tau), np.ones((t.draws, 8))
    direct = {p: minplayer.direct_weights(t_inter, p, tau) for p in (1.0, 1.5, 2.0)}

    # (1) p = 1 against the softmax.
    first = t.part("p = 1", 1e-12).add(relative(direct[1.0], eq6))
    for p in (1.5, 2.0):
        first.breaks(f"p = {p}", relative(direct[p], eq6))

    # (2) p = 2 against the formula.
    unnormalised = np.exp(-(inter**2) / tau) * ~np.eye(8, dtype=bool)
    formula = ref.normalised(unnormalised)
    second = t.part("p = 2", 1e-12, draws=t.draws)
    second.add(relative(direct[2.0], formula), absolute(direct[2.0].sum(-1), ones))
    second.breaks("not normalised", absolute(unnormalised.sum(-1), ones))
    undivided = minplayer.direct_weights(t_inter, 2.0, 1.0)
    second.breaks("d^2 not divided by tau", relative(undivided, formula))

    # (3) p = 1.5 against the formula.
    between = t.part("p = 1.5", 1e-12, draws=t.draws)
    formula = ref.normalised(np.exp(-(inter**1.5) / tau) * ~np.eye(8, dtype=bool))
    between.add(relative(direct[1.5], formula))
    between.breaks("p = 2", relative(direct[2.0], formula))


@check("acl/num6")
def num6(t: Trial) -> None:
    """Strong performance goes with an infinite regulariser slope at zero (Sec. 6.1).

    Given   r_H, r_gamma and r_s at tau = 1/2; for (2) batches of 64 unit vectors and the paper's
            constants (gamma = 2; tau = 5 for r_s).
    Claim   The analytic half: (1) r'(a) has no bound as a -> 0 for r_H and r_gamma: each tenth of a
            adds 2 tau log 10 or more; (2) so no weight of their optimum is exactly 0.
    Fails   (1), (2) for r_s: a bounded slope, and optimal weights of exactly 0.

    That performance goes with the slope is for runs: on digits, in the chapter, and acl/tab2a's.
    """
    tau, n, count = 0.5, 64, min(t.draws, 20)

    # (1) What r' gains from a to a/10, a = 10^-3..10^-98.
    weights = 10.0 ** -np.arange(3, 100)
    steep = t.part("slope at 0", 2 * tau * np.log(10) * (1 - 1e-9), ">=")
    for name, (_, slope, _) in ref.REGULARISERS.items():
        growth = np.diff(slope(weights, tau)).min()
        if name == "square":
            steep.breaks("r_s", growth)
        else:
            steep.add(growth)

    z, z2 = ref.views(t.rng, count, n, 16, unit=True)
    (costs,) = tensors(2 * (ref.distances(z, z2)[0]))  # d_i moves no minimiser: it is left out

    def zeros(alpha: torch.Tensor) -> float:
        return float((ref.off(alpha.numpy()) == 0).mean())

    # (2) The share of optimal weights that are 0, by the library.
    ignored = t.part("no pair ignored", 0.0, draws=count)
    ignored.add(zeros(minplayer.entropy_weights(costs, tau)))
    ignored.add(zeros(minplayer.inverse_weights(costs, tau, 2.0)))
    ignored.breaks("r_s (tau = 5)", zeros(minplayer.square_weights(costs, 5.0)))


@check("acl/num18")
def num18(t: Trial) -> None:
    """Contrastive losses put more weight on hard negative pairs (Sec. 3.2, after Corollary 1).

    Given   InfoNCE at eps = 0, tau in {1, 0.5, 0.1}; random batches, N = 16.
    Claim   (1) The min player's minimiser, by a Newton solver, orders each row by distance, closest
            first, without an exception, and (2) is the loss's alpha. (3) The nearest pair's share
            grows as tau falls. (4) log alpha_ij is no a_i + b_j: pairs count, not samples alone.
    Fails   (1) for linear psi, whose weights are equal; (2) for another temperature; (3) for tau
            rising, or psi = x/tau; (4) for weights a_i b_j of hard samples. Not across rows: each
            sums to 1, and of two pairs of different anchors the closer one may weigh less (the
            page says how often).
    """
    n, taus = 16, (1.0, 0.5, 0.1)
    z, z2 = ref.views(t.rng, t.draws, n, 3)
    inter, _ = ref.distances(z, z2)

    def importance(pair: losses.Pair) -> Array:
        return contrast.pairwise_importance(*tensors(z, z2), pair).numpy()

    # (1), (2) The min player's weights, by a solver.
    alphas = [importance(losses.infonce_pair(tau, 0.0)) for tau in taus]
    _by_solver(t, inter, alphas, taus, importance(losses.linear_pair()))

    def rise(weights: list[Array]) -> Array:
        """[draws]: the least rise, over rows and steps of the list, of the nearest pair's share."""
        shares = [ref.normalised(ref.off(w)).max(-1) for w in weights]
        return np.min([(later - now).min(-1) for now, later in pairwise(shares)], 0)

    # (3) Each row's largest share at one temperature, and at the next lower one.
    sharper = t.part("sharper as tau falls", 1e-6, ">=").add(rise(alphas))
    linear = [importance(losses.linear_pair(1.0, 1 / tau)) for tau in taus]
    sharper.breaks("psi = x/tau", rise(linear)).breaks("tau rising", rise(alphas[::-1]))

    rows, columns = np.nonzero(~np.eye(n, dtype=bool))
    design = np.concatenate([np.eye(n)[rows], np.eye(n)[columns]], -1)
    unexplained = np.eye(len(rows)) - design @ np.linalg.pinv(design)

    def residual(alpha: Array) -> Array:
        """Root mean square of log alpha_ij that no a_i + b_j explains."""
        return np.sqrt(((np.log(alpha[:, rows, columns]) @ unexplained) ** 2).mean(-1))

    # (4) What the best a_i + b_j, by least squares, leaves of log alpha_ij.
    hardness = np.exp(-ref.off(inter)).sum(-1)
    pairs = t.part("pairs, not samples", 1e-3, ">=", draws=t.draws)
    pairs.add(*(residual(alpha) for alpha in alphas))
    pairs.breaks("hard samples a_i b_j", residual(hardness[:, :, None] * hardness[:, None, :]))


def _across(alpha: Array, inter: Array) -> float:
    """How often, of two pairs of different anchors, the closer one weighs less: a share."""
    anchor = np.repeat(np.arange(inter.shape[-1]), inter.shape[-1] - 1)
    apart, wrong = anchor[:, None] != anchor, []
    for a, d in zip(ref.off(alpha), ref.off(inter), strict=True):
        a, d = a.ravel(), d.ravel()
        closer = (d[:, None] < d - 1e-12) & apart
        wrong.append((a[:, None] < a * (1 - 1e-9))[closer].mean())
    return float(np.mean(wrong))


def _by_solver(
    t: Trial, inter: Array, alphas: list[Array], taus: tuple[float, ...], equal: Array
) -> None:
    """The min player's own answer, by a solver with costs and constraint but no softmax."""
    few, n = min(t.draws, 100), inter.shape[-1]
    costs = ref.off(2 * inter[:few])

    def solved(tau: float) -> Array:
        full = np.zeros((few, n, n))
        rows = ref.newton("entropy", costs, np.ones((few, n)), tau)
        full[:, ~np.eye(n, dtype=bool)] = rows.reshape(few, -1)
        return full

    found = [solved(tau) for tau in taus]

    # (1) Neighbours in a row's order of distance whose weights do not fall: a count.
    order = t.part("order", 0.0, draws=few).says(rows=len(taus) * few * n)
    order.add(sum(ref.disorder(alpha, inter[:few]) for alpha in found))
    order.breaks("linear psi", ref.disorder(equal, inter))
    shares = zip(taus, (_across(alpha, inter[:few]) for alpha in found), strict=True)
    order.says(across=", ".join(f"{share:.1%} ($\\tau={tau:g}$)" for tau, share in shares))
    # The example of the page: four points, and the weights of a close and of a far pair.
    spots = np.array([[[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [3.0, 0.0]]])
    apart, _ = ref.distances(spots, spots)
    weights = ref.softmax(apart, 0.5)
    order.says(close=weights[0, 1, 2], lone=weights[0, 3, 1], far=apart[0, 3, 1])

    # (2) The solver's weights against the loss's.
    same = t.part("the loss's weights are the min player's", 1e-8, draws=few)
    same.add(*(absolute(own, loss[:few]) for own, loss in zip(found, alphas, strict=True)))
    same.breaks("another temperature", *(absolute(found[0], loss[:few]) for loss in alphas[1:]))
