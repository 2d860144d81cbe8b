"""Laws of a ball on the unit ball, in numpy: wedges, half balls, planes (nl Sec. 3.2, App. B.3).

A second computation for `roughness.theorem2` and `eigenvectors.stability`. Lengths are in units of
C_0, so that a printed ratio with one power of C_0 too many is that of the unit ball over C_0.
Nothing of `clcore.theory.one_layer.roughness` is in use but the density itself, which is normalised
anew.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from clcore.reference import Array, unit

gauss = cache(np.polynomial.legendre.leggauss)
Density = Callable[[Array], Array]
SPOTS = 0.25
"""By how much the largest density on another set of points may differ: where too small a one is
found, a bound is harder to meet. It was at most 0.06 over 4,800 laws, and once 0.12."""


class Half(NamedTuple):
    """Mass of the ball; mass, first and second moment of w^T y >= 0, phi_0 p in place of p."""

    z: float
    first: Array
    second: Array


def scaled(p: Callable, radius: float, d: int) -> Density:
    """The law p of the ball of this radius, on the unit ball."""
    return lambda y: radius**d * p(torch.from_numpy(radius * y)).numpy()


def axes_of(w: Array, u: Array | None = None) -> Array:
    """Rows w, u (in the plane w turned by a right angle where not given), and w x u in space."""
    u = np.array([-w[1], w[0]]) if u is None else u
    return np.stack([w, u] if len(w) == 2 else [w, u, np.cross(w, u)])


def nodes(axes: Array, low: float, high: float, order: int = 0) -> tuple[Array, Array]:
    """Points and weights of the unit ball between two angles from the first axis to the second:
    Gauss-Legendre in radius, angle and, in space, the cosine with the third axis."""
    x, g = gauss(order or (120 if len(axes) == 2 else 32))
    r, phi = (1 + x) / 2, (low + high) / 2 + (high - low) / 2 * x
    y = r[:, None, None] * np.stack([np.cos(phi), np.sin(phi)], -1)
    weight = (g / 2 * r)[:, None] * (high - low) / 2 * g
    if len(axes) == 3:
        flat = np.sqrt(1 - x**2)[:, None, None, None] * y
        height = np.broadcast_to((x[:, None, None] * r[:, None])[..., None], (*flat.shape[:-1], 1))
        y, weight = np.concatenate([flat, height], -1), g[:, None, None] * r[:, None] * weight
    return y.reshape(-1, len(axes)) @ axes, weight.ravel()


def half(p: Density, axes: Array, tau: float | None = None, order: int = 0) -> Half:
    """Moments of the open half; tau: of Gaussian importance of h(w^T y), its feature phi_0."""
    right = math.pi / 2
    (y, weight), (other, same) = (nodes(axes, right * k, right * (k + 2), order) for k in (-1, 1))
    mass = p(y) * weight * (1 if tau is None else np.exp(-((y @ axes[0]) ** 2) / (2 * tau)))
    z = mass.sum() + (p(other) * same).sum()
    return Half(z, mass @ y, np.einsum("n,ni,nj->ij", mass, y, y))


def plane(p: Density, axes: Array, order: int = 0) -> tuple[Array, Array]:
    """The second moment on w^T y = 0, and the points there."""
    if len(axes) == 3:
        y, weight = nodes(axes[1:], -math.pi, math.pi, order or 60)
    else:
        x, weight = gauss(order or 120)
        y = x[:, None] * axes[1]
    return np.einsum("n,ni,nj->ij", p(y) * weight, y, y), y


def most(p: Density, spots: Array, others: Array) -> float:
    """The largest density at `spots`. Raises ArithmeticError where that at `others` and on the rim
    beyond them is another."""
    at, beside = p(spots).max(), p(np.concatenate([others, unit(others)])).max()
    if not abs(at / beside - 1) < SPOTS:
        raise ArithmeticError(f"expected the largest density near {beside:.3g}, found {at:.3g}")
    return float(at)


def ball(d: int) -> float:
    """Volume of the unit ball of the plane or of space."""
    return math.pi if d == 2 else 4 * math.pi / 3


def over_bound(
    p: Density, axes: Array, spots: Array, tau: float | None = None, along: bool = False
) -> float:
    """rho over the bound of nl Theorem 2. On the plane h = 0, so phi_0 = 1 and all other features
    are 0: rho is E[phi_0 h] times the norm of the second moment there, r is z_0 max p.

    spots: where max p is looked for. along: a turn along the second axis in place of the one for
    which rho is attained.
    """
    here, (flat, y) = half(p, axes, tau), plane(p, axes)
    turn = np.linalg.norm(flat @ axes[1] if along else flat, None if along else 2)
    rho = (here.first @ axes[0]) * turn
    mass = here.z if tau is None else half(p, axes).z
    return float(rho / mass / (ball(len(axes)) / math.pi * here.z * most(p, spots, y)))


def over_wedges(p: Density, axes: Array, angle: float, spots: Array) -> tuple[float, float]:
    """Left over right of nl Eq. 80 and of Eq. 90's whole chain, w_* turned towards u by `angle`.
    spots: where max p is looked for."""
    right, far = math.pi / 2, 2 * math.sin(angle / 2)
    changes, others = [], []
    for side in (1, -1):
        y, weight = nodes(axes, side * right, side * right + angle)
        mass = side * p(y) * weight
        others.append(y)
        changes.append((mass @ y, np.einsum("n,ni,nj->ij", mass, y, y)))
    first, second = (a + b for a, b in zip(*changes, strict=True))
    here, top = half(p, axes), most(p, spots, np.concatenate(others))
    size = ball(len(axes)) / math.pi * top * far
    whole = np.linalg.norm(first) * (here.first @ axes[0]) / here.z * math.cos(angle)
    return float(np.linalg.norm(second @ axes[0]) / size / angle), float(whole / size)


def tilted_wedges(d: int, angle: float) -> float:
    """Left over right of nl Eq. 84 for the density (1 + u^T y) / vol, in closed form."""
    moment = 1 / 5 if d == 2 else math.pi / 16  # of the distance from the edge, cubed
    c, s, near = math.cos(angle), math.sin(angle), 2 * math.sin(angle / 2) ** 2  # near = 1 - c
    across = math.hypot(s**3, near * (1 + c + c**2)) / 3
    return moment * across * math.pi / ball(d) * c / (2 * near)


def excess(p: Density, w: Array, u: Array, e: float, order: int) -> float:
    """(u^T P_v A(v) v / e + gap - rho) / e of nl Eq. 65 in the plane, alpha = 1, with so many nodes
    an axis: those turn with w, and so does their error."""

    def A(v: Array) -> Array:
        z, first, second = half(p, axes_of(v), order=order)
        return z * second - np.outer(first, first)

    v = math.sqrt(1 - e**2) * w + e * u
    image, values, axes = A(v) @ v, np.linalg.eigvalsh(A(w)), axes_of(w)
    rho = half(p, axes, order=order).first @ w * np.trace(plane(p, axes, order)[0])
    return (((u - (u @ v) * v) @ image) / e + values[1] - values[0] - rho) / e
