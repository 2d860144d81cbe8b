"""Latent trees in symbols: what shows the parts of `models`, `nets`, `operator.covariance`.

Left sides are sums over all joint states of a small tree, right ones the printed formulas.
"""

from itertools import product
from typing import Any

import sympy

from clcore.checks.hltm.tree import symbols as ts
from clcore.ledger import Part, exact
from clcore.ledger.exact import Shown

Q = ts.Q
QQ = Q * Q.T
DEEP = "two children, mu two edges below the root"


# ------------------------------------------------------------------- covariance over the root


def lem9(covariance: Part, columns: Part) -> None:
    """Two units above a root of three states; then one unit that sees a leaf below its latent, at
    the end of a path of two edges."""
    root, V = ts.stochastic("p", 1, 3), exact.matrix("v", 3, 2)
    spread = ts.over_root(ts.Law((-1,), list(root), {}), [ts.shows(0, V.col(k)) for k in (0, 1)])
    P0, one = sympy.diag(*root), sympy.ones(3, 3)
    covariance.proves(
        exact.equal(spread, V.T * (P0 - P0.T * one * P0) * V),
        breaks={"mean not subtracted": exact.equal(spread, V.T * P0 * V)},
        at="m_0 = 3, two units",
    )
    columns.proves(
        _columns(regular=True), breaks={"not regular": _columns(regular=False)}, at="m = 2, 2, 3"
    )


def _columns(regular: bool) -> Shown:
    """Eq. 169 on the path of 2, 2 and 3 states, with a leaf of two states below."""
    kind, f = ts.regular if regular else ts.stochastic, exact.matrix("f", 3, 2)
    tables = {1: kind("P", 2, 2), 2: kind("R", 2, 3), 3: ts.stochastic("S", 3, 2)}
    law = ts.Law((-1, 0, 1, 2), [ts.HALF] * 2, tables)
    given = [ts.mean(law, lambda z: f[z[2], z[3]], 0, c) for c in range(2)]
    v = sympy.Matrix([tables[3].row(c).dot(f.row(c)) for c in range(3)])
    C = ts.deviation(tables[1]) * ts.deviation(tables[2])
    return exact.equal(given, list(sympy.ones(2, 3) * v / 3 + C * v))


def eq170(part: Part) -> None:
    """Three states, with probabilities that sum to 1."""
    p, u = ts.stochastic("p", 1, 3).T, exact.vector("u", 3)
    P0, one, ones = sympy.diag(*p), sympy.ones(3, 3), sympy.ones(1, 3)
    mean = p.dot(u)
    variance = sum(p[i] * (u[i] - mean) ** 2 for i in range(3))
    c, off = u - one * P0 * u, u - one * u / 3
    second = u.T * (P0 - P0 * one * P0) * u
    part.proves(
        exact.equal([mean] + [variance] * 2, [ones * P0 * u, c.T * P0 * c, second]),
        breaks={
            "unweighted mean": exact.equal(variance, off.T * P0 * off),
            "raw moment": exact.equal(variance, u.T * P0 * u),
        },
        at="m_0 = 3",
    )


def eq172_root(part: Part) -> None:
    """P_0 - P_0 1 1^T P_0 of a binary root, for any polarity."""
    p = sympy.Matrix(ts.binary((-1,)).prior)
    left = sympy.diag(*p) - sympy.diag(*p) * sympy.ones(2, 2) * sympy.diag(*p)
    size = (1 - ts.ROOT**2) / 4
    part.proves(
        exact.equal(left, size * QQ),
        breaks={
            "1/2": exact.equal(left, 2 * size * QQ),
            "q = [1, 1]": exact.equal(left, size * sympy.ones(2, 2)),
        },
    )


def eq172(covariance: Part, transitions: Part, means: Part) -> None:
    """The covariance, C_0nu v_k, and q^T v_0k at children of a node two edges below the root."""
    far = ts.far()
    V = sympy.Matrix([[ts.mean(far.law, f, 0, c) for f in far.values] for c in (0, 1)])
    Vq = V.T * Q
    form = (1 - ts.ROOT**2) / 4 * Vq * Vq.T
    covariance.proves(
        exact.equal(far.covariance, form),
        breaks={"root's polarity left out": exact.equal(far.covariance, Vq * Vq.T / 4)},
        at=DEEP,
    )
    sides, flipped, along_q, along_mu = [], [], [], []
    for k in range(2):
        P = ts.along(far.law, 3 + k)
        own, s = 2 * P[1, 1] - 1, ts.GAPS[k]
        sides += list(ts.deviation(P) * ts.SHOWN.row(k).T)
        flipped += list(own * s * Q)
        along_q.append(2 * own * s)
        along_mu.append(2 * far.path * far.a[k])
    transitions.proves(
        exact.equal(sides, flipped),
        breaks={"q = [1, -1]": exact.equal(sides, [-v for v in flipped])},
        at=DEEP,
    )
    means.proves(
        exact.equal([Vq, Vq], [along_q, along_mu]),
        breaks={"no 2": exact.equal(Vq, far.path * far.a)},
        at=DEEP,
    )


def eq179(part: Part) -> None:
    """rho_0mu^2 (1 - rho_0^2) a a^T."""
    far = ts.far()
    typeset, ours = ts.sizes(far.path)
    outer = far.a * far.a.T
    part.proves(
        exact.equal(far.covariance, ours * outer),
        breaks={
            "Theorem 6 as typeset": exact.equal(far.covariance, typeset * outer),
            "root taken as uniform": exact.equal(far.covariance, far.path**2 * outer),
        },
        at=DEEP,
    )


def thm6(shape: Part, size: Part) -> None:
    """A multiple of a a^T: all 2 x 2 determinants with it are 0; then its size."""
    far, C = ts.far(), ts.far().covariance

    def parallel(a: Any) -> Shown:
        return exact.equal(
            [C[0, 0] * a[1], C[0, 1] * a[1], C[1, 0]], [C[0, 1] * a[0], C[1, 1] * a[0], C[0, 1]]
        )

    shape.proves(parallel(far.a), breaks={"polarities left out of a": parallel(ts.GAPS)}, at=DEEP)
    typeset, ours = (o * far.a * far.a.T for o in ts.sizes(far.path))
    others = {"rho_0mu for rho_0": typeset, "twice the size": 2 * ours}
    size.proves(
        exact.equal(C, ours),
        breaks={what: exact.equal(C, other) for what, other in others.items()},
        at=DEEP,
    )


# ------------------------------------------------------------------------------ transitions


def eq14(sure: Part, kept: Part) -> None:
    """P (1 - P) of an edge is (1 - rho^2)/4, which is 0 at rho = 1 and -1 only. Where no edge below
    the root says anything, P(z_0 = 1, x) is P(z_0 = 1) P(x) for every x of two leaves."""
    rho = ts.polarity(1)
    chance = ts.edge(rho).applyfunc(lambda p: p * (1 - p))
    sure.proves(
        exact.equal(chance, sympy.ones(2, 2) * (1 - rho**2) / 4),
        breaks={"(1 - |rho|)/4": exact.equal(chance, sympy.ones(2, 2) * (1 - abs(rho)) / 4)},
    )

    def joint(upper: Any) -> Shown:
        """Node 1 below the root, two leaves below it, one below the root."""
        parents = (-1, 0, 1, 1, 0)
        tables = {k: ts.edge(upper if parents[k] == 0 else ts.polarity(k)) for k in range(1, 5)}
        law = ts.Law(parents, ts.binary((-1,)).prior, tables)
        sides: tuple[list, list] = ([], [])
        for x in product((0, 1), repeat=3):
            one, both = (
                ts.mean(law, lambda z, x=x, c=c: sympy.Integer(z[2:] == x and z[0] in c))
                for c in ((1,), (0, 1))
            )
            sides[0].append(one)
            sides[1].append(law.prior[1] * both)
        return exact.equal(*sides)

    kept.proves(joint(sympy.Integer(0)), breaks={"rho not 0": joint(ts.polarity(1))}, at="3 leaves")


def def3(rows_sum: Part, condition: Part, regular: Part, square: Part) -> None:
    """C 1 is what rows of P lack to 1, 1^T C what columns lack to m_mu/m_nu; and back."""
    P, sizes = exact.matrix("P", 2, 3), "m_mu = 2, m_nu = 3"
    C, right, left = ts.deviation(P), sympy.ones(3, 1), sympy.ones(1, 2)
    rows_sum.proves(
        exact.equal(C * right, P * right - sympy.ones(2, 1)),
        breaks={"rows sum to 1.1": exact.equal(ts.deviation(11 * P / 10) * right, C * right)},
        at=sizes,
    )
    even = sympy.ones(1, 3)
    condition.proves(
        exact.equal(left * C, left * P - even * 2 / 3),
        breaks={"m_nu / m_mu": exact.equal(left * C, left * P - even * 3 / 2)},
        at=sizes,
    )
    for part, rows, columns, at in ((regular, 2, 3, sizes), (square, 3, 3, "m_mu = m_nu = 3")):
        made = _annihilated(rows, columns)
        part.proves(
            exact.equal(ts.regular("P", rows, columns), made),
            breaks={"generic stochastic": exact.equal(ts.stochastic("P", rows, columns), made)},
            at=at,
        )


def _annihilated(rows: int, columns: int) -> Any:
    """1/m_nu + C for every C that is 0 on both sides of 1, by its free entries: those of `regular`,
    whose rows sum to 1 and columns to m_mu/m_nu (to 1 where the table is square)."""
    C = ts.deviation(exact.matrix("P", rows, columns))
    for i in range(rows):
        C[i, columns - 1] = -sum(C[i, :-1])
    for j in range(columns):
        C[rows - 1, j] = -sum(C[:-1, j])
    return sympy.ones(rows, columns) / columns + C


def lem6(two: Part, more: Part) -> None:
    """Regular chains of 3, 2, 3 and of 2, 2, 3, 2 states; where 1/m is that of the upper node, of
    2, 2, 3, whose ends differ."""
    two.proves(
        _chain((3, 2, 3)),
        breaks={
            "1 / m of the upper node": _chain((2, 2, 3), upper=True),
            "not regular": _chain((3, 2, 3), regular=False),
        },
        at="m = 3, 2, 3",
    )
    more.proves(
        _chain((2, 2, 3, 2)),
        breaks={"not regular": _chain((2, 2, 3, 2), regular=False)},
        at="m = 2, 2, 3, 2",
    )


def _chain(states: tuple[int, ...], regular: bool = True, upper: bool = False) -> Shown:
    """Marginals of the joint law along a path against 1/m and the product of the C's."""
    kind, last = ts.regular if regular else ts.stochastic, len(states) - 1
    tables = {k: kind(f"P{k}", states[k - 1], states[k]) for k in range(1, last + 1)}
    law = ts.Law(range(-1, last), [sympy.Rational(1, states[0])] * states[0], tables)
    C = sympy.eye(states[0])
    for table in tables.values():
        C *= ts.deviation(table)
    even = sympy.ones(states[0], states[-1]) / states[0 if upper else -1]
    return exact.equal(ts.along(law, last), even + C)


def lem7(tr: Part, free: Part, sb: Part, interval: Part) -> None:
    """SB to TR; the solutions of the four constraints; TR to SB; the entries' sign."""
    rho, one = ts.polarity(1), sympy.ones(2, 1)
    P, C = ts.edge(rho), rho / 2 * QQ
    tr.proves(
        exact.equal([P, C * one, C.T * one], [sympy.ones(2, 2) / 2 + C, 0 * one, 0 * one]),
        breaks={"no 1/2": exact.equal(P, sympy.ones(2, 2) / 2 + 2 * C)},
    )
    c = exact.matrix("c", 2, 2)
    constraints = [*(c * one), *(c.T * one)]
    # Any three of them leave c_11 free and fix all else, as all four do.
    solved = [c.subs(_solved(constraints, c))]
    solved += [c.subs(_solved(constraints[:k] + constraints[k + 1 :], c)) for k in range(4)]
    two = c.subs(_solved(constraints[:2], c))
    free.proves(
        exact.equal(solved, [c[1, 1] * QQ] * 5),
        breaks={"without the columns' two": exact.equal(two, c[1, 1] * QQ)},
    )
    table, generic = sympy.ones(2, 2) / 2 + solved[0], ts.stochastic("P", 2, 2)
    sb.proves(
        exact.equal(table, ts.edge(2 * table[1, 1] - 1)),
        breaks={"generic": exact.equal(generic, ts.edge(2 * generic[1, 1] - 1))},
    )
    # p is in [0, 1] where p (1 - p) >= 0, and rho in [-1, 1] where 1 - rho^2 >= 0.
    inside = (sympy.ones(2, 2) / 2 + C).applyfunc(lambda p: 4 * p * (1 - p))
    interval.proves(
        exact.equal(inside, (1 - rho**2) * sympy.ones(2, 2)),
        breaks={"|rho| <= 1/2": exact.equal(inside, (1 - 4 * rho**2) * sympy.ones(2, 2))},
    )


def _solved(equations: list[sympy.Expr], c: Any) -> dict:
    """The entries c_00, c_01, c_10 as functions of c_11, from linear equations."""
    (found,) = sympy.linsolve(equations, [c[0, 0], c[0, 1], c[1, 0]])
    return dict(zip((c[0, 0], c[0, 1], c[1, 0]), found, strict=True))


def eq103(part: Part) -> None:
    """C(rho) of Eq. 14's table, for any two polarities."""
    a, b = ts.polarity(1), ts.polarity(2)
    low, high, end, middle = (ts.deviation(ts.edge(r)) for r in (a, b, a * b, (a + b) / 2))
    members = [low * high, QQ * QQ / 4 * a * b, QQ / 2 * a * b]
    part.proves(
        exact.equal(members, [end] * 3),
        breaks={
            "q^T q = 1": exact.equal(QQ / 4 * a * b, end),
            "mean of polarities": exact.equal(low * high, middle),
        },
    )


def eq177(small: Part, deep: Part, sampled: Part) -> None:
    """A tree with branches by its joint states; one edge more below a path, which with one edge
    gives every depth; the chance that both ends of a path agree."""
    law = ts.binary((-1, 0, 1, 1, 3))
    found = [2 * ts.along(law, node)[1, 1] - 1 for node in (1, 2, 4)]
    r1, r2, r3, r4 = (ts.polarity(k) for k in range(1, 5))
    small.proves(
        exact.equal(found, [r1, r1 * r2, r1 * r3 * r4]),
        breaks={
            "signs dropped": exact.equal(found, [r1, r1 * r2, abs(r1 * r3 * r4)]),
            "the last edge left out": exact.equal(found, [r1, r1 * r2, r1 * r3]),
        },
        at="depth 3",
    )
    above, below = ts.edge(r1), ts.edge(r2)
    deep.proves(
        exact.equal(above * below, ts.edge(r1 * r2)),
        breaks={"one of the two polarities alone": exact.equal(above * below, ts.edge(r2))},
        at="one edge more, from any path",
    )
    agree = ts.mean(law, lambda z: sympy.Integer(z[0] == z[4]))
    sampled.proves(
        exact.equal(agree, (1 + r1 * r3 * r4) / 2),
        breaks={"reversed": exact.equal(agree, (1 - r1 * r3 * r4) / 2)},
        at="depth 3",
    )


# --------------------------------------------------------------------------------- messages


def eq95(lifted: Part, summed: Part) -> None:
    """A node below the root, whose children are a unit's latent with three states, and one of two
    whose unit sees a leaf below it. Both sides times P(z_mu)."""
    tables = {
        1: ts.edge(ts.polarity(1)),
        2: ts.stochastic("R", 2, 3),
        3: ts.stochastic("S", 2, 2),
        4: ts.edge(ts.polarity(4)),
    }
    law = ts.Law((-1, 0, 1, 1, 3), ts.binary((-1,)).prior, tables)
    u, f, w = exact.vector("u", 3), exact.matrix("f", 2, 2), exact.vector("w", 2)
    values = [ts.shows(2, u), lambda z: f[z[3], z[4]]]
    v = sympy.Matrix([tables[4].row(c).dot(f.row(c)) for c in range(2)])
    V = sympy.Matrix.hstack(tables[2] * u, tables[3] * v)
    turned = sympy.Matrix.hstack(tables[2][:, ::-1] * u, tables[3][:, ::-1] * v)
    given, chance, at = _given(law, values), _chance(law), "m_mu = 2, m_nu = 3 and 2"
    lifted.proves(
        exact.equal(given, chance * V),
        breaks={"columns of P reversed": exact.equal(given[0, 0], (chance * turned)[0, 0])},
        at=at,
    )
    pre = _given(law, [lambda z: w[0] * values[0](z) + w[1] * values[1](z)])
    summed.proves(
        exact.equal(pre, chance * V * w),
        breaks={"w_j left out": exact.equal(pre, chance * V * sympy.ones(2, 1))},
        at=at,
    )


def _given(law: ts.Law, values: list[ts.Value]) -> Any:
    """P(z_1) E[values | z_1], a row each z_1."""
    return sympy.Matrix([[ts.mean(law, value, 1, c) for value in values] for c in (0, 1)])


def _chance(law: ts.Law) -> Any:
    """diag[P(z_1)]."""
    return sympy.diag(*_given(law, [ts.certain]))


def eq136(means: Part, gaps: Part) -> None:
    """A node below the root, with one child that is shown and one whose unit sees a leaf too. Both
    sides times P(z_mu)."""
    law, f, w = ts.binary((-1, 0, 1, 1, 3)), exact.matrix("f", 3, 2), exact.vector("w", 2)
    values = [ts.shows(2, f.row(0)), lambda z: f[1 + z[3], z[4]]]
    leaf = ts.edge(ts.polarity(4))
    v = sympy.Matrix([f.row(0), [leaf.row(c).dot(f.row(1 + c)) for c in (0, 1)]])
    middle, s = (v.col(1) + v.col(0)) / 2, (v.col(1) - v.col(0)) / 2
    a = sympy.Matrix([ts.polarity(2) * s[0], ts.polarity(3) * s[1]])
    chance, at = _chance(law), "two children"

    def rows(gap: Any) -> Any:
        return chance * sympy.Matrix([(middle - gap).T, (middle + gap).T])

    given = _given(law, values)
    pre = _given(law, [lambda z: w[0] * values[0](z) + w[1] * values[1](z)])
    means.proves(
        exact.equal([given, pre], [rows(a), rows(a) * w]),
        breaks={"no polarity": exact.equal(given[0, 0], rows(s)[0, 0])},
        at=at,
    )
    difference = chance[0, 0] * pre[1] - chance[1, 1] * pre[0]
    both = chance[0, 0] * chance[1, 1] * w.dot(a)
    gaps.proves(
        exact.equal(difference, 2 * both), breaks={"no 2": exact.equal(difference, both)}, at=at
    )
