"""Checks of ddn Theorem 5 (App. C.4): does one of |N_mu| nodes turn out selective by luck?

Nodes are independent, so one of N is lucky with probability 1 - (1 - p)^N; p is counted on drawn
weights, with a Clopper-Pearson interval, or computed exactly.
"""

from itertools import product

import numpy as np
import torch
from scipy import special, stats

from clcore.checks.hltm.lucky.event import Children, draw, heavier, hidden, leaves, node_means
from clcore.checks.hltm.lucky.gap import COPIES, from_all_states
from clcore.checks.hltm.tail.gaussian_tail import log_orthant, page_bound
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import Array, tensors
from clcore.theory.trees import gaussian_tail, lucky_nodes

CONFIDENCE = 0.9999  # one-sided, of each interval
ETAS = (0.5, 0.05, 0.01)
OWN_ETAS, OWN_NAMES = (0.5, 0.05, 0.5), ("half", "most", "other", "asked")


def at_least_one(hits: Array, trials: int, nodes: Array) -> Array:
    """A lower confidence bound of the probability that one of `nodes` nodes hits."""
    low = stats.beta.ppf(1 - CONFIDENCE, np.maximum(hits, 1), trials - hits + 1)
    return -np.expm1(nodes * np.log1p(-np.where(hits > 0, low, 0.0)))


def _over_half(hits: Array, trials: int, nodes: Array) -> list[float]:
    """`at_least_one` minus a half, once more by scipy."""
    tests = (stats.binomtest(int(k), trials, alternative="greater") for k in hits)
    low = [test.proportion_ci(CONFIDENCE).low for test in tests]
    return [0.5 - (1 - p) ** n for p, n in zip(low, nodes.tolist(), strict=True)]


def conclusions(w: torch.Tensor, kids: Children, v: Array, c: float, side: int = 1) -> Array:
    """Which nodes meet both conclusions of Theorem 5, [draws, nodes]; `side` -1: gap below 0."""
    gap = np.einsum("bjn,bn->bj", w.numpy(), kids.a)
    t = tensors(kids.s, kids.rho, kids.spread)
    bound = lucky_nodes.square_gap_bound(t[0], t[1], c, t[2]).numpy()[:, None]
    return (side * gap > 0) & (np.abs(v[..., 1] ** 2 - v[..., 0] ** 2) >= bound)


def sampled_means(rng: np.random.Generator, w: torch.Tensor, rho: Array, states: int) -> Array:
    """v_j(0), v_j(1) of leaves coded 0 and 1, [draws, nodes, 2], over drawn states."""
    out = []
    for sign in (-1, 1):
        chance = (1 + sign * rho[:, None, :]) / 2
        f = torch.from_numpy((rng.random((len(rho), states, rho.shape[-1])) < chance).astype(float))
        out.append(torch.relu(w @ f.mT).mean(-1).numpy())
    return np.stack(out, -1)


def asked(kids: Children, c: float, eta: float) -> Array:
    """|N_mu| of Eq. 128 as printed, rounded up, [draws]."""
    gamma = lucky_nodes.correlation(*tensors(kids.h, kids.a))
    return np.ceil(lucky_nodes.nodes_asked(torch.full_like(gamma, c), gamma, eta).numpy())


def _laws(rng: np.random.Generator, count: int) -> list[tuple[Children, float]]:
    """(children, c): enumerable children for which Eq. 130's bracket is mostly positive."""
    signs = rng.choice([-1, 1], (count, 8))
    two = np.where(rng.random((count, 8)) < 0.5, 0.95, 0.6)
    two[:, :2] = 0.95, 0.6  # all alike, gamma would be 1
    strong = hidden(rng, count, 5, 0.9)
    strong = strong._replace(
        low=0.2 * strong.low, rho=np.sign(strong.rho) * (0.8 + 0.2 * np.abs(strong.rho))
    )
    return [
        (leaves(rng.uniform(0.95, 1, (count, 8))), 1.0),
        (leaves(rng.uniform(0.7, 1, (count, 8))), 4.0),
        (leaves(rng.uniform(0.7, 1, (count, 8))), 9.0),
        (leaves(two), 9.0),
        (heavier(leaves(rng.uniform(0.7, 1, (count, 8)) * signs)), 4.0),
        (heavier(leaves(rng.uniform(0.7, 1, (count, 8)) * signs)), 9.0),
        (heavier(strong), 9.0),
    ]


def _sufficient(c: Array, t: Array, cosine: Array) -> tuple[Array, Array]:
    """Logs of a lower bound on the chance that a node meets both conclusions, and of the chance
    that Eq. 128 counts on (as printed).

    t = |a|/|h| and the cosine of a and h fix both. Either of two events suffices: v_-~ < 0
    and v_+~ >= sqrt(c/2) |a|, or w.a and w.h are positive with 4 (w.a)(w.h) >= c |a|^2 / 2 (all in
    units of sigma/sqrt(n)).
    """
    gamma = (1 - t**2) / np.sqrt((1 + t**2) ** 2 - (2 * t * cosine) ** 2)
    printed = gaussian_tail.log_bound(*tensors(c, gamma), printed=True).numpy()
    less = c * t**2 / (2 * (1 + t**2 + 2 * t * cosine))
    one = log_orthant(np.sqrt(less), 0 * c, gamma)
    x, weights = np.polynomial.legendre.leggauss(200)
    low, high = np.log(1e-6), np.log(60.0)
    x, weights = (high - low) / 2 * (x + 1) + low, weights * (high - low) / 2
    alpha, k = np.exp(x), (c * t / 8)[:, None]
    above = (k / alpha - cosine[:, None] * alpha) / np.sqrt(1 - cosine[:, None] ** 2)
    exponent = special.log_ndtr(-above) - alpha**2 / 2 - np.log(2 * np.pi) / 2 + x
    other = special.logsumexp(exponent, axis=1, b=weights)
    return np.maximum(one, other), printed


def _gaussian(t: Trial) -> None:
    """Gaussian weights: a node's chance of both conclusions over the one that Eq. 128 counts on."""
    size = 100 + t.draws
    c, ratio = 10 ** t.rng.uniform(-2, 2.5, size), t.rng.uniform(0.02, 0.999, size)
    least = ratio / 2 - np.sqrt(0.5)  # of the cosine, where A+ is the heavier
    free = np.where(t.rng.random(size) < 0.3, 0, t.rng.random(size))
    chance, printed = _sufficient(c, ratio, least + (0.999 - least) * free)
    part = t.part("Gaussian weights, A+ heavier", 0.0, ">=", controls=pooled)
    part.add(chance - printed)
    away, wanted = _sufficient(np.full(size, 9.0), np.full(size, 0.9), np.full(size, -0.999))
    part.breaks("a opposite to h", away - wanted)


def _drawn(t: Trial, count: int, trials: int) -> None:
    """Drawn weights, one unit per latent."""
    name, rng = "drawn weights, A+ heavier", t.rng
    part = t.part(name, 0.0, ">=", controls=pooled, draws=7 * count + 2)
    for kids, c in _laws(rng, count):
        w = draw(rng, count, trials, kids.rho.shape[-1])
        v = node_means(w.numpy(), kids)
        hits, below = (conclusions(w, kids, v, c, side).sum(-1) for side in (1, -1))
        for eta in ETAS:
            nodes = asked(kids, c, eta)
            part.add(at_least_one(hits, trials, nodes) - (1 - eta))

        # Controls at the last eta, the least.
        part.breaks("a single node", at_least_one(hits, trials, np.ones(count)) - (1 - eta))
        if (kids.rho > 0).all():
            opposite = at_least_one(below, trials, nodes) - (1 - eta)
            part.breaks("gap below 0, polarities positive", opposite)

    # Fifty leaves: of positive polarities, then of signs that alternate.
    rho, alternating = rng.uniform(0.7, 1, (2, 50)), np.resize([1, -1], 50)
    many = heavier(leaves(np.stack([rho[0], rho[1] * alternating])))
    w = draw(rng, 2, 2000, 50)
    hits = conclusions(w, many, sampled_means(rng, w, many.rho, 1000), 9.0).sum(-1)
    part.add(at_least_one(hits, 2000, asked(many, 9.0, 0.01)) - 0.99)

    # Two leaves, at a level that their weights cannot reach.
    two = leaves(np.repeat([[1.0, -1.0]], count, 0))
    w = draw(rng, count, trials, 2)
    hits = conclusions(w, two, node_means(w.numpy(), two), 13.0).sum(-1)
    part.breaks("two leaves, c = 13", at_least_one(hits, trials, asked(two, 13.0, 0.5)) - 0.5)
    part.says(confidence=CONFIDENCE)


def _several(t: Trial, count: int, trials: int) -> None:
    """Theorem 5 where two or four latents carry several equal units each."""
    name = "drawn weights, several units per latent, A+ heavier"
    settings = list(product(COPIES, (2, 4)))
    part = t.part(name, 0.0, ">=", controls=pooled, draws=3 * count * len(settings))
    for copies, n in settings:
        signs = t.rng.choice([-1, 1], (count, n))
        strong = leaves(t.rng.uniform(0.7, 1, (count, n)))
        mixed = heavier(strong._replace(rho=strong.rho * signs))
        for kids, c in ((strong, 1.0), (strong, 9.0), (mixed, 9.0)):
            w = draw(t.rng, count, trials, n, copies)
            hits = conclusions(w, kids, node_means(w.numpy(), kids), c).sum(-1)
            for eta in ETAS:
                enough = at_least_one(hits, trials, asked(kids, c, eta))
                part.add(enough - (1 - eta))

            # The control at the last eta, the least.
            part.breaks("a single node", at_least_one(hits, trials, np.ones(count)) - (1 - eta))


def _heavier_below(t: Trial, count: int, trials: int) -> None:
    """A- the heavier: eight leaves, and 400 of the same two kinds."""
    pair = t.rng.uniform(0.95, 1, (count, 4)), t.rng.uniform(0.75, 0.85, (count, 4))
    kids = leaves(-np.concatenate(pair, -1))
    w = draw(t.rng, count, trials, 8)
    v, nodes = node_means(w.numpy(), kids), asked(kids, 9.0, 0.5)

    # The same from all states at once, with numpy's |N_mu|.
    v_again, right, _ = from_all_states(w.numpy(), kids, 9.0)
    large = np.abs(np.diff(v_again**2)[..., 0]) >= right
    gap = (w.numpy() * kids.rho[:, None]).sum(-1)
    plus, minus = (1 + kids.rho) / 2, (1 - kids.rho) / 2
    gamma = (plus * minus).sum(-1) / np.sqrt((plus**2).sum(-1) * (minus**2).sum(-1))
    nodes_again = np.ceil(np.log(2) * np.exp(-page_bound(np.full(count, 9.0), gamma)))

    # As printed the gap is above 0; corrected, below.
    above, below = (conclusions(w, kids, v, 9.0, side).sum(-1) for side in (1, -1))
    printed, mended = t.both("A- heavier", 0.0, ">=", controls=pooled)
    for part, hits, again in ((printed, above, gap > 0), (mended, below, gap < 0)):
        part.add(at_least_one(hits, trials, nodes) - 0.5)
        part.breaks("a single node", at_least_one(hits, trials, np.ones(count)) - 0.5)
        hits_again = (large & again).sum(-1)
        part.fails_by(*_over_half(hits_again, trials, nodes_again))
        part.says(hits=hits.sum(), nodes=count * trials, trials=trials)
        part.confirms(hits=hits_again.sum())

    # Of 400 leaves; and Eq. 130 of the eight leaves of the counterexample.
    crowd = leaves(-np.repeat([[1.0, 0.8]], 200, 1))
    w = draw(t.rng, 1, trials, 400)
    found = conclusions(w, crowd, sampled_means(t.rng, w, crowd.rho, 500), 9.0).sum()
    eight = leaves(-np.repeat([[1.0, 0.8]], 4, 1))
    square = lucky_nodes.square_gap_bound(*tensors(eight.s[0], eight.rho[0]), 9.0).item()
    for part in (printed, mended):
        part.says(crowd=found or "none", square=square, length=square**0.5)
        part.confirms(square=3 * np.mean([1.5, 0.6]) / 4, length=np.sqrt(0.7875))


@check("ddn/thm5")
def thm5(t: Trial) -> None:
    """Lucky nodes at initialisation: how many, how selective (Theorem 5 in App. C.4, Eqs. 128-130).

    Given   SB-HLTM, uniform weights, A+ the heavier, |N_mu| nodes as Eq. 128 asks; Gaussian
            weights at random c, |a|/|h| and angles of a and h, then drawn ones over seven kinds of
            5 or 8 children, over 50 leaves, and over several equal units per latent; eta in {0.5,
            0.05, 0.01}.
    Claim   With probability 1 - eta some node has a gap 2 w^T a > 0 and |s_j| at least the bound
            of Eq. 130. Drawn: a 99.99 per cent lower bound of the chance that one of |N_mu| nodes
            meets both is 1 - eta or more. Gaussian: a node's chance of both is at least the one
            that Eq. 128 counts on.
    Fails   where A- is the heavier, which the proof excludes without loss of generality.
            Corrected: a gap of the sign of sum_A+ a^2 - sum_A- a^2. Controls: a single node,
            where all polarities are positive a gap below 0, two leaves with c = 13, which weights
            cannot reach, a opposite to h (A- the heavier).
    """
    count, trials = min(t.draws, 3), 4000
    _gaussian(t)
    _drawn(t, count, trials)
    _several(t, count, trials)
    _heavier_below(t, count, trials)


def _own_example() -> dict[str, float]:
    """The chance of one success at the paper's c, gamma and printed number, for two eta; at c = 9,
    gamma = eta = 1/2 that number and the chance."""
    c, gamma = tensors(np.array(9.0), np.array([0.2, 0.2, 0.5]))
    miss = 1 - gaussian_tail.log_tail(c, gamma).exp()
    nodes = torch.stack([lucky_nodes.nodes_asked(c, gamma, eta) for eta in OWN_ETAS]).diagonal()
    chance = 1 - miss**nodes
    return dict(zip(OWN_NAMES, [*chance.tolist(), nodes[2].item()], strict=True))


@check("ddn/eq149")
def eq149(t: Trial) -> None:
    """How many nodes make a lucky node likely (Eqs. 148-150).

    Given   c in [0.3, 30], gamma in [0, 0.95], eta in {0.5, 0.05, 0.01}; the exact Gaussian
            probability P by quadrature.
    Claim   |N_mu| of Eq. 128 is at least log(1/eta)/P, that is at least log(1/eta)/-log(1 - P),
            and so 1 - (1 - P)^|N_mu| >= 1 - eta.
    Fails   the first inequality and Eq. 150 as printed, with c in the exponent of Eq. 128.
            Corrected: c/(1 - gamma^2). Controls: without 2 pi, half of the nodes, the second
            inequality turned round.
    """
    size = 30 + t.draws
    c, gamma = t.rng.uniform(0.3, 30, size), t.rng.uniform(0, 0.95, size)
    eta = t.rng.choice([0.5, 0.05, 0.01], size)
    chance = log_orthant(np.sqrt(c), 0 * c, gamma)
    again = gaussian_tail.log_tail(*tensors(c, gamma)).numpy()
    for form in (t.part, t.corrected):
        bound = gaussian_tail.log_bound(*tensors(c, gamma), form == t.part).numpy()
        log_nodes = np.log(np.log(1 / eta)) - bound

        # |N_mu| >= log(1/eta)/P, in logarithms; P is `log_orthant`'s, once more `log_tail`'s.
        short = np.log(np.log(1 / eta)) - chance - log_nodes
        part = form("first inequality", 1e-9, controls=pooled).add(short)
        if form == t.part:
            part.fails_by(page_bound(c, gamma) - again)
        part.breaks("without 2 pi", short + np.log(2 * np.pi)).says(**_own_example())

        # 1 - (1 - P)^|N_mu| >= 1 - eta: |N_mu| times -log(1 - P), `failure`, is log(1/eta) or more.
        failure = np.exp(log_nodes + np.log(-np.log1p(-np.exp(chance))))
        miss = np.log(1 / eta) / failure - 1
        part = form("Eq. 150", 1e-9, controls=pooled).add(miss)
        part.breaks("half of the nodes", 2 * (miss + 1) - 1).says(**_own_example())
        if form == t.part:
            nodes = np.log(1 / eta) * np.exp(-page_bound(c, gamma))
            part.fails_by(np.log(1 / eta) / (nodes * -np.log1p(-np.exp(again))) - 1)

    # 1/P >= 1/-log(1 - P): P over -log(1 - P) is 1 at most.
    p = np.concatenate([10 ** t.rng.uniform(-12, -0.01, t.draws), t.rng.random(t.draws)])
    ratio = p / -np.log1p(-p)
    second = t.part("second inequality", 1e-12, controls=worst).add(ratio - 1)
    second.breaks("turned round", 1 - ratio)
