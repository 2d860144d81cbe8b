"""The energy of one node over the circle of its weights, taken apart exactly (nl App. E.1, Fig. 8).

Finitely many points in the plane, w = (cos t, sin t), h(u) = u for u > 0 and slope * u below: ReLU
has slope 0, linear 1. Between two neighbouring angles at which some w.x changes its sign, the
energy 1/2 C_alpha[h(w.x)] is the quadratic form of one fixed matrix, hence a sinusoid of 2t whose
extrema are known. At those angles themselves it has a kink. So nothing is searched for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clcore.theory.one_layer import one_layer

FIGURE8 = tuple(
    math.pi * f for f in (-4 / 5, -1 / 2, -2 / 5, -1 / 6, 0, 1 / 5, 2 / 5, 3 / 5, 4 / 5)
)
"""The angles of the nine points of nl Figure 8."""

# A slope may vanish exactly at a kink; this far inside the cell its sign is plain.
NEAR = 1e-8

__all__ = [
    "FIGURE8",
    "Extrema",
    "basins",
    "cells",
    "energy",
    "extrema",
    "gaussian_importance",
    "on_circle",
    "stable_angles",
    "tangent",
]


@dataclass(frozen=True)
class Extrema:
    """Angles `*b m` of local maxima or minima, and NaN where an entry holds none; the first half
    are smooth, the second half kinks."""

    angle: Tensor

    @property
    def smooth(self) -> Float[Tensor, "*b n"]:
        """Angles at which the energy is differentiable."""
        return self.angle[..., : self.angle.shape[-1] // 2]

    @property
    def kinks(self) -> Float[Tensor, "*b n"]:
        """Angles at which some point's gate opens or closes."""
        return self.angle[..., self.angle.shape[-1] // 2 :]

    def count(self) -> Tensor:
        """How many there are, `*b`."""
        return (~self.angle.isnan()).sum(-1)


def on_circle(angle: Float[Tensor, "*b"]) -> Float[Tensor, "*b 2"]:
    """(cos t, sin t)."""
    return torch.stack([angle.cos(), angle.sin()], -1)


def _wrap(angle: Tensor) -> Tensor:
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def _world(points: Tensor, alpha: Tensor | None) -> one_layer.World:
    if points.shape[-1] != 2:
        raise ValueError(f"points: expected [*b, n, 2], got {list(points.shape)}; the plane only")
    return one_layer.samples(points, alpha)


def energy(
    points: Float[Tensor, "n 2"],
    angle: Float[Tensor, " t"],
    slope: float = 0.0,
    alpha: Float[Tensor, "n n"] | None = None,
) -> Float[Tensor, " t"]:
    """1/2 C_alpha[h(w.x)] at every angle (nl App. E.1); alpha 1 where not given."""
    world = _world(points, alpha)
    return one_layer.energy(world, on_circle(angle), "leaky_relu", slope)


def cells(
    points: Float[Tensor, "*b n xy"],
    slope: float = 0.0,
    alpha: Float[Tensor, "*b n n"] | None = None,
) -> tuple[Float[Tensor, "*b m"], Float[Tensor, "*b m"], Float[Tensor, "*b m 2 2"]]:
    """Where the m = 2n cells begin (rising), how long they are, and the matrix A of each.

    The energy is w^T A w / 2 in a cell. Points at opposite angles make cells of length zero.
    """
    world = _world(points, alpha)
    theta = torch.atan2(points[..., 1], points[..., 0])
    begin = _wrap(torch.cat([theta - math.pi / 2, theta + math.pi / 2], -1)).sort(-1).values
    after = torch.cat([begin[..., 1:], begin[..., :1] + 2 * math.pi], -1)
    length = torch.where(after - begin < 1e-12, 0.0, after - begin)
    w = on_circle(begin + length / 2)
    wide = one_layer.World(
        world.x[..., None, :, :],
        world.p[..., None, :],
        None if alpha is None else alpha[..., None, :, :],
    )
    return begin, length, one_layer.operator(wide, w, "leaky_relu", slope)


def _slope(A: Tensor, angle: Tensor) -> Tensor:
    """d/dt of w^T A w / 2."""
    w = on_circle(angle)
    u = torch.stack([-w[..., 1], w[..., 0]], -1)
    return torch.einsum("...i,...ij,...j->...", u, A, w)


def extrema(
    points: Float[Tensor, "*b n xy"],
    slope: float = 0.0,
    alpha: Float[Tensor, "*b n n"] | None = None,
    minima: bool = False,
) -> Extrema:
    """Every strict local maximum (or minimum) of the energy on the circle.

    Cells in which the energy is constant, as where no gate of a ReLU is open, hold none.
    """
    begin, length, A = cells(points, slope, alpha)
    turn = -1.0 if minima else 1.0
    trace = A.diagonal(dim1=-2, dim2=-1).sum(-1).amax(-1)[..., None]
    axis = torch.atan2(2 * A[..., 0, 1], A[..., 0, 0] - A[..., 1, 1]) / 2
    if minima:
        axis = axis + math.pi / 2
    spread = ((A[..., 0, 0] - A[..., 1, 1]) ** 2 + 4 * A[..., 0, 1] ** 2).sqrt()
    inside = torch.remainder(axis - begin, math.pi)
    smooth = (inside > NEAR) & (inside < length - NEAR) & (spread > 1e-12 * trace)
    peaks = torch.where(smooth, _wrap(begin + inside), torch.nan)

    real = length > 0
    m = begin.shape[-1]
    place = torch.where(real, torch.arange(m), -1)
    before = torch.cat([place - m, place], -1).where(torch.cat([real, real], -1), torch.tensor(-m))
    last = torch.cummax(before, -1).values[..., m - 1 : 2 * m - 1] % m  # the cell before, not empty
    near = torch.clamp(length / 4, max=NEAR)
    ahead = turn * _slope(A, begin + near)
    ends = turn * _slope(A, begin + length - near)
    behind = ends.gather(-1, last)
    kink = real & (behind > 0) & (ahead < 0)
    return Extrema(torch.cat([peaks, torch.where(kink, begin, torch.nan)], -1))


def basins(
    points: Float[Tensor, "n 2"],
    slope: float = 0.0,
    alpha: Float[Tensor, "n n"] | None = None,
) -> tuple[Float[Tensor, " k"], Bool[Tensor, " k"], Float[Tensor, " k"]]:
    """Maxima by rising angle, whether each is a kink, and what share of the circle climbs to it.

    Raises ValueError if the energy is constant on some arc, whose points climb nowhere.
    """
    top = extrema(points, slope, alpha)
    low = extrema(points, slope, alpha, minima=True).angle
    kink = torch.arange(len(top.angle)) >= len(top.angle) // 2
    keep = ~top.angle.isnan()
    angle, order = top.angle[keep].sort()
    valley = low[~low.isnan()].sort().values
    if len(angle) != len(valley):
        raise ValueError(
            f"points: expected as many minima as maxima, got {len(valley)} and {len(angle)}; the "
            "energy is constant on an arc, so use starts that are not on it"
        )
    gaps = torch.remainder(valley[:, None] - angle, 2 * math.pi)
    right = gaps.amin(0)
    left = (2 * math.pi - gaps).amin(0)
    return angle, kink[keep][order], (left + right) / (2 * math.pi)


def gaussian_importance(tau: float) -> Callable[[Tensor], Tensor]:
    """alpha_ij = exp(-(h_i - h_j)^2 / 2 tau) of outputs h [..., n] (nl Corollary 2)."""
    return lambda h: torch.exp(-((h[..., :, None] - h[..., None, :]) ** 2) / (2 * tau))


def tangent(
    points: Float[Tensor, "n 2"],
    angle: Float[Tensor, " t"],
    slope: float = 0.0,
    importance: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, " t"]:
    """dt/ds of the flow of nl Eq. 7 at every angle; `importance` gives alpha from the outputs."""
    w = on_circle(angle)
    u = w @ points.T
    h = torch.where(u > 0, u, slope * u)
    p = torch.full_like(points[:, 0], 1 / len(points))
    world = one_layer.World(points, p, None if importance is None else importance(h))
    force = one_layer.flow(world, w, "leaky_relu", slope)
    return -force[..., 0] * w[..., 1] + force[..., 1] * w[..., 0]


def stable_angles(
    points: Float[Tensor, "n 2"],
    slope: float = 0.0,
    importance: Callable[[Tensor], Tensor] | None = None,
    grid: int = 720,
) -> Float[Tensor, " k"]:
    """Angles that the flow of Eq. 7 runs into from both sides, kinks included, to one grid step.

    For importance that follows w there is no energy to maximise; this counts all the same.
    """
    angle = 2 * math.pi * (torch.arange(grid, dtype=points.dtype) + 0.5) / grid - math.pi
    push = tangent(points, angle, slope, importance)
    after = push.roll(-1)
    return angle[(push > 0) & (after <= 0)] + math.pi / grid
