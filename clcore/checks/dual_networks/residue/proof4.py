"""The inequalities in the proof of Theorem 4, one by one (ddn App. B.4, Eqs. 59, 70-78).

F = -dL/dr_- depends on (r_+, r_-) through D = r_+ - r_- alone, and is a logistic curve in D. Where
the proof has a derivative at an intermediate point, the checks use that point's own value, which is
the difference quotient of F.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from scipy import special

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.residue import exact_weights
from clcore.checks.dual_networks.residue.weights import TAUS
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import Array, absolute, relative


def curve(tau: float, kind: str = "InfoNCE", margin: float = 0.0) -> Callable[[Array], Array]:
    """F as a function of D = r_+ - r_-, from the page; safe for large |D|."""
    scale = 1 / tau if kind == "InfoNCE" else 1.0

    def F(D: Array) -> Array:
        return scale * 0.5 * (1 + np.tanh((D + margin) / (2 * tau)))

    return F


# ---------------------------------------------------------------------------- F and its derivatives


@check("ddn/eq71")
def eq71(t: Trial) -> None:
    """InfoNCE's slope in the negative distance and its derivatives (Eqs. 70, 71).

    Given   L_nce with H = 1, F = -dL/dr_-.
    Claim   0 < F < 1/tau, dF/dr_+ = -F (1/tau - F), dF/dr_- = F (1/tau - F), both less than 1/tau^2
            in size. Corrected: with the two signs exchanged.
    Fails   with the printed signs, everywhere; for F < 1, for 1/tau in place of 1/tau^2, for 1 - F
            in place of 1/tau - F.
    """
    within = t.part("range of F", 0.0)
    bound = t.part("bound", 1.0)
    printed, mended = (form("derivatives", 1e-12) for form in (t.part, t.corrected))
    for tau in TAUS:
        r = t.rng.uniform(0, 10 * tau, (50 * t.draws, 2))

        def F(v: Array, tau: float = tau) -> Array:
            a, b = np.exp(-v[..., 0] / tau), np.exp(-v[..., 1] / tau)
            return b / (a + b) / tau

        # 0 < F < 1/tau.
        value, slope = F(r), ref.gradient(F, r)
        within.add(np.maximum(-value, value - 1 / tau) * tau)
        if tau < 1:
            within.breaks("F < 1", (value - 1).max())

        # The derivatives are less than 1/tau^2 in size.
        rise, other = value * (1 / tau - value), value * (1 - value)
        bound.add(np.abs(rise) * tau**2)
        if tau < 0.25:
            bound.breaks("1/tau for 1/tau^2", (np.abs(rise) * tau).max())

        # The derivatives themselves, by complex steps.
        right, wrong = (np.stack([v, -v], -1) for v in (rise, other))
        printed.add(absolute(slope * tau**2, -right * tau**2))
        far = (r[:, 0] - r[:, 1]) / tau
        printed.fails_by(2 * special.expit(far) * special.expit(-far))
        mended.add(absolute(slope * tau**2, right * tau**2))
        mended.breaks("signs as printed", absolute(slope * tau**2, -right * tau**2), by=worst)
        if tau != 1:
            for part, sign in ((printed, -1), (mended, 1)):
                gap = absolute(slope * tau**2, sign * wrong * tau**2).max()
                part.breaks("1 - F for 1/tau - F", gap)
    for part, proof in zip((within, bound), exact_weights.range_of_slope(), strict=True):
        part.proves(**proof)
    mended.proves(**exact_weights.slopes_of_slope())


def _root(g: Callable[[Array], Array], count: int) -> Array:
    """Smallest |g(s)| over s in [0, 1], [count]: bisection from the grid's first change of sign."""
    grid = np.linspace(0, 1, 201)[:, None]
    values = g(np.broadcast_to(grid, (201, count)))
    change = values[:-1] * values[1:] <= 0
    first = np.where(change.any(0), change.argmax(0), np.abs(values[:-1]).argmin(0))
    low, high = grid[first, 0], grid[first + 1, 0]
    sign = np.sign(values[first, np.arange(count)])
    for _ in range(60):
        middle = (low + high) / 2
        same = np.sign(g(middle)) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.minimum(np.abs(g(low)), np.abs(g(high)))


def _mean_value(F: Callable, path: Callable, ends: tuple, eps: Array) -> Callable:
    """s -> the right side of Eq. 72 at the point s of a path, minus eps; by complex steps."""
    (_, m0), (p1, m1) = ends

    def gap(s: Array) -> Array:
        (p, m), h = path(s), 1e-30j
        by_plus, by_minus = (np.imag(F(D)) / 1e-30 for D in (p + h - m, p - (m + h)))
        return -by_plus * p1 - by_minus * (m1 - m0) - eps

    return gap


@check("ddn/eq72")
def eq72(t: Trial) -> None:
    """First-order expansion of ε in the two distances (Eq. 72).

    Given   F = -dL_nce/dr_-, H = 1; random ReLU nets, points before and after a move of the
            inputs; epsilon is F before minus F after.
    Claim   At some point between, -epsilon is dF/dr_+ (r_+ - r_+^0) + dF/dr_- (r_- - r_-^0): a
            root search on the segment of distances, and on that of inputs, with derivatives by
            complex steps.
    Fails   for the sign of epsilon.
    """
    n = 5 * min(t.draws, 100)
    of_distances, of_inputs = (
        t.part(f"a point between, of the {name}", 1e-9, controls=typical)
        for name in ("distances", "inputs")
    )
    for tau in TAUS:
        weights = dw.weights(t.rng, n, dw.DEPTHS[3])
        start = t.rng.standard_normal((n, 1, 2, 4))[:, :, [0, 0, 1]]
        end = start + 0.7 * t.rng.standard_normal(start.shape)

        def distances(s: Array, weights=weights, start=start, end=end) -> tuple[Array, ...]:
            f = dw.output(weights, start + s[..., None, None, None] * (end - start))
            return tuple(dw.half(f[..., 0, 0, :], f[..., 0, k, :]) for k in (1, 2))

        ends = distances(np.zeros(n)), distances(np.ones(n))

        def straight(s: Array, ends=ends) -> tuple[Array, Array]:
            return tuple(a + s * (b - a) for a, b in zip(*ends, strict=True))

        F = curve(tau)
        eps = F(np.subtract(*ends[0])) - F(np.subtract(*ends[1]))
        scale = np.abs(eps) + 1e-6 / tau
        for part, path in ((of_distances, straight), (of_inputs, distances)):
            right, wrong = (_root(_mean_value(F, path, ends, e), n) / scale for e in (eps, -eps))
            part.add(right).breaks("sign of epsilon", wrong)


@check("ddn/eq59")
def eq59(t: Trial) -> None:
    """Slope of the loss at views: the slope at samples plus a bounded ε (Eq. 59).

    Given   random and extreme distances at views and at samples (r_+ = 0 there), H = 1 and 5.
    Claim   |epsilon| <= 1 for L_tri (soft) and <= 2/tau for L_nce; for L_nce epsilon is at
            most linear in the offset of the views, measured over offsets from 2^-10 to 2^-20.
    Fails   for slopes without the normaliser, for 1/tau kept in the triplet's slope, for F itself,
            which does not shrink with the offset.
    """
    triplet, infonce = t.part("triplet", 1.0), t.part("InfoNCE", 1.0)
    n = 100 * t.draws
    for tau, H, spread in product(TAUS, (1, 5), (0.3, 3.0, 30.0)):
        r = tau * spread * t.rng.random((n, H + 1))
        r0 = tau * spread * t.rng.random((n, H + 1))
        r0[:, 0] = 0

        # L_nce: |epsilon| <= 2/tau.
        infonce.add(np.abs(_shares(r, tau) - _shares(r0, tau)) / 2)
        if spread == 30.0:
            loose = [np.exp((v[:, :1] - v[:, 1:]) / tau) / 2 for v in (r, r0)]
            infonce.breaks("no normaliser", np.abs(loose[0] - loose[1]).max())

        # L_tri: |epsilon| <= 1, of the soft slope; the printed one is 0 or 1, and moves by no more.
        if H == 1:
            s = curve(tau, "triplet", margin=t.rng.uniform(0, 2 * tau))
            gap = np.abs(s(r[:, 0] - r[:, 1]) - s(r0[:, 0] - r0[:, 1]))
            triplet.add(gap)
            if tau < 1 and spread > 1:
                triplet.breaks("1/tau kept", gap.max() / tau)

    # L_nce: |epsilon|/offset at the three least offsets, over that at the three largest.
    order = t.part("order", 2.0, controls=typical)
    for tau in (2.0, 10.0):
        weights = dw.weights(t.rng, t.draws, dw.DEPTHS[3])
        x = t.rng.standard_normal((t.draws, 1, 2, 4))[:, :, [0, 0, 1]]
        step = t.rng.standard_normal(x.shape)

        def F(v: Array, weights=weights, tau=tau) -> Array:
            f = dw.output(weights, v)[:, 0]
            return curve(tau)(dw.half(f[:, 0], f[:, 1]) - dw.half(f[:, 0], f[:, 2]))

        sizes = 2.0 ** -np.arange(10, 22, 2)
        moved = [F(x + size * step) for size in sizes]
        gaps = np.array([np.abs(v - F(x)) / s for v, s in zip(moved, sizes, strict=True)])
        raw = np.array([np.abs(v) / s for v, s in zip(moved, sizes, strict=True)])
        late, flat = (v[-3:].max(0) / np.maximum(v[:3].max(0), 1e-2 / tau**2) for v in (gaps, raw))
        order.add(late)
        order.breaks("F itself", flat)


def _shares(r: Array, tau: float) -> Array:
    """exp(-r_k / tau) / Z of the negatives, [n, H], stable."""
    e = np.exp(-(r - r.min(-1, keepdims=True)) / tau)
    return (e / e.sum(-1, keepdims=True))[:, 1:]


# ------------------------------------------------------------------- one pair of samples at a time


def _pairs(rng: np.random.Generator, n: int) -> Iterator[tuple]:
    """(tau, f(x), f(x''), outputs of 3 views of both, chances): generic, close, one view only."""
    kinds = ((1, 0.3, 0.5), (0, 0, 1), (0.01, 1, 1e-3), (1e-4, 1, 0), (3, 1, 1))
    for tau, (far, offset, spread) in product(TAUS, kinds):
        a = rng.standard_normal((n, 1, 2))
        b = a + far * rng.standard_normal((n, 1, 2))
        shift = offset * rng.standard_normal((2, n, 1, 2))
        noise = spread * rng.standard_normal((2, n, 3, 2))
        q = rng.random((2, n, 3)) + 0.1
        q /= q.sum(-1, keepdims=True)
        yield tau, a, b, a + shift[0] + noise[0], b + shift[1] + noise[1], *q


def _triples(fa: Array, fb: Array, qa: Array, qb: Array) -> Iterator[tuple[Array, Array, Array]]:
    """(chance, r_+, r_-) of each pair of views of x and view of x''."""
    for i, j, m in product(range(3), repeat=3):
        minus = dw.half(fa[:, i], fb[:, m])
        yield qa[:, i] * qa[:, j] * qb[:, m], dw.half(fa[:, i], fa[:, j]), minus


def _trace(f: Array, q: Array) -> tuple[Array, Array]:
    """(tr V_aug[f] as a covariance matrix's trace, E f)."""
    mean = (q[..., None] * f).sum(1)
    f = f - mean[:, None]
    return np.trace(np.einsum("bv,bvi,bvj->bij", q, f, f), axis1=1, axis2=2), mean


def _quotient(F: Callable, D: Array, D0: Array) -> Array:
    """|dF| at the intermediate point of Eq. 72: the difference quotient, F' where it is 0/0."""
    gap = D - D0
    small = np.abs(gap) < 1e-9
    slope = ref.slope(lambda v: F(v), np.where(small, D0, 0.0))
    return np.where(small, slope, (F(D) - F(D0)) / np.where(small, 1.0, gap))


@check("ddn/eq74")
def eq74(t: Trial) -> None:
    """The positive distance's part of the residue: variance of views (Eqs. 73-74).

    Given   finite sets of views with random chances, generic, close or one only; x_1, x_+
            independent views; L_nce.
    Claim   E|dF/dr_+ (r_+ - r_+^0)| <= tr V_aug[f|x]/tau^2, with F's own slope at the intermediate
            point; on the way half the mean squared distance of two views is that trace.
    Fails   the identity without 1/2; the bound with 1/tau in place of 1/tau^2.
    """
    identity = t.part("identity", 1e-10, controls=pooled)
    inequality = t.part("inequality", 1.0)
    n = 5 * t.draws
    for tau, a, b, fa, fb, qa, qb in _pairs(t.rng, n):
        F, D0 = curve(tau), -dw.half(a, b)[:, 0]
        trace, _ = _trace(fa, qa)
        half, left = np.zeros((2, n))
        for chance, plus, minus in _triples(fa, fb, qa, qb):
            half += chance * plus
            left += chance * _quotient(F, plus - minus, D0) * plus

        # Half the mean squared distance of two views is tr V_aug[f|x].
        some = trace > 1e-6
        identity.add(np.abs(half - trace) / np.maximum(trace, 1e-6))
        identity.breaks("no 1/2", np.abs(2 * half - trace)[some] / trace[some])

        # E|dF/dr_+ (r_+ - r_+^0)| is at most that over tau^2.
        inequality.add(left * tau**2 / np.maximum(trace, 1e-12))
    square = np.array([0.1**2])  # r_+; F's own slope near 0 is 1/(4 tau^2), above 1/tau
    inequality.breaks("1/tau, tau = 0.1", (curve(0.1)(square) - 0.5 / 0.1) / square * 0.1)


@check("ddn/eq77")
def eq77(t: Trial) -> None:
    """Change of a negative distance from samples to their views (Eqs. 75-77).

    Given   random vectors a, b and offsets in five dimensions.
    Claim   |a + da - (b + db)|^2 - |a - b|^2 = 2 (da - db)^T (a - b) + |da - db|^2, and half of it
            is r_- - r_-^0; both proved.
    Fails   without the square, without its 1/2, for the sum of the offsets.
    """
    a, b, da, db = t.rng.standard_normal((4, 20 * t.draws, 5))
    gap, cross = da - db, ((da - db) * (a - b)).sum(-1)
    square = (gap**2).sum(-1)

    # |a + da - (b + db)|^2 - |a - b|^2 = 2 (da - db)^T (a - b) + |da - db|^2.
    left = ((a + da - b - db) ** 2).sum(-1) - ((a - b) ** 2).sum(-1)
    whole = t.part("Eq. 75", 1e-12, controls=typical).add(absolute(left, 2 * cross + square))
    whole.breaks("no square", absolute(left, 2 * cross))

    # Half of it is r_- - r_-^0.
    change = dw.half(a + da, b + db) - dw.half(a, b)
    plus = ((da + db) * (a - b)).sum(-1)
    half = t.part("Eq. 77", 1e-12, controls=typical).add(absolute(change, cross + square / 2))
    half.breaks("no 1/2", absolute(change, cross + square))
    half.breaks("sum of offsets", absolute(change, plus + square / 2))
    for part, proof in zip((whole, half), exact_weights.offsets(), strict=True):
        part.proves(**proof)


def _once_more(
    tau: float, a: Array, b: Array, fa: Array, fb: Array, qa: Array, qb: Array, tiny: float
) -> Array:
    """Left of Eq. 78 over its right, [n]: all views at once, the logistic curve by its symmetry,
    traces by pairs of views."""
    r0, minus = dw.half(a, b)[:, 0], dw.half(fa[:, :, None], fb[:, None])[:, :, None]
    pairs = [dw.half(f[:, :, None], f[:, None]) for f in (fa, fb)]
    D, D0 = (pairs[0][..., None] - minus) / tau, -r0[:, None, None, None] / tau
    gap = np.abs(D - D0)  # s(y) - s(x) = s(y) s(-x) (1 - exp(x - y)), s(x) = 1/(1 + exp(-x))
    quotient = special.expit(np.maximum(D, D0)) * special.expit(-np.minimum(D, D0))
    quotient *= np.where(gap > 0, -np.expm1(-gap) / np.where(gap > 0, gap, 1), 1)
    moved = quotient * np.abs(minus - r0[:, None, None, None])
    left = np.einsum("ni,nj,nm,nijm->n", qa, qa, qb, moved)
    (ta, ca), (tb, cb) = (
        (
            np.einsum("ni,nj,nij->n", q, q, p),
            np.linalg.norm(np.einsum("ni,nik->nk", q, f - u), axis=-1),
        )
        for q, p, f, u in ((qa, pairs[0], fa, a), (qb, pairs[1], fb, b))
    )
    right = np.sqrt(2 * r0) * (np.sqrt(ta) + np.sqrt(tb) + ca + cb) + ta + tb
    return (left - tiny) / np.maximum(right, tiny)


@check("ddn/eq78")
def eq78(t: Trial) -> None:
    """Bound on the negative distance's part of the residue (Eq. 78).

    Given   L_nce, H = 1, finite sets of views: generic, one view only, f(x) near f(x'').
    Claim   E|dF/dr_- (r_- - r_-^0)|, with the slope of Eq. 72's point, is at most {|f(x) - f(x'')|
            (sigma + sigma'' + c_0 + c_0'') + sigma^2 + sigma''^2}/tau^2, pair by pair;
            sigma^2 = tr V_aug[f].
    Fails   where views are further from their sample than the braces allow (any offset, as
            printed). Corrected: c_0(x)^2 + c_0(x'')^2 added, c_0 = |f(x) - E_aug f|; as printed it
            holds while that is at most three times the braces. Control: no c_0 at all.
    """
    slack = t.part("offsets within the slack", 1.0)
    printed, mended = t.part("any offset", 1.0), t.corrected("any offset", 1.0)
    n, tiny = 5 * t.draws, 1e-10
    for tau, a, b, fa, fb, qa, qb in _pairs(t.rng, n):
        F, left, D0 = curve(tau), np.zeros(n), -dw.half(a, b)[:, 0]
        for chance, plus, minus in _triples(fa, fb, qa, qb):
            left += chance * _quotient(F, plus - minus, D0) * np.abs(minus + D0) * tau**2
        (ta, ma), (tb, mb) = _trace(fa, qa), _trace(fb, qb)
        ca, cb = (np.sqrt(((u[:, 0] - m) ** 2).sum(-1)) for u, m in ((a, ma), (b, mb)))
        far = np.sqrt(((a - b)[:, 0] ** 2).sum(-1))
        sides = np.sqrt(ta) + np.sqrt(tb)
        right = far * (sides + ca + cb) + ta + tb
        ratio = (left - tiny) / np.maximum(right, tiny)

        # It holds while c_0(x)^2 + c_0(x'')^2 is at most three times the braces.
        small = ca**2 + cb**2 <= 3 * right
        slack.add(np.where(small, ratio, 0.0))
        slack.breaks("larger offsets", np.where(small, 0.0, ratio), by=worst)

        # As printed for any offset; corrected, with those squares added.
        printed.add(ratio).fails_by(_once_more(tau, a, b, fa, fb, qa, qb, tiny), within=1e-6)
        mended.add((left - tiny) / (right + ca**2 + cb**2))
        without = ((left - tiny) / np.maximum(far * sides + ta + tb, tiny)).max()
        for part in (printed, mended):
            part.breaks("no c_0", without, by=worst)


# ------------------------------------------------------------------------------ the last step


def summed(t: Trial) -> None:
    """What Eq. 79 does with Eqs. 74 and 78: no product of three operators exceeds 2 M_K^2, which
    some attain; the two bounds add up to the braces over pairs of samples."""
    rng, n = t.stream("summed"), 5 * t.draws
    product_ = t.part("2 M_K^2", 1 + 1e-12, controls=typical)
    K, half = rng.standard_normal((3, n, 4, 2)), n // 2
    read = rng.standard_normal((half, 1, 2))  # K_1 and K_+ read one direction, K_- is -K_+
    K[:2, :half] = rng.standard_normal((2, half, 4, 1)) * read
    K[2, :half] = -K[1, :half]
    size = np.linalg.norm(K, 2, (-2, -1))
    K /= size[..., None, None]  # M_K = 1
    term = np.linalg.norm(K[0] @ (K[1] - K[2]).swapaxes(-1, -2), 2, (-2, -1))
    product_.add(term / 2).breaks("M_K^2 alone", term[:half])

    # Eq. 74 and Eq. 78 add up to the braces over pairs of samples.
    sums = t.part("Eqs. 74 and 78 summed", 1e-12, controls=typical)
    p, f = rng.random((n, 4)), rng.standard_normal((n, 4, 3))
    p /= p.sum(-1, keepdims=True)
    sigma, c0 = rng.random((2, n, 4))
    far = np.linalg.norm(f[:, :, None] - f[:, None], axis=-1)

    def of_pairs(values: Array) -> Array:
        return np.einsum("bs,bt,bst->b", p, p, values)

    one, other = (sigma + c0)[:, :, None], (sigma + c0)[:, None]
    variance, both = (sigma**2)[:, :, None] + 0 * far, (sigma**2)[:, :, None] + (sigma**2)[:, None]
    left = of_pairs(variance) + of_pairs(far * (one + other) + both)

    def braces(own: float) -> Array:
        return 2 * of_pairs(far * one) + own * (p * sigma**2).sum(-1)

    sums.add(relative(left, braces(3.0))).breaks("2 for 3", relative(left, braces(2.0)))
