"""The Mills ratio and R-hat in symbols: what shows Eqs. 120, 124 to 127, Fig. 11 and the growth of
Eq. 128.

r(y) = int_0^inf exp(-y t - t^2/2) dt has r' = y r - 1 (`slope`). With g = (L - r) exp(-y^2/2),
which tends to 0 as y grows, g' = (L' - y L + 1) exp(-y^2/2): where L' - y L + 1 > 0 for all y > 0,
g rises to 0, and L < r; where it is < 0, L > r. So bounds on r are signs of algebraic functions.

With z_1 = kappa_2 + gamma e(kappa_1) = gamma/r(kappa_1) and z_2 = kappa_1 + gamma e(kappa_2), R-hat
is the larger of r(kappa_1) r(z_1) and r(kappa_2) r(z_2).
"""

from typing import Any

import mpmath
import sympy

from clcore.ledger import Part, exact
from clcore.ledger.exact import Shown

iv: Any = mpmath.iv  # its operators are made at run time, unseen by type checkers
Y = sympy.Symbol("y", positive=True)
T = sympy.Symbol("t", positive=True)
C = sympy.Symbol("c", positive=True)
G = sympy.Symbol("gamma", positive=True)
X = sympy.Symbol("kappa", positive=True)
ROOT = sympy.sqrt(1 - G**2)
R: Any = sympy.Function("r", positive=True)
LOW, HIGH = (2 / (sympy.sqrt(Y**2 + 4) + Y), 4 / (sympy.sqrt(Y**2 + 8) + 3 * Y))
"""Eq. 124's bounds."""


def integrand(y: Any = Y) -> Any:
    """e^(-y t - t^2/2), of which Mills' ratio r(y) is the integral over t > 0."""
    return sympy.exp(-y * T - T**2 / 2)


def signed(value: Any) -> Shown:
    """Whether a rational function of positive symbols is >= 0: its numerator and denominator,
    multiplied out, have no minus sign."""
    above, below = sympy.fraction(sympy.together(value))
    return exact.nonnegative(value, sympy.expand(above) / sympy.expand(below))


def excess(bound: Any) -> Any:
    """L' - y L + 1: if it is positive for all y > 0, the bound L is below Mills' ratio r, if it is
    negative, above. For r' = y r - 1, so that (L - r) e^(-y^2/2) rises, or falls, to 0."""
    return bound.diff(Y) - Y * bound + 1


def slope(part: Part) -> None:
    """r' = y r - 1, at any real y: the derivative of the integrand in t, which integrates to -1, is
    that in y minus y times the integrand."""
    y = sympy.Symbol("y", real=True)
    inner = integrand(y)
    sides = inner.diff(T), inner.diff(y)
    part.proves(
        exact.equal(sides[0], sides[1] - y * inner),
        breaks={"r' = 1 - y r": exact.equal(sides[0], -sides[1] + y * inner)},
    )


def falls(part: Part) -> None:
    """r' < 0 at any real y, by its integrand."""
    y = sympy.Symbol("y", real=True)
    inner = integrand(y)
    part.proves(
        exact.nonnegative(-inner.diff(y), T * sympy.exp(-y * T - T**2 / 2)),
        breaks={"y r(y)": signed(-(y * inner).diff(y))},
    )


def coarse(part: Part) -> None:
    """y/(1 + y^2) < r(y) < 1/y."""
    slope(part)
    part.proves(
        exact.nonnegative([excess(Y / (1 + Y**2)), -excess(1 / Y)], [2 / (1 + Y**2) ** 2, Y**-2]),
        breaks={
            "y/(1/2 + y^2)": signed(excess(Y / (sympy.Rational(1, 2) + Y**2))),
            "1/(y + 1/2y)": signed(-excess(1 / (Y + 1 / (2 * Y)))),
        },
    )


def sharp(part: Part) -> None:
    """Both bounds of Eq. 124, by the signs of their `excess`."""
    slope(part)
    root, p = sympy.sqrt(Y**2 + 4), 2 * Y**2 + 2 * Y * sympy.sqrt(Y**2 + 8)
    below = 2 / (root * ((1 + Y**2) * root + Y**3 + 3 * Y))
    above = 128 / ((p + 4) ** 2 * (p + 16))
    three = 2 / (sympy.sqrt(Y**2 + 3) + Y)
    nine = 4 / (sympy.sqrt(Y**2 + 9) + 3 * Y)
    part.proves(
        exact.nonnegative([excess(LOW), -excess(HIGH)], [below, above]),
        breaks={
            "3 for 4": exact.nonnegative(excess(three), below),
            "9 for 8": exact.nonnegative(-excess(nine), above),
        },
    )


def rises(part: Part) -> None:
    """(y r)' = r + y (y r - 1) > 0, as r > y/(1 + y^2)."""
    d = sympy.Symbol("d", positive=True)  # r - y/(1 + y^2)
    product = Y * R(Y)

    def derivative(r: Any) -> Any:
        return product.diff(Y).subs(R(Y).diff(Y), Y * R(Y) - 1).subs(R(Y), r)

    part.proves(
        exact.nonnegative(derivative(Y / (1 + Y**2) + d), (1 + Y**2) * d),
        breaks={"r > 0 only": exact.nonnegative(derivative(d), (1 + Y**2) * d)},
    )


# ------------------------------------------------------------------------- the Mills ratio


def eq120(forms: Part, loss: Part) -> None:
    """The integrand of the second form at t + y; the third's derivative, of 1 - Phi(y) with Phi
    by erf, and its limit 0. Then that Phi(y), rounded to nearest, is 1 from y = 10 on."""
    y = sympy.Symbol("y", real=True)
    moved = sympy.exp(y**2 / 2) * sympy.exp(-((T + y) ** 2) / 2)
    above = 1 - (1 + sympy.erf(y / sympy.sqrt(2))) / 2
    tail, density = sympy.sqrt(2 * sympy.pi) * above, sympy.exp(-(y**2) / 2)
    forms.proves(
        exact.equal([integrand(y), -tail.diff(y), above.limit(y, sympy.oo)], [moved, density, 0]),
        breaks={"without sqrt(2 pi)": exact.equal(-above.diff(y), density)},
    )
    # 1 - Phi(y) < exp(-y^2/2)/(y sqrt(2 pi)) by Eq. 125: at y >= m this value at m times
    # two numbers in [0, 1]. 1 - 2^-54 rounds to 1, and 1 - 1 = 0 remains.
    unit = iv.mpf([0, 1])

    def rounds(m: int) -> Shown:
        most = iv.exp(-(iv.mpf(m) ** 2) / 2) / (m * iv.sqrt(2 * iv.pi)) * unit * unit
        return exact.below_zero([most - iv.mpf(2) ** -54])

    coarse(loss)
    loss.proves(rounds(10), breaks={"from y = 5": rounds(5)}, at="y >= 10, Phi rounded to nearest")


def eq125(ratio: Part, excess_: Part, limit: Part) -> None:
    """Bounds on r; 1/r - y at both of them; and 0 < 1 - y r < 1/y^2."""
    for part in (ratio, excess_, limit):
        coarse(part)
    low, high = Y / (1 + Y**2), 1 / Y
    excess_.proves(
        exact.equal([1 / high - Y, 1 / low - Y], [0, 1 / Y]),
        breaks={"1/r - 2y": exact.equal([1 / high - 2 * Y, 1 / low - 2 * Y], [0, 1 / Y])},
    )
    limit.proves(
        exact.nonnegative(Y**-2 - (1 - Y * low), 1 / (Y**2 * (1 + Y**2))),
        breaks={"1/2y": signed(Y**-2 - (2 * Y * low - 1))},
    )


# ------------------------------------------------------------------------------------ R-hat


def _kappas() -> tuple[sympy.Expr, sympy.Expr]:
    """kappa_1 and kappa_2 of Eqs. 118 and 119."""
    one = sympy.sqrt(C) / ROOT
    return one, G * one


def below_asymptote(part: Part) -> None:
    """R-hat is the larger of r(kappa_1) r(z_1) and r(kappa_2) r(z_2); r(y) < 1/y. With p = kappa_1
    r(kappa_1), in (0, 1), and z_1 = kappa_2 + gamma e(kappa_1) = gamma/r(kappa_1) the first is
    below r(kappa_1)^2/gamma = p^2/(kappa_1 kappa_2); as z_2 is at least kappa_1, the second is
    below 1/(kappa_1 kappa_2)."""
    coarse(part)
    r = R(X)
    z1 = sympy.expand(G * X + G * (1 / r - X))
    part.proves(
        exact.equal([z1, r / z1], [G / r, (X * r) ** 2 / (X * G * X)]),
        breaks={"e = 1/r": exact.equal(G * X + G / r, G / r)},
    )


def eq126(forms: Part, asymptote: Part, near: Part) -> None:
    """1/(kappa_1 kappa_2); between which numbers R-hat is over it; and R-hat <= r(0)^2 = pi/2."""
    one, two = _kappas()
    printed = (1 - G**2) / (G * C)
    forms.proves(
        exact.equal(1 / (one * two), printed),
        breaks={"without gamma": exact.equal(1 / (one * two), G * printed)},
    )
    below_asymptote(asymptote)
    # From below by r(z_1) > z_1/(1 + z_1^2): with p as above and k = kappa_2, 1 - p is less than
    # 1/(1 + kappa_1^2) and so is 1/(1 + k^2 + w), w > 0; then z_1 = k/p.
    k, w = sympy.symbols("k w", positive=True)
    p = 1 - 1 / (1 + k**2 + w)
    r, z = p / X, G / (p / X)
    product = (X * k * r * z / (1 + z**2)).subs(G, k / X)
    asymptote.proves(
        signed(4 - k**2 * (1 - product)),
        breaks={"half of it": signed(4 - k**2 * (1 - product / 2))},
    )
    falls(near)
    zero = sympy.integrate(sympy.exp(-(T**2) / 2), (T, 0, sympy.oo))
    blow = sympy.limit(G * printed, G, 0)
    near.proves(
        exact.equal([zero**2 * C, blow], [sympy.pi / 2 * C, 1 / C]),
        breaks={"gamma = 0.99": exact.equal((G * printed).subs(G, sympy.Rational(99, 100)), 1 / C)},
    )


def eq127(to_one: Part, down: Part, chance: Part, far: Part, out: Part) -> None:
    """R-hat below (1 - gamma^2)/(gamma c) and, with r(kappa_2) <= r(0), below r(0)/kappa_1; r at
    rising arguments; and Chebyshev on y_+ + y_- >= sqrt c."""
    one, two = _kappas()
    below_asymptote(to_one)
    size = 1 / (one * two)
    to_one.proves(
        exact.equal([size, sympy.limit(size, G, 1)], [(1 - G**2) / (G * C), 0]),
        breaks={"kappa = sqrt c": exact.equal(sympy.limit(1 / (C * G), G, 1), 0)},
    )
    falls(down)
    coarse(down)  # e > 0
    # With r and r' at kappa_2: d z_2/d gamma = e(kappa_2) - gamma r'/r^2 kappa_2' > 0.
    r, moving, rate = sympy.Symbol("r", positive=True), sympy.Symbol("dr", real=True), two.diff(G)
    z2 = sympy.sqrt(C) * ROOT + G / r
    sides = z2.diff(G) + z2.diff(r) * moving * rate, 1 / r - two - G * moving / r**2 * rate
    down.proves(
        exact.equal([one + G * (1 / r - two), sides[0]], [z2, sides[1]]),
        breaks={"e = 1/r": exact.equal(sides[0], sides[1] + two)},
    )
    ones, sigma = sympy.ones(2, 1), sympy.Matrix([[1, -G], [-G, 1]])
    spread = (ones.T * sigma * ones)[0]
    chance.proves(
        exact.equal([spread, sympy.limit(spread / C, G, 1)], [2 * (1 - G), 0]),
        breaks={
            "correlation +gamma": exact.equal((ones.T * sigma.subs(G, -G) * ones)[0], 2 * (1 - G))
        },
    )
    coarse(far)
    falls(far)
    far.proves(
        exact.equal(
            [1 / one, sympy.limit(1 / sympy.sqrt(C), C, sympy.oo)], [ROOT / sympy.sqrt(C), 0]
        ),
        breaks={"kappa without c": exact.equal(1 / ROOT, 1 / one)},
    )
    _arguments_rise(out)


def _arguments_rise(part: Part) -> None:
    """z_1 = gamma/r(kappa_1) and z_2 = (1 - gamma^2) kappa_1 + gamma/r(gamma kappa_1), which rise
    in kappa_1, as r falls."""
    falls(part)
    r1, r2 = R(X), R(G * X)
    first, second = G * X + G * (1 / r1 - X), X + G * (1 / r2 - G * X)
    part.proves(
        exact.equal([first, second], [G / r1, (1 - G**2) * X + G / r2]),
        breaks={"gamma e(kappa_1) for both": exact.equal(X + G * (1 / r1 - X), G / r1)},
    )


def growth(part: Part) -> None:
    """c R-hat rises in c, so that |N_mu| of Eq. 128 over c exp(c/2) falls.

    c (1 - gamma^2) times each product is a product of y r(y), which rise, at arguments that rise,
    and of kappa_1/z_2, whose inverse is (1 - gamma^2) + gamma^2/(y r(y)) at y = kappa_2."""
    _arguments_rise(part)
    rises(part)
    one, _ = _kappas()
    r1, r2 = R(X), R(G * X)
    z1, z2 = G / r1, (1 - G**2) * X + G / r2
    first, second = X**2 * r1 * R(z1), X**2 * r2 * R(z2)
    pieces = [(X * r1) ** 2 * z1 * R(z1) / G, G * X * r2 / G * (z2 * R(z2)) * (X / z2)]
    part.proves(
        exact.equal([one**2 * (1 - G**2), first, second], [C, *pieces]),
        breaks={"kappa_1 for its square": exact.equal(X * r1 * R(z1), pieces[0])},
    )
    part.proves(
        exact.equal(z2 / X, (1 - G**2) + G**2 / (G * X * r2)),
        breaks={"gamma for its square": exact.equal(z2 / X, (1 - G**2) + G / (G * X * r2))},
    )


def fig11(inside: Part, asymptote: Part) -> None:
    """The band has Eq. 124's bounds on r, and on e those of 1/r - y; then its distance from the
    asymptote by intervals."""
    sharp(inside)
    falls(inside)
    # e = 1/r - y: its bounds, from those of r.
    ends = [2 / (sympy.sqrt(Y**2 + 8) + Y), 2 / (sympy.sqrt(Y**2 + 4) + Y)]
    inside.proves(
        exact.equal([1 / HIGH - Y, 1 / LOW - Y], ends),
        breaks={"ends exchanged": exact.equal([1 / LOW - Y, 1 / HIGH - Y], ends)},
    )
    boxes = exact.cover(20, 30, 4)
    beyond = [_distance(c, g, most) for g, most in (("0.99", 0.02), ("0.9", 0.1)) for c in boxes]
    asymptote.proves(
        exact.below_zero(v for pair in beyond for v in pair),
        breaks={"gamma = 0.01": exact.below_zero(_distance(boxes[0], "0.01", 0.02))},
        at="c in [20, 30], gamma = 0.99 and 0.9",
    )


def _distance(c: Any, gamma: str, most: float) -> list[Any]:
    """By how much |log(end of the band) - log(asymptote)| is beyond `most`, of both ends."""
    g = iv.mpf(gamma)
    one = iv.sqrt(c / (1 - g**2))
    two, found = g * one, []
    # r is between 2/(sqrt(y^2 + 4) + y) and 4/(sqrt(y^2 + 8) + 3 y), e at 2/(sqrt(y^2 + n) + y)
    for top, n, least in ((2, 4, 1), (4, 8, 3)):
        logs = []
        for x, y in ((one, two), (two, one)):
            shift = g * 2 / (iv.sqrt(x**2 + n) + x)
            # x r(x) and z r(z) at z = y + shift, by the bound; over the asymptote times y/z
            pair = [top / (iv.sqrt(1 + n / v**2) + least) for v in (x, y + shift)]
            logs.append(iv.log(pair[0] * pair[1] / (1 + shift / y)))
        low, high = max(v.a for v in logs), max(v.b for v in logs)
        found += [high - iv.mpf(most), -low - iv.mpf(most)]
    return found
