"""What nl says of Gaussian alpha after Corollary 2: a small z_0, less roughness, more optima."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from scipy import integrate, stats

from clcore import reference as ref
from clcore.checks.one_layer.landscape import GRID, optima, push
from clcore.ledger import Check
from clcore.reference import typical, worst
from clcore.theory.one_layer import circle_landscape as circle
from clcore.theory.one_layer import roughness as ro

ORDER = 32
SMALL = (0.01, 0.03)


def _in_errors(values: list[int]) -> float:
    """The mean over its standard error; 0 where all values are alike."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values) / error) if error else 0.0


def _z0(m: float, tau: float) -> float:
    """E exp(-h^2 / 2 tau) of h = relu(x), x of law N(m, 1), by quadrature."""

    def weighted(x: float) -> float:
        return math.exp(-(max(x, 0.0) ** 2) / (2 * tau)) * stats.norm.pdf(x - m)

    return integrate.quad(weighted, m - 9, m + 9, points=[0.0], limit=200)[0]


def _at(parts: ro.Parts, w: torch.Tensor) -> tuple[float, float]:
    """(rho, gap of A(w)) of a law on the disc of radius 2."""
    values = torch.linalg.eigvalsh(ro.covariance(parts, w, 2.0, ORDER))
    return float(ro.roughness(parts, w, 2.0, ORDER)), float(values[-1] - values[-2])


def rem9(draws: int, seed: int) -> Iterator[Check]:
    """z_0 falls faster than exp(-m); rho falls with tau, and faster than the gap; some data have
    more optima under the Gaussian importance. Controls: a wide kernel, four times.

    z_0 by quadrature of the law on the line; optima of random planar data by the sign of the flow,
    by the operator and by the sum over pairs.
    """
    rng, check = ref.generator("nl rem9", seed), partial(Check, "nl/rem9")
    taus, means = rng.uniform(0.02, 0.3, min(draws, 8)), np.arange(3.0, 9.0)
    falls = {t: np.diff(np.log([_z0(m, t) for m in means])) for t in (*taus, 100.0)}
    yield check(
        max(falls[t].max() for t in taus) + 1,
        0.0,
        {"tau = 100": falls[100.0].max() + 1},
        part="z_0 can be exponentially small",
        draws=len(taus),
        note=r"$x_1\sim\mathcal N(m,1)$, $m=3$ to $8$: the greatest step of $\ln(z_0e^m)$ as $m$ "
        "grows by one.",
    )
    ratio, wide, beside, beside_wide, middle = [], [], [], [], []
    for _ in range(min(draws, 8)):
        angle = rng.uniform(0, 2 * math.pi)
        w = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
        k = int(rng.integers(1, 4))
        centres = rng.uniform(0.6, 1.2) * w + 0.4 * torch.tensor(rng.standard_normal((k, 2)))
        p = ro.mixture(centres, float(rng.uniform(0.35, 0.6)), 2.0, ORDER)
        rho, gap = _at(ro.uniform(p), w)
        for tau in (float(rng.uniform(*SMALL)), 0.3, 100.0):
            found, own = _at(ro.gaussian(p, w, tau, 60), w)
            if tau == 0.3:
                middle.append(found / rho)
                continue
            small = tau < 1
            (ratio if small else wide).append(found / rho)
            (beside if small else beside_wide).append(found / own / (rho / gap))
    what = "One to three clusters in front of a random w, w anywhere, alpha frozen at w."
    yield check(
        worst(np.array(ratio)),
        0.1,
        {"tau = 100": typical(np.array(wide))},
        part="roughness can be much smaller",
        draws=len(ratio),
        note=r"$\rho_g/\rho_u$ at $\tau$ from 0.01 to 0.03; at 0.3 it is "
        f"{typical(np.array(middle)):.2f} in the median. {what}",
    )
    yield check(
        worst(np.array(beside)),
        0.3,
        {"tau = 100": typical(np.array(beside_wide))},
        part="and smaller beside the gap",
        draws=len(beside),
        note=r"$\rho/\lambda_{\mathrm{gap}}$, Gaussian over uniform: Theorem 1 compares the two. "
        f"{what}",
    )
    sharp, mild, broad, apart, other = [], [], [], [], []
    for k in range(5 * min(draws, 16)):
        centres = 1.5 * rng.standard_normal((4, 2))
        cloud = centres[rng.integers(0, 4, 60)] + 0.3 * rng.standard_normal((60, 2))
        x = torch.tensor(cloud)
        plain = len(circle.stable_angles(x, grid=GRID))
        for tau, out in ((float(rng.choice([0.05, 0.2])), sharp), (1.0, mild), (1e6, broad)):
            kernel = circle.gaussian_importance(tau)
            out.append(len(circle.stable_angles(x, importance=kernel, grid=GRID)) - plain)
            if k < 6 and out is sharp:
                angle = 2 * math.pi * (np.arange(GRID) + 0.5) / GRID - math.pi
                apart.append(abs(optima(push(cloud, angle, tau))[0] - out[-1] - plain))
                other.append(abs(optima(push(cloud, angle))[0] - out[-1] - plain))
    yield check(
        _in_errors(sharp),
        4.0,
        {"tau = 1e6": _in_errors(broad)},
        part="can lead to more optima",
        relation=">=",
        draws=len(sharp),
        note="Stable angles of four clusters in the plane, $\\alpha$ following $w$: mean surplus "
        rf"over $\alpha=1$ in standard errors. The mean is {np.mean(sharp):.1f} at $\tau=0.05$ or "
        rf"$0.2$ (fewer in {sum(m < 0 for m in sharp)} draws), {np.mean(mild):.1f} at $\tau=1$.",
    )
    yield check(
        worst(np.array(apart, float)),
        0.0,
        {"alpha = 1": float(np.mean(other))},
        part="optima counted by the operator and by pairs",
        draws=len(apart),
    )
