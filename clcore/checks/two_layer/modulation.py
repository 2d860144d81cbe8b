"""Global modulation: basins and critical times (nl Theorem 6, App. C.3).

Quadrature and adaptive integration meet `clcore.theory.two_layer.modulation`.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from scipy.integrate import solve_ivp

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, relative, tensors, typical, worst
from clcore.theory.two_layer import modulation

STARTS = 600


def _pairs(rng: np.random.Generator, draws: int) -> tuple[Array, Array]:
    """y(0) > 0 and b > 0 over two orders of magnitude each, 30 a draw."""
    return 10 ** rng.uniform(-2, 0, (draws, 30)), 10 ** rng.uniform(-1, 1, (draws, 30))


def _time(y0: Array, b: Array) -> Array:
    """Time to infinity: the integral of du / (1 + b u), u = 1/y, up to 1/y0, on dyadic panels."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    total = 0.0
    for k in range(16):
        high = 2.0**-k / y0[..., None]
        low = high / 2 if k < 15 else 0 * high
        u = (high + low) / 2 + (high - low) / 2 * nodes
        total = total + (weights * (high - low) / 2 / (1 + b[..., None] * u)).sum(-1)
    return total


def thm6(draws: int, seed: int) -> Iterator[Check]:
    """Basins of u_1 with and without c, shared starts: the flow on the sphere, integrated, and the
    one without projection, by critical times (`eq148` integrates it).

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
        {
            "the smallest start": float(
                np.max(1 - np.take_along_axis(z, y0.argmin(-1)[:, None], -1))
            )
        },
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
    part = "argmin t*, the flow with the projection"
    yield check(
        int((first != sphere).sum()),
        0,
        {"the largest start wins": int((y.argmax(-1) != sphere).sum())},
        draws=len(y),
        part=part,
        note=r"The flow of Theorem 6 has $P_w^\perp$. Eq. 148 normalises the one without it, which "
        r"is another, as $A$ is not homogeneous in $w$. Counted: starts with another winner.",
        counterexample=r"$d=2$, $y=(0.55,0.835)$, $b=(1.7,1.2)$ ($c=\frac12$): $t_1^*=0.828$, "
        r"$t_2^*=0.742$, but on the sphere $w\to u_1$.",
    )
    yield check(
        int(((first == 0) & (sphere != 0)).sum()) + int((even != same).sum()),
        0,
        {
            "c < 0": int(
                ((modulation.first_to_blow_up(y, 2 * equal - b) == 0) & _others(y, equal, b)).sum()
            ),
        },
        draws=len(y),
        part=part,
        form="corrected",
        correction=r"With the projection $\arg\min_lt_l^*$ is the winner at $c=0$; for $c>0$, "
        r"$u_l$ wins whenever $t_l^*$ is the least, and from more starts besides.",
        note="Counted: starts that break this.",
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
    ends = np.array(
        [_integrated(float(v), float(w), 40 / w) for v, w in zip(starts[0], b, strict=True)]
    )
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
        {"without the factor 1/b": float(np.min(ref.slope(lambda v: np.log(1 + v / y0), b)))},
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
