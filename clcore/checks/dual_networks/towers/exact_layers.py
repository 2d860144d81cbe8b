"""What is shown of reversible layers of symbols: G_l, Q_l, V_l and Lemma 1 (ddn App. A.1)."""

from typing import Any

import numpy as np
import sympy

from clcore.checks.dual_networks import symbols as sy
from clcore.checks.dual_networks.exact_pairs import SHALLOW, Proof
from clcore.ledger import exact
from clcore.ledger import polynomials as poly

WIDE = "layers of width 2, off the kinks"


def _layer(power: Any | None) -> dict[str, sympy.Matrix]:
    """One layer above psi: pre_l = W psi(pre_{l-1}), its G_l and Q_l, and pulls from above.

    power: of psi, at positive pre-activations; None: gates. `top` is dr/dpre_l, and `up` dr/df_l.
    """
    W, d = exact.matrix("w", 2, 2), exact.vector("d", 2)
    pre = exact.vector("u", 2, positive=power is not None)
    if power is None:
        psi, gate, Q = d.multiply_elementwise(pre), d, sympy.eye(2)
    else:
        psi, gate = (pre.applyfunc(lambda u, k=k: u**k) for k in (power, power - 1))
        Q = power * sympy.eye(2)
    top = exact.vector("g", 2)
    above = W * psi
    back = sympy.Matrix([sympy.diff(top.dot(above), u) for u in pre])  # dr/dpre_{l-1}
    return {"W": W, "G": W * sympy.diag(*gate), "Q": Q, "pre": pre, "post": psi, "above": above,
            "top": top, "back": back}  # fmt: skip


POWER = 1 + sympy.Symbol("p", positive=True)


def forward() -> Proof:
    """pre_l = G_l pre_{l-1}: gates, and u^p for every p > 1 at positive pre-activations."""
    gates, powers = _layer(None), _layer(POWER)
    both = (gates, powers)
    return {
        "shown": exact.equal([a["above"] for a in both], [a["G"] * a["pre"] for a in both]),
        "breaks": {
            "as typeset, on f_{l-1}": exact.equal(powers["above"], powers["G"] * powers["post"]),
            "G = W acting on pre": exact.equal(powers["above"], powers["W"] * powers["pre"]),
        },
        "at": WIDE,
    }


def backward() -> Proof:
    """dr/dpre_{l-1} = G_l^T Q_l^T dr/dpre_l, of the same layers."""
    gates, powers = _layer(None), _layer(POWER)
    both = (gates, powers)
    return {
        "shown": exact.equal(
            [a["back"] for a in both], [a["G"].T * a["Q"].T * a["top"] for a in both]
        ),
        "breaks": {"powers with Q = I": exact.equal(powers["back"], powers["G"].T * powers["top"])},
        "at": WIDE,
    }


def power_layer() -> Proof:
    """Both maps of Eq. 18, every p > 1."""
    a = _layer(POWER)
    G, Q = a["G"], a["Q"]
    left = [a["above"], a["back"]]
    return {
        "shown": exact.equal(left, [G * a["pre"], G.T * Q.T * a["top"]]),
        "breaks": {
            "Q = I": exact.equal(a["back"], G.T * a["top"]),
            "G = W": exact.equal(left, [a["W"] * a["pre"], a["W"].T * Q.T * a["top"]]),
        },
        "at": "width 2, positive pre-activations",
    }


def dense() -> Proof:
    """Eq. 16: derivatives of r through linear layers of other widths."""
    W, x, b = exact.matrix("w", 3, 2), exact.vector("x", 2), exact.vector("b", 3)
    goal, top = exact.vector("y", 3), W * x

    def back(bias: Any) -> Any:
        gap = top + bias - goal
        return sympy.Matrix([sympy.diff(gap.dot(gap) / 2, v) for v in x])

    none = sympy.zeros(3, 1)
    return {
        "shown": exact.equal(back(none), W.T * (top - goal)),
        "breaks": {
            "Q = 2 I": exact.equal(back(none), 2 * W.T * (top - goal)),
            "a bias": exact.equal(back(b), W.T * (top - goal)),
        },
        "at": "widths 2 and 3",
    }


def convolution() -> Proof:
    """Positions one by one against a Toeplitz matrix, up and down."""
    kernel, x, goal = exact.vector("k", 2), exact.vector("x", 4), exact.vector("y", 3)
    out = sympy.Matrix([sum(kernel[j] * x[i + j] for j in range(2)) for i in range(3)])
    back = sympy.Matrix([sympy.diff((out - goal).dot(out - goal) / 2, v) for v in x])

    def toeplitz(taps: list[Any]) -> Any:
        return sympy.Matrix(3, 4, lambda i, j: taps[j - i] if 0 <= j - i < 2 else 0)

    G, flipped = toeplitz(kernel.flat()), toeplitz(kernel.flat()[::-1])
    return {
        "shown": exact.equal([out, back], [G * x, G.T * (out - goal)]),
        "breaks": {
            "kernel flipped": exact.equal([out, back], [flipped * x, flipped.T * (out - goal)])
        },
        "at": "two taps, four positions",
    }


def gated(kind: str) -> Proof:
    """Eq. 17, up and down, from the activation as it is: below and above 0 separately.

    kind: "relu" or "leaky".
    """
    low = 0 if kind == "relu" else sympy.Symbol("a", positive=True)
    p = exact.vector("p", 2, positive=True)
    W, top = exact.matrix("w", 2, 2), exact.vector("g", 2)
    left, right, plain = [], [], []
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        pre = [s * v for s, v in zip(signs, p.flat(), strict=True)]
        post = sympy.Matrix([sympy.Max(u, 0) + low * sympy.Min(u, 0) for u in pre])
        above = W * post
        # dr/dpre, of which each is s times dr/dp
        back = [s * sympy.diff(top.dot(above), v) for s, v in zip(signs, p.flat(), strict=True)]
        G = W * sympy.diag(*(1 if s > 0 else low for s in signs))
        left += [above, sympy.Matrix(back)]
        right += [G * sympy.Matrix(pre), G.T * top]
        plain += [W * sympy.Matrix(pre), W.T * top]
    return {
        "shown": exact.equal(left, right),
        "breaks": {"no gate": exact.equal(left, plain)},
        "at": "width 2, all signs",
    }


def lemma1() -> Proof:
    """Eq. 22 at every layer, of gates and of squares."""
    left, right, plus, swapped = [], [], [], []
    for power in (0, 2):
        one, two = sy.towers(2, power=power)
        for layer in (1, 2):
            (f1, b1), (f2, b2) = (sy.transitions(net, layer) for net in (one, two))
            a, b = (V @ net.passes()[0][layer - 1] for V, net in ((f1, one), (f2, two)))
            left.append(sy.pre_gradient(one, layer, two.output))
            right.append(b1.T @ (a - b))
            plus.append(b1.T @ (a + b))
            swapped.append(b2.T @ (a - b))
            if power and layer == 1:
                by_forward = poly.unlike(left[-1], f1.T @ (a - b))
    return {
        "shown": poly.equal(left, right),
        "breaks": {
            "a plus": poly.unlike(left[0], plus[0]),
            "V^b at x_2": poly.unlike(left[0], swapped[0]),
            "V^f in front, powers": by_forward,
        },
        "at": f"{SHALLOW}; squares",
    }


def shapes() -> Proof:
    """Products of matrices whose sizes are symbols: V_{l-1} = V_l G_l from V_L = I."""
    n = sympy.symbols("n_1:5", integer=True, positive=True)  # n_{l-1}, n_l, n_{l+1}, n_L
    G = [sympy.MatrixSymbol(f"G_{k}", n[k + 1], n[k]) for k in range(3)]
    V = sympy.Identity(n[3]) * G[2] * G[1] * G[0]
    return {
        "shown": exact.equal(list(V.shape), [n[3], n[0]]),
        "breaks": {
            "as typeset, n_l rows": exact.equal(list(V.shape), [n[1], n[0]]),
            "transposed": exact.equal(list(V.shape), [n[0], n[3]]),
        },
        "at": "three layers above, any widths",
    }


def _chains(net: sy.Tower) -> tuple[Any, Any]:
    """W_3 D_2 W_2 D_1 and W_3 D_2 W_2: products of G_l = W_l D_{l-1}, and of D_l W_l."""
    gates: Any = net.gates
    inner = net.weights[2] * gates[1] @ net.weights[1]
    return inner * gates[0], inner


def equal_transitions() -> Proof:
    """V^f_1 = V^b_1 = W_3 D_2 W_2 D_1, which takes pre_1 to f_L."""
    net = sy.towers(3)[0]
    V_f, V_b = sy.transitions(net, 1)
    chain, bare = _chains(net)
    reached = chain @ net.passes()[0][0]
    return {
        "shown": poly.equal([V_f, V_b, net.output], [chain, chain, reached]),
        "breaks": {"no gates": poly.unlike(V_f, bare)},
        "at": "three layers of width 2, off the kinks",
    }


def jacobians(after: bool) -> Proof:
    """J_1 = V_1; `after`: of G_l = D_l W_l, which is df_L/df_1, the top layer having no gates."""
    net = sy.towers(3)[0]
    chain, bare = _chains(net)
    if after:
        inner = net.inner[:2]
        left = poly.gradient(net.weights[2] @ net.act(2, net.weights[1] @ inner), inner)
        right, wrong = bare, {"the product with W_l D_{l-1}": poly.unlike(left, chain)}
    else:
        left, right = sy.jacobian(net, 1), chain
        wrong = {"as typeset, G_l = D_l W_l": poly.unlike(left, bare)}
    return {
        "shown": poly.equal(left, right),
        "breaks": wrong,
        "at": "three layers of width 2, off the kinks",
    }


def teacher() -> Proof:
    """Eq. 22 at x_1 = x_2 and a teacher's weights W*, with the gates of each."""
    one, two = sy.towers(2)
    two = sy.Tower(two.weights, one.x, two.inner, two.gates)
    left, right, wrong = [], [], []
    for layer in (1, 2):
        V, star = (sy.transitions(net, layer)[0] for net in (one, two))
        a, b = (net.passes()[0][layer - 1] for net in (one, two))
        left.append(sy.pre_gradient(one, layer, two.output))
        right.append(V.T @ (V @ a - star @ b))
        wrong.append(V.T @ (V @ a - V @ b))
    return {
        "shown": poly.equal(left, right),
        "breaks": {"student's V for the teacher": poly.unlike(left[0], wrong[0])},
        "at": SHALLOW,
    }


def residual() -> Proof:
    """Lemma 1 at what a block takes in, two towers: u -> c (f + B e (A f)), f = d u, with gates c,
    d, e, under a linear top w."""
    sizes = {"w": (2, 1, 2), "A": (2, 2, 2), "B": (2, 2, 2)} | {name: (2, 2) for name in "cdeu"}
    w, A, B, c, d, e, u = poly.arrays(**sizes)

    def output(k: int) -> Any:
        f = d[k] * u[k]
        return w[k] @ (c[k] * (f + B[k] @ (e[k] * (A[k] @ f))))

    def chain(k: int, skip: int = 1) -> Any:
        return w[k] * c[k] @ (sy.unit(u[k]) * skip + B[k] * e[k] @ A[k]) * d[k]

    V = chain(0)
    slope = poly.gradient(np.array(sy.half(output(0), output(1))), u[0])
    gap = V @ u[0] - chain(1) @ u[1]
    return {
        "shown": poly.equal([slope, output(0)], [V.T @ gap, V @ u[0]]),
        "breaks": {"no skip": poly.unlike(slope, chain(0, skip=0).T @ gap)},
        "at": "one block of width 2, one output, off the kinks",
    }
