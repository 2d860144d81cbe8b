"""What the checks compare `clcore` with, written without it.

numpy loops over sample pairs, derivatives by complex steps (f(x + ih) has imaginary part h f'(x),
exact to rounding), random nets, errors over draws, generic solvers for the min player.
Leading axes of arrays are draws unless said otherwise; alpha is [..., n, n], zero on its diagonal.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import overload

import numpy as np
import torch
from scipy.optimize import minimize

Array = np.ndarray
Function = Callable[[Array], Array]
Row = tuple[str, Function, Function]

STEP = 1e-30  # imaginary, so that no difference is ever taken

# ------------------------------------------------------------------------------------- the draws


def share(draws: int, parts: int) -> int:
    """How many draws each of several settings gets."""
    return -(-draws // parts)


def views(
    rng: np.random.Generator, draws: int, n: int = 6, d: int = 3, unit: bool = False
) -> tuple[Array, Array]:
    """Two views [draws, n, d]: distances between samples around 2, between views around 0.5."""
    z = 0.8 * rng.standard_normal((draws, n, d))
    z2 = z + 0.5 * rng.standard_normal(z.shape)
    if unit:
        z, z2 = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (z, z2))
    return z, z2


def random_weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random positive asymmetric alpha, [*shape] = [..., n, n], with zero diagonal."""
    return rng.random(shape) * ~np.eye(shape[-1], dtype=bool)


def net_parameters(rng: np.random.Generator, draws: int, widths: tuple[int, ...]) -> Array:
    """Parameters of `net`, [draws, parameters], for layers of these widths."""
    parts = [
        rng.standard_normal((draws, rows * columns)) / np.sqrt(rows)
        for rows, columns in pairwise(widths)
    ]
    return np.concatenate(parts, -1)


def net(theta, x, name: str, widths: tuple[int, ...]):
    """A bias-free net on x [..., n, p]; theta: [..., parameters], numpy or torch alike."""
    start, last = 0, len(widths) - 2
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        w = theta[..., start : start + rows * columns].reshape(*theta.shape[:-1], rows, columns)
        x = x @ w
        x = x if layer == last else _act(name, x)
        start += rows * columns
    return x


def _act(name: str, x):
    if name == "tanh":
        return np.tanh(x) if isinstance(x, np.ndarray) else torch.tanh(x)
    if name == "relu":
        return rectified(x) if isinstance(x, np.ndarray) else torch.relu(x)
    return x


# ------------------------------------------------------------------------------ phi, psi, slopes


def rectified(x: Array) -> Array:
    """max(x, 0) by the real part; complex arguments, for derivatives by complex steps."""
    return np.where(np.real(x) > 0, x, 0)


def table1(tau: float = 0.5, eps: float = 1.0, margin: float = 1.0, c: float = 2.0) -> list[Row]:
    """Table 1 again, straight from the page: (name, phi, psi); complex arguments allowed."""
    return [
        ("InfoNCE", lambda x: tau * np.log(eps + x), lambda x: np.exp(x / tau)),
        ("MINE", np.log, np.exp),
        ("Triplet", lambda x: x, lambda x: rectified(x + margin)),
        ("Soft Triplet", lambda x: tau * np.log(1 + x), lambda x: np.exp(x / tau + margin)),
        ("N+1 Tuplet", lambda x: np.log(1 + x), np.exp),
        ("Lifted Structured", lambda x: rectified(np.log(x)) ** 2, lambda x: np.exp(x + margin)),
        ("Modified Triplet", lambda x: x, lambda x: 1 / (1 + np.exp(-c * x))),
        ("Triplet Contrastive", lambda x: x, lambda x: x),
    ]


def phis(tau: float) -> list[Function]:
    """Increasing phi of several shapes: tau log(1/2 + x), log(1 + x), x^2, sqrt x."""
    return [lambda x: tau * np.log(0.5 + x), lambda x: np.log(1 + x), lambda x: x**2, np.sqrt]


def slope(f: Function, x: Array) -> Array:
    """f'(x), shaped as x, of a scalar function, by one complex step."""
    h = 1e-12 * np.where(x == 0, 1.0, np.abs(x))  # far below x, however small x is
    return np.imag(f(x + 1j * h)) / h


def stepped(x: Array) -> Array:
    """x, [draws, *s], with one complex step per entry of s: [size of s, draws, *s]."""
    shape, size = x.shape[1:], int(np.prod(x.shape[1:]))
    return x + STEP * 1j * np.eye(size).reshape(size, 1, *shape)


def gradient(f: Function, x: Array) -> Array:
    """df/dx, [draws, *s], of f: [..., *s] -> [...], one complex step per entry of s."""
    return np.moveaxis(np.imag(f(stepped(x))) / STEP, 0, -1).reshape(x.shape)


# --------------------------------------------------------------------- losses and weights by loops


def _half(a: Array, b: Array) -> Array:
    return ((a - b) ** 2).sum(-1) / 2


def distances(z: Array, z2: Array) -> tuple[Array, Array]:
    """(d_ij [..., n, n], d_i [..., n]) of views [..., n, d], by a loop over pairs."""
    n = z.shape[-2]
    pairs = [[_half(z[..., i, :], z[..., j, :]) for j in range(n)] for i in range(n)]
    inter = np.stack([np.stack(row, -1) for row in pairs], -2)
    return inter, np.stack([_half(z[..., i, :], z2[..., i, :]) for i in range(n)], -1)


def costs(inter: Array, intra: Array) -> Array:
    """The min player's c_ij = 2 (d_ij - d_i) of distances [..., n, n] and [..., n]."""
    return 2 * (inter - intra[..., None])


def family_loss(
    inter: Array, intra: Array, phi: Function, psi: Function, diagonal: bool = False
) -> Array:
    """Eq. 1, [...], of distances [..., n, n] and [..., n]; `diagonal` wrongly keeps j = i."""
    total = np.zeros(())
    for i in range(inter.shape[-1]):
        xi = np.zeros(())
        for j in range(inter.shape[-1]):
            if j != i or diagonal:
                xi = xi + psi(intra[..., i] - inter[..., i, j])
        total = total + phi(xi)
    return total


def infonce(inter: Array, intra: Array, tau: float, eps: float, positive: float = 1.0) -> Array:
    """Eq. 2 as printed, [...], naive exponentials; `positive` scales the exponent beside eps."""
    total = np.zeros(())
    for i in range(inter.shape[-1]):
        others = sum(np.exp(-inter[..., i, j] / tau) for j in range(inter.shape[-1]) if j != i)
        near = np.exp(-intra[..., i] / tau)
        total = total + np.log(near / (eps * near**positive + others))
    return -tau * total


def importance(inter: Array, intra: Array, phi: Function, psi: Function) -> Array:
    """Eq. 4, [..., n, n], from the definitions of phi and psi alone."""
    n = inter.shape[-1]
    mask = ~np.eye(n, dtype=bool)
    gaps = np.where(mask, intra[..., :, None] - inter, 0.0)
    xi = (psi(gaps) * mask).sum(-1, keepdims=True)
    return slope(phi, xi) * slope(psi, gaps) * mask


def softmax(inter: Array, tau: float | Array) -> Array:
    """Eq. 6, [..., n, n]: exp(-d_ij / tau) over its row's sum, j = i left out; naive."""
    return normalised(np.exp(-inter / tau) * ~np.eye(inter.shape[-1], dtype=bool))


def covariance(alpha: Array, a: Array, a2: Array, b: Array, b2: Array, sign: float = 1.0) -> Array:
    """Eq. 5, [..., p, q], of a [..., n, p] and b [..., n, q]; sign=-1 adds the second term."""
    n, total = a.shape[-2], np.zeros(())
    for i in range(n):
        beta = sum((alpha[..., i, j] for j in range(n) if j != i), np.zeros(()))
        left, right = a[..., i, :] - a2[..., i, :], b[..., i, :] - b2[..., i, :]
        total = total - sign * beta[..., None, None] * left[..., :, None] * right[..., None, :]
        for j in range(n):
            if j != i:
                left, right = a[..., i, :] - a[..., j, :], b[..., i, :] - b[..., j, :]
                weight = alpha[..., i, j, None, None]
                total = total + weight * left[..., :, None] * right[..., None, :]
    return total


def off(x: Array) -> Array:
    """[..., n, n] -> [..., n, n - 1]: each row without its diagonal entry."""
    n = x.shape[-1]
    return x[..., ~np.eye(n, dtype=bool)].reshape(*x.shape[:-1], n - 1)


def normalised(x: Array) -> Array:
    """[..., n] -> [..., n]: each row over its sum."""
    return x / x.sum(-1, keepdims=True)


def unit(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """x over its Euclidean length along an axis, or along several; complex steps go through."""
    return x / np.sqrt((x * x).sum(axis, keepdims=True))


def sphere(rng: np.random.Generator, *shape: int) -> Array:
    """Random unit vectors, uniform on the sphere, [*shape]."""
    return unit(rng.standard_normal(shape))


def tangent(w: Array, x: Array) -> Array:
    """x minus its part along unit w, [..., d]."""
    return x - (x * w).sum(-1, keepdims=True) * w


def disorder(alpha: Array, inter: Array) -> int:
    """How many neighbours in a row's order of d_ij lack strictly falling positive alpha_ij."""
    order = np.argsort(off(inter), -1)
    sorted_alpha = np.take_along_axis(off(alpha), order, -1)
    return int((np.diff(sorted_alpha, axis=-1) >= 0).sum() + (sorted_alpha <= 0).sum())


# ---------------------------------------------------------------------------- errors over the draws


@overload
def tensors(one: Array, /) -> tuple[torch.Tensor]: ...
@overload
def tensors(one: Array, two: Array, /) -> tuple[torch.Tensor, torch.Tensor]: ...
@overload
def tensors(
    one: Array, two: Array, three: Array, /
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...
@overload
def tensors(
    one: Array, two: Array, three: Array, four: Array, /
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]: ...
@overload
def tensors(*arrays: Array) -> tuple[torch.Tensor, ...]: ...
def tensors(*arrays: Array) -> tuple[torch.Tensor, ...]:
    """The same arrays, shapes and precision kept, for torch."""
    return tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)


def relative(a: Array | torch.Tensor, b: Array | torch.Tensor, floor: float | Array = 0.0) -> Array:
    """[draws]: the largest error of a relative to the largest entry of b (or to `floor`)."""
    a, b = np.asarray(a), np.asarray(b)
    axes = tuple(range(1, b.ndim))
    scale = np.maximum(np.abs(b).max(axes) if axes else np.abs(b), np.maximum(floor, 1e-300))
    return (np.abs(a - b).max(axes) if axes else np.abs(a - b)) / scale


def frequency(found: Array, chance: float) -> float:
    """How far the frequency of what is true is from its chance, in standard errors."""
    return abs(float(found.mean()) - chance) / np.sqrt(chance * (1 - chance) / found.size)


def kolmogorov(x: Array, low: float, high: float) -> float:
    """Kolmogorov's statistic of n numbers for the uniform law of [low, high], times sqrt(n): where
    it is theirs, above 3 with a chance of 3e-8."""
    at = (np.sort(x) - low) / (high - low)
    step = np.arange(len(x) + 1) / len(x)
    return float(np.sqrt(len(x)) * max((step[1:] - at).max(), (at - step[:-1]).max()))


def absolute(a: Array | torch.Tensor, b: Array | torch.Tensor) -> Array:
    """[draws]: the largest error of a, [draws, ...]."""
    a, b = np.asarray(a), np.asarray(b)
    return np.abs(a - b).reshape(len(b), -1).max(-1)


# ------------------------------------------------------------------------ generic convex solvers

GAMMAS = (1.5, 2.0, 3.0)


def _inverse(g: float) -> tuple[Callable, Callable, Callable]:
    return (
        lambda a, t: 2 * t / (1 - g) * a ** (1 - g),
        lambda a, t: 2 * t * a**-g,
        lambda a, t: -2 * t * g * a ** (-g - 1),
    )


REGULARISERS: dict[str, tuple[Callable, Callable, Callable]] = {
    "entropy": (
        lambda a, t: -2 * t * a * np.log(a),
        lambda a, t: -2 * t * (np.log(a) + 1),
        lambda a, t: -2 * t / a,
    ),
    **{f"inverse, gamma = {g:g}": _inverse(g) for g in GAMMAS},
    "square": (lambda a, t: -t / 2 * a**2, lambda a, t: -t * a, lambda a, t: -t * np.ones_like(a)),
}
"""r, r', r'' of acl Sec. 6.1 at (alpha, tau), by the name of the regulariser."""


def newton(name: str, c: Array, mass: Array, tau: float, start: Array | None = None) -> Array:
    """min sum_j c_j a_j - r(a_j), sum_j a_j = mass, inside the simplex: damped Newton on the KKT.

    c, start: [..., k]; mass: [...]; r with r'(0) = inf. Knows nothing of closed forms.
    """
    _, slope, curve = REGULARISERS[name]
    start = np.ones_like(c) if start is None else start
    a = start * (mass / start.sum(-1))[..., None]
    for _ in range(200):
        force, hessian = c - slope(a, tau), -curve(a, tau)
        shift = (force / hessian).sum(-1, keepdims=True) / (1 / hessian).sum(-1, keepdims=True)
        step = (shift - force) / hessian
        room = np.where(step < 0, -a / np.where(step < 0, step, -1.0), np.inf)
        a = a + np.minimum(1.0, 0.9 * room.min(-1, keepdims=True)) * step
        if np.all(np.abs(step) <= 1e-13 * a):
            break
    return a


def slsqp(name: str, c: Array, mass: float, tau: float, start: Array) -> Array:
    """The problem of `newton` for one row, c and start [k], by scipy's SLSQP, in shares of the
    mass: the least sum_j c_j a_j - r(a_j) inside the simplex."""
    r, slope, _ = REGULARISERS[name]
    result = minimize(
        lambda p: float(c @ p - r(mass * p, tau).sum() / mass),
        start / start.sum(),
        jac=lambda p: c - slope(mass * p, tau),
        bounds=[(1e-14, None)] * len(c),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    return mass * result.x


def _project(point: Array) -> Array:
    """The nearest point of the unit simplex, by bisection on the threshold."""
    low, high = point.max(-1, keepdims=True) - 1, point.max(-1, keepdims=True)
    for _ in range(60):
        middle = (low + high) / 2
        full = np.maximum(point - middle, 0).sum(-1, keepdims=True) > 1
        low, high = np.where(full, middle, low), np.where(full, high, middle)
    return np.maximum(point - high, 0)


def projected(c: Array, tau: float, start: Array, steps: int = 60) -> Array:
    """min c.a + tau |a|^2 / 2 on the simplex, [..., k], by projected gradient; tau = 0: c.a."""
    a = start
    for _ in range(steps):
        a = _project(a - 0.5 / max(tau, 1.0) * (c + tau * a))
    return a


def minimiser(name: str, c: Array, tau: float, start: Array, steps: int = 60) -> Array:
    """The best weights of mass 1 for costs c, [..., k], from `start`, for any regulariser."""
    if name == "square":  # its weights reach zero, where Newton's method cannot go
        return projected(c, tau, start, steps)
    return newton(name, c, np.ones(c.shape[:-1]), tau, start)
