"""Laws around a strip, with one gap and two roughnesses at a critical point (nl Sec. 3.2).

Half of the points lie on either side of the x_1 axis, at x_2 = +-r; the density of x_1 at 0, where
the gate of w = e_1 stands, is raised or lowered while mass, mean and second moment stay.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq

from clcore.checks.one_layer.landscape import gate_views
from clcore.checks.one_layer.landscape.clouds import GRID
from clcore.ledger import Trial, check
from clcore.reference import Array
from clcore.theory.one_layer import circle_landscape as circle


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


def _random_strip(rng: np.random.Generator) -> Strip:
    """A strip of a random even density."""
    while True:
        even = rng.uniform([0.3, 0.2, 0.4], [0.7, 0.6, 1.2])
        s = _between(*even, float(rng.choice([0.25, 0.5])))
        if s is not None:
            return s


def _optima_of(s: Strip, slope: float, m: int = 1000, grid: int = 720) -> list[int]:
    """How many optima the smoother law has, and the rougher: angles at which the push of the flow,
    Cov(gated x, h) across w, turns from plus to minus. In numpy, by weighted points."""
    angle = 2 * np.pi * (np.arange(grid) + 0.5) / grid
    w, across = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    counts = []
    for turn in (-1.0, 1.0):
        x = np.vstack([strip_points(s._replace(share=1.0), turn, m), [[-s.c, 0.0]]])
        mass = np.append(np.full(4 * m, s.share / (4 * m)), 1 - s.share)
        u = x @ w
        gate = np.where(u > 0, 1.0, slope)
        h, side = gate * u, gate * (x @ across)
        push = mass @ (h * side) - (mass @ h) * (mass @ side)
        counts.append(int(((push > 0) & (np.roll(push, -1) <= 0)).sum()))
    return counts


def _optima_again(s: Strip, m: int = 400) -> list[int]:
    """The numbers of optima by the library, on equally heavy points."""
    points = (torch.tensor(strip_points(s, turn, m)) for turn in (-1.0, 1.0))
    return [len(circle.stable_angles(x, s.slope, grid=GRID)) for x in points]


def _augmented(t: Trial) -> None:
    """The claim for a ReLU with augmented views; the smoother law has a tenth of the roughness."""
    made = t.part("ReLU, augmented views: a lower roughness makes an optimum")
    closed = t.part("ReLU, augmented views: the rate is rho - gap", 0.02)
    more = t.part("ReLU, augmented views: more optima in all", 1, ">=")
    rng = t.stream("augmented views")
    for _ in range(min(t.draws, 12)):
        # The smoother law has a tenth of the density at the gate: 0.1 for 1; closed form and flow.
        g = gate_views.gate(rng)
        (gap, rho), (_, rho2) = (gate_views.closed(g, density) for density in (0.1, 1.0))
        rate, rate2 = (gate_views.rate(g, density) for density in (0.1, 1.0))
        # The smoother law's rate, and that minus the rougher one's, over the gap: both below 0.
        made.add(rate / gap, (rate - rate2) / gap).breaks("the rougher law", rate2 / gap)
        made.breaks("the two laws exchanged", (rate2 - rate) / gap)
        apart = [gate_views.rate(g, density, augmented=False) for density in (0.1, 1.0)]
        made.breaks("every view a sample of its own", (apart[0] - apart[1]) / gap)

        # Both rates against the closed form; that of the rougher law by the library, too.
        for speed, rough in ((rate, rho), (rate2, rho2)):
            closed.add(abs(speed - (rough - gap)) / gap)
            closed.breaks("without the roughness", abs(speed + gap) / gap)
            closed.breaks("-(gap + rho)", abs(speed + gap + rough) / gap)
        closed.add(abs(gate_views.rate_again(g, 1.0) - rate2) / gap)

        # How many angles attract under the smoother law, minus those under the rougher one.
        gained = gate_views.optima(g, 0.1) - gate_views.optima(g, 1.0)
        more.add(gained).breaks("the two laws exchanged", -gained)

    # In space, as above: half of the views near the gate are along each direction across w_*. The
    # larger of both rates decides whether w_* is an optimum.
    rng = t.stream("in space")
    for _ in range(min(t.draws, 3)):
        plane = gate_views.gate(rng)
        g, share = plane._replace(r=2**0.5 * plane.r), rng.uniform(0.5, 1)
        tops = []
        for density in (0.1, 1.0):
            gap, rho = gate_views.closed(plane, density)
            rates = gate_views.in_space(g, density, share * g.r)
            tops.append(np.linalg.eigvals(rates).real.max())
            each = np.diag([rho - gap, share**2 * rho - gap])
            closed.add(np.abs(rates - each).max() / gap)
            closed.breaks("without the roughness", np.abs(rates + gap * np.eye(2)).max() / gap)
            closed.breaks("-(gap + rho)", np.abs(rates + each + 2 * gap * np.eye(2)).max() / gap)
        made.add(tops[0] / gap, (tops[0] - tops[1]) / gap)
        made.breaks("the rougher law", tops[1] / gap)
        made.breaks("the two laws exchanged", (tops[1] - tops[0]) / gap)


@check("nl/rem26")
def rem26(t: Trial) -> None:
    """Lower roughness could make more critical points local optima (Sec. 3.2, after Theorem 1).

    Given   two laws with the same A(w_*), hence the same gap, at an LME w_* of one node, alpha = 1;
            they differ in the roughness rho(w_*) only. ReLU with augmented views, also in space;
            leaky ReLU without, mean output negative at w_*: a share of the mass at (xi, +-r), |xi|
            <= eta, and the rest at (-c, 0).
    Claim   the smoother law's w_* is a local optimum where the rougher one's is not: the flow
            leaves w_* at the rate rho - gap. And it can have more optima in all.
    Fails   for the ReLU without augmentation, or with every view a sample of its own: there the
            rate is -(gap + rho). Controls: the two roughnesses for the two gaps, the rougher
            law, the two laws exchanged, the other sign of rho, rho left out.
    """
    _augmented(t)
    same = t.part("one gap, two roughnesses", 1e-12)
    made = t.part("a lower roughness makes an optimum")
    closed = t.part("the rate is rho - gap", 0.2)
    pulled = t.part("ReLU, no augmentation: the rate is -(gap + rho)", 0.25)
    surplus = []
    for _ in range(min(t.draws, 12)):
        # Leaky ReLU: the smoother law keeps w_*, the rougher one loses it.
        s = _random_strip(t.rng)
        (gap, _, rho), (gap2, _, rho2) = (_at_axis(s, turn) for turn in (-1.0, 1.0))
        same.add(abs(gap - gap2)).breaks("the roughness", abs(rho - rho2))
        # d(speed)/d(angle) at w_*, over the gap: that of the smoother law, and that minus the
        # rougher one's, are below 0.
        rate, rate2 = (_slope_at_axis(strip_points(s, turn), s.slope) for turn in (-1.0, 1.0))
        made.add(rate / gap, (rate - rate2) / gap).breaks("the rougher law", rate2 / gap2)
        made.breaks("the two laws exchanged", (rate2 - rate) / gap)
        # Both rates, by the library, against the closed form rho - gap.
        for speed, g, rough in ((rate, gap, rho), (rate2, gap2, rho2)):
            closed.add(abs(speed - (rough - g)) / g)
            closed.breaks("without the roughness", abs(speed + g) / g)
        counts = _optima_of(s, s.slope)
        surplus.append(counts[0] - counts[1])

        # ReLU, all mass on the strip, which is thin enough for e_1 to be an LME.
        eta = float(t.rng.uniform(0.2, 0.6))
        gated = Strip(0.0, eta, float(t.rng.uniform(0.35, 0.45)) * eta, 1.0, 0.0)
        (gap, _, pull), (_, _, pull2) = (_at_axis(gated, turn) for turn in (-1.0, 1.0))
        assert gap > 0 > pull > pull2
        rates = [_slope_at_axis(strip_points(gated, turn), 0.0) for turn in (-1.0, 1.0)]
        made.breaks("ReLU, no augmentation", (rates[0] - rates[1]) / gap)
        for speed, back in zip(rates, (pull, pull2), strict=True):
            pulled.add(abs(speed / (back - gap) - 1))
            pulled.breaks("rho - gap", abs(speed / (-back - gap) - 1))

    # More optima in all: leaky ReLU; slope, eta and r within 0.01 of 0.3. Smoother minus rougher.
    more = t.part("more optima in all", 1, ">=")
    steps = 0.01 * np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
    for slope, eta, r in 0.3 + steps:
        named = _between(slope, eta, r, 0.75)
        assert named is not None
        leaky, relu = _optima_of(named, named.slope), _optima_of(named, 0.0)
        if not more.errors:
            again = _optima_again(named)
            more.says(many=leaky[0], few=leaky[1]).confirms(many=again[0], few=again[1])
        more.add(leaky[0] - leaky[1]).breaks("ReLU, no augmentation", relu[0] - relu[1])
    more.says(
        laws=len(surplus), more=sum(v > 0 for v in surplus), fewer=sum(v < 0 for v in surplus)
    )
