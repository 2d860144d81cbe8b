"""The inequalities in the proof of Theorem 4, one by one (ddn App. B.4, Eqs. 59, 70-78).

F = -dL/dr_- depends on (r_+, r_-) through D = r_+ - r_- alone, and is a logistic curve in D. Where
the proof has a derivative at an intermediate point, the checks use that point's own value, which is
the difference quotient of F.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.weights import TAUS
from clcore.ledger import Check
from clcore.reference import Array, absolute, typical, worst


def curve(tau: float, kind: str = "InfoNCE", margin: float = 0.0) -> Callable[[Array], Array]:
    """F as a function of D = r_+ - r_-, from the page; safe for large |D|."""
    scale = 1 / tau if kind == "InfoNCE" else 1.0

    def F(D: Array) -> Array:
        return scale * 0.5 * (1 + np.tanh((D + margin) / (2 * tau)))

    return F


# ---------------------------------------------------------------------------- F and its derivatives


def eq71(draws: int, seed: int) -> Iterator[Check]:
    """0 < F < 1/tau, |F (1/tau - F)| < 1/tau^2, and dF by complex steps.

    Controls: the triplet's F, bounds with one tau less, the signs as typeset, no 1/tau in the
    derivative.
    """
    check = partial(Check, "ddn/eq71")
    rng = ref.generator("eq71", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for tau in TAUS:
        r = rng.uniform(0, 10 * tau, (50 * draws, 2))

        def F(v: Array, tau: float = tau) -> Array:
            a, b = np.exp(-v[..., 0] / tau), np.exp(-v[..., 1] / tau)
            return b / (a + b) / tau

        value, slope = F(r), ref.gradient(F, r)
        product_ = value * (1 / tau - value)
        found["range"].append(np.maximum(-value, value - 1 / tau) * tau)
        found["bound"].append(np.abs(product_) * tau**2)
        if tau < 1:
            found["bound 1"].append(np.array([(value - 1).max()]))
        if tau < 0.25:
            found["bound 1/tau"].append(np.array([(np.abs(product_) * tau).max()]))
        right = np.stack([product_, -product_], -1)
        found["typeset"].append(absolute(slope * tau**2, -right * tau**2))
        found["right"].append(absolute(slope * tau**2, right * tau**2))
        other = np.stack([value * (1 - value), -value * (1 - value)], -1)
        if tau != 1:
            found["1 - F"].append(np.array([absolute(slope * tau**2, other * tau**2).max()]))
    n = 50 * draws * len(TAUS)
    outside = {"F < 1": ref.best(*found["bound 1"])}
    yield check(worst(*found["range"]), 0.0, outside, draws=n, part="range of F")
    yield check(
        worst(*found["bound"]),
        1.0,
        {"1/tau for 1/tau^2": ref.best(*found["bound 1/tau"])},
        draws=n,
        part="bound",
        note="Times tau squared; a quarter is the true maximum.",
    )
    yield check(
        worst(*found["right"]),
        1e-12,
        {
            "as typeset": worst(*found["typeset"]),
            "1 - F for 1/tau - F": ref.best(*found["1 - F"]),
        },
        draws=n,
        part="derivatives",
        misprint=r"$\partial F/\partial r_+=-F(1/\tau-F)$, $\partial F/\partial r_-=F(1/\tau-F)$ "
        "-> the two signs exchanged",
        note="More distance of the positive raises $F$. Eqs. 73 and 78 use absolute values only.",
    )


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


def eq72(draws: int, seed: int) -> Iterator[Check]:
    """A point with the identity exists: on the segment of distances, and on that of inputs.

    The search uses complex-step derivatives; its residual is shown. Control: epsilon's sign.
    """
    rng = ref.generator("eq72", seed)
    n = 5 * min(draws, 100)
    found: dict[str, list[Array]] = defaultdict(list)
    for tau in TAUS:
        layers = dw.weights(rng, n, dw.DEPTHS[3])
        start = rng.standard_normal((n, 1, 2, 4))[:, :, [0, 0, 1]]
        end = start + 0.7 * rng.standard_normal(start.shape)

        def distances(s: Array, layers=layers, start=start, end=end) -> tuple[Array, Array]:
            f = dw.output(layers, start + s[..., None, None, None] * (end - start))
            return tuple(dw.half(f[..., 0, 0, :], f[..., 0, k, :]) for k in (1, 2))

        F = partial(_F, tau)
        (p0, m0), (p1, m1) = distances(np.zeros(n)), distances(np.ones(n))
        eps = F(p0, m0) - F(p1, m1)

        def straight(s: Array, p0=p0, p1=p1, m0=m0, m1=m1) -> tuple[Array, Array]:
            return p0 + s * (p1 - p0), m0 + s * (m1 - m0)

        for name, path in (("distances", straight), ("inputs", distances)):
            for sign in (1, -1):

                def g(s: Array, path=path, sign=sign, F=F, eps=eps, p1=p1, m1=m1, m0=m0) -> Array:
                    p, m = path(s)
                    h = 1e-30j
                    return (
                        -np.imag(F(p + h, m)) / 1e-30 * p1
                        - np.imag(F(p, m + h)) / 1e-30 * (m1 - m0)
                        - sign * eps
                    )

                scale = np.abs(eps) + 1e-6 / tau
                found[f"{name} {sign}"].append(_root(g, n) / scale)
    for name in ("distances", "inputs"):
        yield Check(
            "ddn/eq72",
            worst(*found[f"{name} 1"]),
            1e-9,
            {"sign of epsilon": typical(*found[f"{name} -1"])},
            draws=n * len(TAUS),
            part=f"a point between, of the {name}",
        )


def _F(tau: float, plus: Array, minus: Array) -> Array:
    """Eq. 70 through the difference, so that nothing overflows."""
    return 0.5 * (1 + np.tanh((plus - minus) / (2 * tau))) / tau


def eq59(draws: int, seed: int) -> Iterator[Check]:
    """|epsilon| at random and extreme distances against 1 and 2/tau, H = 1 and 5; its order.

    Controls: slopes without the normaliser; 1/tau in the triplet's slope; the slope itself, which
    does not shrink with the views' offset.
    """
    check = partial(Check, "ddn/eq59")
    rng = ref.generator("eq59", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    n = 100 * draws
    for tau, H, spread in product(TAUS, (1, 5), (0.3, 3.0, 30.0)):
        r = tau * spread * rng.random((n, H + 1))
        r0 = tau * spread * rng.random((n, H + 1))
        r0[:, 0] = 0
        found["InfoNCE"].append(np.abs(_shares(r, tau) - _shares(r0, tau)) / 2)
        loose = [np.exp((v[:, :1] - v[:, 1:]) / tau) / 2 for v in (r, r0)]
        if spread == 30.0:
            found["no normaliser"].append(np.array([np.abs(loose[0] - loose[1]).max()]))
        if H == 1:
            margin = rng.uniform(0, 2 * tau)
            s = curve(tau, "triplet", margin)
            gap = np.abs(s(r[:, 0] - r[:, 1]) - s(r0[:, 0] - r0[:, 1]))
            found["triplet"].append(gap)
            if tau < 1 and spread > 1:
                found["1/tau"].append(np.array([gap.max() / tau]))
    yield check(
        worst(*found["triplet"]),
        1.0,
        {"1/tau kept": ref.best(*found["1/tau"])},
        draws=12 * n,
        part="triplet",
    )
    yield check(
        worst(*found["InfoNCE"]),
        1.0,
        {"no normaliser": ref.best(*found["no normaliser"])},
        draws=24 * n,
        part="InfoNCE",
        note=r"Over $2/\tau$: never above a half, so $1/\tau$ would do.",
    )
    slopes, flat = [], []
    for tau in (2.0, 10.0):
        layers = dw.weights(rng, draws, dw.DEPTHS[3])
        x = rng.standard_normal((draws, 1, 2, 4))[:, :, [0, 0, 1]]
        step = rng.standard_normal(x.shape)
        sizes, values, raw = 2.0 ** -np.arange(10, 22, 2), [], []
        for size in sizes:
            D = []
            for v in (x, x + size * step):
                f = dw.output(layers, v)[:, 0]
                D.append(dw.half(f[:, 0], f[:, 1]) - dw.half(f[:, 0], f[:, 2]))
            values.append(np.abs(curve(tau)(D[1]) - curve(tau)(D[0])) / size)
            raw.append(np.abs(curve(tau)(D[1])) / size)
        values, raw = np.array(values), np.array(raw)
        floor = 1e-2 / tau**2
        slopes.append(values[-3:].max(0) / np.maximum(values[:3].max(0), floor))
        flat.append(raw[-3:].max(0) / np.maximum(raw[:3].max(0), floor))
    yield check(
        worst(*slopes),
        2.0,
        {"F itself": typical(*flat)},
        draws=2 * draws,
        part="order",
        note="|epsilon| over the offset of the views: 2^-20 to 2^-16 against 2^-14 to 2^-10.",
    )


def _shares(r: Array, tau: float) -> Array:
    """exp(-r_k / tau) / Z of the negatives, [n, H], stable."""
    e = np.exp(-(r - r.min(-1, keepdims=True)) / tau)
    return (e / e.sum(-1, keepdims=True))[:, 1:]


# ------------------------------------------------------------------- one pair of samples at a time


def _pairs(rng: np.random.Generator, n: int, V: int = 3, k: int = 2) -> list[tuple]:
    """(f(x), f(x''), views of both [n, V, k], chances of both): generic, close, one view only."""
    out = []
    for far, offset, spread in ((1, 0.3, 0.5), (0, 0, 1), (0.01, 1, 1e-3), (1e-4, 1, 0), (3, 1, 1)):
        a = rng.standard_normal((n, 1, k))
        b = a + far * rng.standard_normal((n, 1, k))
        shift = offset * rng.standard_normal((2, n, 1, k))
        noise = spread * rng.standard_normal((2, n, V, k))
        q = rng.random((2, n, V)) + 0.1
        q /= q.sum(-1, keepdims=True)
        out.append((a, b, a + shift[0] + noise[0], b + shift[1] + noise[1], *q))
    return out


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


def eq74(draws: int, seed: int) -> Iterator[Check]:
    """Half the mean squared distance of two views is the trace; the inequality, with its own slope.

    Controls: no 1/2; the bound with 1/tau.
    """
    rng = ref.generator("eq74", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    n = 5 * draws
    for tau in TAUS:
        F = curve(tau)
        for a, b, fa, fb, qa, qb in _pairs(rng, n):
            trace, _ = _trace(fa, qa)
            half, left = np.zeros((2, n))
            D0 = -dw.half(a, b)[:, 0]
            for i, j, m in product(range(3), repeat=3):
                plus = dw.half(fa[:, i], fa[:, j])
                chance = qa[:, i] * qa[:, j] * qb[:, m]
                half += chance * plus
                slope = _quotient(F, plus - dw.half(fa[:, i], fb[:, m]), D0)
                left += chance * slope * plus
            size = np.maximum(trace, 1e-6)
            found["identity"].append(np.abs(half - trace) / size)
            found["twice"].append(np.abs(2 * half - trace)[trace > 1e-6] / trace[trace > 1e-6])
            found["ratio"].append(left * tau**2 / np.maximum(trace, 1e-12))
        if tau == 0.1:
            c = 0.1 * np.ones(n)
            found["1/tau"].append(
                np.array([(curve(tau)(c**2) - 0.5 / tau).max() / (c**2).max() * tau])
            )
    tight = worst(*found["ratio"])
    yield Check(
        "ddn/eq74",
        worst(*found["identity"]),
        1e-10,
        {"no 1/2": typical(np.concatenate(found["twice"]))},
        draws=20 * n,
        part="identity",
    )
    yield Check(
        "ddn/eq74",
        tight,
        1.0,
        {"1/tau, tau = 0.1": ref.best(*found["1/tau"])},
        draws=20 * n,
        part="inequality",
        note="Left over right; a quarter is the limit.",
    )


def eq77(draws: int, seed: int) -> Iterator[Check]:
    """Eqs. 75 and 77 at random vectors. Controls: a sign, no 1/2 on the square, no square."""
    rng = ref.generator("eq77", seed)
    a, b, da, db = rng.standard_normal((4, 20 * draws, 5))
    gap, cross = da - db, ((da - db) * (a - b)).sum(-1)
    square = (gap**2).sum(-1)
    left = ((a + da - b - db) ** 2).sum(-1) - ((a - b) ** 2).sum(-1)
    n = 20 * draws
    yield Check(
        "ddn/eq77",
        worst(absolute(left, 2 * cross + square)),
        1e-12,
        {"no square": typical(absolute(left, 2 * cross))},
        draws=n,
        part="Eq. 75",
    )
    change = dw.half(a + da, b + db) - dw.half(a, b)
    plus = ((da + db) * (a - b)).sum(-1)
    yield Check(
        "ddn/eq77",
        worst(absolute(change, cross + square / 2)),
        1e-12,
        {
            "no 1/2": typical(absolute(change, cross + square)),
            "sum of offsets": typical(absolute(change, plus + square / 2)),
        },
        draws=n,
        part="Eq. 77",
    )


def eq78(draws: int, seed: int) -> Iterator[Check]:
    """E|dF/dr_- (r_- - r_-^0)| with the slope of Eq. 72 against the printed bound, pair by pair.

    Worlds: generic, one view only, f(x) near f(x''). Controls: no c_0 at all; offsets far beyond
    the distance of the samples, for the part in which they are not.
    """
    rng = ref.generator("eq78", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    n = 5 * draws
    for tau in TAUS:
        F = curve(tau)
        for a, b, fa, fb, qa, qb in _pairs(rng, n):
            left, D0 = np.zeros(n), -dw.half(a, b)[:, 0]
            for i, j, m in product(range(3), repeat=3):
                chance = qa[:, i] * qa[:, j] * qb[:, m]
                minus = dw.half(fa[:, i], fb[:, m])
                slope = _quotient(F, dw.half(fa[:, i], fa[:, j]) - minus, D0)
                left += chance * slope * np.abs(minus + D0) * tau**2
            (ta, ma), (tb, mb) = _trace(fa, qa), _trace(fb, qb)
            ca, cb = (np.sqrt(((u[:, 0] - m) ** 2).sum(-1)) for u, m in ((a, ma), (b, mb)))
            far = np.sqrt(((a - b)[:, 0] ** 2).sum(-1))
            sides = np.sqrt(ta) + np.sqrt(tb)
            printed = far * (sides + ca + cb) + ta + tb
            right = printed + ca**2 + cb**2
            tiny = 1e-10
            found["printed"].append((left - tiny) / np.maximum(printed, tiny))
            small = ca**2 + cb**2 <= 3 * printed
            found["small offsets"].append(np.where(small, found["printed"][-1], 0.0))
            found["large offsets"].append(np.where(small, 0.0, found["printed"][-1]))
            found["right"].append((left - tiny) / right)
            found["no c_0"].append(
                [((left - tiny) / np.maximum(far * sides + ta + tb, tiny)).max()]
            )
    control = {"no c_0": max(float(v[0]) for v in found["no c_0"])}
    yield Check(
        "ddn/eq78",
        worst(*found["small offsets"]),
        1.0,
        {"larger offsets": worst(*found["large offsets"])},
        draws=20 * n,
        part="offsets within the slack",
        note=r"$c_0(x)^2+c_0(x'')^2$ at most three times the braces: the slope of $F$ is at most a "
        "quarter of its bound.",
    )
    yield Check(
        "ddn/eq78",
        worst(*found["printed"]),
        1.0,
        control,
        draws=20 * n,
        part="any offset",
        counterexample=r"One view each, $f(x)=f(x'')=0$, $f(x_1)=f(x_+)=c\ne0$, $f(x_-)=-c$: the "
        r"right side is 0; $r_--r_-^0=2\|c\|^2$, and the left is $F(0)-F(-2\|c\|^2)>0$.",
        note="Another error than Theorem 4's, which leaves $c_0$ out; Eq. 79 inherits this one.",
    )
    yield Check(
        "ddn/eq78",
        worst(*found["right"]),
        1.0,
        control,
        draws=20 * n,
        part="any offset",
        form="corrected",
        correction=r"Add $c_0(x)^2+c_0(x'')^2$ in the braces: $\mathbb E\|f(x_1)-f(x)\|^2="
        r"\operatorname{tr}\mathbb V_{aug}[f|x]+c_0(x)^2$.",
        note="Left over right.",
    )
