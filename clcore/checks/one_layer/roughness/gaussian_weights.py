"""nl's remarks on Gaussian alpha after Corollary 2: a small z_0, less roughness, more optima."""

import math
from collections.abc import Callable
from itertools import chain

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

    Given   x_1 ~ N(m, 1), m = 3..8, tau from 0.02 to 0.3; laws with most data in front of w, tau
            from 0.03 to 0.08, alpha frozen at w, for rho, and with augmentation laws of three
            samples, tau from 0.2 to 0.6 times the square of an output; four clusters in the plane,
            tau = 0.05 or 0.2, alpha following w, for optima.
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
    # The steps of log z_0 as m grows by one, plus 1.
    small = t.part("z_0 can be exponentially small", draws=len(taus))
    small.add(*(falls[tau] + 1 for tau in taus)).breaks("tau = 100", falls[100.0].max() + 1)
    _roughness(t)
    _cause(t)
    _augmented(t)
    _optima(t)


def _roughness(t: Trial) -> None:
    """rho, and rho relative to the gap, under the Gaussian importance over those under the uniform,
    at points that are LMEs under both."""
    rates = []
    for _ in range(min(t.draws, 8)):
        tau = float(t.rng.uniform(0.03, 0.08))
        law = front(t.rng, tau)
        rates.append([at_axis(law, v) for v in (None, tau, 100.0, 0.3)])
        assert min(rates[-1][0].gap, rates[-1][1].gap) > 0

    # rho under the Gaussian importance over that under the uniform one.
    low = t.part("roughness can be much smaller", 0.1, controls=pooled)
    for plain, kernel, wide, _ in rates:
        low.add(kernel.rho / plain.rho).breaks("tau = 100", wide.rho / plain.rho)
    low.says(middle=np.median([middle.rho / plain.rho for plain, _, _, middle in rates]))

    # The same of rho relative to the gap.
    beside = t.part("and smaller beside the gap", 0.95, controls=pooled)
    for plain, kernel, wide, _ in rates:
        own, other = (r.rho / r.gap / (plain.rho / plain.gap) for r in (kernel, wide))
        beside.add(own).breaks("tau = 100", other)


def _cause(t: Trial) -> None:
    """LMEs with rho above the gap under alpha = 1 and below it under the Gaussian importance: the
    rate at which the flow leaves them, over the gap. Controls: under the Gaussian importance; a
    roughness that drives away."""
    name, n = "by lowering the roughness", min(t.draws, 8)
    printed, mended = t.part(name, 0.0, ">=", draws=n), t.corrected(name, -1.0, draws=2 * n)
    # As printed they are no optima under alpha = 1: a rate of 0 or more. Corrected: they are under
    # both, at a rate of -1 or less.
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
    rng = t.stream("augmented views")
    laws = [gate_views.three(rng) for _ in range(min(t.draws, 8))]

    # Under alpha = 1 the flow leaves, under the Gaussian alpha it returns.
    made = t.part("by lowering the roughness, augmented views")
    for even, gaussian in laws:
        made.add(gaussian.rate() / gaussian.gap).breaks("alpha = 1", even.rate() / even.gap)
    made.says(lower=np.median([abs(gaussian.rho) / even.rho for even, gaussian in laws]))

    # The rate of both is rho - gap.
    close = t.part("augmented views: the rate is rho - gap", 0.1)
    for law in chain(*laws):
        close.add(abs(law.rate() - (law.rho - law.gap)) / law.gap)
    for even, _ in laws:
        close.breaks("-(gap + rho)", abs(even.rate() + even.rho + even.gap) / even.gap)


def _optima(t: Trial) -> None:
    """The surplus of stable angles over alpha = 1, in standard errors, of four clusters."""
    clouds, taus = [], []
    for _ in range(5 * min(t.draws, 16)):
        centres = 1.5 * t.rng.standard_normal((4, 2))
        cloud = centres[t.rng.integers(0, 4, 60)] + 0.3 * t.rng.standard_normal((60, 2))
        clouds.append(cloud)
        taus.append(float(t.rng.choice([0.05, 0.2])))

    kernels = taus, [1e6] * len(taus), [1.0] * len(taus)

    # A ReLU node.
    more = t.part("can lead to more optima", 4.0, ">=", draws=len(clouds))
    sharp, broad, mild = (_gained(_relu_optima, clouds, each) for each in kernels)
    more.add(in_errors(sharp)).breaks("tau = 1e6", in_errors(broad))
    more.says(mean=np.mean(sharp), fewer=sum(m < 0 for m in sharp), mild=np.mean(mild))

    # A linear node.
    linear = t.part(LINEAR, 4.0, ">=", draws=len(clouds))
    straight, broad = (_gained(_linear_optima, clouds, each) for each in kernels[:2])
    linear.add(in_errors(straight)).breaks("tau = 1e6", in_errors(broad))
    linear.says(mean=np.mean(straight), relu=np.mean(sharp))


def _gained(optima: Callable, clouds: list[np.ndarray], taus: list[float]) -> list[int]:
    """How many optima each cloud has more under its Gaussian alpha than under alpha = 1."""
    pairs = zip(clouds, taus, strict=True)
    return [optima(cloud, tau) - optima(cloud, None) for cloud, tau in pairs]


def _relu_optima(cloud: np.ndarray, tau: float | None) -> int:
    """How many angles are stable for a ReLU node, tau of the Gaussian alpha (None: alpha = 1)."""
    importance = None if tau is None else circle.gaussian_importance(tau)
    return len(circle.stable_angles(torch.tensor(cloud), importance=importance, grid=GRID))


def _linear_optima(cloud: np.ndarray, tau: float | None) -> int:
    """How many optima a linear node has, tau of the Gaussian alpha (None: alpha = 1)."""
    return optima(push(cloud, angles(), tau, slope=1.0))[0]
