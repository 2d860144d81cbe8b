"""What the choice of alpha, the roughness and BatchNorm do to one node's optima (nl Figure 1, Secs.
2, 3, 3.2, 5.1).

Clouds of points in the plane without augmentation, alpha following w. The flow of Eq. 7 is summed
over pairs in numpy; `clcore.theory.one_layer.circle_landscape` has it by the operator A(w), and the
exact optima for alpha = 1.
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import stats
from clcore.checks.one_layer.landscape.heights import FIGURE8, highest
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array
from clcore.theory.one_layer import circle_landscape as circle

GRID = 360
SCALES = ("as it is", "mean one", "rows of mean one")
AXES: dict[str, tuple[int, ...]] = dict(zip(SCALES, ((), (1, 2), (2,)), strict=True))
TAUS = (0.05, 0.2)
CLOUDS = 96
ONES = (None, SCALES[0])  # tau and scale of alpha = 1
WIDE = (1e6, SCALES[0])
DEEPER = math.log(1.1)  # a tenth; ours
LOT = 2**15
"""Pairs of points that `push` takes at once, over the angles: 256 KiB an array."""


def push(
    x: Array, angle: Array, tau: float | None = None, slope: float = 0.0, scale: str = SCALES[0]
) -> Array:
    """Speed of the angle under nl Eq. 7, [t], by the sum over pairs of points x [n, 2].

    tau: of Gaussian alpha of the outputs, None for alpha = 1. scale: alpha as it is, divided by
    its mean, or each row by the row's mean (InfoNCE's normalisation).
    """
    # In lots of angles whose pairs stay in the processor's cache: about half of the time.
    size = max(1, LOT // len(x) ** 2)
    lots = (angle[k : k + size] for k in range(0, len(angle), size))
    return np.concatenate([_push_of_lot(x, lot, tau, slope, scale) for lot in lots])


def _push_of_lot(x: Array, angle: Array, tau: float | None, slope: float, scale: str) -> Array:
    """`push` of a lot of angles."""
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
    """How many angles of an even grid the flow runs into, and their depths: the integral of the
    speed up to each from a rim of its basin, the smaller of both sides."""
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
    """A suitable α turns critical points of a nonlinear layer into local optima (Figure 1, caption
    (c)).

    Given   data symmetric about an axis; w on this axis, which is critical for every alpha that
            follows the outputs: for alpha = 1, and Gaussian ones of tau = 0.02, 0.1, 0.5.
    Claim   (1) Some such w are unstable under alpha = 1 and stable under a Gaussian alpha, by the
            rate of the flow's angle. At up to twelve: (2) w is critical, (3) the flow under the
            Gaussian alpha runs into w. (4) On random clouds a ReLU node has more critical points
            under alpha = 1 than a linear one.
    Fails   (1) for the wide kernel tau = 10^9; (2) at an angle of 0.3; (3) for alpha = 1; (4) for
            a linear node.
    """
    # (1) How many w change from unstable to stable; as control, how many change at tau = 10^9.
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
    for x, tau in made[:12]:
        points, alpha = torch.tensor(x), circle.gaussian_importance(tau)

        def nearest(given) -> float:
            ends = circle.stable_angles(points, 0.0, given, grid=7200).numpy()  # noqa: B023
            return np.abs(ends).min(initial=math.pi)

        # (2) The flow's speed at the axis.
        here, there = np.abs(push(x, np.array([0.0, 0.3]), tau))
        critical.add(here).breaks("at an angle of 0.3", there)

        # (3) Angle between the axis and the nearest end of the flow.
        runs.add(nearest(alpha)).breaks("alpha = 1", nearest(None))

    # (4) At how many angles the speed rises through 0: two for a linear node, across its first
    # direction. A gate that opens or closes makes the speed fall, so that no such 0 is a jump.
    clouds, grid = [t.rng.standard_normal((12, 2)) for _ in range(60)], angles(1440)

    def rising(speed: Array) -> int:
        return int(((speed < 0) & (np.roll(speed, -1) >= 0)).sum())

    relu, linear = (np.array([rising(push(x, grid, slope=s)) for x in clouds]) for s in (0.0, 1.0))
    many = t.part("many critical points", 3, ">=", draws=len(clouds)).add(relu.max())
    many.breaks("a linear node", linear.max()).says(most=relu.max(), more=(relu > 2).sum())


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


@check("nl/rem23")
def rem23(t: Trial) -> None:
    """Non-uniform α creates more and deeper local optima than uniform α (Sec. 5.1).

    Given   ReLU nodes on points in the plane, Gaussian alpha that follows w, tau = 0.05 or 0.2
            (0.05 on Fig. 8's points), against alpha = 1. The paper defines no depth; ours is the
            climb to an optimum from the nearer rim of its basin, mean over optima; deeper is a
            tenth or more, at each of three scales of alpha.
    Claim   More optima; deeper ones on the points and the scale of Fig. 8, where each curve has
            the highest value 1.
    Fails   for a wide kernel; deeper on random points, on either scale, and in absolute units:
            there they are shallower.
    """
    # Depths scatter: with 24 clouds the mean logarithm of their ratio varies by 0.2 over seeds.
    clouds, n = _clouds(t.rng, CLOUDS), CLOUDS * len(TAUS)
    curves = [_curves(x, angles(), TAUS) for x in clouds]

    # More optima, counted at every cloud and tau.
    plain = np.array([curve[ONES].count for curve in curves])
    more = np.array([[curve[tau, SCALES[0]].count for tau in TAUS] for curve in curves])
    wide = np.array([curve[WIDE].count for curve in curves])
    more = (more - plain[:, None]).ravel()
    counts = t.part("more optima", 4.0, ">=", draws=n)
    counts.add(in_errors(more)).breaks("tau = 1e6", in_errors(wide - plain))
    counts.says(mean=np.mean(more), fewer=int((more < 0).sum()), cases=len(more))

    # Deeper: the mean logarithm of the ratio of depths, the least of three scales of alpha.
    nine = np.stack([np.cos(FIGURE8), np.sin(FIGURE8)], -1)
    fine = [_curves(nine, angles(1440), TAUS[:1])]
    _deeper(t, fine, TAUS[:1], True, "")
    _deeper(t, fine, TAUS[:1], False, "nine points, absolute units")
    _deeper(t, curves, TAUS, True, "random points, over the highest energy")
    _deeper(t, curves, TAUS, False, "random points, absolute units")


class Curve(NamedTuple):
    """Speed and energy over the circle under one alpha: how many optima, their mean depth, and the
    highest energy."""

    count: int  # how many optima
    depth: float  # mean depth of the optima
    height: float


def _curves(x: Array, angle: Array, taus: tuple[float, ...]) -> dict[tuple, Curve]:
    """The curve of points x for alpha = 1, for a wide kernel, and for each tau and scale of alpha,
    by (tau, scale)."""
    found = {}
    for tau, scale in (ONES, WIDE, *product(taus, SCALES)):
        count, depths = optima(push(x, angle, tau, scale=scale))
        found[tau, scale] = Curve(count, depths.mean(), highest(x, angle, tau, AXES[scale]))
    return found


def _deeper(
    t: Trial, curves: list[dict], taus: tuple[float, ...], over: bool, setting: str
) -> None:
    """One reading of depth: absolute, or `over` the highest energy; on these points."""
    part = t.part("deeper optima", DEEPER, ">=", evidence="protocol", setting=setting)

    def mean_log(scale: str, taus: tuple[float, ...]) -> float:
        """Mean logarithm of the depth over that under alpha = 1."""
        logs = [_log_ratio(c[tau, scale], c[ONES], over) for c in curves for tau in taus]
        return sum(logs) / len(logs)

    found = [mean_log(scale, taus) for scale in SCALES]
    part.says(**{f"scale_{k}": math.exp(log) for k, log in enumerate(found)})
    part.add(min(found)).breaks("tau = 1e6", mean_log(SCALES[0], WIDE[:1]))


def _log_ratio(curve: Curve, plain: Curve, over: bool) -> float:
    """Logarithm of the depth under one alpha over that under alpha = 1; `over`: of depths over the
    highest energy."""
    deeper = math.log(curve.depth / plain.depth)
    return deeper - math.log(curve.height / plain.height) if over else deeper
