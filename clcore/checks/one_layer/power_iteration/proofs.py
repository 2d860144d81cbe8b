"""Proofs on power iteration, besides the draws (nl Sec. 3.3, App. B.4 and G).

In the eigenbasis of A, which is positive semi-definite: d = 3, lambda_2 and lambda_3 over lambda_1
are r_3 + g and r_3; a unit vector with c > 0 is (1, p, q) over its length, so that c is 1 over it.
"""

from typing import Any

import mpmath
import sympy
from sympy import Matrix, Rational

from clcore.ledger import Part, exact
from clcore.ledger.exact import Shown

iv: Any = mpmath.iv  # its operators are made at run time, unseen by type checkers
AT = "d = 3"
ONE = sympy.Integer(1)
HALF = Rational(1, 2)
P, Q = sympy.symbols("p q", real=True)  # w is (1, p, q) over its length
R3 = sympy.Symbol("r_3", nonnegative=True)  # lambda_3 over lambda_1
G = sympy.Symbol("g", nonnegative=True)  # lambda_2 - lambda_3, over lambda_1
R2 = R3 + G  # lambda_2 over lambda_1
LENGTH = sympy.sqrt(1 + P**2 + Q**2)
C = 1 / LENGTH  # c, the cosine of w and the top eigenvector
W = Matrix([C, P * C, Q * C])
"""A unit vector with c > 0, in the eigenbasis of A."""
IMAGE = Matrix([C, R2 * P * C, R3 * Q * C])
"""A w over lambda_1."""
GROWN = P**2 * R2**2 + Q**2 * R3**2
Y = sympy.sqrt(1 + GROWN)
"""1 / d_t: the length of A w, over lambda_1 c."""
MU = (1 + C) / (2 * C**2) * R2**2
"""mu of Lemma 7, at w."""
SQUARE = R2**2 * (1 / C**2 - 1)
"""The square in Eqs. 184 to 186."""
AFTER = IMAGE / sympy.sqrt(IMAGE.dot(IMAGE))
"""w(t + 1)."""
REST = (2 * G * R3 + G**2) * Q**2
"""(lambda_2^2 - lambda_3^2) a_3^2, over lambda_1^2 c^2."""


def _above(y: sympy.Expr) -> sympy.Expr:
    """1 / y - 1 + (y^2 - 1) / 2, what 1 / sqrt(1 + s) is above 1 - s / 2 at s = y^2 - 1."""
    return (y - 1) ** 2 * (y + 2) / (2 * y)


def _rotation() -> Matrix:
    """Cayley's: any basis of three orthonormal columns, but for turns by 180 degrees."""
    a, b, c = sympy.symbols("a b c", real=True)
    turn = Matrix([[0, -a, b], [a, 0, -c], [-b, c, 0]])
    return sympy.eye(3) + 2 * (turn + turn**2) / (1 + a**2 + b**2 + c**2)


def lem7(bound: Part, step: Part, reason: Part, last: Part) -> None:
    """The lemma and each of its steps, A positive semi-definite."""
    low = 1 - AFTER[0]
    form = _above(Y) + REST / 2
    broken = {"half of mu": exact.nonnegative(MU / 2 * (1 - C) - low, form)}
    bound.proves(exact.nonnegative(MU * (1 - C) - low, form), breaks=broken, at=AT)
    squared = IMAGE.dot(IMAGE) / IMAGE[0] ** 2  # 1 / d_t^2
    broken = {"half of the square": exact.nonnegative(1 + SQUARE / 2 - squared, REST)}
    step.proves(exact.nonnegative(1 + SQUARE - squared, REST), breaks=broken, at=AT)
    w, basis, values = exact.vector("w", 3), _rotation(), exact.vector("lambda", 3)
    along = [basis[:, i].dot(w) for i in range(3)]
    rest = w.dot(w) - along[0] ** 2  # 1 - c^2 for unit w
    stray = sum((values[i] * along[i]) ** 2 for i in (1, 2))
    broken = {"lambda_i^2 in the sum": exact.equal(stray, rest)}
    reason.proves(exact.equal(along[1] ** 2 + along[2] ** 2, rest), breaks=broken, at=AT)
    y = sympy.sqrt(1 + SQUARE)
    broken = {"a quarter of the square": exact.nonnegative(1 / y - 1 + SQUARE / 4, _above(y))}
    last.proves(exact.nonnegative(1 / y - 1 + SQUARE / 2, _above(y)), breaks=broken)
    broken = {"(1 + c) left out": exact.equal(SQUARE / 2, MU * (1 - C) / (1 + C))}
    last.proves(exact.equal(SQUARE / 2, MU * (1 - C)), breaks=broken)


def indefinite(what: str) -> dict[str, Any]:
    """`Part.proves` of a constant A = diag(1, 0, -1), L = 0, from w(0) = (3, 0, 1) / sqrt 10: there
    mu = omega = 0 <= gamma = 1/100, and w(t) = (3, 0, (-1)^t) / sqrt 10 for ever. Control: the
    least eigenvalue 0, for which w(1) = e_1."""
    start = Matrix([3, 0, 1]) / sympy.sqrt(10)

    def wrong(least: int) -> Shown:
        A, path = sympy.diag(1, 0, least), [start]
        for _ in range(4):
            image = A * path[-1]
            path.append(image / image.norm())
        last = path[-1]
        left, right, relation = {
            "residual": (A * last - last * last.dot(A * last), sympy.zeros(3, 1), "=="),
            "one step": (1 - path[1][0], ONE * 0, "<="),
        }[what]
        return exact.differ(left, right, relation)

    return {"shown": wrong(-1), "breaks": {"A positive semi-definite": wrong(0)}, "at": AT}


def lem8(length: Part, first: Part, second: Part) -> None:
    """The squared length, both numerators and denominators of Eq. 188, and its last step."""
    moved = AFTER - W
    inner = (R2 * P**2 + R3 * Q**2) * C / Y
    form = 2 * (C * _above(Y) + C * REST / 2 + inner)
    bound = 2 * (1 + MU * C) * (1 - C)
    broken = {"1 for 2 under the root": exact.nonnegative(bound / 2 - moved.dot(moved), form)}
    length.proves(exact.nonnegative(bound - moved.dot(moved), form), breaks=broken, at=AT)
    below = C**2 + R2**2 * (1 - C**2)  # of the middle of Eq. 188, squared
    tops = [W.dot(IMAGE) - C**2, below - IMAGE.dot(IMAGE)]
    forms = [(R2 * P**2 + R3 * Q**2) * C**2, REST * C**2]
    bare = [W.dot(IMAGE) - C, tops[1]]
    broken = {"c_t for c_t^2 in the numerator": exact.nonnegative(bare, forms)}
    first.proves(exact.nonnegative(tops, forms), breaks=broken, at=AT)
    middle, y = C**2 / sympy.sqrt(below), sympy.sqrt(1 + SQUARE)
    left, half = (middle - (1 - m * (1 - C)) * C for m in (MU, MU / 2))
    broken = {"half of mu": exact.nonnegative(half, C * _above(y))}
    second.proves(exact.nonnegative(left, C * _above(y)), breaks=broken)


def eq101(fixed: Part, constant: Part) -> None:
    """A step leaves an eigenvector of a positive eigenvalue where it is; with constant A every step
    shrinks a coordinate beside the first by the ratio of eigenvalues."""
    top, other = sympy.Symbol("lambda_1", positive=True), sympy.Symbol("lambda_2", real=True)
    w, u = Matrix([1, P]) / sympy.sqrt(1 + P**2), Matrix([-P, 1]) / sympy.sqrt(1 + P**2)

    def step(A: Matrix, v: Matrix) -> Matrix:
        return A * v / sympy.sqrt((A * v).dot(A * v))

    up, down = (sign * top * w * w.T + other * u * u.T for sign in (1, -1))
    broken = {"a negative eigenvalue": exact.equal(step(down, w), w)}
    fixed.proves(exact.equal(step(up, w), w), breaks=broken, at="d = 2")
    A = sympy.diag(1, R2, R3)
    later = step(A, AFTER)
    ratio, start = later[1] / later[0], W[1] / W[0]
    broken = {"the third eigenvalue": exact.equal(ratio, R3**2 * start)}
    constant.proves(exact.equal(ratio, R2**2 * start), breaks=broken, at=f"{AT}, 2 steps")


def lem10(first: Part, second: Part, bound: Part) -> None:
    """Eqs. 200 and 201 squared, and the sum. `less`: by how much |dA| exceeds the entries of
    dA phi_1 across, and what the other steps give away; none is negative."""
    b, s = exact.vector("b", 2), exact.vector("s", 2)  # phi_j^T dA phi_1 and phi_j^T w(t + 1)
    gap = sympy.Symbol("gap", positive=True)
    less, wider = sympy.symbols("less wider", nonnegative=True)
    gaps = [gap, gap + wider]
    pull = sum(b[j] * s[j] / gaps[j] for j in (0, 1))
    scales = [(b.dot(b) + less) * s.dot(s) / gap**2, (b.dot(b) + less) * s.dot(s) / gaps[1] ** 2]
    form = less * s.dot(s) / gap**2 + (b[0] * s[1] / gap - b[1] * s[0] / gaps[1]) ** 2
    form += b[1] ** 2 * (2 * gap * wider + wider**2) / (gap * gaps[1]) ** 2 * s.dot(s)
    broken = {"the other gap": exact.nonnegative(scales[1] - pull**2, form)}
    first.proves(exact.nonnegative(scales[0] - pull**2, form), breaks=broken, at=AT)
    near, d = MU * (1 - C), AFTER[0]
    form = 2 * (_above(Y) + REST / 2) + (1 - d) ** 2
    broken = {"half of mu": exact.nonnegative(near - (1 - d**2), form)}
    second.proves(exact.nonnegative(2 * near - (1 - d**2), form), breaks=broken, at=AT)
    # |dw| and sqrt(1 - d^2) with what Lemma 8 and Eq. 201 give away; L and kappa by definition
    moved, sine, x, y, L, kappa = sympy.symbols("moved sine x y L kappa", nonnegative=True)
    grown, mu = (moved + x) ** 2 / 2, (sine + y) ** 2 / 2  # (1 + mu c)(1 - c) and mu (1 - c)
    nu = 2 * kappa * L**2 * grown + 2 * L / gap * sympy.sqrt(grown) * sympy.sqrt(mu)
    most = kappa * (L * moved) ** 2 + L / gap * moved * sine
    form = kappa * L**2 * (2 * moved * x + x**2) + L / gap * (moved * y + x * sine + x * y)
    bare = 2 * kappa * L**2 * grown
    broken = {"second term of nu dropped": exact.nonnegative(bare - most, form)}
    bound.proves(exact.nonnegative(nu - most, form), breaks=broken, at=AT)


def rem10(part: Part) -> None:
    """1 - c^2 times squared lengths is a sum of squares, w and phi_1 any vectors."""
    w, phi = exact.vector("w", 3), exact.vector("phi", 3)
    squares = sum((w[i] * phi[j] - w[j] * phi[i]) ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))
    whole, inner = w.dot(w) * phi.dot(phi), w.dot(phi) ** 2
    broken = {"norm 3/2": exact.nonnegative(whole - Rational(9, 4) * inner, squares)}
    part.proves(exact.nonnegative(whole - inner, squares), breaks=broken, at=AT)


def def4(forms: Part, small: Part) -> None:
    """Both forms of mu; the size of omega on the box said, by one interval."""
    first, gap, c = sympy.symbols("lambda_1 gap c", positive=True)
    second = first - gap
    by_gap = HALF * (1 + c) / c**2 * (1 - gap / first) ** 2
    ratio = (1 + c) / (2 * c**2) * (second / first) ** 2
    broken = {"(1 + c) left out": exact.equal(by_gap, ratio / (1 + c))}
    forms.proves(exact.equal(by_gap, ratio), breaks=broken)

    def most(least: str, ratio: str, L: str) -> Any:
        """omega minus 0.1, lambda_1 = 1: c in [least, 1], |lambda_2| and L in [0, these]."""
        c, r, lipschitz = iv.mpf([least, "1"]), iv.mpf(["-" + ratio, ratio]), iv.mpf(["0", L])
        mu, gap = (1 + c) / (2 * c**2) * r**2, 1 - r
        grown = 1 + mu * c
        nu = 16 / gap**2 * lipschitz**2 * grown + 2 * lipschitz / gap * iv.sqrt(mu * grown)
        return mu + nu - iv.mpf("0.1")

    small.proves(
        exact.below_zero([most("0.999999", "0.2", "0.015")]),
        breaks={
            "c = 0.2": exact.below_zero([most("0.2", "0.2", "0.015")]),
            "a small gap": exact.below_zero([most("0.999999", "0.95", "0.5")]),
        },
        at=r"$|\lambda_2|\le0.2\lambda_1$, $L\le0.015\lambda_1$",
    )


def eq103(part: Part) -> None:
    """On the sphere |w - w(0)|^2 = 2 - 2 w.w(0), so that the radius is an edge for w.w(0)."""
    s, c0 = sympy.symbols("s c_0", real=True)  # gamma = s^2
    w, start = exact.vector("w", 3), exact.vector("v", 3)
    # |w - w(0)|^2 where both have norm 1.
    apart = (w - start).dot(w - start) - (w.dot(w) - 1) - (start.dot(start) - 1)
    c_gamma = 2 * s / (1 + s**2)
    edge = (c0 - c_gamma) / (1 - c_gamma)

    def inner(sign: int) -> sympy.Expr:
        """w.w(0) at the radius."""
        return 1 - 2 * (1 + s**2) * (1 - c0) / (1 + sign * s) ** 2 / 2

    broken = {"1 + sqrt(gamma)": exact.equal(inner(1), edge)}
    part.proves(exact.equal([apart, inner(-1)], [2 - 2 * w.dot(start), edge]), breaks=broken, at=AT)


def eq104(push: Part, definite: Part, kept: Part) -> None:
    """The shift is lost on P_w A w for unit w; in the plane, the least eigenvalue is epsilon, and
    eigenvectors stay in their order."""
    eye, A = sympy.eye(3), exact.matrix("a", 3, 3)
    least, eps = sympy.symbols("least epsilon", real=True)
    hat = A - least * eye + eps * eye

    def pushed(matrix: Matrix, v: Matrix) -> Matrix:
        return (eye - v * v.T) * matrix * v

    long = Rational(11, 10) * W
    broken = {"w of norm 1.1": exact.equal(pushed(hat, long)[0], pushed(A, long)[0])}
    push.proves(exact.equal(pushed(hat, W), pushed(A, W)), breaks=broken, at=AT)
    gap = sympy.Symbol("gap", nonnegative=True)
    top, low = Matrix([1, P]) / sympy.sqrt(1 + P**2), Matrix([-P, 1]) / sympy.sqrt(1 + P**2)
    A, v = (least + gap) * top * top.T + least * low * low.T, exact.vector("v", 2)
    hat = A + (eps - least) * sympy.eye(2)
    above, itself = ((v.T * M * v)[0] - eps * v.dot(v) for M in (hat, A))
    form = gap * v.dot(top) ** 2
    broken = {"A itself": exact.nonnegative(itself, form)}
    definite.proves(exact.nonnegative(above, form), breaks=broken, at="d = 2")
    broken = {"A itself": exact.equal(A * low, eps * low)}
    definite.proves(exact.equal(hat * low, eps * low), breaks=broken, at="d = 2")
    broken = {"the second eigenvector": exact.equal(hat * low, (eps + gap) * low)}
    kept.proves(exact.equal(hat * top, (eps + gap) * top), breaks=broken, at="d = 2")


def eq216(rise: Part, far: Part, change: Part) -> None:
    """The induction of App. G from t to t + 1, for every t; at t = 0 both sides are one.

    `less`: what the induction, Lemmas 7, 8 and 10, mu + nu <= gamma and the triangle inequality
    each give away; none is negative.
    """
    less = sympy.symbols("less0:6", nonnegative=True)
    mu, nu, near = sympy.symbols("mu nu near", nonnegative=True)  # near: 1 - c_t
    gamma, start = mu + nu + less[0], near + less[1]  # start: gamma^t (1 - c_0)
    one_less_d, turned = mu * near - less[2], nu * near - less[3]
    left = gamma * start - (one_less_d + turned - less[4])
    form = gamma * less[1] + less[0] * near + less[2] + less[3] + less[4]
    at = "from t to t + 1, by Lemmas 7, 8 and 10"
    squared = gamma**2 * start - (one_less_d + turned - less[4])
    broken = {"gamma squared": exact.nonnegative(squared, form)}
    rise.proves(exact.nonnegative(left, form), breaks=broken, at=at)
    # the halved squares of Lemma 8's bound and of the last one, c_t = 1 - near
    bound, last = (1 + mu * (1 - near)) * near, (1 + gamma) * start
    form = (1 + gamma) * less[1] + (nu + less[0] + mu * near) * near
    broken = {"a tenth": exact.nonnegative(last / 100 - bound, form)}
    change.proves(exact.nonnegative(last - bound, form), breaks=broken, at=at)
    # the sum of the powers of sqrt(gamma) below t, in closed form, and a step more by the triangle;
    # all of them give the radius of B_gamma, in which mu + nu <= gamma is assumed
    front, power, k = (sympy.Symbol(name, positive=True) for name in ("front", "power", "k"))
    root = 1 / (1 + k)  # sqrt(gamma), and power its t-th power
    away = front * (1 - power) / (1 - root) - less[1] + (front * power - less[5]) - less[2]
    later, radius = front * (1 - power * root) / (1 - root), front / (1 - root)
    forms = [less[1] + less[5] + less[2], front * power / k]
    broken = {"a tenth of the front": exact.nonnegative([later / 10 - away, radius - later], forms)}
    far.proves(exact.nonnegative([later - away, radius - later], forms), breaks=broken, at=at)
