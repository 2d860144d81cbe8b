"""Proofs on locally maximal eigenvectors, besides the draws (nl Sec. 3.1, App. B.1): laws of
a few atoms, enumerated, their chances symbols."""

from itertools import product
from typing import Any

import mpmath
import sympy
from sympy import Matrix, Rational

from clcore.ledger import Part, exact

iv: Any = mpmath.iv  # its operators are made at run time, unseen by type checkers
LOW, HIGH = (3 - sympy.sqrt(5)) / 2, (3 + sympy.sqrt(5)) / 2
TURN = sympy.Symbol("t", real=True)


def _basis() -> Matrix:
    """Three orthonormal columns, two of them turned by a rational parametrisation of the angle."""
    c, s = ((1 - TURN**2) / (1 + TURN**2), 2 * TURN / (1 + TURN**2))
    return Matrix([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def _variance(law: list[sympy.Expr], points: list[Matrix]) -> Matrix:
    """V of a law on columns."""
    d = points[0].rows
    mean = sum((p * x for p, x in zip(law, points, strict=True)), sympy.zeros(d, 1))
    square = sum((p * x * x.T for p, x in zip(law, points, strict=True)), sympy.zeros(d, d))
    return square - mean * mean.T


def _gated(points: list[Matrix], w: Matrix, at_zero: int = 0) -> list[Matrix]:
    """x h'(w^T x), ReLU; the sign of w^T x must follow from what its symbols are."""
    out = []
    for x in points:
        drive = sympy.cancel(w.dot(x))
        gate = at_zero if drive == 0 else {True: 1, False: 0}[drive.is_positive]
        out.append(gate * x)
    return out


def eq43(part: Part) -> None:
    """Two atoms for each z; what the gate leaves of an atom is any vector."""
    p1 = sympy.Symbol("p_1", real=True)
    shares, x = exact.vector("s", 2), exact.matrix("x", 4, 2)
    atoms = [[x[2 * z + k, :].T for k in (0, 1)] for z in (0, 1)]
    laws = [[shares[z], 1 - shares[z]] for z in (0, 1)]
    prior = [1 - p1, p1]
    joint = [prior[z] * m for z in (0, 1) for m in laws[z]]
    whole = _variance(joint, atoms[0] + atoms[1])
    means = [laws[z][0] * atoms[z][0] + laws[z][1] * atoms[z][1] for z in (0, 1)]
    sigma, delta = [_variance(laws[z], atoms[z]) for z in (0, 1)], means[1] - means[0]
    between = delta * delta.T
    within, swapped = (q[0] * sigma[0] + q[1] * sigma[1] for q in (prior, prior[::-1]))
    broken = {
        "no p0 p1": exact.equal(whole[0], (between + within)[0]),
        "p0 and p1 exchanged": exact.equal(whole[0], (p1 * (1 - p1) * between + swapped)[0]),
    }
    shown = exact.equal(whole, p1 * (1 - p1) * between + within)
    part.proves(shown, breaks=broken, at="two atoms for each z, d = 2")


def rem7(part: Part) -> None:
    """Eq. 8 by enumeration with h'(0) = 0; all patterns but one lie on the edge."""
    U, p = _basis(), exact.vector("p", 3).flat()
    points = [U[:, m] for m in range(3)]
    w = points[0]
    right = p[0] * (1 - p[0]) * w * w.T
    shown, open_ = (exact.equal(_variance(p, _gated(points, w, z)), right) for z in (0, 1))
    part.proves(shown, breaks={"h'(0) = 1": open_}, at="M = d = 3")


def thm1(part: Part) -> None:
    """The push away from e_1 in the world of the counterexample, at a rational turn. There is none
    with the second group off the plane, where its gate is closed."""
    t = Rational(1, 100)
    c, s = (1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)
    v, u = Matrix([c, s]), Matrix([-s, c])

    def push(off: int) -> sympy.Expr:
        groups = [[Matrix([1, 0]), Matrix([-1, 0])], [Matrix([-off, 2]), Matrix([-off, -2])]]
        each = [_variance([Rational(1, 2)] * 2, _gated(points, v)) for points in groups]
        return u.dot((each[0] + each[1]) * v / 4)

    moved = exact.differ(push(1), 0, "<=")
    part.proves(exact.differ(push(0), 0, "<="), breaks={"the second group moved": moved})


def _summation(u: Matrix, r: Matrix) -> tuple[list[sympy.Expr], list[Matrix], list[bool]]:
    """(chances, x = U y, y_0 > 0) over all states, with q_m = 1 / (1 + r_m^2), so that y is r or
    -1 / r."""
    law, points, on = [], [], []
    for bits in product((True, False), repeat=len(r)):
        chances = [(1 if b else v**2) / (1 + v**2) for b, v in zip(bits, r.flat(), strict=True)]
        law.append(sympy.Mul(*chances))
        points.append(u * Matrix([v if b else -1 / v for b, v in zip(bits, r.flat(), strict=True)]))
        on.append(bits[0])
    return law, points, on


def ex2(eq9: Part, pieces: Part, below: Part) -> None:
    """Eq. 9 by enumeration, its pieces, and the sign of (1 - q)^2 - q on both sides of the
    threshold."""
    r, at = exact.vector("r", 2, positive=True), "M = 2, d = 3, coordinates along the patterns"
    U = sympy.eye(3)[:, :2]
    law, points, on = _summation(U, r)
    w, span, q = U[:, 0], U * U.T, 1 / (1 + r[0] ** 2)
    gated = _gated(points, w)
    A, outer = _variance(law, gated), w * w.T
    rest = q * (span - outer)
    broken = {
        "1 - q for its square": exact.equal(A[0], ((1 - q) * outer + rest)[0]),
        "q U U^T": exact.equal(A[0], ((1 - q) ** 2 * outer + q * span)[0]),
    }
    eq9.proves(exact.equal(A, (1 - q) ** 2 * outer + rest), breaks=broken, at=at)
    # two other patterns, whose covariance is 0: by symmetry, the last row of A is enough
    r3 = exact.vector("r", 3, positive=True)
    law3, points3, _ = _summation(sympy.eye(3), r3)
    last = _variance(law3, _gated(points3, Matrix([1, 0, 0])))[2, :]
    broken = {"1 - q": exact.equal(last[2], 1 - q)}
    eq9.proves(exact.equal(last, [0, 0, q]), breaks=broken, at="M = d = 3")
    high = [k for k, b in enumerate(on) if b]
    given = [law[k] / q for k in high]
    mean = sum((m * points[k] for m, k in zip(given, high, strict=True)), sympy.zeros(3, 1))
    sigma = _variance(given, [gated[k] for k in high])
    off = [sum(gated[k].flat()) for k, b in enumerate(on) if not b]
    left, right = [mean, sigma, *off], [r[0] * w, span - outer, *([0] * len(off))]
    broken = {"Sigma_1 = I": exact.equal(sigma, span)}
    pieces.proves(exact.equal(left, right), breaks=broken, at=at)
    eigen = exact.equal([A * w, A * U[:, 1]], [(1 - q) ** 2 * w, q * U[:, 1]])
    broken = {"1 - q for its square": exact.equal((A * w)[0], (1 - q) * w[0])}
    below.proves(eigen, breaks=broken, at=at)
    threshold(below)


def threshold(part: Part) -> None:
    """The gap (1 - q)^2 - q is positive below (3 - sqrt 5)/2, and not above it, up to q = 1."""
    t, s = (sympy.Symbol(name, positive=True) for name in ("t", "s"))
    more = (1 - LOW) * s / (1 + s)  # from the threshold up to 1

    def gap(q: sympy.Expr) -> sympy.Expr:
        return (1 - q) ** 2 - q

    forms = [t * (t + sympy.sqrt(5)), more * ((1 + sympy.sqrt(5)) / 2 + (1 - LOW) / (1 + s))]
    half = Rational(1, 2)
    broken = {"threshold 1/2": exact.nonnegative([gap(half - t), -gap(half + more)], forms)}
    part.proves(exact.nonnegative([gap(LOW - t), -gap(LOW + more)], forms), breaks=broken)


def num1(root: Part, digits: Part, test: Part, flow: Part) -> None:
    """Both roots; three digits by intervals; the test and the flow switch with (1 - q)^2 - q."""
    q, e = sympy.symbols("q e", real=True)
    broken = {"second moments": exact.equal((1 - q) - q, (q - LOW) * (q - HIGH))}
    root.proves(exact.equal((1 - q) ** 2 - q, (q - LOW) * (q - HIGH)), breaks=broken)
    found, half = (3 - iv.sqrt(iv.mpf(5))) / 2, iv.mpf("0.5")
    near, raw = (abs(v - iv.mpf("0.382")) - iv.mpf("0.0005") for v in (found, half))
    broken = {"second moments": exact.below_zero([raw])}
    digits.proves(exact.below_zero([near]), breaks=broken)
    r, at = exact.vector("r", 2, positive=True), "M = d = 2"
    law, points, _ = _summation(sympy.eye(2), r)
    w, u = Matrix([1, 0]), Matrix([0, 1])
    A, chance = _variance(law, _gated(points, w)), 1 / (1 + r[0] ** 2)
    gap = (1 - chance) ** 2 - chance
    raw = [p * x * x.T for p, x in zip(law, _gated(points, w), strict=True)]
    second = sum(raw, sympy.zeros(2, 2))
    broken = {"second moments": exact.equal(second[0, 0] - second[1, 1], gap)}
    shown = exact.equal([A[0, 1], A[1, 0], A[0, 0] - A[1, 1]], [0, 0, gap])
    test.proves(shown, breaks=broken, at=at)
    threshold(test)
    # no state has w^T x = 0, so that A stays as it is close to w
    v = sympy.sqrt(1 - e**2) * w + e * u
    push = (u.T * (sympy.eye(2) - v * v.T) * A * v)[0].diff(e).subs(e, 0)
    linear = Matrix([[1, 0], [0, 1]])
    straight = (u.T * (sympy.eye(2) - v * v.T) * linear * v)[0].diff(e).subs(e, 0)
    broken = {"linear": exact.equal(straight, -gap)}
    flow.proves(exact.equal(push, -gap), breaks=broken, at=at)
    threshold(flow)


def rem6(part: Part) -> None:
    """In the plane: P A w of an eigenvector w, and of a vector that is none."""
    p, top, other = sympy.symbols("p lambda_1 lambda_2", real=True)
    w, u = (Matrix(v) / sympy.sqrt(1 + p**2) for v in ([1, p], [-p, 1]))
    A = top * w * w.T + other * u * u.T
    P = sympy.eye(2) - w * w.T
    turned = (3 * w + 4 * u) / 5
    bent = (sympy.eye(2) - turned * turned.T) * A * turned
    broken = {"eigenvectors elsewhere": exact.equal(bent, 0)}
    part.proves(exact.equal([P * A * w, A * w], [0, 0, *(top * w)]), breaks=broken, at="d = 2")


def eq56(projection: Part, push: Part) -> None:
    """In the eigenbasis, w_* the first axis: both sides of each expansion and their slopes at 0."""
    b, e, top = sympy.symbols("b e lambda", real=True)
    w, u = Matrix([1, 0, 0]), Matrix([0, 1 - b**2, 2 * b]) / (1 + b**2)
    x, y, z = sympy.symbols("x y z", real=True)
    A, eye = Matrix([[top, 0, 0], [0, x, y], [0, y, z]]), sympy.eye(3)
    v = sympy.sqrt(1 - e**2) * w + e * u
    turned, P = eye - v * v.T, eye - w * w.T

    def jet(value: Matrix) -> list[Matrix]:
        return [value.subs(e, 0), value.diff(e).subs(e, 0)]

    outer = e * (u * w.T + w * u.T)
    left, right, plus = jet(turned), jet(P - outer), jet(P + outer)
    broken, at = {"the other sign": exact.equal(left, plus)}, "d = 3"
    projection.proves(exact.equal(left, right), breaks=broken, at=at)
    left, right, bare = jet(turned * A * v), jet(e * P * (A - top * eye) * u), jet(e * P * A * u)
    broken = {"lambda_* left out": exact.equal(left, bare)}
    push.proves(exact.equal(left, right), breaks=broken, at=at)
