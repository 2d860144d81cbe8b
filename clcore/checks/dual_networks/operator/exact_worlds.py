"""What is shown of finite worlds of symbols: the covariance operator (ddn Sec. 4, App. B)."""

from itertools import product
from typing import Any

import numpy as np
import sympy

from clcore.checks.dual_networks import symbols as sy
from clcore.checks.dual_networks.exact_pairs import Proof
from clcore.ledger import exact
from clcore.ledger import polynomials as poly

SMALL = "two samples of two views, a layer of two numbers, one output"


def _doubled(two: Any, ours: Any) -> Proof:
    """Descent with both towers is twice `ours`, that of one tower."""
    return {
        "shown": poly.equal(two, ours * 2),
        "breaks": {"not doubled": poly.unlike(two, ours)},
        "at": SMALL,
    }


def theorem3() -> tuple[Proof, Proof]:
    """One tower, and both: V_x[Kbar_l] vec(W_l), and twice that."""
    world, _ = sy.world()
    one, two = (sy.descent(world, 1, 1, tied) for tied in (False, True))
    ours, every = world.between @ world.w, (world.between + world.within) @ world.w
    return {
        "shown": poly.equal(one, ours),
        "breaks": {
            "views not averaged": poly.unlike(one, every),
            "both towers": poly.unlike(two, ours),
        },
        "at": SMALL,
    }, _doubled(two, ours)


def corollary1() -> tuple[Proof, Proof]:
    """(-beta EV + VE) vec(W_l), one tower; both."""
    world, xi = sy.world()
    beta = xi[0, 0]
    one, two = (sy.descent(world, beta + 1, 1, tied) for tied in (False, True))
    EV, VE = world.within, world.between
    ours = (VE - EV * beta) @ world.w
    return {
        "shown": poly.equal(one, ours),
        "breaks": {
            "EV and VE exchanged": poly.unlike(one, (EV - VE * beta) @ world.w),
            "sign of beta": poly.unlike(one, (VE + EV * beta) @ world.w),
        },
        "at": SMALL,
    }, _doubled(two, ours)


def positives() -> tuple[Proof, Proof]:
    """E[dr_+/dW_l] = EV_l vec(W_l), one tower; both."""
    world, _ = sy.world()
    one, two = (-sy.descent(world, 1, 0, tied) for tied in (False, True))
    ours = world.within @ world.w
    return {
        "shown": poly.equal(one, ours),
        "breaks": {"VE for EV": poly.unlike(one, world.between @ world.w)},
        "at": SMALL,
    }, _doubled(two, ours)


def held_weights() -> tuple[Proof, Proof, Proof]:
    """Eq. 7 with xi of the samples held: one negative, two, one with both towers."""
    world, xi = sy.world()
    one, two = (sy.descent(world, xi, xi, tied) for tied in (False, True))
    ours = sy.weighted(world, xi) @ world.w
    near, far = world.outputs(world.near), world.outputs(world.w)
    total = 0
    for chance, x, z, y in world.places():
        for t, m in product(range(2), repeat=2):  # the second negative
            more = chance * world.p[t] * world.q[t, m]
            for other in (y, (t, m)):
                gap = sy.half(near[x], far[z]) - sy.half(near[x], far[other])
                total = total + more * (gap * xi[x[0], other[0]])
    several = -poly.put(poly.gradient(np.array(total), world.near), world.near, world.w)
    uneven = np.array([[xi[0, 0], xi[0, 1]], [xi[1, 1], xi[1, 1]]])
    return (
        {
            "shown": poly.equal(one, ours),
            "breaks": {
                "an asymmetric weight": poly.unlike(sy.descent(world, uneven, uneven), ours)
            },
            "at": SMALL,
        },
        {
            "shown": poly.equal(several, ours * 2),
            "breaks": {"the operator once": poly.unlike(several, ours)},
            "at": f"two negatives; {SMALL}",
        },
        _doubled(two, ours),
    )


def held_slopes() -> Proof:
    """The derivatives of Eq. 7's loss by all of its distances sum to 0."""
    r, xi = poly.arrays(r=(4,), x=(3,))

    def total(loss: Any) -> Any:
        return poly.gradient(np.array(loss), r).sum(keepdims=True)

    exactly = sum(x * (r[0] - far) for x, far in zip(xi, r[1:], strict=True))
    once = exactly - r[0] * (xi[1] + xi[2])
    return {
        "shown": exact.equal([*poly.plain(r), *poly.plain(total(exactly))], [*poly.plain(r), 0]),
        "breaks": {"r_+ once only": exact.equal(poly.plain(total(once)), [0])},
        "at": "three negatives",
    }


def symmetry() -> tuple[Proof, Proof]:
    """Eq. 67 of a pair of samples, and Eqs. 68, 69 for the mean over pairs; g of Eq. 65 by loops
    over views."""
    world, xi = sy.world()
    K, q, bar = world.K, world.q, world.bar

    def g(s: int, t: int) -> Any:
        total = 0
        for i, j, m in product(range(2), repeat=3):
            chance = q[s, i] * q[s, j] * q[t, m]
            total = total + K[s, i] @ ((K[s, j] - K[t, m]).T @ world.w) * chance
        return -total

    gap = bar[0] - bar[1]
    square = gap @ (gap.T @ world.w)
    pair = (g(0, 1) + g(1, 0)) * xi[0, 1]
    uneven = g(0, 1) * xi[0, 1] + g(1, 0) * xi[0, 0]
    masses = world.p[:, None] * world.p
    mean, off = (
        sum(g(s, t) * (weight[s, t] * masses[s, t]) for s, t in product(range(2), repeat=2))
        for weight in (xi, np.array([[xi[0, 0], xi[0, 1]], [xi[1, 1], xi[1, 1]]]))
    )
    ours = -sy.weighted(world, xi) @ world.w
    return {
        "shown": poly.equal(pair, -square * xi[0, 1]),
        "breaks": {"asymmetric weight": poly.unlike(uneven, -square * xi[0, 1])},
        "at": SMALL,
    }, {
        "shown": poly.equal(mean, ours),
        "breaks": {
            "asymmetric weight": poly.unlike(off, ours),
            "no 1/2": poly.unlike(mean, ours * 2),
        },
        "at": SMALL,
    }


# ------------------------------------------------------------------------------ weighted covariance


def pairs_of_samples() -> Proof:
    """V_{x,x''}[Kbar(x) - Kbar(x'')] / 2 = V_x[Kbar(x)]."""
    p, K = poly.arrays(p=(2,), K=(3, 2, 2))
    p = np.append(p, 1 - p.sum())
    gap, off = K[:, None] - K[None], K - np.einsum("s,swk->wk", p, K)
    pairs = np.einsum("s,t,stwk,stvk->wv", p, p, gap, gap)
    ours = np.einsum("s,swk,svk->wv", p, off, off)
    return {
        "shown": poly.equal(pairs * sy.HALF, ours),
        "breaks": {"no 1/2": poly.unlike(pairs, ours)},
        "at": "three samples, two outputs",
    }


def plain_covariance() -> Proof:
    """Cov^xi at xi = 1 against E[X Y^T] - E[X] E[Y]^T."""
    p, X, Y = poly.arrays(p=(2,), X=(3, 2), Y=(3, 2))
    p = np.append(p, 1 - p.sum())
    (a, b), one = (p @ X, p @ Y), np.full(3, p[0].ring.one)

    def weighted(xi: Any) -> Any:
        return np.einsum("s,s,sw,sv->wv", xi, p, X - a, Y - b)

    ordinary = np.einsum("s,sw,sv->wv", p, X, Y) - np.outer(a, b)
    return {
        "shown": poly.equal(weighted(one), ordinary),
        "breaks": {"xi = 2": poly.unlike(weighted(one * 2), ordinary)},
        "at": "three samples",
    }


def weighted_psd() -> Proof:
    """v^T V^xi[X] v as a sum of squares with weights xi p >= 0."""
    p, xi = (sympy.symbols(f"{name}_1:4", nonnegative=True) for name in ("p", "xi"))
    signed = sympy.symbols("x_1:4", real=True)
    X, v = [exact.vector(f"X{i}", 2) for i in range(3)], exact.vector("v", 2)
    mean = sum((c * x for c, x in zip(p, X, strict=True)), sympy.zeros(2, 1))

    def value(weights: tuple) -> Any:
        V = sympy.zeros(2)
        for w, c, x in zip(weights, p, X, strict=True):
            V += w * c * (x - mean) * (x - mean).T
        return v.dot(V * v)

    def squares(weights: tuple) -> Any:
        return sum(w * c * (x - mean).dot(v) ** 2 for w, c, x in zip(weights, p, X, strict=True))

    return {
        "shown": exact.nonnegative(value(xi), squares(xi)),
        "breaks": {"weights of both signs": exact.nonnegative(value(signed), squares(signed))},
        "at": "three samples of two numbers",
    }


def extended_psd() -> Proof:
    """v^T (-beta EV + VE) v as a sum of squares for beta < 0, whatever the offsets of views from
    their sample's mean and of those from the mean of all."""
    size = sympy.Symbol("b", nonnegative=True)  # -beta
    chances = sympy.symbols("c_0:4", nonnegative=True)
    offsets, v = [exact.vector(f"o{k}", 2) for k in range(4)], exact.vector("v", 2)
    squares = [c * o.dot(v) ** 2 for c, o in zip(chances, offsets, strict=True)]
    terms = [c * o * o.T for c, o in zip(chances, offsets, strict=True)]
    EV, VE = terms[0] + terms[1], terms[2] + terms[3]
    inside, between = squares[0] + squares[1], squares[2] + squares[3]
    return {
        "shown": exact.nonnegative(v.dot((size * EV + VE) * v), size * inside + between),
        "breaks": {
            "beta > 0": exact.nonnegative(v.dot((VE - size * EV) * v), between - size * inside)
        },
        "at": "two views, two samples, a layer of two numbers",
    }
