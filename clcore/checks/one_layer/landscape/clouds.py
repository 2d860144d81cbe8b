"""What the choice of alpha, the roughness and BatchNorm do to one node's optima (nl Figure 1, Secs.
2, 3, 3.2, 5.1).

Clouds of points in the plane without augmentation, alpha following w. The flow of Eq. 7 is summed
over pairs in numpy; `clcore.theory.one_layer.circle_landscape` has it by the operator A(w), and the
exact optima for alpha = 1.
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from clcore import reference as ref
from clcore import stats
from clcore.checks.one_layer.landscape.heights import FIGURE8, highest, highest_again
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array
from clcore.theory.one_layer import circle_landscape as circle

GRID = 360
SCALES = ("as it is", "mean one", "rows of mean one")
AXES: dict[str, tuple[int, ...]] = dict(zip(SCALES, ((), (1, 2), (2,)), strict=True))
TAUS = (0.05, 0.2)
ALIKE = 3.0  # up to this factor two mean depths are alike; ours


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


def angles(n: int = GRID) -> Array:
    """The middles of an even grid of the circle."""
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


@check("nl/fig1c")
def fig1c(t: Trial) -> None:
    """Critical points that are no optima under alpha = 1 and are under a Gaussian alpha. Controls:
    a wide kernel; the same points under alpha = 1."""
    cases, wide = [], 0
    for _ in range(max(300, 20 * t.draws)):
        x = _mirrored(t.rng)
        plain = _rate(x)
        for tau in (0.02, 0.1, 0.5):
            kernel = _rate(x, tau=tau)
            if min(abs(plain), abs(kernel)) >= 1e-4:
                cases.append((x, tau, plain, kernel))
                wide += plain * _rate(x, tau=1e9) < 0
    made = [(x, tau) for x, tau, plain, kernel in cases if kernel < 0 < plain]
    part = t.part("critical points that alpha makes optima", 1, ">=", draws=len(cases))
    part.add(len(made)).breaks("tau = 1e9", wide)
    part.says(
        count=len(cases),
        made=len(made),
        unstable=sum(plain > 0 for *_, plain, _ in cases),
        lost=sum(plain < 0 < kernel for *_, plain, kernel in cases),
    )
    critical = t.part("critical under both", 1e-12, controls=pooled)
    runs = t.part("the flow runs into them", 1e-3)
    pairs = t.part("pairs against the operator", 1e-10, controls=pooled, draws=len(made[:12]))
    angle = np.array([-0.3, -1e-3, 1e-3, 0.3])
    for x, tau in made[:12]:
        points, alpha = torch.tensor(x), circle.gaussian_importance(tau)

        def apart(given) -> Array:
            other = circle.tangent(points, torch.tensor(angle), 0.0, given).numpy()  # noqa: B023
            return ref.relative(push(x, angle, tau), other)  # noqa: B023

        def nearest(given) -> float:
            ends = circle.stable_angles(points, 0.0, given, grid=7200).numpy()  # noqa: B023
            return np.abs(ends).min(initial=math.pi)

        pairs.add(apart(alpha)).breaks("alpha = 1", apart(None))
        here, there = np.abs(push(x, np.array([0.0, 0.3]), tau))
        critical.add(here).breaks("at an angle of 0.3", there)
        runs.add(nearest(alpha)).breaks("alpha = 1", nearest(None))


def _clouds(rng: np.random.Generator, count: int) -> list[Array]:
    """Four clusters of 40 points, or 40 Gaussian points, in the plane."""
    out = []
    for k in range(count):
        x = rng.standard_normal((40, 2))
        if k % 2:
            x = 1.5 * rng.standard_normal((4, 2))[rng.integers(0, 4, 40)] + 0.3 * x
        out.append(x)
    return out


def in_errors(values: list[int] | Array) -> float:
    """The mean over its standard error; 0 where all values are 0."""
    return float(stats.paired(values).t)


def _importance(tau: float, scale: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """alpha of the outputs for `circle_landscape.tangent`, as `push` has it."""
    axes = {SCALES[0]: (), SCALES[1]: (-2, -1), SCALES[2]: (-1,)}[scale]

    def alpha(h: torch.Tensor) -> torch.Tensor:
        plain = circle.gaussian_importance(tau)(h)
        return plain / plain.mean(axes, keepdim=True) if axes else plain

    return alpha


def _depth_again(speed: torch.Tensor) -> float:
    """The mean depth of `optima`, from a running sum between rims."""
    n, around = len(speed), np.tile(speed.numpy(), 3)
    climb = np.concatenate([[0], np.cumsum(around)]) * 2 * math.pi / n
    up, down = (np.flatnonzero(s * around > 0) for s in (1, -1))
    tops = np.intersect1d(up + 1, np.setdiff1d(np.arange(n + 1, 2 * n + 1), up))
    left, right = down[np.searchsorted(down, tops) - 1] + 1, up[np.searchsorted(up, tops)]
    return float((climb[tops] - np.maximum(climb[left], climb[right])).mean())


@check("nl/rem23")
def rem23(t: Trial) -> None:
    """Number and depth of the optima under Gaussian alpha against alpha = 1, as it is and over the
    highest energy. Controls: a wide kernel; the highest point in place of the rim.

    Deeper is the mean logarithm of the ratio of depths, for the scale of alpha at which it is
    largest, against a tenth more or less.
    """
    angle, fine, more, wide = angles(), angles(7200), [], []
    depth: dict[str, list[float]] = {s: [] for s in (*SCALES, "tau = 1e6")}
    again: dict[str, list[float]] = {s: [] for s in SCALES}
    height: dict[str, list[tuple[float, float]]] = {s: [] for s in depth}
    clouds = _clouds(t.rng, 24)  # with half as many, one seed in ten misses the bound of 4
    n = len(TAUS) * len(clouds)
    counts = t.part("more optima", 4.0, ">=", draws=n)
    deeper = t.part("deeper optima", math.log(1.1), ">=", draws=n)
    shallower = t.corrected("deeper optima", -math.log(1.1), draws=n)
    integral = t.part("depth, integral against energies", 0.02, controls=pooled)
    for x in clouds:
        count, plain = optima(push(x, angle))
        given = torch.tensor(x), torch.tensor(angle), 0.0
        plainly = _depth_again(circle.tangent(*given))
        level = highest(x, angle), highest_again(x, angle)
        exact = _exact_depths(x)
        if len(exact):
            finely = optima(_fine(x, fine))[1]
            integral.add(abs(finely.sum() - exact.sum()) / exact.sum())
            reach = np.ptp(_energies(x, fine))
            integral.breaks("the energy's range", abs(reach - exact.sum()) / exact.sum())
        for tau in TAUS:
            for scale in SCALES:
                n, found = optima(push(x, angle, tau, scale=scale))
                depth[scale].append(math.log(found.mean() / plain.mean()))
                other = _depth_again(circle.tangent(*given, _importance(tau, scale)))
                again[scale].append(math.log(other / plainly))
                height[scale].append(_over(level, x, angle, tau, AXES[scale]))
                if scale == SCALES[0]:
                    more.append(n - count)
        n, found = optima(push(x, angle, 1e6))
        wide.append(n - count)
        depth["tau = 1e6"].append(math.log(found.mean() / plain.mean()))
        height["tau = 1e6"].append(_over(level, x, angle, 1e6))
    counts.add(in_errors(more)).breaks("tau = 1e6", in_errors(wide))
    counts.says(mean=np.mean(more), fewer=sum(m < 0 for m in more), cases=len(more))
    *logs, flat = (float(np.mean(v)) for v in depth.values())
    for part in (deeper, shallower):
        part.add(max(logs)).breaks("tau = 1e6", flat)
        part.says(**{f"scale_{k}": math.exp(v) for k, v in enumerate(logs)})
    deeper.says(times=1 / max(math.exp(v) for v in logs))
    others = [float(np.mean(v)) for v in again.values()]
    deeper.fails_by(max(others))
    deeper.confirms(**{f"scale_{k}": math.exp(v) for k, v in enumerate(others)})
    _over_the_highest(t, depth, again, height)


def _over(
    level: tuple[float, float], x: Array, angle: Array, tau: float, axes: tuple[int, ...] = ()
) -> tuple[float, float]:
    """The logarithm of the highest energy over that of alpha = 1, by two computations."""
    found = highest(x, angle, tau, axes), highest_again(x, angle, tau, axes)
    return math.log(found[0] / level[0]), math.log(found[1] / level[1])


def _over_the_highest(
    t: Trial,
    depth: dict[str, list[float]],
    again: dict[str, list[float]],
    height: dict[str, list[tuple[float, float]]],
) -> None:
    """Depths over the highest energy, as Fig. 8 scales its curves; and those of its own points."""
    name, n = "depth over the highest energy", len(again[SCALES[0]])
    printed = t.part(name, 4.0, ">=", draws=n)
    mended = t.corrected(name, math.log(ALIKE), draws=n)
    logs = {s: np.array(v) - np.array(height[s])[:, 0] for s, v in depth.items()}
    others = [np.array(again[s]) - np.array(height[s])[:, 1] for s in SCALES]
    printed.add(max(in_errors(logs[s]) for s in SCALES))
    printed.fails_by(max(in_errors(v) for v in others), within=1e-6)
    printed.breaks("tau = 1e6", in_errors(np.round(logs["tau = 1e6"], 4)))  # less is rounding
    mended.add(*(abs(logs[s].mean()) for s in SCALES))
    mended.breaks("as they are", *(abs(np.mean(depth[s])) for s in SCALES))
    for part in (printed, mended):
        part.says(**{f"scale_{k}": math.exp(logs[s].mean()) for k, s in enumerate(SCALES)})
    x = np.stack([np.cos(FIGURE8), np.sin(FIGURE8)], -1)
    angle, given = angles(1440), (torch.tensor(x), torch.tensor(angles(1440)), 0.0)
    plain, twice = optima(push(x, angle))[1].mean(), _depth_again(circle.tangent(*given))
    level, own, other = (highest(x, angle), highest_again(x, angle)), {}, {}
    for k, scale in enumerate(SCALES):
        first, second = _over(level, x, angle, TAUS[0], AXES[scale])
        found = optima(push(x, angle, TAUS[0], scale=scale))[1].mean()
        climb = _depth_again(circle.tangent(*given, _importance(TAUS[0], scale)))
        own[f"nine_{k}"] = found / plain / math.exp(first)
        other[f"nine_{k}"] = climb / twice / math.exp(second)
    printed.says(**own).confirms(within=1e-6, **other)
    mended.says(alike=ALIKE)


def _energies(x: Array, angle: Array) -> Array:
    return np.maximum(np.stack([np.cos(angle), np.sin(angle)], -1) @ x.T, 0).var(-1) / 2


def _fine(x: Array, angle: Array) -> Array:
    """`push` for alpha = 1 on many angles: the sum over pairs is a covariance."""
    u = np.stack([np.cos(angle), np.sin(angle)], -1) @ x.T
    t = (np.stack([-np.sin(angle), np.cos(angle)], -1) @ x.T) * (u > 0)
    h = np.maximum(u, 0)
    return (h * t).mean(-1) - h.mean(-1) * t.mean(-1)


def _exact_depths(x: Array) -> Array:
    """Energy at each maximum less that of the higher of the minima beside it; empty where the
    energy is constant on an arc."""
    points = torch.tensor(x)
    ends = circle.extrema(points).angle, circle.extrema(points, minima=True).angle
    top, low = (v[~v.isnan()].sort().values for v in ends)
    if len(top) != len(low) or not len(top):
        return np.zeros(0)
    E, floor = circle.energy(points, top).numpy(), circle.energy(points, low).numpy()
    after = np.searchsorted(low.numpy(), top.numpy())
    return E - np.maximum(floor[after % len(low)], floor[after - 1])
