"""Proofs on one node, besides the draws (nl Sec. 3, App. B.2): decoupling, gating, the
gradient flow, BatchNorm. Outputs and gates of every view are symbols, or h any function.

A gate h'(w^T x) of ReLU or leaky ReLU, constant off the edges, is a symbol of the view: what is
shown holds for any values on the two sides.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import sympy
from sympy import Matrix

from clcore.checks.one_layer.importance.batch_proofs import Views, contrast
from clcore.ledger import Part, exact

N, D = 2, 2
SIZES = f"n = {N}, d = {D}"
ALPHA = exact.matrix("alpha", N, N)  # any importance of pairs
X: Views = (exact.matrix("x", N, D), exact.matrix("x2", N, D))  # both views of a batch
W = exact.vector("w", D)
Of = Callable[[int, int], sympy.Expr]
"""(view, sample) -> its value."""


def C(a: Views, b: Views) -> Matrix:
    """Eq. 3 without i = j, as both readings of it have it where alpha_ii = 0."""
    return contrast(ALPHA, a, b, own=False)


def _column(of: Of) -> Views:
    """A scalar of both views of all samples."""
    first, second = (Matrix([of(v, i) for i in range(N)]) for v in (0, 1))
    return first, second


def _drive(view: int, i: int, w: Matrix = W) -> sympy.Expr:
    return X[view][i, :].dot(w)


def _variance(of: Of) -> sympy.Expr:
    """C_alpha of a scalar, by Eq. 3."""
    f = _column(of)
    return C(f, f)[0]


def _gated(gate: Of) -> Views:
    """The inputs of both views of all samples, each times its gate."""
    first, second = (Matrix(N, D, lambda i, k, v=v: gate(v, i) * X[v][i, k]) for v in (0, 1))
    return first, second


def _symbols(name: str) -> Of:
    """A symbol for each view of each sample."""
    values = exact.matrix(name, 2, N)
    return lambda v, i: values[v, i]


class AnyH(sympy.Function):
    """An activation of which nothing is known but that it has a derivative."""

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        rate: Any = sympy.Function("rate")
        return rate(self.args[0])


def eq5(trace: Part, apart: Part, top: Part) -> None:
    """Any h: the matrix of two nodes by Eq. 3 on vectors, each node by Eq. 3 on scalars."""
    nodes, at = [W, exact.vector("v", D)], f"2 nodes, {SIZES}"

    def matrix(h: Callable) -> Matrix:
        first, second = (
            Matrix([[h(_drive(v, i, w)) for w in nodes] for i in range(N)]) for v in (0, 1)
        )
        return C((first, second), (first, second))

    each = [_variance(lambda v, i, w=w: AnyH(_drive(v, i, w))) for w in nodes]
    whole, linear = matrix(AnyH), matrix(lambda u: u)
    broken = {"all entries": exact.equal(sum(linear.flat()), linear.trace())}
    trace.proves(exact.equal(whole.trace(), sum(each)), breaks=broken, at=at)
    slopes = [whole.trace().diff(a) for a in W]
    broken = {"all entries": exact.equal(sum(linear.flat()).diff(W[0]), linear.trace().diff(W[0]))}
    alone = exact.equal(slopes, [each[0].diff(a) for a in W])
    apart.proves(alone, breaks=broken, at=at)
    # three filters to choose from, the best one first; c: the entry off the diagonal
    best, c = sympy.Symbol("e", real=True), sympy.Symbol("c", real=True)
    values = [best, *(best - sympy.Symbol(f"less{k}", nonnegative=True) for k in (1, 2))]
    sums = [a + b for a, b in product(values, repeat=2)]
    most = 2 * sympy.Max(*values)
    crossed = sympy.Max(*(s + 2 * c for s in sums))
    broken = {"all entries": exact.equal(crossed, most)}
    top.proves(exact.equal(sympy.Max(*sums), most), breaks=broken, at="2 nodes, 3 filters each")


def rem3(one: Part, powers: Part) -> None:
    """h'(x) x against h(x), the derivative by symbols, on both sides of 0; x^p of any degree."""
    u, slope, p = (sympy.Symbol(s, real=True) for s in ("u", "slope", "p"))
    size = sympy.Symbol("x", positive=True)
    ends = (size, -size)

    def sides(h: sympy.Expr) -> tuple[list[sympy.Expr], list[sympy.Expr]]:
        left, right = (h.diff(u) * u, h)
        return [left.subs(u, x) for x in ends], [right.subs(u, x) for x in ends]

    kinked = sympy.Piecewise((u, u > 0), (slope * u, True))  # ReLU at 0, linear at 1
    elu = sympy.Piecewise((u, u > 0), (sympy.exp(u) - 1, True))
    broken = {"tanh": exact.equal(*sides(sympy.tanh(u))), "ELU": exact.equal(*sides(elu))}
    one.proves(exact.equal(*sides(kinked)), breaks=broken)
    left, right = (u**p).diff(u) * u, u**p
    broken = {"constant 1": exact.equal(left, right)}
    powers.proves(exact.equal(left, p * right), breaks=broken)


def eq6(one: Part, powers: Part) -> None:
    """C[h(w^T x)] by Eq. 3 on scalars against w^T A w, A by Eq. 3 on gated inputs."""
    k = _symbols("k")

    def forms(gate: Of, h: Of) -> tuple[sympy.Expr, sympy.Expr]:
        """w^T A w with A by this gate, and C[h]."""
        gated = _gated(gate)
        return (W.T * C(gated, gated) * W)[0], _variance(h)

    def homogeneous(v: int, i: int) -> sympy.Expr:
        return k(v, i) * _drive(v, i)

    form, plain = forms(k, homogeneous)
    bare, _ = forms(lambda v, i: sympy.Integer(1), homogeneous)
    broken = {"no gate": exact.equal(bare, plain)}
    one.proves(exact.equal(form, plain), breaks=broken, at=SIZES)
    # any degree p: gates h'(u) in the same identity, then h'(u) u for h(u)
    u, p = _symbols("u"), sympy.Symbol("p", real=True)
    left = [form, _variance(lambda v, i: (u(v, i) ** p).diff(u(v, i)) * u(v, i))]
    powered = _variance(lambda v, i: u(v, i) ** p)
    broken = {"constant 1": exact.equal(left[1], powered)}
    powers.proves(exact.equal(left, [plain, p**2 * powered]), breaks=broken, at=SIZES)


def lem3(later: Part, powers: Part, older: Part) -> None:
    """The gradient by the chain rule over outputs u = w^T x, each with its input x, against A(w) w
    by Eq. 3 on gated inputs and outputs; both projected."""
    drive, k = _symbols("u"), _symbols("k")
    every = list(product((0, 1), range(N)))
    P, p = sympy.eye(D) - W * W.T, sympy.Symbol("p", positive=True)

    def gradient(h: Of) -> Matrix:
        value = _variance(h)
        return sum((value.diff(drive(v, i)) * X[v][i, :].T for v, i in every), sympy.zeros(D, 1))

    def push(gate: Of) -> Matrix:
        """A(w) w = C[gated x, gated x w], with u for x w."""
        return C(_gated(gate), _column(lambda v, i: gate(v, i) * drive(v, i)))

    slope, Aw = gradient(lambda v, i: k(v, i) * drive(v, i)), push(k)
    bare = push(lambda v, i: sympy.Integer(1))
    left, right = P * slope / 2, P * Aw
    broken = {
        "without 1/2": exact.equal(2 * left[0], right[0]),
        "no gate": exact.equal(left[0], (P * bare)[0]),
        "not projected": exact.equal(left[0], Aw[0]),
    }
    later.proves(exact.equal(left, right), breaks=broken, at=SIZES)
    broken = {"constant 1": broken["without 1/2"]}
    older.proves(exact.equal(2 * left, 2 * right), breaks=broken, at=SIZES)
    slope = gradient(lambda v, i: drive(v, i) ** p) / 2
    Aw = push(lambda v, i: (drive(v, i) ** p).diff(drive(v, i)))
    broken = {"constant 1": exact.equal((P * slope)[0], (P * Aw)[0])}
    powers.proves(exact.equal(p * P * slope, P * Aw), breaks=broken, at=SIZES)


def rem4(bilinear: Part, vectors: Part, scalars: Part) -> None:
    """Each property by Eq. 3 on both sides; alpha need not be symmetric."""
    y, z = ((exact.matrix(s, N, D), exact.matrix(f"{s}2", N, D)) for s in "yz")
    r, s = sympy.symbols("r s", real=True)
    a, b = exact.vector("a", D), exact.vector("b", D)

    mixed = (r * X[0] + s * z[0], r * X[1] + s * z[1])
    left = [C(mixed, y), C(y, mixed)]
    right = [r * C(X, y) + s * C(z, y), r * C(y, X) + s * C(y, z)]
    naive = exact.equal(C(mixed, mixed)[0], r * C(X, X)[0] + s * C(z, z)[0])
    bilinear.proves(exact.equal(left, right), breaks={"both slots at once": naive}, at=SIZES)
    xa, yb = (X[0] * a, X[1] * a), (y[0] * b, y[1] * b)
    whole, inside = C(X, y), C(xa, yb)
    broken = {"a and b exchanged": exact.equal(b.T * whole * a, inside)}
    vectors.proves(exact.equal(a.T * whole * b, inside), breaks=broken, at=SIZES)
    broken = {"matrices, not transposed": exact.equal(whole[0, 1], C(y, X)[0, 1])}
    scalars.proves(exact.equal(inside, C(yb, xa)), breaks=broken, at=SIZES)


def rem24(flow: Part, length: Part, constant: Part) -> None:
    """BatchNorm of outputs f, which are homogeneous in w: no slope of a normalised output along w,
    centred outputs and deviation grow alike, and C_alpha is 1 whatever w."""
    n, s = 3, sympy.Symbol("s", positive=True)
    x, k, f = exact.matrix("x", n, D), exact.vector("k", n), exact.vector("f", n)
    at, gated = f"n = {n}", Matrix([k[i] * x[i, :].dot(W) for i in range(n)])

    def centred(f: Matrix) -> Matrix:
        return f - sympy.ones(n, 1) * sum(f.flat()) / n

    def variance(f: Matrix) -> sympy.Expr:
        return centred(f).dot(centred(f)) / n

    grows = [sum(a * v.diff(a) for a in W) for v in gated]  # w . d/dw of each output
    normal = centred(f) / sympy.sqrt(variance(f))
    along = [sum(o.diff(v) * v for v in f) for o in normal]
    held = centred(f)[0] / s  # the deviation without a slope
    broken = {
        "no BatchNorm": exact.equal(grows[0], 0),
        "mean-backprop BatchNorm": exact.equal(sum(held.diff(v) * v for v in f), 0),
    }
    shown = exact.equal([*grows, *along], [*gated, 0, 0, 0])
    flow.proves(shown, breaks=broken, at=f"{at}, d = {D}")
    scaled = gated.subs(dict(zip(W.flat(), (s * W).flat(), strict=True)), simultaneous=True)
    left = [*centred(scaled), variance(scaled)]
    right = [*(s * centred(gated)), s**2 * variance(gated)]
    broken = {"no BatchNorm": exact.equal(scaled, gated)}
    length.proves(exact.equal(left, right), breaks=broken, at=f"{at}, d = {D}")
    ones = sympy.ones(n, n)
    whole, bare = (contrast(ones, (g, g), (g, g))[0] for g in (normal, f))
    broken = {"without BatchNorm": exact.equal(bare, 1)}
    constant.proves(exact.equal(whole, 1), breaks=broken, at=at)
