"""What is shown of a pair of towers of symbols: the gradient of their distance (ddn App. A)."""

from typing import Any

import numpy as np
import sympy

from clcore.checks.dual_networks import symbols as sy
from clcore.ledger import exact
from clcore.ledger import polynomials as poly

Proof = dict[str, Any]
"""What `Part.proves` takes."""

DEEP = "three layers of width 2, off the kinks"
SHALLOW = "two layers of width 2, off the kinks"


def _slope(one: sy.Tower, two: sy.Tower, layer: int) -> Any:
    """dr/dW_{1,l}, [n_l, n_{l-1}]."""
    return poly.gradient(np.array(sy.half(one.output, two.output)), one.weights[layer - 1])


def output_of_connection() -> Proof:
    """K_l^T vec(W_l) = f_L at every layer."""
    net = sy.towers(3)[0]
    layers = range(1, len(net.weights) + 1)
    K_T = [sy.connection(net, layer).T for layer in layers]
    outs = [net.output for _ in layers]
    by_rows = [K @ w.reshape(-1) for K, w in zip(K_T, net.weights, strict=True)]
    return {
        "shown": poly.equal([K @ sy.vec(w) for K, w in zip(K_T, net.weights, strict=True)], outs),
        "breaks": {"vec stacks rows": poly.unlike(by_rows, outs)},
        "at": DEEP,
    }


def theorem1() -> Proof:
    """Eq. 1 at every layer, two towers of other weights, inputs and gates."""
    one, two = sy.towers(2)
    left, right = [], []
    for layer in range(1, len(one.weights) + 1):
        K1, K2 = (sy.connection(net, layer) for net in (one, two))
        w1, w2 = (sy.vec(net.weights[layer - 1]) for net in (one, two))
        left.append(sy.vec(_slope(one, two, layer)))
        right.append(K1 @ (K1.T @ w1 - K2.T @ w2))
        plus, swapped = K1 @ (K1.T @ w1 + K2.T @ w2), K2 @ (K1.T @ w1 - K2.T @ w2)
    return {
        "shown": poly.equal(left, right),
        "breaks": {
            "plus in the bracket": poly.unlike(left[-1], plus),
            "rows stacked": poly.unlike(_slope(one, two, 2).reshape(-1), right[-1]),
            "K_2 in front": poly.unlike(left[-1], swapped),
        },
        "at": SHALLOW,
    }


def theorem1_matrix() -> Proof:
    """Theorem 1's matrix form at every layer."""
    one, two = sy.towers(2)
    left, right, wrong = [], [], []
    for layer in range(1, len(one.weights) + 1):
        J1, J2 = (sy.jacobian(net, layer) for net in (one, two))
        a, b = (net.passes()[1][layer - 1] for net in (one, two))
        back = J1.T @ (J1 @ one.weights[layer - 1] @ a - J2 @ two.weights[layer - 1] @ b)
        left.append(_slope(one, two, layer))
        right.append(np.outer(back, a))
        wrong.append(np.outer(back, b))
    return {
        "shown": poly.equal(left, right),
        "breaks": {"f_{2,l-1}^T at the end": poly.unlike(left[0], wrong[0])},
        "at": SHALLOW,
    }


def theorem1_reversible() -> Proof:
    """Eq. 32 with gates, for which Q_l = I; and with squares, for which it is 2 I."""
    sides = {}
    for power in (0, 2):
        one, two = sy.towers(2, power=power)
        K1, K2 = (sy.connection(net, 1) for net in (one, two))
        w1, w2 = (sy.vec(net.weights[0]) for net in (one, two))
        sides[power] = sy.vec(_slope(one, two, 1)), K1 @ (K1.T @ w1 - K2.T @ w2)
    return {
        "shown": poly.equal(*([side] for side in sides[0])),
        "breaks": {"squares": poly.unlike(*sides[2])},
        "at": SHALLOW,
    }


def theorem1_tied() -> Proof:
    """Eq. 40: differentiated by the first tower's weights, which are then those of the second."""
    one, two = sy.towers(2)
    same = sy.towers(2, tied=True)
    left, right, plus = [], [], []
    for layer in range(1, len(one.weights) + 1):
        slope = sy.vec(_slope(one, two, layer))
        left.append(poly.put(slope, np.array(two.weights), np.array(one.weights)))
        K1, K2 = (sy.connection(net, layer) for net in same)
        w = sy.vec(same[0].weights[layer - 1])
        right.append(K1 @ ((K1 - K2).T @ w))
        plus.append(K1 @ ((K1 + K2).T @ w))
    return {
        "shown": poly.equal(left, right),
        "breaks": {
            "through both towers": poly.unlike(sy.vec(_slope(*same, 2)), right[1]),
            "plus in the bracket": poly.unlike(left[1], plus[1]),
        },
        "at": SHALLOW,
    }


# --------------------------------------------------------------------------- normalised outputs


def _unit(f: Any) -> Any:
    return f / sympy.sqrt(f.dot(f))


def unit_distance() -> Proof:
    """r of tops G_{L+1} f_L against 1 minus the cosine."""
    f, g = exact.vector("f", 3), exact.vector("g", 3)
    tops = [sympy.eye(3) / sympy.sqrt(v.dot(v)) * v for v in (f, g)]
    cosine = f.dot(g) / sympy.sqrt(f.dot(f) * g.dot(g))

    def half(a: Any, b: Any) -> Any:
        return (a - b).dot(a - b) / 2

    return {
        "shown": exact.equal(half(*tops), 1 - cosine),
        "breaks": {"r for r_n": exact.equal(half(f, g), 1 - cosine)},
        "at": "three outputs",
    }


def projection() -> list[Proof]:
    """Q = I - f f^T of the unit f: Q^2 = Q, symmetric; |f|^2 v^T Q v is a sum of squares."""
    f, v = exact.vector("f", 3), exact.vector("v", 3)
    u = _unit(f)
    Q, plus, raw = (sympy.eye(3) + s * w * w.T for s, w in ((-1, u), (1, u), (-1, f)))
    squares = sum((f[i] * v[j] - f[j] * v[i]) ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))
    return [
        {
            "shown": exact.equal([Q * Q, Q.T], [Q, Q]),
            "breaks": {
                "I + f f^T": exact.equal(plus * plus, plus),
                "f_L not normalised": exact.equal(raw * raw, raw),
            },
            "at": "three outputs",
        },
        {
            "shown": exact.nonnegative(f.dot(f) * v.dot(Q * v), squares),
            "breaks": {"I + f f^T": exact.nonnegative(f.dot(f) * v.dot(plus * v), squares)},
            "at": "three outputs",
        },
    ]


def unit_jacobian() -> Proof:
    """Eq. 29, and Eq. 28's top layer with it."""
    y = exact.vector("y", 3)
    J, size = _unit(y).jacobian(y), sympy.sqrt(y.dot(y))
    u = _unit(y)
    Q, G = sympy.eye(3) - u * u.T, sympy.eye(3) / size
    return {
        "shown": exact.equal([J, J], [(sympy.eye(3) - u * u.T) / size, Q * G]),
        "breaks": {"no 1/|y|": exact.equal(J, Q), "no projection": exact.equal(J, G)},
        "at": "three dimensions",
    }


def unit_gradient(tied: bool) -> Proof:
    """Eqs. 30 and 41. Off the kinks the output is a linear map V of what a layer takes in: V_l of
    its pre-activation, or K_l^T of its vec(W_l), tied or not, which no gate moves."""
    V, other = exact.matrix("V", 2, 2), exact.matrix("U", 2, 2)
    u, v = exact.vector("u", 2), exact.vector("v", 2)
    f, g = V * u, other * v
    gap = _unit(f) - _unit(g)
    slope = sympy.Matrix([sympy.diff(gap.dot(gap) / 2, x) for x in u])
    sizes = [sympy.sqrt(h.dot(h)) for h in (f, g)]
    if tied:
        same = dict(zip(v.flat(), u.flat(), strict=True))
        slope, f, g, v = (m.subs(same) for m in (slope, f, g, v))
        sizes = [s.subs(same) for s in sizes]
    ours, theirs = V / sizes[0], other / sizes[1]
    inner = (ours - theirs) * u if tied else ours * u - theirs * v

    plainly = dict(zip([*V, *other], [1, 0, 0, 1, 0, 1, 1, 0], strict=True))

    def expected(P: Any) -> Any:
        return ours.T * P * inner

    return {
        "shown": exact.equal(slope, expected(sympy.eye(2) - _unit(f) * _unit(f).T)),
        "breaks": {
            "no projector, V = I, U its columns exchanged": exact.equal(
                *(side[0].subs(plainly) for side in (slope, expected(sympy.eye(2))))
            ),
        },
        "at": "two outputs, a layer of two numbers, off the kinks",
    }
