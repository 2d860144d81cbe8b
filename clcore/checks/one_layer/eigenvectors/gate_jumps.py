"""Where A jumps at an LME, which nl Theorem 1 does not exclude (nl Sec. 3.2, App. B.3).

Finite laws without augmentation, a kernel of two features, each on its own group of points. The
first group has an LME w_*. The second lies in the plane w_*^T x = 0, where h'(0) = 0 hides it from
A(w_*); wherever w turns, half of it comes into sight. A is summed in numpy by nl Corollary 1,
`clcore.theory.one_layer.one_layer` integrates the flow.

Last, four points under a leaky ReLU with h'(0) = 1 and alpha = 1: two of them lie in the plane,
open at w_*, and next to w_* one is closed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clcore.checks.one_layer.eigenvectors.families import pushed
from clcore.reference import Array, tensors, unit
from clcore.theory.one_layer import one_layer

FIRST, SECOND = 16, 8  # points of the two groups
START = 1e-6  # how far from w_* the flow starts
STEPS = 100
SLOPE = 0.1  # of the leaky ReLU


class Groups(NamedTuple):
    """Points x `b n 3`, features phi `b n 2`, the LME w_* `b 3`, its gap `b`; directions across
    w_* `b s 3`."""

    x: Array
    phi: Array
    w: Array
    gap: Array
    u: Array


def settle(x: Array, w: Array, weight: Array | None = None) -> Array | None:
    """The LME of a sample that w <- top eigenvector of V[gated x] ends at; None if it hops between
    cells."""
    for _ in range(30):
        A = np.cov((x * (x @ w > 0)[:, None]).T, bias=True, aweights=weight)
        top, last = np.linalg.eigh(A)[1][:, -1], w
        w = top * np.sign(top @ w)
        if np.abs(w - last).max() <= 1e-12:
            return w
    return None


def operator(x: Array, phi: Array, v: Array) -> Array:
    """A(v) = sum_l z_l^2 V_l[gated x] (nl Cor. 1), `b d d`, h'(0) = 0 up to rounding."""
    drive = (x * v[:, None]).sum(-1)
    gated = x * (drive > 1e-12 * np.linalg.norm(x, axis=-1))[..., None]
    total = np.zeros(1)
    for feature in np.moveaxis(phi, -1, 0):
        z = feature.mean(-1)
        p = feature / feature.sum(-1, keepdims=True)
        mean = (p[..., None] * gated).sum(1)
        square = np.einsum("bn,bni,bnj->bij", p, gated, gated)
        total = total + z[:, None, None] ** 2 * (square - mean[:, :, None] * mean[:, None])
    return total


def _first(rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """(points, feature, LME, eigenvalues of the variance there, rising) of a group with some gates
    open, none on the plane of the LME, and a gap."""
    while True:
        x, weight = 2 * rng.standard_normal((FIRST, 3)), rng.uniform(0.5, 1.5, FIRST)
        start = rng.standard_normal(3)
        w = settle(x, start / np.linalg.norm(start), weight)
        if w is None:
            continue
        gated = x * (x @ w > 0)[:, None]
        values = np.linalg.eigvalsh(np.cov(gated.T, bias=True, aweights=weight))
        clear = (np.abs(x @ w) > 0.01 * np.linalg.norm(x, axis=-1)).all()
        if clear and values[-1] - values[-2] > 0.1 * values[-1] > 0:
            return x, weight, w, values


def _one(rng: np.random.Generator) -> Groups:
    """One draw of `two_groups`, without the leading dimension."""
    x, weight, w, values = _first(rng)
    phi = np.zeros((FIRST + SECOND, 2))
    phi[:FIRST, 0], phi[FIRST:, 1] = weight, rng.uniform(0.5, 1.5, SECOND)
    values = phi[:, 0].mean() ** 2 * values
    axes = np.linalg.svd(w[None])[2][1:]
    turn = np.linspace(0, 2 * np.pi, 8, endpoint=False) + rng.uniform(0, 2 * np.pi)
    u = np.stack([np.cos(turn), np.sin(turn)], -1)
    y = np.abs(rng.standard_normal((SECOND, 1))) * u[np.arange(SECOND) % 8]
    seen = np.cov(np.maximum(u @ y.T, 0), bias=True, aweights=phi[FIRST:, 1]).diagonal()
    least = phi[:, 1].mean() ** 2 * seen.min()
    y *= np.sqrt(rng.uniform(1.5, 3) * values[-1] / least)  # outweighs lambda_* in every direction
    gap = np.asarray(values[-1] - values[-2])
    return Groups(np.concatenate([x, y @ axes]), phi, w, gap, u @ axes)


def two_groups(rng: np.random.Generator, count: int) -> Groups:
    """Random worlds of two groups of points: the first has an LME w_*; the second lies in the plane
    w_*^T x = 0 and comes into sight wherever w turns, which repels in all directions u."""
    return Groups(
        *(np.stack(parts) for parts in zip(*(_one(rng) for _ in range(count)), strict=True))
    )


def beside(groups: Groups) -> Groups:
    """The second group a tenth of its size off the plane, where the gate is closed: A(w_*) is the
    same, and A constant near w_*."""
    x = groups.x.copy()
    size = np.linalg.norm(x[:, FIRST:], axis=-1).max(-1)
    x[:, FIRST:] -= 0.1 * size[:, None, None] * groups.w[:, None]
    return groups._replace(x=x)


def turned(groups: Groups, e: float) -> Array:
    """v = sqrt(1 - e^2) w_* + e u, `b s 3`."""
    return np.sqrt(1 - e**2) * groups.w[:, None] + e * groups.u


def excess(groups: Groups, e: float) -> tuple[Array, Array]:
    """(u^T P_v A(v) v + gap e) / (gap e^2) of nl Eq. 65 with rho = 0, and the quotient that rho
    bounds over the gap, both [draws, directions]."""
    here = operator(groups.x, groups.phi, groups.w)
    over, rough = [], []
    v_all = turned(groups, e)
    for k in range(v_all.shape[1]):
        v, u = v_all[:, k], groups.u[:, k]
        A = operator(groups.x, groups.phi, v)
        image = np.einsum("bij,bj->bi", A, v)
        push = (u * image).sum(-1) - (u * v).sum(-1) * (v * image).sum(-1)
        over.append((push / (e * groups.gap) + 1) / e)
        change = np.linalg.norm(np.einsum("bij,bj->bi", A - here, groups.w), axis=-1)
        rough.append(change / np.linalg.norm(v - groups.w, axis=-1) / groups.gap)
    return np.stack(over, 1), np.stack(rough, 1)


def growth(groups: Groups) -> Array:
    """Growth per step of the distance from w_* along the flow of nl Eq. 7, [draws, directions]."""
    x, w, phi = tensors(groups.x, groups.w, groups.phi)
    world = one_layer.samples(x[:, None], (phi @ phi.mT)[:, None])
    if not bool(one_layer.locally_maximal(one_layer.samples(x, phi @ phi.mT), w).all()):
        raise ArithmeticError("expected w_* to be an LME of every world")
    (start,) = tensors(turned(groups, START))
    end = one_layer.ascend(world, start, rate=2.0, steps=STEPS).numpy()
    ratio = np.linalg.norm(end - groups.w[:, None], axis=-1) / START
    return np.asarray(ratio ** (1 / STEPS) - 1)


def euler(A: Callable[[Array], Array], v: Array, pace: Array | float, steps: int = STEPS) -> Array:
    """Where steps of nl Eq. 7 lead from v `b d`, each back to the sphere, A in numpy; pace: their
    length, a number or `b 1`."""
    for _ in range(steps):
        v = unit(v + pace * pushed(A(v), v))
    return v


def excess_again(groups: Groups, e: float) -> Array:
    """`excess` by the library's flow, which takes no A(v), [draws, directions]."""
    x, phi, v = tensors(groups.x, groups.phi, turned(groups, e))
    flow = one_layer.flow(one_layer.samples(x[:, None], (phi @ phi.mT)[:, None]), v).numpy()
    return ((flow * groups.u).sum(-1) / (e * groups.gap[:, None]) + 1) / e


def leaky_points(rng: np.random.Generator, count: int, off: float = 0.0) -> tuple[Array, ...]:
    """(1, -a), -(1, a) / SLOPE, (0, +-c), turned at random: points [draws, 4, 2], w_* and
    u [draws, 2].

    w_* is the image of e_1, with A = diag(1/2, less); next to it, towards u, the second eigenvalue
    is more than 1/2. `off` moves the last two points to (off, +-c), and the others so that A(w_*)
    is the same: A is constant near w_* then.
    """
    out = []
    while len(out) < count:
        a, c = rng.uniform(1, 1.35), rng.uniform(0.3, 0.6)
        second = (2 * a**2 + c**2 * (1 + SLOPE**2)) / 4 - ((2 * a - c * (1 - SLOPE)) / 4) ** 2
        if a**2 / 4 + c**2 / 2 < 0.48 and second > 0.51:
            x = np.array([[1 + off, -a], [(off - 1) / SLOPE, -a / SLOPE], [off, c], [off, -c]])
            turn = rng.uniform(-np.pi, np.pi)
            R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
            out.append((x @ R.T, R[:, 0], R[:, 1]))
    return tuple(np.stack(parts) for parts in zip(*out, strict=True))


def leaky_operator(x: Array, v: Array) -> Array:
    """A(v) of equal masses, alpha = 1, h'(0) = 1 up to rounding, [draws, d, d]."""
    drive = (x * v[:, None]).sum(-1)
    gate = np.where(drive > -1e-12 * np.linalg.norm(x, axis=-1), 1.0, SLOPE)
    gated = x * gate[..., None]
    gated = gated - gated.mean(1, keepdims=True)
    return np.einsum("bni,bnj->bij", gated, gated) / x.shape[1]


def leaky_growth(x: Array, w: Array, u: Array) -> tuple[Array, Array]:
    """Growth per step of the distance from w_* along the flow of nl Eq. 7, started towards u; and
    the quotient that rho bounds over the gap, on both sides; [draws] each."""
    here = leaky_operator(x, w)
    values, vectors = np.linalg.eigh(here)
    gap = values[:, 1] - values[:, 0]
    if (1 - np.abs((vectors[..., 1] * w).sum(-1))).max() > 1e-12 or gap.min() < 1e-3:
        raise ArithmeticError("expected w_* to be an LME of every world")
    rough = []
    for side in (START, -START):
        v = np.sqrt(1 - side**2) * w + side * u
        change = np.einsum("bij,bj->bi", leaky_operator(x, v) - here, w)
        rough.append(np.linalg.norm(change, axis=-1) / np.linalg.norm(v - w, axis=-1) / gap)
    points, start = tensors(x[:, None], (np.sqrt(1 - START**2) * w + START * u)[:, None])
    end = one_layer.ascend(one_layer.samples(points), start, "leaky_relu", 50.0, STEPS, SLOPE)
    far = np.linalg.norm(end.numpy()[:, 0] - w, axis=-1) / START
    return far ** (1 / STEPS) - 1, np.max(rough, 0)


def leaky_growth_again(x: Array, w: Array, u: Array) -> Array:
    """Growth per step of the distance from w_* along the flow of nl Eq. 7, started towards u,
    once more in numpy, [draws]."""
    start = np.sqrt(1 - START**2) * w + START * u
    end = euler(lambda v: leaky_operator(x, v), start, 50 / x.var(1).sum(-1, keepdims=True))
    return (np.linalg.norm(end - w, axis=-1) / START) ** (1 / STEPS) - 1


def categorical_quotient(e: float) -> float:
    """|(A(v) - A(u_1)) u_1| / |v - u_1| in the categorical model, v = sqrt(1 - e^2) u_1 + e u.

    The other patterns lie in the plane u_1^T x = 0: it is about p_1 |p| / e, |p| over those with
    u^T u_m > 0, and no roughness bounds it.
    """
    world = one_layer.categorical(*tensors(np.array([0.2, 0.3, 0.5]), np.eye(3)))
    (pattern,) = tensors(np.array([1.0, 0, 0]))
    (v,) = tensors(np.array([np.sqrt(1 - e**2), 0.6 * e, 0.8 * e]))
    change = (one_layer.operator(world, v) - one_layer.operator(world, pattern)) @ pattern
    return float(change.norm() / (v - pattern).norm())
