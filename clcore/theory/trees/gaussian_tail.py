"""The chance that one standard normal is large while another, correlated one is positive.

y = (y_+, y_-) is a standard Gaussian pair of correlation -gamma; wanted is P(y_+ >= sqrt(c),
y_- >= 0), which ddn Lemma 8 bounds from below through the Mills ratio (App. C.3). Since
probabilities fall below the smallest float64 when gamma nears one, they are given as logarithms.
All functions work entry by entry on broadcastable tensors.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

NODES = 200
FAR = 80.0  # nats below its largest value at which an integrand is cut


def mills(y: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """r(y) = int_0^oo exp(-y t - t^2/2) dt, the normal's tail over its density (ddn Eq. 116)."""
    return math.sqrt(math.pi / 2) * torch.special.erfcx(y / math.sqrt(2))


def excess(y: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """e(y) = 1/r(y) - y (ddn Eq. 117): how far beyond y a normal variable above y is on average.

    By a continued fraction from y = 4 on, where the difference loses its digits.
    """
    far = y.clamp(min=4.0)
    fraction = torch.zeros_like(far)
    for k in range(80, 1, -1):
        fraction = k / (far + fraction)
    return torch.where(y < 4.0, 1 / mills(y) - y, 1 / (far + fraction))


def mills_bounds(
    y: Float[Tensor, "*b"],
) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b"]]:
    """(below, above) r(y) for y > 0: 2/(sqrt(y^2+4)+y) and 4/(sqrt(y^2+8)+3y) (ddn Eq. 124)."""
    return 2 / ((y**2 + 4).sqrt() + y), 4 / ((y**2 + 8).sqrt() + 3 * y)


def _excess_bounds(y: Tensor) -> tuple[Tensor, Tensor]:
    """(below, above) e(y), from the bounds on r(y), without the difference 1/r - y."""
    return 2 / ((y**2 + 8).sqrt() + y), 2 / ((y**2 + 4).sqrt() + y)


def kappas(
    c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"]
) -> tuple[Float[Tensor, "*#b"], Float[Tensor, "*#b"]]:
    """kappa_1 = sqrt(c / (1 - gamma^2)) and kappa_2 = gamma kappa_1 (ddn Eqs. 118, 119).

    Errors: c <= 0 or gamma outside [0, 1).
    """
    if not bool((c > 0).all()):
        raise ValueError(f"expected c > 0, got {float(c.min()):g}; y_+ has to exceed sqrt(c)")
    if not bool(((gamma >= 0) & (gamma < 1)).all()):
        wrong = gamma[(gamma < 0) | ~(gamma < 1)][0]
        raise ValueError(
            f"expected 0 <= gamma < 1, got {float(wrong):g}; at 1 the event has probability zero"
        )
    first = (c / ((1 - gamma) * (1 + gamma))).sqrt()
    return first, gamma * first


def r_hat(c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"]) -> Float[Tensor, "*#b"]:
    """R-hat(c, gamma), the product of two Mills ratios in the bound (ddn Eq. 121)."""
    one, two = kappas(c, gamma)
    left = mills(one) * mills(two + gamma * excess(one))
    return torch.maximum(left, mills(two) * mills(one + gamma * excess(two)))


def r_hat_bounds(
    c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"]
) -> tuple[Float[Tensor, "*#b"], Float[Tensor, "*#b"]]:
    """(below, above) R-hat, through ddn Eq. 124 alone: the band of ddn Fig. 11.

    r falls in y, so each end takes the bound on e(y) that moves r the same way.
    """
    one, two = kappas(c, gamma)
    ends = []
    for side in (0, 1):
        r = [mills_bounds(y)[side] for y in (one, two)]
        e = [_excess_bounds(y)[1 - side] for y in (one, two)]
        left = r[0] * mills_bounds(two + gamma * e[0])[side]
        ends.append(torch.maximum(left, r[1] * mills_bounds(one + gamma * e[1])[side]))
    return ends[0], ends[1]


def asymptote(c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"]) -> Float[Tensor, "*#b"]:
    """1/(kappa_1 kappa_2) = (1 - gamma^2)/(gamma c), what R-hat nears for large c (ddn Eq. 126)."""
    one, two = kappas(c, gamma)
    return 1 / (one * two)


def log_bound(
    c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"], printed: bool = False
) -> Float[Tensor, "*#b"]:
    """log of the lower bound sqrt(1 - gamma^2) R-hat exp(-kappa_1^2/2) / 2 pi (ddn Eq. 122).

    kappa_1^2 = c/(1 - gamma^2) is the quadratic form y_0^T M_y y_0. `printed` puts c in its place,
    as ddn Lemma 8 does. That is no lower bound: equal to the probability at gamma = 0, above it at
    every gamma > 0 tried for c >= 1 (1.205 times it at c = 9, gamma = 0.2). For c below about 0.3
    the slack makes up for it at first: it holds up to gamma = 0.57 at c = 0.1, 0.95 at c = 0.01.
    """
    square = c if printed else c / ((1 - gamma) * (1 + gamma))
    scale = torch.log((1 - gamma) * (1 + gamma)) / 2 - math.log(2 * math.pi)
    return scale + torch.log(r_hat(c, gamma)) - square / 2


def log_tail(c: Float[Tensor, "*#b"], gamma: Float[Tensor, "*#b"]) -> Float[Tensor, "*#b"]:
    """log P(y_+ >= sqrt(c), y_- >= 0), to about 1e-12 for c >= 1e-3.

    P = exp(-c/2)/2 pi int_{s_0}^oo exp(-c s^2/2)/(1 + s^2) ds, s_0 = gamma/sqrt(1 - gamma^2), since
    dP/dgamma is minus the density at (sqrt(c), 0); by Gauss-Legendre nodes in atan s.
    """
    one, two = kappas(c, gamma)
    start = gamma / ((1 - gamma) * (1 + gamma)).sqrt()
    # The length L at which c (s_0 L + L^2/2) = FAR; the difference written without cancellation.
    length = 2 * FAR / (two * c.sqrt() + (two**2 * c + 2 * FAR * c).sqrt())
    # Angles from atan s_0, so that short ranges near pi/2 keep their digits.
    span = torch.atan2(length, 1 + start * (start + length))
    x, weights = (torch.as_tensor(v, dtype=c.dtype) for v in np.polynomial.legendre.leggauss(NODES))
    x, weights = x.to(c.device), weights.to(c.device)
    turn = torch.tan(span[..., None] * (x + 1) / 2)
    s = start[..., None]
    rise = turn * (1 + s**2) / (1 - s * turn)
    integrand = torch.exp(-c[..., None] * rise * (s + rise / 2))
    mean = (integrand * weights).sum(-1) / 2
    return torch.log(span * mean) - one**2 / 2 - math.log(2 * math.pi)
