"""Stability and roughness of one ReLU node on a bounded continuous law (nl Sec. 3.2, App. B.3).

The law lives on the ball of radius C_0 in two or three dimensions. `parts` is a function from
points x [*b, n, d] to the products phi_l(x) p(x) [*b, n, l], where phi_l are the features of the
pairwise importance (nl Definition 1); l = 1 and phi = 1 for uniform importance. Integrals are
Gauss-Legendre sums in angles that turn with w, hence smooth although the gate jumps.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Parts = Callable[[Tensor], Tensor]

__all__ = [
    "bound",
    "covariance",
    "frame",
    "gaussian",
    "jacobian",
    "mixture",
    "peak",
    "plane",
    "roughness",
    "sector",
    "uniform",
    "volume",
]

ORDER = 48


@cache
def _legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(order)


def _nodes(low: float, high: float, order: int) -> tuple[Tensor, Tensor]:
    nodes, weights = (torch.tensor(v) for v in _legendre(order))
    half = (high - low) / 2
    return (low + high) / 2 + half * nodes, half * weights


def frame(w: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d d"]:
    """Orthonormal rows, the first of which is w (of norm one)."""
    sign = torch.where(w[..., :1] >= 0, 1.0, -1.0).to(w)
    axis = torch.zeros_like(w)
    axis[..., 0] = 1
    v = w + sign * axis
    eye = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    outer = v[..., :, None] * v[..., None, :]
    mirror = eye - 2 * outer / (v * v).sum(-1)[..., None, None]
    return torch.cat([w[..., None, :], mirror[..., 1:, :]], -2)


def sector(
    axes: Float[Tensor, "*b d d"], low: float, high: float, radius: float, order: int = ORDER
) -> tuple[Float[Tensor, "*b n d"], Float[Tensor, " n"]]:
    """Nodes and weights of the part of the ball whose angle in the plane of axes 0, 1 is within
    [low, high], measured from axis 0. Two or three dimensions."""
    d = axes.shape[-1]
    if d not in (2, 3):
        raise ValueError(f"axes: expected 2 or 3 dimensions, got {d}; sums grow too long above")
    r, wr = _nodes(0.0, radius, order)
    phi, wphi = _nodes(low, high, order)
    if d == 2:
        r, phi = torch.meshgrid(r, phi, indexing="ij")
        x = torch.stack([r * phi.cos(), r * phi.sin()], -1).reshape(-1, 2)
        weight = ((wr[:, None] * r[:, :1]) * wphi).flatten()
        return x @ axes, weight
    polar, wpolar = _nodes(0.0, math.pi, order)
    wpolar = wpolar * polar.sin()
    r, phi, polar = torch.meshgrid(r, phi, polar, indexing="ij")
    s = r * polar.sin()
    x = torch.stack([s * phi.cos(), s * phi.sin(), r * polar.cos()], -1).reshape(-1, 3)
    weight = wr[:, None, None] * r[:, :1, :1] ** 2 * wphi[:, None] * wpolar
    return x @ axes, weight.flatten()


def mixture(
    means: Float[Tensor, "k d"], scale: float, radius: float, order: int = ORDER
) -> Callable[[Tensor], Tensor]:
    """The density of equal isotropic Gaussians of this scale, cut at the ball and normalised."""

    def raw(x: Tensor) -> Tensor:
        return torch.exp(-((x[..., None, :] - means) ** 2).sum(-1) / (2 * scale**2)).sum(-1)

    eye = torch.eye(means.shape[-1], dtype=means.dtype)
    mass = 0.0
    for quarter in range(4):
        x, weight = sector(eye, quarter * math.pi / 2, (quarter + 1) * math.pi / 2, radius, order)
        mass = mass + (raw(x) * weight).sum()
    return lambda x: raw(x) / mass


def uniform(p: Callable[[Tensor], Tensor]) -> Parts:
    """`parts` of uniform importance: the density itself."""
    return lambda x: p(x)[..., None]


def gaussian(
    p: Callable[[Tensor], Tensor], w: Float[Tensor, " d"], tau: float, count: int = 40
) -> Parts:
    """`parts` of exp(-(h - h')^2 / 2 tau), h = relu(w.x), w held fixed (nl Eq. 96)."""
    power = torch.arange(count, dtype=w.dtype)
    scale = (torch.lgamma(power + 1) / 2).exp()

    def parts(x: Tensor) -> Tensor:
        h = torch.relu(x @ w)[..., None] / math.sqrt(tau)
        return p(x)[..., None] * torch.exp(-(h**2) / 2) * h**power / scale

    return parts


def _gated(parts: Parts, w: Tensor, radius: float, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """Integrals of phi_l p over the ball, and of phi_l p x, phi_l p x x^T over w.x >= 0."""
    axes = frame(w)
    x, weight = sector(axes, -math.pi / 2, math.pi / 2, radius, order)
    mass = parts(x) * weight[:, None]
    other, _ = sector(axes, math.pi / 2, 3 * math.pi / 2, radius, order)
    z = mass.sum(-2) + (parts(other) * weight[:, None]).sum(-2)
    first = torch.einsum("...nl,...nd->...ld", mass, x)
    return z, first, torch.einsum("...nl,...ni,...nj->...lij", mass, x, x)


def covariance(
    parts: Parts, w: Float[Tensor, "*b d"], radius: float, order: int = ORDER
) -> Float[Tensor, "*b d d"]:
    """A(w) = sum_l z_l^2 V_l[gated x] (nl Eq. 66)."""
    z, first, second = _gated(parts, w, radius, order)
    return (z[..., None, None] * second - first[..., :, None] * first[..., None, :]).sum(-3)


def plane(
    axes: Float[Tensor, "*b d d"], radius: float, order: int
) -> tuple[Float[Tensor, "*b n d"], Float[Tensor, " n"]]:
    """Nodes of the part of w.x = 0 within the ball, and their weights; axes: `frame(w)`."""
    r, wr = _nodes(-radius, radius, order)
    if axes.shape[-1] == 2:
        return r[:, None] * axes[..., 1:, :], wr
    r, wr = _nodes(0.0, radius, order)
    phi, wphi = _nodes(0.0, 2 * math.pi, 2 * order)
    r, phi = torch.meshgrid(r, phi, indexing="ij")
    flat = torch.stack([r * phi.cos(), r * phi.sin()], -1).reshape(-1, 2)
    return flat @ axes[..., 1:, :], (wr[:, None] * r[:, :1] * wphi).flatten()


def jacobian(
    parts: Parts, w: Float[Tensor, "*b d"], radius: float, order: int = ORDER
) -> Float[Tensor, "*b d d"]:
    """M with (A(v) - A(w)) w = M (v - w) + O(|v - w|^2), the importance held fixed.

    M = -sum_l z_l^2 E_l[h] int_{w.x=0} x x^T p_l: only data on the plane count, and M is negative
    semi-definite. It pulls v back to w.
    """
    _, first, _ = _gated(parts, w, radius, order)
    x, weight = plane(frame(w), radius, order)
    flat = torch.einsum("...nl,n,...ni,...nj->...lij", parts(x), weight, x, x)
    h = (first * w[..., None, :]).sum(-1)
    return -(h[..., None, None] * flat).sum(-3)


def roughness(
    parts: Parts, w: Float[Tensor, "*b d"], radius: float, order: int = ORDER
) -> Float[Tensor, "*b"]:
    """The local roughness rho(w) of nl Sec. 3.2: the norm of `jacobian`."""
    return torch.linalg.matrix_norm(jacobian(parts, w, radius, order), 2)


def peak(
    parts: Parts, w: Float[Tensor, "*b d"], radius: float, order: int = ORDER
) -> Float[Tensor, "*b"]:
    """r(w, alpha) = sum_l z_l^2 max_{w.x=0} p_l (nl Theorem 2), the maximum over the nodes."""
    z, _, _ = _gated(parts, w, radius, order)
    x, _ = plane(frame(w), radius, order)
    return (z * parts(x).amax(-2)).sum(-1)


def volume(d: int, radius: float) -> float:
    """Volume of the d-dimensional ball."""
    return math.pi ** (d / 2) / math.gamma(d / 2 + 1) * radius**d


def bound(r: Float[Tensor, "*b"], d: int, radius: float, power: int = 2) -> Float[Tensor, "*b"]:
    """C_0^power vol(C_0) / pi r(w, alpha). nl Theorem 2 prints power 3; 2 is what holds."""
    return radius**power * volume(d, radius) / math.pi * r
