"""The chance to win of a pattern with a head start (nl App. C.3, remark).

Quadrature and Monte Carlo meet `clcore.theory.two_layer.modulation`.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from scipy import stats
from scipy.integrate import quad

from clcore.checks.two_layer.modulation.basins import on_sphere, times
from clcore.ledger import Part, Trial, check, pooled, worst
from clcore.reference import Array, tensors, unit
from clcore.theory.two_layer import modulation

STARTS = 2000

LAWS = {"uniform": stats.uniform(-1, 2), "normal": stats.norm(), "Laplace": stats.laplace()}
"""Three symmetric laws of one start, by scipy."""


def integral(law, epsilon: float, d: int) -> float:
    """Eq. 154 by adaptive quadrature, split where a uniform law has corners."""
    end = 1.0 if law is LAWS["uniform"] else 40.0
    corners = [min(max(v - epsilon, 0), end) for v in (-1, 1)]
    pieces = [
        quad(lambda y: law.cdf(y + epsilon) ** (d - 1) * law.pdf(y), a, b, epsabs=1e-13)[0]
        for a, b in pairwise(sorted({0.0, min(3.0, end), end, *corners}))
    ]
    return float(sum(pieces))


def _head_start(y: Array, b: float, c: float) -> Array:
    """The start with rate b that blows up together with y > 0 and rate b + c."""
    return b / np.expm1(b * np.log1p((b + c) / y) / (b + c))


def _rates(y: Array, b: float, c: float | Array) -> Array:
    """b for every pattern, b + c for the first, [n, d]."""
    rates = np.full(y.shape, b)
    rates[:, 0] += c
    return rates


def _errors(y: Array, won: Array, own: Array) -> dict[str, float]:
    """How often "Y_1 > 0 and Y_1 + epsilon is the largest" misses the starts y [n, d] that are
    `won`: for the best constant of a grid, for Y_1 + epsilon = `own`, and for two broken events."""
    first, rest = y[:, 0], y[:, 1:].max(-1)
    positive = first > 0
    grid = np.arange(0, 1.5, 0.01)
    fixed = [np.mean((positive & (first + e >= rest)) != won) for e in grid]
    best = grid[int(np.argmin(fixed))]
    return {
        "own": float(np.mean((positive & (own >= rest)) != won)),
        "the best constant": float(min(fixed)),
        "no head start": float(fixed[0]),
        "starts of either sign": float(np.mean((first + best >= rest) != won)),
    }


def _wins(y: Array, rates: Array, projected: bool, steps: int, purity: float = 0.9) -> Array:
    """Starts [n] from which the first pattern wins, by `modulation.simulate`."""
    pace = 0.4 if projected else 0.2
    ends = modulation.simulate(*tensors(y, rates), projected, steps, pace)
    return (modulation.winner(ends, purity) == 0).numpy()


def _missed(y: Array, won: Array) -> float:
    """`_errors`' "the best constant", counted by what head start each start would need."""
    needs = np.where(y[:, 0] > 0, y[:, 1:].max(-1) - y[:, 0], np.inf)
    grid = np.arange(0, 1.5, 0.01)
    right, wrong = (np.searchsorted(np.sort(needs[k]), grid, "right") for k in (won, ~won))
    return float((won.sum() - right + wrong).min() / len(y))


@check("nl/eq154")
def eq154(t: Trial) -> None:
    """Probability that a random start leads to a modulated pattern (Eqs. 152-154).

    Given   independent starts Y_l of uniform, normal and Laplace laws; one head start eps_l; flows
            of rate b + c for the first pattern and b for others, b = 1.2, or 4 where c is drawn.
    Claim   P[E_l] = int_0^inf F^(d-1)(y + eps_l) dF(y), against 40000 starts, E_l: Y_l > 0 and Y_l
            + eps_l >= all others; and E_l is w -> u_l for some constant eps_l.
    Fails   the event, with the projection (d = 4) and without it, at the best constant. Corrected:
            with it eps = -2 for c < -1, else min(c, 1), if d = 2, or c >= 1, or c < -1; without it
            an eps that depends on the start. Controls: F^d, starts of either sign, half of c, no
            head start, the best constant.
    """
    count = 40_000
    value = t.part("the integral", 6.0).says(starts=count)
    for law in LAWS.values():
        for d in (2, 8):
            y = law.rvs(size=(count, d), random_state=t.rng)
            for e in (-0.5, 0.0, 0.3):
                ahead = y[:, 0] + e >= y[:, 1:].max(-1)
                share, p = ((y[:, 0] > 0) & ahead).mean(), integral(law, e, d)
                error = np.sqrt(p * (1 - p) / count)
                value.add(abs(share - p) / error)
                value.breaks("$F^d$", abs(share - integral(law, e, d + 1)) / error, by=pooled)
                if d == 2:
                    value.breaks("starts of either sign", abs(ahead.mean() - p) / error)
    _event(t)
    _without_projection(t)


def _controls(p: Part, found: dict[str, float]) -> None:
    for what in ("no head start", "starts of either sign"):
        p.breaks(what, found[what])


def _event(t: Trial) -> None:
    """With the projection: at d = 4 the best constant; and where a constant is exact, for d = 2, or
    c > 1, or c < -1."""
    b, large = 1.2, 4.0  # g(y) = y + b + c > 0 on [-1, 1] wherever c > -3

    def starts(n: int, d: int) -> Array:
        return unit(t.rng.uniform(-1, 1, (n, d)))

    y = starts(1000, 4)
    rates = _rates(y, b, 0.5)
    found = _errors(y, _wins(y, rates, True, 500), y[:, 0])
    constant = t.part("the event", 0.002, draws=len(y)).add(found["the best constant"])
    again = on_sphere(y, rates)[:, 0] > 0.9
    constant.fails_by(_missed(y, again), within=0.002)  # a start or two beside the edge
    _controls(constant, found)
    constant.says(share=found["the best constant"])
    exact = t.corrected("the event", 0.002, draws=2000)
    plane, many = starts(500, 2), starts(500, 4)
    ranges = (plane, -0.9, 1.0), (many, 1.1, 2.5), (many, -2.5, -1.5), (plane, -1.4, -1.15)
    for v, low, high in ranges:
        c = t.rng.uniform(low, high, len(v))
        ahead = np.where(c < -1, -2, np.minimum(c, 1))
        # In the last range some starts end beside u_1, at a cosine of 0.987 or less: not at it.
        won = _wins(v, _rates(v, large, c), True, 1500, purity=0.99)
        found = _errors(v, won, v[:, 0] + ahead)
        exact.add(found["own"])
        _controls(exact, found)
    won = _wins(plane, _rates(plane, b, 0.8), True, 500)
    exact.breaks("half of c", _errors(plane, won, plane[:, 0] + 0.4)["own"])
    named = np.array([[1e-6, 0.1, -np.sqrt(0.99)], [0.6, 0.8, 0.0]])
    ends = modulation.simulate(*tensors(named, _rates(named, b, 0.3)), True, 1500, 0.4)
    won = 1 + modulation.winner(ends).numpy()
    constant.says(first=won[0], second=won[1])


def _without_projection(t: Trial) -> None:
    b, c, own, name = 1.2, 1.0, [1e-4, 0.2], "the event, without the projection"
    # The share of starts that E_l misses: at the best constant; with Y_1's own head start.
    y = t.rng.uniform(-1, 1, (STARTS, 4))
    rates = _rates(y, b, c)
    ahead = _head_start(np.where(y[:, 0] > 0, y[:, 0], 1), b, c)
    found = _errors(y, _wins(y, rates, False, 500), ahead)
    constant = t.part(name, 0.002, draws=STARTS).add(found["the best constant"])
    first, *rest = times(y, rates).T
    # a run may stop short of its blow-up
    constant.fails_by(_missed(y, first < np.min(rest, 0)), within=0.001)
    pair = np.array(own), np.array([b + c, b])
    t1, t2 = modulation.critical_time(*tensors(*pair)).tolist()
    constant.says(t1=t1, t2=t2)
    moving = t.corrected(name, 0.002, draws=STARTS).add(found["own"])
    for p in (constant, moving):
        _controls(p, found)
    moving.breaks("the best constant", found["the best constant"])


@check("nl/eq155")
def eq155(t: Trial) -> None:
    """Probability of learning a modulated pattern for uniform starts (Eq. 155).

    Given   Y uniform on [-1, 1], d = 2..30, eps in (-1, 0), (0, 1), (1, 1.5), and at 0 and 1.
    Claim   The three printed cases are the integral of Eq. 154, by quadrature, and the library's.
    Fails   without 1/d, and without eps/2; for eps > 1, where the print has neither, for 1 in place
            of 1/2.
    """
    count = min(t.draws, 20)
    part = t.part("", 1e-10, controls=pooled, draws=5 * count)
    for _ in range(count):
        d = int(t.rng.integers(2, 31))
        for e in (*map(float, t.rng.uniform((-1, 0, 1), (0, 1, 1.5))), 0.0, 1.0):
            # The library against the integral.
            p = integral(LAWS["uniform"], e, d)
            ours = float(modulation.win_probability(torch.tensor(e, dtype=torch.float64), d))
            part.add(abs(ours - p))
            # The printed case for eps > 1; then the other two, the term with 1/d and eps/2.
            if e > 1:
                part.add(abs(0.5 - p)).breaks(r"1 for 1/2, $\epsilon_l>1$", abs(1 - p))
                continue
            a, lead, half = (1 + e) / 2, min(1 + e / 2, 1), max(e, 0) / 2
            over_d = (lead**d - a**d) / d
            part.add(abs(over_d + half - p))
            if e != 1:  # where the term with 1/d is 0
                part.breaks("without 1/d", abs(d * over_d + half - p))
            if e > 0:
                part.breaks(r"without $\epsilon_l/2$", abs(over_d - p))


def _ahead(e: Array, d: Array) -> Array:
    """Eq. 154 for uniform laws and e > 0, by Gauss-Legendre: exact for d up to 40."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    corner = np.clip(1 - e, 0, 1)[..., None]  # from there on every other start is behind
    inside = (weights / 2 * ((corner * (1 + nodes) / 2 + 1 + e[..., None]) / 2) ** (d - 1)).sum(-1)
    return (corner[..., 0] * inside + 1 - corner[..., 0]) / 2


def _behind(e: Array, d: Array) -> Array:
    """Eq. 154 for uniform laws and e < 0, by Gauss-Legendre: from y = -1 - e on some others are
    behind, and none are at all if e <= -2."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    low = np.clip(-1 - e, 0, 1)[..., None]
    y = low + (1 - low) * (1 + nodes) / 2
    inside = (weights / 2 * (np.maximum(y + 1 + e[..., None], 0) / 2) ** (d - 1)).sum(-1)
    return (1 - low[..., 0]) * inside / 2


@check("nl/rem19")
def rem19(t: Trial) -> None:
    """Learning probability with no, positive and negative modulation (Bullets after Eq. 155).

    Given   P[E_l], the chance that pattern l wins from uniform starts against d - 1 others, by the
            library's integral; d = 2..40, modulations eps drawn from [-4, 1.9].
    Claim   (1) eps = 0: P is 1/d up to 2^-d. (2) eps > 0: P >= eps/2. (3) P does not fall as eps
            grows. (4) eps < 0: P <= (1 + eps/2)^d/d.
    Fails   (2) for eps > 1, (4) for eps < -2. Corrected: min(eps, 1)/2 and max(1 + eps/2, 0).
            Controls: 1/(d + 1) for 1/d; eps for eps/2; eps falling; 1 + eps for 1 + eps/2.
    """
    dims = range(2, 41)
    d = np.array(dims)[:, None]

    def P(low: float, high: float, count: int = 60) -> tuple[Array, Array]:
        """epsilon, drawn and in order, and P[E_l] for uniform starts [d, epsilon]."""
        e = np.sort(t.rng.uniform(low, high, count))
        (drawn,) = tensors(e)
        return e, np.stack([modulation.win_probability(drawn, d).numpy() for d in dims])

    # (1) epsilon = 0: d P differs from 1 by 2^-d at most.
    _, even = P(0.0, 0.0, 1)
    none = t.part("no modulation", 1 + 1e-9, controls=worst)
    none.add(np.abs(d * even - 1) * 2.0**d)
    none.breaks("1/(d + 1)", np.abs((d + 1) * even - 1) * 2.0**d)

    # (2) epsilon > 0: P >= epsilon/2, as long as that is at most 1/2.
    e, strong = P(0.02, 1.9)
    above = t.both("positive modulation", 1e-12, controls=worst, draws=strong.size)
    above.printed.add(e / 2 - strong).fails_by(e / 2 - _ahead(e, d[..., None]))
    above.corrected.add(np.minimum(e, 1) / 2 - strong)
    above.breaks(r"$\epsilon_l$ for $\epsilon_l/2$", np.minimum(e, 1) - strong)

    # (3) P does not fall from one epsilon to the next.
    _, rising = P(-1.9, 1.9)
    steps = np.diff(rising, axis=-1)
    grows = t.part("grows with the modulation", -1e-14, ">=", controls=worst, draws=rising.size)
    grows.add(steps).breaks("weaker modulation", -steps)

    # (4) epsilon < 0: P <= (1 + epsilon/2)^d/d, as long as the base is not negative.
    e, weak = P(-4.0, -0.01, 160)
    below = t.both("negative modulation", 1e-14, controls=worst, draws=weak.size)
    below.printed.add(weak - (1 + e / 2) ** d / d)
    below.printed.fails_by(_behind(e, d[..., None]) - (1 + e / 2) ** d / d)
    below.corrected.add(weak - np.maximum(1 + e / 2, 0) ** d / d)
    below.breaks(r"$1+\epsilon_l$", weak - np.maximum(1 + e, 0) ** d / d)


def _vectors(rng: np.random.Generator, draws: int) -> Iterator[Array]:
    """Sorted epsilon, falling, of 2, 3 and 5 patterns: normal of several scales, and of each
    number two wide ones, with steps of 1.3 and of 2.4."""
    for d in (2, 3, 5):
        sizes = 10 ** rng.uniform(-1, 0.5, (draws, 1))
        e = sizes * rng.standard_normal((draws, d))
        wide = np.arange(d)[None] * np.array([[1.3], [2.4]])
        yield -np.sort(-np.concatenate([e, wide]), -1)


def _chances(e: Array, count: int = 4000) -> Array:
    """P[E_l] of nl's general case, [n, d], by the midpoint rule."""
    y = (np.arange(count) + 0.5) / count
    out = np.empty_like(e)
    for i in range(e.shape[1]):
        inside = np.ones((len(e), count))
        for j in range(e.shape[1]):
            if j != i:
                inside *= np.clip((y + (e[:, i] - e[:, j])[:, None] + 1) / 2, 0, 1)
        out[:, i] = inside.mean(-1) / 2
    return out


@check("nl/eq156")
def eq156(t: Trial) -> None:
    """Lower bound on the learning probability of the most favoured pattern (Eq. 156).

    Given   head starts of all 2, 3 or 5 patterns, random, and two wide ones; Y uniform on [-1, 1];
            chances by quadrature.
    Claim   The pattern with the largest head start wins with chance at least half of its gap to
            the second.
    Fails   for gaps beyond 1. Corrected: half of min(gap, 1). Controls: the gap for half of it.
    """
    bound = t.both("", 1e-6, controls=worst)
    for e in _vectors(t.rng, min(t.draws, 100)):
        p, gap = _chances(e)[:, 0], e[:, 0] - e[:, 1]
        bound.printed.add(gap / 2 - p)
        exact = modulation.win_probabilities(torch.from_numpy(e.copy())).numpy()
        bound.printed.fails_by(gap / 2 - exact[:, 0], within=1e-7)  # the midpoint rule
        bound.corrected.add(np.minimum(gap, 1) / 2 - p)
        bound.breaks("the gap for half of it", np.minimum(gap, 1) - p)


@check("nl/eq157")
def eq157(t: Trial) -> None:
    """Upper bound on the learning probability of a less favoured pattern (Eq. 157).

    Given   head starts eps of all 2, 3 or 5 patterns, random, and two wide ones, sorted, the
            largest first; the pattern of rank r >= 2; Y uniform on [-1, 1]; chances by quadrature.
            For (2) 40 patterns, the last one.
    Claim   (1) P[E_c(r)] <= min over r' < r of (1 - (eps_c(r') - eps_c(r))/2)^(r'+1)/(r' + 1).
            (2) It is exponentially small for large r.
    Fails   (1) for gaps beyond 2. Corrected: a base below 0 is 0. Control: r' + 2 for r' + 1. (2)
            for gaps near 0. Corrected: half of the ranks lead by delta. Control: by delta/8.
    """
    whole = t.both("", 1e-6, controls=worst)
    for e in _vectors(t.rng, min(t.draws, 100)):
        p = _chances(e)
        exact = modulation.win_probabilities(torch.from_numpy(e.copy())).numpy()
        for r in range(1, e.shape[1]):  # from 0: the rank is r + 1, and r' + 1 is in `size`
            base = 1 - (e[:, :r] - e[:, r, None]) / 2
            size, kept = np.arange(2, r + 2), np.maximum(base, 0)
            bound = (base**size / size).min(-1)
            whole.printed.add(p[:, r] - bound)
            whole.printed.fails_by(exact[:, r] - bound, within=1e-6)  # the midpoint rule
            whole.corrected.add(p[:, r] - (kept**size / size).min(-1))
            more = (kept ** (size + 1) / (size + 1)).min(-1)
            whole.breaks("one pattern more", p[:, r] - more)
    _small_for_large_rank(t, min(t.draws, 20))


def _small_for_large_rank(t: Trial, count: int, r: int = 40) -> None:
    """P[E_c(r)] over (1 - delta/2)^(r' + 1)/(r' + 1) with r' = r/2, as Eq. 157 has it."""
    delta = t.rng.uniform(0.5, 1, (count, 1))
    more = t.rng.uniform(0, 1, (count, r)) * (np.arange(count) % 2)[:, None]
    lead = (more + (np.arange(r) < r / 2)) * delta
    lead[:, -1] = 0  # rank r: the half before leads by delta, in every second draw by more
    close = t.rng.uniform(0, 1, (count, r)) * 10 ** t.rng.uniform(-6, -3, (count, 1))
    part = t.both("exponentially small for large r", 1.0, controls=worst)
    scale = (r // 2 + 1) / (1 - delta[:, 0] / 2) ** (r // 2 + 1)

    def last(e: Array) -> Array:
        e = -np.sort(-e, -1)
        return modulation.win_probabilities(torch.from_numpy(e)).numpy()[:, -1] * scale

    part.printed.add(last(close))
    part.printed.fails_by(_chances(-np.sort(-close, -1))[:, -1] * scale, within=1e-5)
    part.corrected.add(last(lead))
    part.breaks(r"a lead of $\delta/8$", last(lead / 8))
