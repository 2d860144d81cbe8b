"""Global modulation: basins, critical times, the chance to win (nl Theorem 6, App. C.3).

Quadrature, adaptive integration and Monte Carlo meet `clcore.modulation`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from scipy import stats
from scipy.integrate import quad, solve_ivp

from .. import modulation
from ..ledger import Check
from . import reference as ref
from .reference import Array, relative, tensors, typical, worst

STARTS = 600


def _pairs(rng: np.random.Generator, draws: int) -> tuple[Array, Array]:
    """y(0) > 0 and b > 0 over two orders of magnitude each, 30 a draw."""
    return 10 ** rng.uniform(-2, 0, (draws, 30)), 10 ** rng.uniform(-1, 1, (draws, 30))


def _time(y0: Array, b: Array) -> Array:
    """t* by Gauss-Legendre quadrature of du / (1 + b u), u = 1/y, after u = e^v - 1 over b."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    end = np.log1p(b / y0)[..., None] / 2
    v = end * (1 + nodes)  # u = (e^v - 1) / b, du / (1 + b u) = dv / b
    u = np.expm1(v) / b[..., None]
    return (weights * end * np.exp(v) / b[..., None] / (1 + b[..., None] * u)).sum(-1)


def thm6(draws: int, seed: int) -> Iterator[Check]:
    """Basins of u_1 with and without c, shared starts, on the sphere and without the projection.

    Controls: c < 0.
    """
    check = partial(Check, "nl/thm6")
    rng = ref.generator("thm6", seed)
    for projected, part in ((True, "with the projection"), (False, "without it")):
        lost, gained, off, won = [], [], [], []
        for d in (2, 5):
            y = torch.from_numpy(rng.standard_normal((STARTS, d)))
            y = y / y.norm(dim=-1, keepdim=True)
            won.append(_wins(y, 1.2, 0.0, projected))
            for c in (0.2, 0.6):
                now = _wins(y, 1.2, c, projected)
                lost.append(int((won[-1] & ~now).sum()))
                gained.append(int((now & ~won[-1]).sum()))
            less = _wins(y, 1.2, -0.6, projected)
            off.append((int((won[-1] & ~less).sum()), int((less & ~won[-1]).sum())))
        yield check(
            max(lost),
            0,
            {"c < 0": min(a for a, _ in off)},
            draws=2 * STARTS,
            part=part + ": none lost",
            note="Starts in the basin at c = 0 and not at c > 0, d = 2 and 5, b = 1.2.",
        )
        yield check(
            min(gained),
            1,
            {"c < 0": max(b for _, b in off)},
            draws=2 * STARTS,
            part=part + ": some gained",
            relation=">=",
            note="g > 0 on the sphere asks for b > a = 1.",
        )


def _wins(y: torch.Tensor, b: float, c: float, projected: bool) -> torch.Tensor:
    rates = torch.full_like(y, b)
    rates[:, 0] += c
    if not projected:
        return modulation.first_to_blow_up(y, rates) == 0
    return modulation.winner(modulation.simulate(y, rates, steps=350, pace=0.4)) == 0


def eq147(draws: int, seed: int) -> Iterator[Check]:
    """The closed form against adaptive integration, starts on both sides of 0.

    Controls: e^(-bt); b off by a tenth.
    """
    check = partial(Check, "nl/eq147")
    rng = ref.generator("eq147", seed)
    count = min(draws, 30)
    b = rng.uniform(0.3, 4, count)
    y0 = np.where(np.arange(count) % 3 == 2, -rng.uniform(0.05, 0.9, count) * b, 1.0)
    y0 = np.where(y0 > 0, rng.uniform(0.02, 1, count), y0)
    last = 0.9 * np.where(y0 > 0, np.log1p(b / np.abs(y0)) / b, 2 / b)
    found = np.array([_integrated(*v) for v in zip(y0, b, last, strict=True)])
    start, rate, t = tensors(y0, b, last)
    left, right = found / (found + b), y0 / (y0 + b)
    yield check(
        worst(relative(left[:, None], (right * np.exp(b * last))[:, None])),
        1e-8,
        {
            "$e^{-bt}$": typical(relative(left[:, None], (right * np.exp(-b * last))[:, None])),
            "1.1 b": typical(relative(left[:, None], (right * np.exp(1.1 * b * last))[:, None])),
        },
        draws=count,
        part="Eq. 147",
    )
    yield check(
        worst(relative(modulation.solution(start, rate, t)[:, None], found[:, None])),
        1e-7,
        {"1.1 b": typical(relative(modulation.solution(start, 1.1 * rate, t)[:, None],
                                   found[:, None]))},
        draws=count,
        part="solved for y",
    )  # fmt: skip


def _integrated(y0: float, b: float, end: float) -> float:
    path = solve_ivp(lambda _, y: (y + b) * y, (0, end), [y0], "DOP853", rtol=1e-12, atol=1e-14)
    return float(path.y[0, -1])


def eq148(draws: int, seed: int) -> Iterator[Check]:
    """Ratios, the component that takes over, and whether the first to blow up wins.

    Controls: components by themselves; the largest start wins; c < 0.
    """
    check = partial(Check, "nl/eq148")
    rng = ref.generator("eq148", seed)
    y0 = rng.uniform(0.1, 1, (draws, 4))
    b = rng.uniform(1.1, 2, (draws, 4))
    times = np.log1p(b / y0) / b
    now = 0.7 * times.min(-1, keepdims=True) * np.ones_like(b)
    y = modulation.solution(*tensors(y0, b, now)).numpy()
    z = y / np.linalg.norm(y, axis=-1, keepdims=True)
    yield check(
        worst(relative(z[:, :1] / z, y[:, :1] / y)),
        1e-12,
        {"components for ratios": typical(relative(z, y))},
        draws=draws,
        part="ratios need no Z",
    )
    late = (1 - 1e-10) * times.min(-1, keepdims=True) * np.ones_like(b)
    y = modulation.solution(*tensors(y0, b, late)).numpy()
    z = y / np.linalg.norm(y, axis=-1, keepdims=True)
    lead = np.take_along_axis(z, times.argmin(-1)[:, None], -1)[:, 0]
    yield check(
        worst(1 - lead),
        1e-6,
        {"the largest start": float(np.max(1 - np.take_along_axis(z, y0.argmin(-1)[:, None], -1)))},
        draws=draws,
        part="it dominates",
    )
    d = 5
    y = torch.from_numpy(rng.standard_normal((STARTS, d)))
    y = y / y.norm(dim=-1, keepdim=True)
    y = y[(y > 0).any(-1)]
    b = torch.full_like(y, 1.2)
    equal = b.clone()
    b[:, 0] += 0.5
    first = modulation.first_to_blow_up(y, b)
    alone = modulation.winner(modulation.simulate(y, b, False, 500, 0.2), 0.9)
    yield check(
        float((first != alone).double().mean()),
        0.002,
        {"the largest start wins": float((y.argmax(-1) != alone).double().mean())},
        draws=len(y),
        part="argmin t*, without the projection",
        note="Share of starts with another winner.",
    )
    sphere = modulation.winner(modulation.simulate(y, b, True, 350, 0.4))
    same = modulation.winner(modulation.simulate(y, equal, True, 350, 0.4))
    even = modulation.first_to_blow_up(y, equal)
    yield check(
        float((first != sphere).double().mean()),
        0.002,
        {"the largest start wins": float((y.argmax(-1) != sphere).double().mean())},
        draws=len(y),
        part="argmin t*, with the projection",
        note="The proof omits the projection 'for now' and restores it as 1/Z(t). A is not "
        "homogeneous in w, so that is another flow: as the components blow up, c fades beside "
        "them; on the sphere it does not. Theorem 6 holds for both.",
        counterexample=r"$d=2$, $b=1.2$, $c=0.5$, $y(0)=(0.55,0.835)$: $t^*=(0.828,0.742)$, so "
        r"the second wins; on the sphere $\frac d{dt}\ln(y_1/y_2)=y_1+c-y_2>0$ for ever, and the "
        "first does.",
    )
    yield check(
        int(((first == 0) & (sphere != 0)).sum()) + int((even != same).sum()),
        0,
        {
            "c < 0": int(
                ((modulation.first_to_blow_up(y, 2 * equal - b) == 0) & _others(y, equal, b)).sum()
            )
        },
        draws=len(y),
        part="argmin t*, with the projection",
        form="corrected",
        correction=r"At $c=0$ the winner is $\arg\min_lt_l^*$; for $c>0$ the flow with "
        r"$P_w^\perp$ goes to $u_l$ whenever $t_l^*$ is the least, and from more starts besides.",
        note="Starts that break this.",
    )


def _others(y: torch.Tensor, equal: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where the modulated pattern does not win on the sphere when c changes its sign."""
    return modulation.winner(modulation.simulate(y, 2 * equal - b, True, 350, 0.4)) != 0


def fig7(draws: int, seed: int) -> Iterator[Check]:
    """The one-dimensional flow: its two rest points, where it goes, when it blows up."""
    check = partial(Check, "nl/fig7")
    rng = ref.generator("fig7", seed)
    b = np.concatenate([[0.5, 1.0, 3.0], rng.uniform(0.3, 4, draws)])
    slopes = []
    for point in (0 * b, -b):
        y = torch.from_numpy(point).requires_grad_()
        rate = torch.autograd.grad(modulation.force(y, torch.from_numpy(b)).sum(), y)[0]
        slopes.append(rate.numpy())
    error = np.concatenate([slopes[0] - b, slopes[1] + b])
    yield check(
        worst(np.abs(error)),
        1e-12,
        {"exchanged": typical(np.abs(slopes[1] - b))},
        draws=len(b),
        part="rest points",
        note="Slope +b at 0 (unstable) and -b at -b (stable).",
    )
    starts = np.stack([-3 * b, -0.5 * b, -1e-3 * b])
    y = torch.from_numpy(starts)
    rate = torch.from_numpy(b).expand_as(y)
    # Single components: `simulate` would return their signs, so use the closed form far out.
    far = modulation.solution(y, rate, 40 / rate).numpy()
    ends = np.array([_integrated(float(v), float(w), 40 / w) for v, w in zip(starts[0], b)])
    yield check(
        worst(np.abs(far + b) / b, np.abs(ends + b) / b),
        1e-9,
        {"starts on the other side": typical(np.abs(modulation.solution(
            -y, rate, 0.9 * modulation.critical_time(-y, rate)).numpy() + b) / b)},
        draws=3 * len(b),
        part="negative starts go to -b",
    )  # fmt: skip
    y0 = rng.uniform(0.02, 1, len(b))
    found = _time(y0, b)
    formula = modulation.critical_time(*tensors(y0, b)).numpy()
    yield check(
        worst(np.abs(found / formula - 1)),
        1e-10,
        {"without 1 +": typical(np.abs(np.log(1e-9 + b / y0) / b / found - 1))},
        draws=len(b),
        part="positive starts blow up at t*",
        note="Time to infinity by quadrature of dy / y'.",
    )


def eq150(draws: int, seed: int) -> Iterator[Check]:
    """Critical times against quadrature; they fall with y(0). Controls: other logarithms."""
    check = partial(Check, "nl/eq150")
    rng = ref.generator("eq150", seed)
    y0, b = _pairs(rng, draws)
    ours = modulation.critical_time(*tensors(y0, b)).numpy()
    found = _time(y0, b)
    residue = y0 / (y0 + b) * np.exp(b * ours)
    yield check(
        worst(relative(ours, found), np.abs(residue - 1)),
        1e-10,
        {
            "without 1/b": typical(relative(b * ours, found)),
            "$y_l(0)/b_l$": typical(relative(np.log1p(y0 / b) / b, found)),
        },
        draws=draws,
        part="Eqs. 149, 150",
    )
    later = modulation.critical_time(*tensors(1.01 * y0, b)).numpy()
    yield check(
        worst(later / ours),
        1 - 1e-6,
        {"a smaller start": float(np.min(modulation.critical_time(
            *tensors(y0 / 1.01, b)).numpy() / ours))},
        draws=draws,
        part="falls with y(0)",
    )  # fmt: skip


def eq151(draws: int, seed: int) -> Iterator[Check]:
    """The slope of t* in b by complex steps; its sign; the trade at equal times."""
    check = partial(Check, "nl/eq151")
    rng = ref.generator("eq151", seed)
    y0, b = _pairs(rng, draws)
    slope = ref.slope(lambda v: np.log(1 + v / y0) / v, b)
    ours = modulation.critical_slope(*tensors(y0, b)).numpy()
    yield check(
        worst(np.abs(ours / slope - 1)),
        1e-9,
        {"1/b for $1/b^2$": typical(np.abs(ours * b / slope - 1))},
        draws=draws,
        part="Eq. 151",
    )
    tiny = modulation.critical_slope(*tensors(np.full(9, 1.0), 10.0 ** -np.arange(1, 5.1, 0.5)))
    yield check(
        worst(slope, tiny.numpy()),
        -1e-6,
        {"its negative": float(np.min(-ours))},
        draws=draws,
        part="negative",
        note="As b tends to 0 the slope tends to -1/(2 y(0)^2).",
    )
    t = rng.uniform(0.2, 2, (draws, 30))
    start = b / np.expm1(b * t)  # of the components that blow up at t
    more = 1.1 * b / np.expm1(1.1 * b * t)
    yield check(
        worst(more / start),
        1 - 1e-4,
        {"b smaller": float(np.min(b / 1.1 / np.expm1(b / 1.1 * t) / start))},
        draws=draws,
        part="at equal times",
        note="The start that blows up at a given time, with b and 1.1 b.",
    )


# ---------------------------------------------------------------- chances of independent starts

LAWS = {"uniform": stats.uniform(-1, 2), "normal": stats.norm(), "Laplace": stats.laplace()}


def integral(law, epsilon: float | Callable, d: int) -> float:
    """Eq. 154 by adaptive quadrature, split where a uniform law has corners."""
    lead = epsilon if callable(epsilon) else (lambda y: y + epsilon)
    end = 1.0 if law is LAWS["uniform"] else 40.0
    corners = [] if callable(epsilon) else [min(max(v - epsilon, 0), end) for v in (-1, 1)]
    cuts = sorted({0.0, min(3.0, end), end, *corners})
    pieces = [
        quad(lambda y: law.cdf(lead(y)) ** (d - 1) * law.pdf(y), a, b, epsabs=1e-13)[0]
        for a, b in zip(cuts, cuts[1:], strict=False)
    ]
    return float(sum(pieces))


def _head_start(y: Array, b: float, c: float) -> Array:
    """The start with rate b that blows up together with y > 0 and rate b + c."""
    return b / np.expm1(b * np.log1p((b + c) / y) / (b + c))


def eq154(draws: int, seed: int) -> Iterator[Check]:
    """The integral against Monte Carlo; the event against winners of the flow.

    Controls: d for d - 1; the integral over negative starts too; one epsilon for all starts.
    """
    check = partial(Check, "nl/eq154")
    rng = ref.generator("eq154", seed)
    count, off, power, below = 40_000, [], [], []
    for law in LAWS.values():
        for d in (2, 8):
            y = law.rvs(size=(count, d), random_state=rng)
            for e in (-0.5, 0.0, 0.3):
                event = (y[:, 0] > 0) & (y[:, 0] + e >= y[:, 1:].max(-1))
                share, p = event.mean(), integral(law, e, d)
                error = np.sqrt(p * (1 - p) / count)
                off.append(abs(share - p) / error)
                power.append(abs(share - integral(law, e, d + 1)) / error)
                both = (y[:, 0] + e >= y[:, 1:].max(-1)).mean()
                below.append(abs(both - p) / error if d == 2 else np.inf)
    yield check(
        max(off),
        6.0,
        {"$F^d$": min(power), "starts of either sign": min(below)},
        draws=18,
        part="the integral",
        note=f"Standard errors of {count} starts: uniform, normal and Laplace laws.",
    )
    b, c, d = 1.2, 0.5, 4
    y = rng.uniform(-1, 1, (STARTS, d))
    rates = torch.full((STARTS, d), b, dtype=torch.float64)
    rates[:, 0] += c
    won = modulation.winner(modulation.simulate(torch.from_numpy(y), rates, False, 500, 0.2), 0.9)
    won = (won == 0).numpy()
    rest = y[:, 1:].max(-1)
    positive = y[:, 0] > 0
    moving = positive & (_head_start(np.where(positive, y[:, 0], 1), b, c) >= rest)
    fixed = [
        np.mean((positive & (y[:, 0] + e >= rest)) != won) for e in np.arange(0, 0.5, 0.01)
    ]
    yield check(
        float(np.mean(moving != won)),
        0.002,
        {"the best constant": float(min(fixed))},
        draws=STARTS,
        part="the event",
        note=r"Share of starts that it gets wrong, flow without the projection. Its $\epsilon_l$ "
        r"depends on the start, $\epsilon_l(y)\to0$ as $y\to0$; Eq. 154 holds with "
        r"$\epsilon_l(y_l)$, while Eq. 155 takes a constant.",
    )


def eq155(draws: int, seed: int) -> Iterator[Check]:
    """All three cases against quadrature of Eq. 154. Controls: terms dropped."""
    check = partial(Check, "nl/eq155")
    rng = ref.generator("eq155", seed)
    off, half, power = [], [], []
    for _ in range(min(draws, 20)):
        d = int(rng.integers(2, 31))
        for low, high in ((-1, 0), (0, 1), (1, 1.5)):
            e = float(rng.uniform(low, high))
            p = integral(LAWS["uniform"], e, d)
            if e > 1:
                printed, no_half, other = 0.5, 0.25, 1.0
            else:
                a, lead = (1 + e) / 2, min(1 + e / 2, 1)
                no_half = (lead**d - a**d) / d
                printed, other = no_half + max(e, 0) / 2, no_half * d + max(e, 0) / 2
            ours = float(modulation.win_probability(torch.tensor(e, dtype=torch.float64), d))
            off += [abs(printed - p), abs(ours - p)]
            half.append(abs(no_half - p) if e > 0 else np.nan)
            power.append(abs(other - p))
    yield check(
        max(off),
        1e-10,
        {
            r"without $\epsilon_l/2$": float(np.nanmedian(half)),
            "without 1/d": float(np.median(power)),
        },
        draws=3 * min(draws, 20),
    )


def rem19(draws: int, seed: int) -> Iterator[Check]:
    """What the paper reads off Eq. 155, on a grid of epsilon and d, by quadrature-checked values.

    Controls: other bounds, other rates.
    """
    check = partial(Check, "nl/rem19")
    dims = range(2, 41)

    def P(low: float, high: float, count: int = 60) -> tuple[Array, Array]:
        e = torch.linspace(low, high, count, dtype=torch.float64)
        return e.numpy(), np.stack([modulation.win_probability(e, d).numpy() for d in dims])

    d = np.array(dims)[:, None]
    _, even = P(0.0, 0.0, 1)
    yield check(
        worst(np.abs(d * even - 1) * 2.0**d),
        1 + 1e-9,
        {"1/(d + 1)": float(np.max(np.abs((d + 1) * even - 1) * 2.0**d))},
        draws=len(dims),
        part="no modulation",
        note=r"$d\,P[E_l]=1-2^{-d}$: all starts are negative with the rest.",
    )
    e, strong = P(0.02, 1.9)
    twice = {"$\\epsilon_l$ for $\\epsilon_l/2$": worst(np.minimum(e, 1) - strong)}
    yield check(
        worst(e / 2 - strong),
        1e-12,
        twice,
        draws=strong.size,
        part="positive modulation",
        note=r"Eq. 155 itself gives $\frac12$ for $\epsilon_l>1$.",
        counterexample=r"$\epsilon_l=\frac32$: $P[E_l]=\frac12<\frac34$.",
    )
    yield check(
        worst(np.minimum(e, 1) / 2 - strong),
        1e-12,
        twice,
        draws=strong.size,
        part="positive modulation",
        form="corrected",
        correction=r"$P[E_l]\ge\frac12\min(\epsilon_l,1)$.",
    )
    _, rising = P(-1.9, 1.9)
    steps = np.diff(rising, axis=-1)
    yield check(
        ref.best(steps),
        -1e-14,
        {"weaker modulation": float(np.min(-steps))},
        draws=rising.size,
        part="grows with the modulation",
        relation=">=",
        note="Strictly up to 1, constant from there on.",
    )
    e, weak = P(-1.99, -0.01)
    yield check(
        worst(weak - (1 + e / 2) ** d / d),
        1e-14,
        {"$1+\\epsilon_l$": worst(weak - np.maximum(1 + e, 0) ** d / d)},
        draws=weak.size,
        part="negative modulation",
        note="Below -2, where starts in [-1, 1] cannot win, the bound may be negative.",
    )


def _vectors(rng: np.random.Generator, draws: int) -> Iterator[Array]:
    """Sorted epsilon, falling: normal of several scales, and two wide ones in every draw."""
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


def eq156(draws: int, seed: int) -> Iterator[Check]:
    """The chance of the pattern with the largest head start. Controls: twice the gap."""
    check = partial(Check, "nl/eq156")
    rng = ref.generator("eq156", seed)
    printed, mended, twice = [], [], []
    for e in _vectors(rng, min(draws, 100)):
        p, gap = _chances(e)[:, 0], e[:, 0] - e[:, 1]
        printed.append(gap / 2 - p)
        mended.append(np.minimum(gap, 1) / 2 - p)
        twice.append(np.minimum(gap, 1) - p)
    total = sum(len(v) for v in printed)
    controls = {"the gap for half of it": worst(*twice)}
    yield check(
        worst(*printed),
        1e-6,
        controls,
        draws=total,
        note="The starts are in [-1, 1], the paper takes all real head starts.",
        counterexample=r"$d=2$, $\epsilon=(2,0)$: $P[E_{c(1)}]=P[Y\ge0]=\frac12$; printed $\ge1$.",
    )
    yield check(
        worst(*mended),
        1e-6,
        controls,
        draws=total,
        form="corrected",
        correction=r"$P[E_{c(1)}]\ge\frac12\min(\epsilon_{c(1)}-\epsilon_{c(2)},1)$.",
        note="Largest excess of the bound over the chance.",
    )


def eq157(draws: int, seed: int) -> Iterator[Check]:
    """The bound for lower ranks. Controls: one power more."""
    check = partial(Check, "nl/eq157")
    rng = ref.generator("eq157", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for e in _vectors(rng, min(draws, 100)):
        p = _chances(e)
        for r in range(1, e.shape[1]):
            gaps = e[:, :r] - e[:, r, None]
            size = np.arange(2, r + 2)
            base = 1 - gaps / 2
            found["printed"].append(p[:, r] - (base**size / size).min(-1))
            found["mended"].append(p[:, r] - (np.maximum(base, 0) ** size / size).min(-1))
            found["power"].append(
                p[:, r] - (np.maximum(base, 0) ** (size + 1) / (size + 1)).min(-1)
            )
    total = sum(len(v) for v in found["printed"])
    controls = {"one pattern more": worst(*found["power"])}
    yield check(
        worst(*found["printed"]),
        1e-6,
        controls,
        draws=total,
        note="Holds while no gap exceeds 2; beyond, the chance is 0.",
        counterexample=r"$\epsilon=(4,4,0)$, $r=3$: at $r'=2$ the bound is "
        r"$\frac13(1-2)^3=-\frac13$.",
    )
    yield check(
        worst(*found["mended"]),
        1e-6,
        controls,
        draws=total,
        form="corrected",
        correction=r"$\max\big(0,1-\frac12(\epsilon_{c(r')}-\epsilon_{c(r)})\big)$ inside the "
        "power.",
    )
