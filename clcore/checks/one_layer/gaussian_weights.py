"""What nl says of Gaussian alpha after Corollary 2: a small z_0, less roughness, more optima."""

import math

import numpy as np
import torch
from scipy import integrate, stats

from clcore.checks.one_layer.landscape import GRID, angles, in_errors, optima, push
from clcore.ledger import Trial, check, pooled
from clcore.theory.one_layer import circle_landscape as circle
from clcore.theory.one_layer import roughness as ro

ORDER = 32
SMALL = (0.01, 0.03)


def _z0(m: float, tau: float) -> float:
    """E exp(-h^2 / 2 tau) of h = relu(x), x of law N(m, 1), by quadrature."""

    def weighted(x: float) -> float:
        return math.exp(-(max(x, 0.0) ** 2) / (2 * tau)) * stats.norm.pdf(x - m)

    return integrate.quad(weighted, m - 9, m + 9, points=[0.0], limit=200)[0]


def _at(parts: ro.Parts, w: torch.Tensor) -> tuple[float, float]:
    """(rho, gap of A(w)) of a law on the disc of radius 2."""
    values = torch.linalg.eigvalsh(ro.covariance(parts, w, 2.0, ORDER))
    return float(ro.roughness(parts, w, 2.0, ORDER)), float(values[-1] - values[-2])


@check("nl/rem9")
def rem9(t: Trial) -> None:
    """z_0 falls faster than exp(-m); rho falls with tau, and faster than the gap; some data have
    more optima under the Gaussian importance. Controls: a wide kernel, four times.

    z_0 by quadrature of the law on the line; optima of random planar data by the sign of the flow,
    by the operator and by the sum over pairs.
    """
    taus, means = t.rng.uniform(0.02, 0.3, min(t.draws, 8)), np.arange(3.0, 9.0)
    falls = {tau: np.diff(np.log([_z0(m, tau) for m in means])) for tau in (*taus, 100.0)}
    small = t.part("z_0 can be exponentially small", draws=len(taus))
    small.add(*(falls[tau] + 1 for tau in taus)).breaks("tau = 100", falls[100.0].max() + 1)
    _roughness(t)
    _optima(t)


def _roughness(t: Trial) -> None:
    """rho, and rho beside the gap, under the Gaussian importance over those under the uniform."""
    rough = t.part("roughness can be much smaller", 0.1, controls=pooled)
    beside = t.part("and smaller beside the gap", 0.3, controls=pooled)
    middle = []
    for _ in range(min(t.draws, 8)):
        angle = t.rng.uniform(0, 2 * math.pi)
        w = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
        k = int(t.rng.integers(1, 4))
        centres = t.rng.uniform(0.6, 1.2) * w + 0.4 * torch.tensor(t.rng.standard_normal((k, 2)))
        p = ro.mixture(centres, float(t.rng.uniform(0.35, 0.6)), 2.0, ORDER)
        rho, gap = _at(ro.uniform(p), w)
        found, own = _at(ro.gaussian(p, w, float(t.rng.uniform(*SMALL)), 60), w)
        rough.add(found / rho)
        beside.add(found / own / (rho / gap))
        found, own = _at(ro.gaussian(p, w, 100.0, 60), w)
        rough.breaks("tau = 100", found / rho)
        beside.breaks("tau = 100", found / own / (rho / gap))
        middle.append(_at(ro.gaussian(p, w, 0.3, 60), w)[0] / rho)
    rough.says(middle=np.median(middle))


def _optima(t: Trial) -> None:
    """The surplus of stable angles over alpha = 1, in standard errors, of four clusters."""
    more = t.part("can lead to more optima", 4.0, ">=", draws=5 * min(t.draws, 16))
    pairs = t.part("optima counted by the operator and by pairs")
    sharp, mild, broad, other = [], [], [], []
    for k in range(5 * min(t.draws, 16)):
        centres = 1.5 * t.rng.standard_normal((4, 2))
        cloud = centres[t.rng.integers(0, 4, 60)] + 0.3 * t.rng.standard_normal((60, 2))
        x = torch.tensor(cloud)
        plain = len(circle.stable_angles(x, grid=GRID))
        for tau, out in ((float(t.rng.choice([0.05, 0.2])), sharp), (1.0, mild), (1e6, broad)):
            kernel = circle.gaussian_importance(tau)
            count = len(circle.stable_angles(x, importance=kernel, grid=GRID))
            out.append(count - plain)
            if k < 6 and out is sharp:
                pairs.add(abs(optima(push(cloud, angles(), tau))[0] - count))
                other.append(abs(optima(push(cloud, angles()))[0] - count))
    more.add(in_errors(sharp)).breaks("tau = 1e6", in_errors(broad))
    more.says(mean=np.mean(sharp), fewer=sum(m < 0 for m in sharp), mild=np.mean(mild))
    pairs.breaks("alpha = 1", np.mean(other))
