"""What the choice of alpha, the roughness and BatchNorm do to one node's optima (nl Figure 1, Secs.
2, 3, 3.2, 5.1).

Clouds of points in the plane without augmentation, alpha following w. The flow of Eq. 7 is summed
over pairs in numpy; `clcore.theory.one_layer.circle_landscape` has it by the operator A(w), and the
exact optima for alpha = 1.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, best, typical, worst
from clcore.theory.one_layer import circle_landscape as circle

GRID = 360
SCALES = ("as it is", "mean one", "rows of mean one")
TAUS = (0.05, 0.2)


def push(
    x: Array, angle: Array, tau: float | None = None, slope: float = 0.0, scale: str = SCALES[0]
) -> Array:
    """Speed of the angle under nl Eq. 7, [t], by the sum over pairs of points x [n, 2].

    tau: of Gaussian alpha of the outputs, None for alpha = 1. scale: alpha as it is, divided by
    its mean, or each row by the row's mean (InfoNCE's normalisation).
    """
    w = np.stack([np.cos(angle), np.sin(angle)], -1)
    u, across = w @ x.T, np.stack([-w[:, 1], w[:, 0]], -1) @ x.T
    gate = np.where(u > 0, 1.0, slope)
    h, t = u * gate, across * gate
    apart = h[:, :, None] - h[:, None]
    alpha = np.ones_like(apart) if tau is None else np.exp(-(apart**2) / (2 * tau))
    if scale != SCALES[0]:
        axes = (1, 2) if scale == SCALES[1] else 2
        alpha = alpha / alpha.mean(axes, keepdims=True)
    return (alpha * apart * (t[:, :, None] - t[:, None])).mean((1, 2)) / 2


def optima(speed: Array) -> tuple[int, Array]:
    """Angles, on an even grid, that the flow runs into, and their depths: the integral of the speed
    up to each from the nearer rim of its basin, the lower of both sides."""
    n, depths = len(speed), []
    for k in np.nonzero((speed > 0) & (np.roll(speed, -1) <= 0))[0]:
        turned = np.roll(speed, -(k + 1))
        fore, back = turned, turned[::-1]
        right = fore[: int(np.argmax(fore > 0))] if (fore > 0).any() else fore
        left = back[: int(np.argmax(back < 0))] if (back < 0).any() else back
        depths.append(min(left.sum(), -right.sum()) * 2 * math.pi / n)
    return len(depths), np.array(depths)


def _angles(n: int = GRID) -> Array:
    return 2 * math.pi * (np.arange(n) + 0.5) / n - math.pi


def _rate(x: Array, **options) -> float:
    """d(speed)/d(angle) at e_1: negative where it is stable."""
    step = 1e-5
    low, high = push(x, np.array([-step, step]), **options)
    return float((high - low) / (2 * step))


def _mirrored(rng: np.random.Generator) -> Array:
    """Points symmetric about the first axis: e_1 is critical for every alpha of the outputs."""
    y = rng.standard_normal((int(rng.integers(2, 6)), 2))
    y[:, 0] += rng.integers(0, 2)
    return np.concatenate([y, y * [1, -1]])


def fig1c(draws: int, seed: int) -> Iterator[Check]:
    """Critical points that are no optima under alpha = 1 and are under a Gaussian alpha. Controls:
    a wide kernel; the same points under alpha = 1."""
    rng, check = ref.generator("nl fig1c", seed), partial(Check, "nl/fig1c")
    made = lost = unstable = count = 0
    wide, still, turned, errors, straight, after, before = 0, [], [], [], [], [], []
    for _ in range(max(300, 20 * draws)):
        x = _mirrored(rng)
        plain = _rate(x)
        for tau in (0.02, 0.1, 0.5):
            kernel = _rate(x, tau=tau)
            if min(abs(plain), abs(kernel)) < 1e-4:
                continue
            count += 1
            unstable += plain > 0
            lost += plain < 0 < kernel
            wide += plain * _rate(x, tau=1e9) < 0
            if not kernel < 0 < plain:
                continue
            made += 1
            if made > 12:
                continue
            points, angle = torch.tensor(x), np.array([-0.3, -1e-3, 1e-3, 0.3])
            alpha = circle.gaussian_importance(tau)
            for given, out in ((alpha, errors), (None, straight)):
                other = circle.tangent(points, torch.tensor(angle), 0.0, given).numpy()
                out.append(ref.relative(push(x, angle, tau), other))
            here, there = np.abs(push(x, np.array([0.0, 0.3]), tau))
            still.append(here)
            turned.append(there)
            for given, out in ((alpha, after), (None, before)):
                ends = circle.stable_angles(points, 0.0, given, grid=7200).numpy()
                out.append(np.abs(ends).min(initial=math.pi))
    yield check(
        made,
        1,
        {"tau = 1e9": wide},
        draws=count,
        part="critical points that alpha makes optima",
        relation=">=",
        note=f"Of {count} pairs of a cloud and a tau, e_1 is unstable under alpha = 1 in "
        f"{unstable}; the Gaussian alpha makes it an optimum in {made} of them, and unmakes it in "
        f"{lost} others. A choice of alpha can do both.",
    )
    yield check(
        worst(np.array(still)),
        1e-12,
        {"at an angle of 0.3": typical(np.array(turned))},
        draws=len(still),
        part="critical under both",
    )
    yield check(
        worst(np.array(after)),
        1e-3,
        {"alpha = 1": best(np.array(before))},
        draws=len(after),
        part="the flow runs into them",
        note="Distance of the nearest angle that the flow of `circle_landscape` runs into.",
    )
    yield check(
        worst(np.array(errors)),
        1e-10,
        {"alpha = 1": typical(np.array(straight))},
        draws=len(errors),
        part="pairs against the operator",
    )


def _clouds(rng: np.random.Generator, count: int) -> list[Array]:
    """Four clusters of 40 points, or 40 Gaussian points, in the plane."""
    out = []
    for k in range(count):
        x = rng.standard_normal((40, 2))
        if k % 2:
            x = 1.5 * rng.standard_normal((4, 2))[rng.integers(0, 4, 40)] + 0.3 * x
        out.append(x)
    return out


def _errors(values: list[float]) -> float:
    """The mean over its standard error; 0 where all values are alike."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values) / error) if error > 1e-9 else 0.0


def rem23(draws: int, seed: int) -> Iterator[Check]:
    """Number and depth of the optima under Gaussian alpha against alpha = 1. Controls: a wide
    kernel; the highest point in place of the rim."""
    rng, check = ref.generator("nl rem23", seed), partial(Check, "nl/rem23")
    angle, more, wide = _angles(), [], []
    depth: dict[str, list[float]] = {s: [] for s in (*SCALES, "tau = 1e6")}
    errors, other = [], []
    fine = _angles(7200)
    for x in _clouds(rng, 6 + min(draws, 6)):
        count, plain = optima(push(x, angle))
        tops = circle.extrema(torch.tensor(x))
        valleys = circle.extrema(torch.tensor(x), minima=True)
        exact = _exact_depths(torch.tensor(x), tops.angle, valleys.angle)
        if len(exact):
            finely = optima(_fine(x, fine))[1]
            errors.append(abs(finely.sum() - exact.sum()) / exact.sum())
            other.append(abs(np.ptp(_energies(x, fine)) - exact.sum()) / exact.sum())
        for tau in TAUS:
            for scale in SCALES:
                n, found = optima(push(x, angle, tau, scale=scale))
                depth[scale].append(math.log(found.mean() / plain.mean()))
                if scale == SCALES[0]:
                    more.append(n - count)
        n, found = optima(push(x, angle, 1e6))
        wide.append(n - count)
        depth["tau = 1e6"].append(math.log(found.mean() / plain.mean()))
    logs = {s: float(np.mean(v)) for s, v in depth.items()}
    ratios = {s: math.exp(logs[s]) for s in SCALES}
    note = (
        "Mean logarithm of the ratio of depths, the largest of three scales of alpha, against a "
        "tenth more or less. The paper does not say what depth is. Here: the climb to an optimum "
        "from the nearer rim of its basin, the integral of the speed along the circle, mean over "
        "optima. Gaussian over uniform, geometric mean over clouds and tau: "
        + ", ".join(f"{r:.3f} with alpha {s}" for s, r in ratios.items())
        + ". That they give better performance is measured in nl/fig4 and nl/fig10."
    )
    yield check(
        _errors(more),
        4.0,
        {"tau = 1e6": _errors(wide)},
        draws=len(more),
        part="more optima",
        relation=">=",
        note=f"Mean surplus over alpha = 1, in standard errors: {np.mean(more):.1f} at tau = 0.05 "
        f"or 0.2; fewer in {sum(m < 0 for m in more)} of {len(more)} cases.",
    )
    flat, deepest = logs["tau = 1e6"], max(logs[s] for s in SCALES)
    yield check(
        deepest,
        math.log(1.1),
        {"tau = 1e6": flat},
        draws=len(more),
        part="deeper optima",
        relation=">=",
        note=note,
        counterexample="Forty random points or four clusters in the plane, ReLU, tau = 0.05 or "
        f"0.2: on average the optima are {1 / max(ratios.values()):.0f} times shallower than under "
        "alpha = 1 or more, with alpha as it is, of mean one, or with rows of mean one.",
    )
    yield check(
        deepest,
        -math.log(1.1),
        {"tau = 1e6": flat},
        draws=len(more),
        part="deeper optima",
        form="corrected",
        correction="Non-uniform alpha can create more local optima, and these are shallower.",
        note=note,
    )
    yield check(
        worst(np.array(errors)),
        0.02,
        {"the energy's range": typical(np.array(other))},
        draws=len(errors),
        part="depth, integral against energies",
        note="Under alpha = 1, sum over optima, against energies at the exact maxima and minima.",
    )


def _energies(x: Array, angle: Array) -> Array:
    return np.maximum(np.stack([np.cos(angle), np.sin(angle)], -1) @ x.T, 0).var(-1) / 2


def _fine(x: Array, angle: Array) -> Array:
    """`push` for alpha = 1 on many angles: the sum over pairs is a covariance."""
    u = np.stack([np.cos(angle), np.sin(angle)], -1) @ x.T
    t = (np.stack([-np.sin(angle), np.cos(angle)], -1) @ x.T) * (u > 0)
    h = np.maximum(u, 0)
    return (h * t).mean(-1) - h.mean(-1) * t.mean(-1)


def _exact_depths(x: torch.Tensor, tops: torch.Tensor, valleys: torch.Tensor) -> Array:
    """Energy at each maximum less that of the higher of the minima beside it; empty where the
    energy is constant on an arc."""
    top, low = (v[~v.isnan()].sort().values for v in (tops, valleys))
    if len(top) != len(low) or not len(top):
        return np.zeros(0)
    E, floor = circle.energy(x, top).numpy(), circle.energy(x, low).numpy()
    after = np.searchsorted(low.numpy(), top.numpy())
    return E - np.maximum(floor[after % len(low)], floor[after - 1])


# ---------------------------------------------------------------------------------- the roughness


class Strip(NamedTuple):
    """Mass `share` at (xi, +-r), |xi| on [0, eta]; the rest at (-c, 0); leaky slope."""

    slope: float
    eta: float
    r: float
    share: float
    c: float


def _bins(turn: float, eta: float) -> Array:
    """Density on four equal bins of [0, eta]: mass, mean and second moment do not depend on `turn`,
    the density at 0 does."""
    edges = np.linspace(0, 1, 5)
    powers = [(edges[1:] ** (k + 1) - edges[:-1] ** (k + 1)) / (k + 1) for k in range(3)]
    null = np.linalg.svd(np.array(powers))[2][-1]
    return (1 + turn * 1.4 * null * np.sign(null[0])) / eta


def strip_points(s: Strip, turn: float, m: int = 100) -> Array:
    """Equally heavy points of the law."""
    density = _bins(turn, s.eta)
    mass = np.concatenate([[0], np.cumsum(density) * s.eta / 4])
    xi = np.interp((np.arange(m) + 0.5) / m, mass, np.linspace(0, s.eta, 5))
    sides = [np.stack([i * xi, np.full(m, j * s.r)], -1) for i in (1, -1) for j in (1, -1)]
    atoms = round(4 * m * (1 - s.share) / s.share)
    return np.concatenate([*sides, np.tile([[-s.c, 0.0]], (atoms, 1))])


def _at_axis(s: Strip, turn: float) -> tuple[float, float, float]:
    """(gap, E[h], rho with its sign: + drives away, - pulls back) at e_1, in closed form."""
    density = _bins(turn, s.eta)
    edges = np.linspace(0, s.eta, 5)
    m1, m2 = (
        float(density @ (edges[1:] ** (k + 1) - edges[:-1] ** (k + 1))) / (k + 1) for k in (1, 2)
    )
    mean = s.share * m1 * (1 - s.slope) / 2 - (1 - s.share) * s.slope * s.c
    square = s.share * m2 * (1 + s.slope**2) / 2 + (1 - s.share) * (s.slope * s.c) ** 2
    second = s.share * s.r**2 * (1 + s.slope**2) / 2
    kappa = (1 - s.slope) * s.share * s.r**2 * density[0] / 2
    return square - mean**2 - second, mean, -kappa * mean


def _between(slope: float, eta: float, r: float, share: float) -> Strip | None:
    """A strip whose gap at e_1 is the roughness of the even density; None if there is none."""

    def over(c: float) -> float:
        gap, _, rho = _at_axis(Strip(slope, eta, r, share, c), 0.0)
        return gap - rho

    c = np.linspace(0.1, 6, 60)
    values = [over(v) for v in c]
    for a, b, low, high in zip(c, c[1:], values, values[1:], strict=False):
        if low * high < 0:
            found = Strip(slope, eta, r, share, float(brentq(over, a, b)))
            if _at_axis(found, 0.0)[0] > 1e-3:
                return found
    return None


def _slope_at_axis(x: Array, slope: float) -> float:
    """d(speed)/d(angle) at e_1 by `circle_landscape`."""
    angle = torch.tensor([-0.04, 0.04], dtype=torch.float64)
    low, high = circle.tangent(torch.tensor(x), angle, slope).tolist()
    return (high - low) / 0.08


def rem26(draws: int, seed: int) -> Iterator[Check]:
    """Laws with the same A(w_*), hence the same gap, and two roughnesses: the rougher is left, the
    smoother is stable. Controls: the rougher; a ReLU on data in front of it."""
    rng, check = ref.generator("nl rem26", seed), partial(Check, "nl/rem26")
    low, high, errors, without, same, moved = [], [], [], [], [], []
    surplus = []
    while len(low) < min(draws, 12):
        s = _between(*rng.uniform([0.3, 0.2, 0.4], [0.7, 0.6, 1.2]), float(rng.choice([0.25, 0.5])))
        if s is None:
            continue
        counts = []
        for turn, out in ((-1.0, low), (1.0, high)):
            x = strip_points(s, turn)
            gap, _, rho = _at_axis(s, turn)
            rate = _slope_at_axis(x, s.slope)
            out.append(rate / gap)
            errors.append(abs(rate - (rho - gap)) / gap)
            without.append(abs(rate + gap) / gap)
            counts.append(len(circle.stable_angles(torch.tensor(x), s.slope, grid=GRID)))
        same.append(abs(_at_axis(s, -1.0)[0] - _at_axis(s, 1.0)[0]))
        moved.append(abs(_at_axis(s, -1.0)[2] - _at_axis(s, 1.0)[2]))
        surplus.append(counts[0] - counts[1])
    yield check(
        worst(np.array(same)),
        1e-12,
        {"the roughness": best(np.array(moved))},
        draws=len(same),
        part="one gap, two roughnesses",
    )
    yield check(
        max(low),
        0.0,
        {"the rougher law": min(high)},
        draws=len(low),
        part="a lower roughness makes the LME an optimum",
        note="d(speed)/d(angle) at w_* over the gap. The rougher law has rho > gap > 0 and is "
        "left. Fails where h is the ReLU and alpha = 1: E[h] >= 0 there, so that the roughness "
        "pulls back, an LME with a gap is stable whatever rho is, and a point without one may be "
        "stable by its roughness alone.",
    )
    yield check(
        worst(np.array(errors)),
        0.2,
        {"without the roughness": best(np.array(without))},
        draws=len(errors),
        part="the rate is rho - gap",
        note="Closed form against a difference of the flow over 0.08, over the gap.",
    )
    near = [
        (0.3 + a, 0.3 + b, 0.3 + c, 0.75) for a, b, c in 0.01 * np.vstack([np.eye(3), -np.eye(3)])
    ]
    ends = []
    for values in ((0.3, 0.3, 0.3, 0.75), *near):
        named = _between(*values)
        assert named is not None
        ends.append(
            [
                len(circle.stable_angles(torch.tensor(strip_points(named, t)), h, grid=GRID))
                for h in (named.slope, 0.0)
                for t in (-1.0, 1.0)
            ]
        )
    yield check(
        min(e[0] - e[1] for e in ends),
        1,
        {"ReLU": max(e[2] - e[3] for e in ends)},
        draws=len(ends),
        part="more optima in all",
        relation=">=",
        note=f"{ends[0][0]} instead of {ends[0][1]} at slope 0.3, eta = r = 0.3, share 0.75, and "
        "as many 0.01 to either side in each of the three. In the "
        f"{len(surplus)} random laws there are more in {sum(v > 0 for v in surplus)} and fewer in "
        f"{sum(v < 0 for v in surplus)}: an LME that is left can split in two optima beside it.",
    )
