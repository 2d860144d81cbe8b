"""The min player: Theorem 2, Lemma 6, Corollary 1 and the regularisers (acl Sec. 6.1, App. A.1).

Its closed forms in `clcore.losses.minplayer` meet generic solvers that know only costs and
regulariser.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast, minplayer
from clcore.reference import Array, absolute, best, relative, tensors, worst


def _spread(c: Array, weights: Array, tau: float) -> Array:
    """[draws]: spread over j of the slope c_ij + 2 tau (log alpha_ij + 1) of E - R_H."""
    force = c + 2 * tau * (np.log(weights) + 1)
    return (force.max(-1) - force.min(-1)).max(-1)


def _objective(c: Array, weights: Array, tau: float) -> Array:
    """E - R_H a row: [..., n]."""
    return (c * weights + 2 * tau * weights * np.log(weights)).sum(-1)


def _excess(rng: np.random.Generator, c: Array, alpha: Array, tau: float) -> Array:
    """[draws]: the best of 1000 competitors of alpha, [draws, n, n - 1], less alpha, over its mass.

    Competitors: alpha with entries changed at random by 0.1% to a factor e, and points anywhere;
    all at the row masses of alpha. Not below 0 where alpha is the minimiser.
    """
    mass = alpha.sum(-1, keepdims=True)
    near = [
        alpha * np.exp(s * rng.standard_normal((200, *alpha.shape))) for s in (1e-3, 1e-2, 0.1, 1)
    ]
    anywhere = rng.dirichlet(np.ones(alpha.shape[-1]), (200, *alpha.shape[:-1])) + 1e-12
    others = mass * ref.normalised(np.concatenate([*near, anywhere]))
    gain = (_objective(c, others, tau) - _objective(c, alpha, tau)).sum(-1)
    return gain.min(0) / mass.sum((-1, -2))


def thm2(draws: int, seed: int) -> Iterator[Check]:
    """For psi = exp(x/tau), alpha of Eq. 4 minimises E_alpha - R_H over its own row sums.

    Eq. 4 by complex steps against a Newton solver (all draws), SLSQP (a few rows) and competitors
    of the same row sums. Controls: psi = sigmoid(x/tau), entropy without the factor 2, 1/tau left
    out of the row sums, alpha off by 1%.
    """
    rng, n, taus = ref.generator("thm2", seed), 6, (0.2, 0.5, 1.0)
    solved, kkt, slsqp = [], [], []
    excess: dict[str, list[Array]] = defaultdict(list)
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, len(taus))
    few = min(count, 10)  # each meets a thousand competitors
    for tau in taus:
        z, z2 = ref.views(rng, count, n, 3)
        inter, intra = ref.distances(z, z2)
        c = ref.off(ref.costs(inter, intra))
        for phi in ref.phis(tau):
            alpha, wrong = (
                ref.off(ref.importance(inter, intra, phi, psi))
                for psi in (
                    lambda x, t=tau: np.exp(x / t),
                    lambda x, t=tau: 1 / (1 + np.exp(-x / t)),
                )
            )
            xi = np.exp(-c / (2 * tau)).sum(-1)
            mass = xi * ref.slope(phi, xi) / tau
            start = rng.dirichlet(np.ones(n - 1), xi.shape) + 1e-3
            solved.append(relative(ref.newton("entropy", c, mass, tau, start), alpha))
            broken["R_H halved"].append(
                relative(ref.newton("entropy", c, mass, tau / 2, start), alpha)
            )
            if tau != 1:
                broken["row sums times tau"].append(
                    relative(ref.newton("entropy", c, mass * tau, tau, start), alpha)
                )
            # psi = sigmoid, given its own row sums: the best the entropy can do still differs.
            broken["psi = sigmoid"].append(
                relative(ref.newton("entropy", c, wrong.sum(-1), tau, start), wrong)
            )
            kkt.append(_spread(c, alpha, tau))
            broken["kkt"].append(_spread(c, wrong, tau))
            rank = alpha.argsort(-1).argsort(-1)
            off = alpha * (1 + 0.01 * (-1.0) ** rank)  # the two heaviest move apart
            off = off * (mass / off.sum(-1))[..., None]
            for name, weights in (("Eq. 4", alpha), ("1% off", off), ("psi = sigmoid", wrong)):
                excess[name].append(_excess(rng, c[:few], weights[:few], tau))
            for k in range(min(count, 2)):
                row = ref.slsqp("entropy", c[k, 0], mass[k, 0], tau, rng.random(n - 1) + 0.1)
                slsqp.append(relative(row[None], alpha[k, :1]))
    check = partial(Check, "acl/thm2", draws=count * len(taus))
    phis = r"$\phi$ in {$\tau\log(\epsilon+x)$, $\log(1+x)$, $x^2$, $\sqrt x$}."
    yield check(
        worst(*solved, *slsqp),
        1e-5,
        {k: ref.typical(*broken[k]) for k in ("psi = sigmoid", "R_H halved", "row sums times tau")},
        part="minimiser",
        note=phis,
    )
    yield check(
        worst(*kkt),
        1e-8,
        {"psi = sigmoid": ref.typical(*broken["kkt"])},
        part="stationarity",
        note=r"Spread over $j$ of $c_{ij}+2\tau(\log\alpha_{ij}+1)$.",
    )
    yield check(
        best(*excess.pop("Eq. 4")),
        -1e-12,
        {
            name: worst(*(np.median(v, keepdims=True) for v in values))
            for name, values in excess.items()
        },
        draws=few * len(taus),
        relation=">=",
        part="lowest",
        note=r"How far the best of 1000 feasible competitors, many of them near, lies above "
        r"$\alpha$, per unit of mass. Of a control, the median over draws, the largest of any "
        r"$\tau$ and $\phi$.",
    )


def lem6(draws: int, seed: int) -> Iterator[Check]:
    """min c.p - tau H(p) at row sum x0 phi'(x0)/tau is exp(-c/tau) phi'(x0)/tau.

    Theorem 2 is the lemma at c_ij = 2 (d_ij - d_i), 2 tau and 2 phi, which gives Eq. 30.
    Controls: 2 tau in the exponent, 1/tau left out, phi' at another point; tau or phi not doubled.
    """
    check = partial(Check, "acl/lem6", draws=draws)
    rng = ref.generator("lem6", seed)
    yield from _lemma(check, rng, draws)
    yield from _application(check, rng, draws)


def _lemma(check: Callable[..., Check], rng: np.random.Generator, draws: int) -> Iterator[Check]:
    """The lemma itself; r_H carries 2 tau, so the lemma's tau is half of it."""
    errors: list[Array] = []
    names = ("2 tau in the exponent", "no 1/tau", "phi' at x0/2")
    broken: dict[str, list[Array]] = defaultdict(list)
    sizes = (2, 3, 5, 10)
    count = ref.share(draws, len(sizes))
    for n in sizes:
        c = rng.standard_normal((count, n))
        for tau in (0.2, 0.5, 1.7):
            slopes = (lambda x, t=tau: t / (0.3 + x), lambda x: 1 / (1 + x), lambda x: 2 * x)
            for k, slope in enumerate(slopes):
                x0 = np.exp(-c / tau).sum(-1)
                mass = x0 * slope(x0) / tau
                closed = np.exp(-c / tau) * slope(x0)[:, None] / tau
                start = rng.dirichlet(np.ones(n), count) + 1e-3
                solved = ref.newton("entropy", c, mass, tau / 2, start)
                errors.append(relative(solved, closed))
                wide = np.exp(-c / (2 * tau))
                broken[names[0]].append(relative(wide * slope(wide.sum(-1))[:, None] / tau, solved))
                broken[names[1]].append(relative(closed * tau, solved))
                broken[names[2]].append(
                    relative(np.exp(-c / tau) * slope(x0 / 2)[:, None] / tau, solved)
                )
                if k == 0:
                    row = ref.slsqp("entropy", c[0], mass[0], tau / 2, start[0])
                    errors.append(relative(row[None], closed[:1]))
    yield check(
        worst(*errors),
        1e-6,
        ref.pooled(broken),
        draws=count * len(sizes),
        part="lemma",
        note="A Newton solver on every draw, SLSQP on some. (Eqs. 99 and 100 give the multiplier "
        "opposite signs; nothing depends on it.)",
    )


def _application(
    check: Callable[..., Check], rng: np.random.Generator, draws: int
) -> Iterator[Check]:
    """The lemma with Theorem 2's costs: its weights against Eq. 4, its row sums against the set A.

    phi is free in the lemma, so the 2 of 2 tau H can go into tau if phi takes one as well.
    """
    z, z2 = ref.views(rng, draws, 6, 3)
    inter, intra = ref.distances(z, z2)
    c, tau = ref.off(ref.costs(inter, intra)), 0.7
    errors: list[Array] = []
    broken: dict[str, list[Array]] = defaultdict(list)

    for phi in ref.phis(tau):
        alpha = ref.off(ref.importance(inter, intra, phi, lambda x: np.exp(x / tau)))
        xi = np.exp(ref.off(intra[..., None] - inter) / tau).sum(-1)
        mass = xi * ref.slope(phi, xi) / tau

        def error(t: float, factor: float, phi=phi, alpha=alpha, mass=mass) -> Array:
            """Of Eqs. 97 and 98 as printed, at tau = t and factor * phi."""
            x0 = np.exp(-c / t).sum(-1)
            slope = factor * ref.slope(phi, x0)
            weights = np.exp(-c / t) * slope[..., None] / t
            return np.maximum(relative(weights, alpha), relative(x0 * slope / t, mass))

        errors.append(error(2 * tau, 2))
        broken["tau not doubled"].append(error(tau, 1))
        broken["phi not doubled"].append(error(2 * tau, 1))
    yield check(
        worst(*errors),
        1e-12,
        ref.least(broken),
        part="application",
        note=r"Theorem 2 is the lemma with $c_{ij}=2(d_{ij}-d_i)$, $2\tau$ for its $\tau$ and "
        r"$2\phi$ for its $\phi$: row sums $\xi_i\phi'(\xi_i)/\tau$, weights Eq. 30.",
    )


def _torch_phis(tau: float) -> list[tuple[Callable, Callable]]:
    """(phi, phi') of `ref.phis` in torch, in its order."""
    return [
        (lambda x: tau * torch.log(0.5 + x), lambda x: tau / (0.5 + x)),
        (torch.log1p, lambda x: 1 / (1 + x)),
        (torch.square, lambda x: 2 * x),
        (torch.sqrt, lambda x: 0.5 / torch.sqrt(x)),
    ]


_RATES = (0.01, 0.01, 1e-3, 0.01)  # of P_g, for each of them; x^2 is steep


def cor1(draws: int, seed: int) -> Iterator[Check]:
    """P_g with step eta follows gradient descent on L with step 2 eta, iterate by iterate, any phi.

    Descent: autograd of L. P_g: alpha from the Newton solver, ascent by hand-written backprop.
    Controls: descent with eta and 4 eta, alpha never refreshed, gradient through alpha.
    """
    rng, n, widths, tau = ref.generator("cor1", seed), 8, (4, 5, 3), 0.5
    runs, steps, short = min(draws, 4), 60, 20
    check = partial(Check, "acl/cor1", draws=runs)
    x, x2 = ref.views(rng, runs, n, 4)
    x2 = x + (x2 - x) / 4  # keeps xi moderate, and with it the slope of phi = x^2
    start = ref.net_parameters(rng, runs, widths)
    tx, tx2 = tensors(x, x2)
    cut = widths[0] * widths[1]

    def outputs(theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(ref.net(theta, v, "tanh", widths) for v in (tx, tx2))

    def descend(objective: Callable, rates: list[float], steps: int) -> Array:
        """Paths [rates, runs, steps, parameters]."""
        slope = torch.func.grad(lambda theta: objective(theta).sum())
        rate = torch.tensor(rates, dtype=torch.float64)[:, None, None]
        theta, path = torch.from_numpy(start).expand(len(rates), -1, -1), []
        for _ in range(steps):
            theta = theta - rate * slope(theta)
            path.append(theta.numpy())
        return np.stack(path, 2)

    def play(phi: Callable, eta: float, steps: int, refresh: bool = True) -> Array:
        """P_g: paths [runs, steps, parameters]."""
        theta, path, alpha, full = start, [], None, np.zeros((runs, n, n))
        for _ in range(steps):
            w1 = theta[:, :cut].reshape(-1, widths[0], widths[1])
            w2 = theta[:, cut:].reshape(-1, widths[1], widths[2])
            h, h2 = np.tanh(x @ w1), np.tanh(x2 @ w1)
            z, z2 = h @ w2, h2 @ w2
            if refresh or alpha is None:
                inter, intra = ref.distances(z, z2)
                c = ref.off(ref.costs(inter, intra))
                xi = np.exp(-c / (2 * tau)).sum(-1)
                alpha = ref.newton("entropy", c, xi * ref.slope(phi, xi) / tau, tau, alpha)
                full[:, ~np.eye(n, dtype=bool)] = alpha.reshape(runs, -1)
            # dE/dz[i] = 2 sum_j (alpha_ij + alpha_ji)(z[i] - z[j]) - 2 beta_i (z[i] - z[i'])
            both = full + full.swapaxes(-1, -2)
            pull = 2 * full.sum(-1, keepdims=True) * (z - z2)
            up = 2 * (both.sum(-1, keepdims=True) * z - both @ z) - pull
            ups = ((up, h, x), (pull, h2, x2))
            g2 = sum(a.swapaxes(-1, -2) @ u for u, a, _ in ups)
            g1 = sum(
                v.swapaxes(-1, -2) @ ((u @ w2.swapaxes(-1, -2)) * (1 - a**2)) for u, a, v in ups
            )
            theta = theta + eta * np.concatenate([g1.reshape(runs, -1), g2.reshape(runs, -1)], -1)
            path.append(theta)
        return np.stack(path, 1)

    errors: list[Array] = []
    broken: dict[str, list[Array]] = defaultdict(list)
    exponential = {"psi": lambda x: torch.exp(x / tau), "dpsi": lambda x: torch.exp(x / tau) / tau}
    for phi, (torch_phi, dphi), eta in zip(ref.phis(tau), _torch_phis(tau), _RATES, strict=True):
        pair = losses.Pair("", phi=torch_phi, dphi=dphi, **exponential)

        def loss(theta: torch.Tensor, pair=pair) -> torch.Tensor:
            return contrast.family_loss(*outputs(theta), pair)

        def through_alpha(theta: torch.Tensor, pair=pair) -> torch.Tensor:
            z, z2 = outputs(theta)
            return -contrast.energy(contrast.pairwise_importance(z, z2, pair), z, z2) / 2

        ours = play(phi, eta, steps)
        half, exact, double = descend(loss, [eta, 2 * eta, 4 * eta], steps)
        (wrong,) = descend(through_alpha, [2 * eta], short)
        frozen = play(phi, eta, short, refresh=False)
        errors.append(absolute(ours, exact))
        broken["descent with eta"].append(absolute(ours, half))
        broken["descent with 4 eta"].append(absolute(ours, double))
        broken["alpha never refreshed"].append(absolute(frozen, exact[:, :short]))
        broken["through alpha"].append(absolute(ours[:, :short], wrong))
    yield check(
        worst(*errors),
        1e-6,
        ref.least(broken),
        note=rf"Largest parameter difference over {steps} steps, $\phi$ in {{$\tau\log(1/2+x)$, "
        r"$\log(1+x)$, $x^2$, $\sqrt x$}; descent steps by $2\eta$: the 1/2 of Theorem 1. Fails "
        r"where descent takes the $\eta$ of $\mathcal P_g$ itself: 'equivalent' is up to that "
        "factor of the step.",
    )


def num3(draws: int, seed: int) -> Iterator[Check]:
    """The min player's optimum is unique, because R is strongly concave.

    50 random starts a problem, all regularisers of Sec. 6.1; curvature of R at random points.
    Controls: R = 0 with tied costs, R concave but flat below 1/7, R convex.
    """
    check = partial(Check, "acl/num3", draws=draws)
    rng, n, tau = ref.generator("num3", seed), 8, 0.5
    count = min(draws, 20)
    z, z2 = ref.views(rng, count, n, 3)
    inter, intra = ref.distances(z, z2)
    c = np.broadcast_to(ref.off(ref.costs(inter, intra))[:, 0], (50, count, n - 1))
    start = ref.normalised(rng.dirichlet(np.ones(n - 1), (50, count)) + 1e-4)
    ends = [ref.minimiser(name, c, tau, start) for name in ref.REGULARISERS]
    tied = np.round(c)  # integer costs tie often
    tied = np.where(np.arange(n - 1) < 2, tied.min(-1, keepdims=True), tied)

    def spread(a: Array) -> Array:
        return (a.max(0) - a.min(0)).max(-1)

    yield check(
        worst(*(spread(a) for a in ends)),
        1e-6,
        {"R = 0, tied costs": best(spread(ref.projected(tied, 0.0, start)))},
        draws=count,
        part="unique",
        note="Spread of the solutions from 50 random starts.",
    )
    points = rng.dirichlet(np.ones(n - 1), max(draws, 1000))

    def curvature(slope: Callable, modulus: float) -> float:
        """-R is separable: its least Hessian eigenvalue is its least second derivative."""
        h = 1e-4 * points
        return float(((slope(points - h) - slope(points + h)) / (2 * h)).min() / modulus)

    moduli = {"entropy": 2 * tau, "square": tau}
    moduli |= {f"inverse, gamma = {g:g}": 2 * tau * g for g in ref.GAMMAS}
    slopes = {k: partial(ref.REGULARISERS[k][1], t=tau) for k in moduli}
    yield check(
        min(curvature(slopes[k], modulus) for k, modulus in moduli.items()),
        1 - 1e-6,
        {
            "r flat below 1/7": curvature(lambda a: -tau * np.maximum(a - 1 / 7, 0), tau),
            "r_s of opposite sign": curvature(lambda a: tau * a, tau),
        },
        draws=max(draws, 1000),
        part="strongly concave",
        relation=">=",
        note=r"Smallest Hessian eigenvalue of $-\mathcal R$ on the simplex, over $2\tau$, "
        r"$2\tau\gamma$ and $\tau$ for $r_H$, $r_\gamma$, $r_s$. (The flat one is concave, "
        r"$-\frac\tau2[\alpha-\frac17]_+^2$.)",
    )


def def6(draws: int, seed: int) -> Iterator[Check]:
    """The three regularisers of Sec. 6.1 are concave; their minimisers against generic solvers.

    Controls: the constants 2 and 1/2 of r read otherwise, the diagonal not excluded.
    """
    draws = min(draws, 200)  # the generic solvers are slow
    check = partial(Check, "acl/def6", draws=draws)
    rng, n = ref.generator("def6", seed), 8
    grid = np.linspace(0.01, 1, 400)
    bends = []
    for t in (0.1, 0.5, 5.0):
        bends += [np.diff(r(grid, t), 2).max() for r, _, _ in ref.REGULARISERS.values()]
    yield check(
        float(max(bends)),
        -1e-9,
        {"a convex r": float(np.diff(grid**2, 2).min())},
        part="concave",
        note=r"Largest second difference on $(0,1]$, three values of $\tau$ and of $\gamma$.",
    )
    z, z2 = ref.views(rng, draws, n, 3)
    inter, intra = ref.distances(z, z2)
    costs = ref.costs(inter, intra)
    c = ref.off(costs)
    start = ref.normalised(rng.dirichlet(np.ones(n - 1), (draws, n)) + 1e-3)
    (t_costs,) = tensors(costs)
    settings: dict[str, list] = {
        "entropy": [("entropy", t, minplayer.entropy_weights) for t in (0.1, 0.5)],
        "inverse": [
            (f"inverse, gamma = {g:g}", t, partial(minplayer.inverse_weights, gamma=g))
            for g in ref.GAMMAS
            for t in (0.1, 0.5)
        ],
        "square": [("square", t, minplayer.square_weights) for t in (0.5, 5.0)],
    }
    notes = {
        "entropy": r"$\alpha\propto e^{-(d_{ij}-d_i)/\tau}$, $\tau$ in {0.1, 0.5}.",
        "inverse": r"$\alpha=(2\tau/(c_{ij}+\mu_i))^{1/\gamma}$, $\gamma$ in {1.5, 2, 3}, the same "
        r"$\tau$.",
        "square": r"$-c/\tau$ projected on the simplex, $\tau$ in {0.5, 5}.",
    }
    for part, cases in settings.items():
        errors = []
        broken: dict[str, list[Array]] = defaultdict(list)
        for name, tau, closed in cases:
            ours = ref.off(closed(t_costs, tau).numpy())
            generic = ref.minimiser(name, c, tau, start, steps=100)
            errors.append(absolute(ours, generic))
            for k in range(min(draws, 2)):
                row = ref.slsqp(name, c[k, 0], 1.0, tau, np.ones(n - 1))
                errors.append(absolute(ours[k, :1], row[None]))
            scaled = closed(t_costs, 2 * tau if part == "square" else tau / 2)
            broken["r without its factor"].append(absolute(ref.off(scaled.numpy()), generic))
            if part == "entropy":
                whole = ref.off(ref.normalised(np.exp(-costs / (2 * tau))))
                broken["diagonal included"].append(absolute(whole, generic))
        yield check(
            worst(*errors),
            1e-6,
            {k: ref.typical(*values) for k, values in broken.items()},
            part=part,
            note=notes[part],
        )


def num5(draws: int, seed: int) -> Iterator[Check]:
    """Direct weights: p = 1 is Eq. 6; rows sum to 1; p = 2 is something else.

    Controls: p = 2, p = 1.5; weights not normalised.
    """
    rng, tau = ref.generator("num5", seed), 0.5
    z, z2 = ref.views(rng, draws, 8, 3)
    inter, _ = ref.distances(z, z2)
    (t_inter,) = tensors(inter)
    eq6_alpha = ref.softmax(inter, tau)
    direct = {p: minplayer.direct_weights(t_inter, p, tau) for p in (1.0, 1.5, 2.0)}
    check = partial(Check, "acl/num5", draws=draws)
    yield check(
        worst(relative(direct[1.0], eq6_alpha)),
        1e-12,
        {f"p = {p}": best(relative(direct[p], eq6_alpha)) for p in (1.5, 2.0)},
        part="p = 1",
    )
    powered = np.exp(-(inter**2) / tau) * ~np.eye(8, dtype=bool)
    normalised = ref.normalised(powered)
    yield check(
        worst(
            relative(direct[2.0], normalised), absolute(direct[2.0].sum(-1), np.ones((draws, 8)))
        ),
        1e-12,
        {
            "not normalised": best(absolute(powered.sum(-1), np.ones((draws, 8)))),
            "d^2 not divided by tau": best(
                relative(minplayer.direct_weights(t_inter, 2.0, 1.0), normalised)
            ),
        },
        part="p = 2",
    )


def num6(draws: int, seed: int) -> Iterator[Check]:
    """r' grows without bound at 0 for r_H and r_gamma, not for r_s, whose optimum has exact zeros.

    The analytic half of the statement; the accuracies are a matter for the image chapter.
    Controls: r_s.
    """
    check = partial(Check, "acl/num6", draws=draws)
    rng, tau, n = ref.generator("num6", seed), 0.5, 64
    weights = 10.0 ** -np.arange(3, 100)
    growth = {
        name: float(np.diff(slope(weights, tau)).min())
        for name, (_, slope, _) in ref.REGULARISERS.items()
    }
    yield check(
        min(value for name, value in growth.items() if name != "square"),
        2 * tau * np.log(10) * (1 - 1e-9),
        {"r_s": growth["square"]},
        part="slope at 0",
        relation=">=",
        note=r"Least increase of $r'$ when $\alpha$ falls by a factor 10, from $10^{-3}$ down: a "
        "constant or more each time, so no bound.",
    )
    count = min(draws, 20)
    z, z2 = ref.views(rng, count, n, 16, unit=True)
    (costs,) = tensors(2 * (ref.distances(z, z2)[0]))
    zeros = {
        name: float((ref.off(alpha.numpy()) == 0).mean())
        for name, alpha in (
            ("entropy", minplayer.entropy_weights(costs, tau)),
            ("inverse", minplayer.inverse_weights(costs, tau, 2.0)),
            ("square", minplayer.square_weights(costs, 5.0)),
        )
    }
    yield check(
        max(zeros["entropy"], zeros["inverse"]),
        0.0,
        {"r_s (tau = 5)": zeros["square"]},
        draws=count,
        part="no pair ignored",
        note="Share of exact zeros in the best weights, 64 unit vectors, the paper's settings.",
    )


def num18(draws: int, seed: int) -> Iterator[Check]:
    """The min player weighs hard PAIRS: order by distance, sharper as tau falls, not a_i b_j.

    Controls: linear psi, tau rising, weights a_i b_j of hard samples.
    """
    rng, n, taus = ref.generator("num18", seed), 16, (1.0, 0.5, 0.1)
    z, z2 = ref.views(rng, draws, n, 3)
    inter, _ = ref.distances(z, z2)
    tz = tensors(z, z2)
    alphas = [
        contrast.pairwise_importance(*tz, losses.infonce_pair(tau, 0.0)).numpy() for tau in taus
    ]
    # The min player's own answer, by a solver that knows costs and constraint but no softmax.
    few = min(draws, 100)
    costs = ref.off(2 * inter[:few])
    solved = [ref.newton("entropy", costs, np.ones((few, n)), tau) for tau in taus]
    flat = contrast.pairwise_importance(*tz, losses.linear_pair()).numpy()
    full = np.zeros((few, n, n))

    def square(rows: Array) -> Array:
        full[:, ~np.eye(n, dtype=bool)] = rows.reshape(few, -1)
        return full.copy()

    check = partial(Check, "acl/num18", draws=draws)
    yield check(
        float(sum(ref.disorder(square(alpha), inter[:few]) for alpha in solved)),
        0.0,
        {"linear psi": float(ref.disorder(flat, inter))},
        part="order",
        draws=few,
        note=f"Violations of the reverse order of distance in {3 * few * n} rows of the minimiser "
        "that a Newton solver finds.",
    )
    yield check(
        worst(*(absolute(square(a), b[:few]) for a, b in zip(solved, alphas, strict=True))),
        1e-8,
        {"another temperature": best(*(absolute(square(solved[0]), b[:few]) for b in alphas[1:]))},
        part="the loss's weights are the min player's",
        draws=few,
    )

    def rise(weights: list[Array]) -> Array:
        """[draws]: the least rise of the nearest pair's share from one entry to the next."""
        shares = [ref.normalised(ref.off(w)).max(-1) for w in weights]
        return np.min([(b - a).min(-1) for a, b in pairwise(shares)], 0)

    linear = [
        contrast.pairwise_importance(*tz, losses.linear_pair(1.0, 1 / tau)).numpy() for tau in taus
    ]
    yield check(
        best(rise(alphas)),
        1e-6,
        {"psi = x/tau": worst(rise(linear)), "tau rising": worst(rise(alphas[::-1]))},
        relation=">=",
        part="sharper as tau falls",
        note="Least rise of the nearest pair's share of its row, tau from 1 to 0.5 to 0.1.",
    )
    rows, columns = np.nonzero(~np.eye(n, dtype=bool))
    design = np.concatenate([np.eye(n)[rows], np.eye(n)[columns]], -1)
    rest = np.eye(len(rows)) - design @ np.linalg.pinv(design)

    def residual(alpha: Array) -> Array:
        """Root mean square of log alpha_ij that no a_i + b_j explains."""
        return np.sqrt(((np.log(alpha[:, rows, columns]) @ rest) ** 2).mean(-1))

    hardness = np.exp(-ref.off(inter)).sum(-1)
    samples = hardness[:, :, None] * hardness[:, None, :]
    yield check(
        best(*(residual(alpha) for alpha in alphas)),
        1e-3,
        {"hard samples a_i b_j": worst(residual(samples))},
        relation=">=",
        part="pairs, not samples",
        note=r"What is left of $\log\alpha_{ij}$ after the best $a_i+b_j$ (root mean square).",
    )
