"""nl's remarks on Gaussian alpha after Corollary 2: a small z_0, less roughness, more optima."""

import math

import numpy as np
import torch
from scipy import integrate

from clcore.checks.one_layer.landscape import gate_views
from clcore.checks.one_layer.landscape.clouds import GRID, angles, in_errors, optima, push
from clcore.checks.one_layer.roughness.laws import Law, at_axis, front, leaving, rough
from clcore.ledger import Trial, check, pooled
from clcore.theory.one_layer import circle_landscape as circle

PLAIN = Law(0.0, 1.0, 2.0, 1.0, 0.5)
"""x_1 of law N(2, 1), x_2 of law N(0, 1/2)."""
LOW = 0.05
LINEAR = "linear nodes, without roughness, gain optima, too"


def _z0(m: float, tau: float) -> float:
    """E exp(-h^2 / 2 tau) of h = relu(x), x of law N(m, 1), by quadrature."""

    def weighted(x: float) -> float:
        return math.exp(-(max(x, 0.0) ** 2) / (2 * tau) - (x - m) ** 2 / 2)

    found = integrate.quad(weighted, m - 9, m + 9, points=[0.0], limit=200)[0]
    return found / math.sqrt(2 * math.pi)


@check("nl/rem9")
def rem9(t: Trial) -> None:
    """Gaussian α can have smaller roughness and more local optima than uniform α (Sec. 1, Sec. 3.2,
    Sec. 5.1).

    Given   x_1 ~ N(m, 1), m = 3..8; laws with most data in front of w; four clusters in the plane,
            tau in {0.05, 0.2, 1}; alpha frozen at w for rho, following w for optima.
    Claim   z_0 falls faster than exp(-m); rho under Gaussian alpha can be a tenth of that under
            alpha = 1, and smaller relative to the gap; it can lead to more optima, by lowering the
            roughness.
    Fails   the last words: without augmentation LMEs rougher than their gap under alpha = 1 are
            stable there. Corrected: not by it; linear nodes, without roughness, gain optima, too.
            With augmentation the last words can hold. Controls: a wide kernel, alpha = 1 or
            Gaussian at the same LMEs, a roughness that drives away, or that does not.
    """
    taus, means = t.rng.uniform(0.02, 0.3, min(t.draws, 8)), np.arange(3.0, 9.0)
    falls = {tau: np.diff(np.log([_z0(m, tau) for m in means])) for tau in (*taus, 100.0)}
    small = t.part("z_0 can be exponentially small", draws=len(taus))
    small.add(*(falls[tau] + 1 for tau in taus)).breaks("tau = 100", falls[100.0].max() + 1)
    _roughness(t)
    _cause(t)
    _augmented(t)
    _optima(t)


def _roughness(t: Trial) -> None:
    """rho, and rho relative to the gap, under the Gaussian importance over those under the uniform,
    at points that are LMEs under both."""
    low = t.part("roughness can be much smaller", 0.1, controls=pooled)
    beside = t.part("and smaller beside the gap", 0.8, controls=pooled)
    middle = []
    for _ in range(min(t.draws, 8)):
        tau = float(t.rng.uniform(0.03, 0.08))
        law = front(t.rng, tau)
        plain, kernel, wide = (at_axis(law, v) for v in (None, tau, 100.0))
        assert min(plain.gap, kernel.gap) > 0
        for part, own, other in (
            (low, kernel.rho / plain.rho, wide.rho / plain.rho),
            (beside, *(r.rho / r.gap / (plain.rho / plain.gap) for r in (kernel, wide))),
        ):
            part.add(own).breaks("tau = 100", other)
        middle.append(at_axis(law, 0.3).rho / plain.rho)
    low.says(middle=np.median(middle))


def _cause(t: Trial) -> None:
    """LMEs with rho above the gap under alpha = 1 and below it under the Gaussian importance: the
    rate at which the flow leaves them, over the gap. Controls: under the Gaussian importance; a
    roughness that drives away."""
    name, n = "by lowering the roughness", min(t.draws, 8)
    printed, mended = t.part(name, 0.0, ">=", draws=n), t.corrected(name, -1.0, draws=2 * n)
    for _ in range(n):
        law, tau = rough(t.rng)
        plain, kernel = at_axis(law, None), at_axis(law, tau)
        assert plain.rho > plain.gap > 0 and kernel.gap > kernel.rho > 0
        rates = leaving(law, None) / plain.gap, leaving(law, tau) / kernel.gap
        printed.add(rates[0]).fails_by(-1 - plain.rho / plain.gap, within=1e-4)
        printed.breaks("Gaussian alpha", rates[1])
        mended.add(*rates).breaks("a roughness that drives away", plain.rho / plain.gap - 1)
    found = {}
    for what, tau in (("plain", None), ("kernel", LOW)):
        at = at_axis(PLAIN, tau)
        found |= {f"rho_{what}": at.rho, f"gap_{what}": at.gap, f"rate_{what}": leaving(PLAIN, tau)}
    printed.says(**found, tau=LOW)


def _augmented(t: Trial) -> None:
    """The last words with augmented views: an LME with rho above the gap under alpha = 1, which the
    flow leaves, attracts under the Gaussian alpha, frozen there: rho is lower and below the gap."""
    made = t.part("by lowering the roughness, augmented views")
    close = t.part("augmented views: the rate is rho - gap", 0.1)
    rng, lower = t.stream("augmented views"), []
    for _ in range(min(t.draws, 8)):
        even, gaussian = gate_views.three(rng)
        made.add(gaussian.rate() / gaussian.gap).breaks("alpha = 1", even.rate() / even.gap)
        lower.append(abs(gaussian.rho) / even.rho)
        for law in (even, gaussian):
            close.add(abs(law.rate() - (law.rho - law.gap)) / law.gap)
        close.breaks("-(gap + rho)", abs(even.rate() + even.rho + even.gap) / even.gap)
    made.says(lower=np.median(lower))


def _optima(t: Trial) -> None:
    """The surplus of stable angles over alpha = 1, in standard errors, of four clusters."""
    more = t.part("can lead to more optima", 4.0, ">=", draws=5 * min(t.draws, 16))
    linear = t.part(LINEAR, 4.0, ">=", draws=5 * min(t.draws, 16))
    sharp, mild, broad = [], [], []
    straight: dict[str, list[int]] = {"follows": [], "broad": []}
    for _ in range(5 * min(t.draws, 16)):
        centres = 1.5 * t.rng.standard_normal((4, 2))
        cloud = centres[t.rng.integers(0, 4, 60)] + 0.3 * t.rng.standard_normal((60, 2))
        x = torch.tensor(cloud)
        plain, plain_linear = len(circle.stable_angles(x, grid=GRID)), _linear_optima(cloud, None)
        for tau, out in ((float(t.rng.choice([0.05, 0.2])), sharp), (1.0, mild), (1e6, broad)):
            kernel = circle.gaussian_importance(tau)
            out.append(len(circle.stable_angles(x, importance=kernel, grid=GRID)) - plain)
            if out is not mild:
                gain = _linear_optima(cloud, tau) - plain_linear
                straight["follows" if out is sharp else "broad"].append(gain)
    more.add(in_errors(sharp)).breaks("tau = 1e6", in_errors(broad))
    linear.add(in_errors(straight["follows"])).breaks("tau = 1e6", in_errors(straight["broad"]))
    linear.says(mean=np.mean(straight["follows"]), relu=np.mean(sharp))
    more.says(mean=np.mean(sharp), fewer=sum(m < 0 for m in sharp), mild=np.mean(mild))


def _linear_optima(cloud: np.ndarray, tau: float | None) -> int:
    """How many optima a linear node has, tau of the Gaussian alpha (None: alpha = 1)."""
    return optima(push(cloud, angles(), tau, slope=1.0))[0]
