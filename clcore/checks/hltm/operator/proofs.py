"""The operator of one node and one update by it, in symbols: what shows parts of `growth`.

A node below the root, with two children.
"""

from typing import Any

import sympy

from clcore.checks.hltm.tree import symbols as ts
from clcore.ledger import Part, exact
from clcore.ledger.exact import Shown

PARENTS = (-1, 0, 1, 1)  # of the root, mu and its two children
VALUES = [ts.shows(2 + k, ts.SHOWN.row(k)) for k in range(2)]
"""What the two children show on the mean, v_k(0) or v_k(1) by their state."""
A = sympy.Matrix([ts.polarity(2 + k) * ts.GAPS[k] for k in range(2)])  # a_mu
TYPESET, OURS = ts.sizes(ts.polarity(1))  # o_mu as Theorem 6 is typeset, and that of Eq. 179
AT = "two children, mu below the root"


def _positive() -> ts.Law:
    """The tree of mu with its two children, the root's prior by two positive masses."""
    x, y = sympy.symbols("x y", positive=True)
    return ts.Law(PARENTS, [x / (x + y), y / (x + y)], ts.binary(PARENTS).tables)


def rem10(whole: Part, sized: Part, larger: Part) -> None:
    """V_{z_0} of f kron J^T in every joint state, for J 1 x 2; o_mu; and the trace of the
    covariance, which for its one direction is its norm, as each of its arguments grows in size."""
    J = exact.matrix("J", 1, 2)
    law = ts.binary(PARENTS)
    pairs = [(f, J[0, i]) for f in VALUES for i in range(2)]
    operator = ts.over_root(law, [lambda z, f=f, j=j: f(z) * j for f, j in pairs])
    activity, JJ = ts.over_root(law, VALUES), J.T * J
    whole.proves(
        exact.equal(operator, sympy.kronecker_product(activity, JJ)),
        breaks={"other order": exact.equal(operator, sympy.kronecker_product(JJ, activity))},
        at=AT,
    )
    outer = sympy.kronecker_product(A * A.T, JJ)
    others = {"Theorem 6 as typeset": TYPESET, "twice the size": 2 * OURS}
    sized.proves(
        exact.equal(operator, OURS * outer),
        breaks={w: exact.equal(operator[0, 0], o * outer[0, 0]) for w, o in others.items()},
        at=AT,
    )
    norm = sympy.factor(ts.over_root(_positive(), VALUES).trace())
    x, y = sympy.symbols("x y", positive=True)
    size = 4 * x * y / (x + y) ** 2 * ts.polarity(1) ** 2
    rises = [2 * size * A.dot(A), 2 * size * A[0] ** 2]

    def grows(root: bool) -> Shown:
        """rho d/d rho, at the edge above mu and the one below it; or in the root's prior."""
        edges = [ts.polarity(k) * norm.diff(ts.polarity(k)) for k in (1, 2)]
        return exact.nonnegative([x * norm.diff(x), edges[1]] if root else edges, rises)

    larger.proves(grows(root=False), breaks={"in the root's prior": grows(root=True)}, at=AT)


def eq15(measured: Part, factor: Part, growth: Part) -> None:
    """One step of one unit, by the derivative of L_simp in the weights of one branch."""
    rate = sympy.Symbol("alpha", positive=True)
    w, other = exact.vector("w", 2), exact.vector("u", 2)
    law = ts.binary(PARENTS)
    gap, square = A.dot(w), A.dot(A)
    rise = sympy.expand(A.dot(_step(law, w, other, rate)) - gap)
    activity = ts.over_root(law, VALUES)
    fit = (A.T * activity * A)[0]  # of o_mu |a|^4
    measured.proves(
        exact.equal(rise * square, rate * fit * gap),
        breaks={"twice the rate": exact.equal(rise * square, 2 * rate * fit * gap)},
        at=f"{AT}, one unit",
    )
    factor.proves(
        exact.equal(rise, rate * OURS * square * gap),
        breaks={"Theorem 6 as typeset": exact.equal(rise, rate * TYPESET * square * gap)},
        at=f"{AT}, one unit",
    )
    # The gap g above 0 fixes w_0, and the root's prior has two positive masses.
    g, x, y = sympy.symbols("g x y", positive=True)
    start = (g - w[1] * A[1]) / A[0]
    grown = rise.subs(ts.ROOT, (y - x) / (x + y)).subs(w[0], start)
    size = rate * 4 * x * y / (x + y) ** 2 * ts.polarity(1) ** 2 * square
    growth.proves(
        exact.nonnegative(grown, size * g),
        breaks={"a gap below 0": exact.nonnegative(grown.subs(g, -g), size * g)},
        at=f"{AT}, one unit",
    )


def _step(law: ts.Law, w: Any, other: Any, rate: Any) -> Any:
    """w after a step on half of E|o - o'|^2 over two views of one root minus that over two roots;
    o = w^T f, as J is a column with J^T J = 1, which keeps distances. o' has the weights `other`,
    which are w as well but stand still."""

    def out(weights: Any, power: int = 1) -> ts.Value:
        return lambda z: sum(weights[k] * VALUES[k](z) for k in range(2)) ** power

    def apart(state: int | None) -> Any:
        """E|o - o'|^2 of two draws, given the root or not."""
        first, second = (ts.mean(law, out(v), 0, state) for v in (w, other))
        squares = sum(ts.mean(law, out(v, 2), 0, state) for v in (w, other))
        return squares - 2 * first * second

    same = sum(law.prior[c] * apart(c) for c in (0, 1))
    loss = (same - apart(None)) / 2
    still = dict(zip(other, w, strict=True))
    return sympy.Matrix([v - rate * loss.diff(v).subs(still, simultaneous=True) for v in w])
