"""Variance squashing and Jensen in symbols: what shows the parts of `lipschitz`.

A random variable has three values, with probabilities that sum to 1; where a sign is shown, with
masses above 0 of the sum S, so that S or S^2 times the statement is shown.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import sympy

from clcore.ledger import Part, exact
from clcore.ledger.exact import Shown

AT = "3 values"
PAIRS = tuple(product(range(3), repeat=2))
MASS = exact.vector("m", 3, positive=True)  # of the three values; over their sum, probabilities


def chances() -> Any:
    """Three probabilities that sum to 1."""
    p = exact.vector("p", 3)
    p[2] = 1 - p[0] - p[1]
    return p


def spread(f: Any) -> Any:
    """S^2 V[f], by the raw moments."""
    return sum(MASS.flat()) * MASS.dot(_squares(f)) - MASS.dot(f) ** 2


def _pairs(f: Any) -> Any:
    """S^2 V[f] by Eq. 88: over all pairs of values."""
    return sum(MASS[i] * MASS[j] * (f[i] - f[j]) ** 2 for i, j in PAIRS if i > j)


def _squares(f: Any) -> Any:
    return f.applyfunc(lambda u: u**2)


def variance(p: Any, f: Any) -> Any:
    """The variance of f about its mean, under probabilities p."""
    middle = p.dot(f)
    return sum(p[i] * (f[i] - middle) ** 2 for i in range(len(f)))


def lem3(bound: Part, tight: Part) -> None:
    """Values in order, and phi's slopes between them as L (1 - v)/(1 + v), v >= 0, which are all in
    (-L, L]; -L follows by continuity. Then phi affine."""
    L, low = sympy.symbols("L x", positive=True)
    d, v = sympy.symbols("d:2", nonnegative=True), sympy.symbols("v:2", nonnegative=True)
    x = sympy.Matrix([low, low + d[0], low + d[0] + d[1]])

    def less(scale: Any, rise: int = 0) -> Shown:
        """L^2 V[x] - V[phi], phi with a rise beyond its slope."""
        steps = [L * (1 - v[k]) / (1 + v[k]) * d[k] for k in range(2)]
        phi = sympy.Matrix([0, steps[0] + rise, steps[0] + steps[1] + rise])
        return exact.nonnegative(scale * spread(x) - spread(phi), L**2 * form)

    # L^2 (x_i - x_j)^2 - (phi_i - phi_j)^2 of neighbours, and what is more at the two ends
    near = [4 * v[k] / (1 + v[k]) ** 2 * d[k] ** 2 for k in range(2)]
    ends = near[0] + near[1] + 4 * (v[0] + v[1]) / ((1 + v[0]) * (1 + v[1])) * d[0] * d[1]
    m = MASS
    form = m[0] * m[1] * near[0] + m[1] * m[2] * near[1] + m[0] * m[2] * ends

    bound.proves(less(L**2), breaks={"L in place of L^2": less(L), "a jump": less(L**2, 3)}, at=AT)
    p, (a, b) = chances(), sympy.symbols("a b", real=True)
    y = exact.vector("x", 3)
    affine, bent = (y.applyfunc(f) for f in (lambda u: a * u + b, lambda u: a * u + b * u**2))
    wanted = a**2 * variance(p, y)
    tight.proves(
        exact.equal(variance(p, affine), wanted),
        breaks={"not affine": exact.equal(variance(p, bent), wanted)},
        at=AT,
    )


def eq88(others: Part, second: Part) -> None:
    """The chain's members as sums over two draws, against twice the variance."""
    p, f = chances(), exact.vector("f", 3)
    c, twice = f - p.dot(f) * sympy.ones(3, 1), 2 * variance(p, f)
    first, gap = (sum(p[i] * p[j] * (v[i] - v[j]) ** 2 for i, j in PAIRS) for v in (f, c))

    def third(v: Any, cross: Any) -> Any:
        return 2 * p.dot(_squares(v)) - 2 * cross

    member = third(c, sum(p[i] * p[j] * c[i] * c[j] for i, j in PAIRS))
    squares = p.dot(_squares(c))
    others.proves(
        exact.equal([first, member], [twice, twice]),
        breaks={
            "x and y the same draw": exact.equal(third(c, squares), twice),
            "not centred": exact.equal(third(f, sympy.Integer(0)), twice),
        },
        at=AT,
    )
    second.proves(
        exact.equal(gap, twice),
        breaks={"as typeset, with 1/2": exact.equal(gap / 2, twice)},
        at=AT,
    )


def lem4(bounds: Part, quadratic: Part) -> None:
    """Taylor's formula about the mean: phi at a value is phi + phi' (x - mean) + (x - mean)^2/2
    times phi'' at a point between, which is inf phi'' and more, or sup phi'' and less."""
    value, slope, end = sympy.symbols("phi slope end", real=True)
    more, off = sympy.symbols("more:3", nonnegative=True), exact.vector("off", 3)
    off[2] = -(MASS[0] * off[0] + MASS[1] * off[1]) / MASS[2]  # from the mean

    def beyond(sign: int, half: Any) -> Shown:
        """sign S (E phi(x) - phi(E x) - half V[x] end), where phi'' is end and sign times more."""
        curve = [end + sign * m for m in more]
        phi = [value + slope * u + k * u**2 / 2 for u, k in zip(off.flat(), curve, strict=True)]
        gap = MASS.dot(sympy.Matrix(phi)) - sum(MASS.flat()) * value
        form = sum(q * m * u**2 / 2 for q, m, u in zip(MASS.flat(), more, off.flat(), strict=True))
        return exact.nonnegative(sign * (gap - half * MASS.dot(_squares(off)) * end), form)

    half = sympy.Rational(1, 2)
    for sign in (1, -1):
        bounds.proves(
            beyond(sign, half), breaks={"1 for 1/2": beyond(sign, sympy.Integer(1))}, at=AT
        )
    p, x, (a, b) = chances(), exact.vector("x", 3), sympy.symbols("a b", real=True)
    middle = p.dot(x)
    gap = p.dot(x.applyfunc(lambda u: a * u**2 + b * u)) - (a * middle**2 + b * middle)
    quadratic.proves(
        exact.equal(gap, variance(p, x) * a),
        breaks={"1 for 1/2": exact.equal(gap, 2 * variance(p, x) * a)},
        at=AT,
    )


def convex(part: Part) -> None:
    """E psi(x) is no less than 0 and than E x, the larger of which is psi(E x); for every number of
    values below 0."""
    p, size = MASS, sympy.symbols("x:3", nonnegative=True)

    def gaps(psi: Callable) -> Shown:
        values, forms = [], []
        for below in range(4):
            x = sympy.Matrix([-u if k < below else u for k, u in enumerate(size)])
            active = p.dot(x.applyfunc(lambda u: psi(u, 0)))
            values += [active, active - p.dot(x)]
            signs = [sum(p[k] * size[k] for k in ks) for ks in (range(below, 3), range(below))]
            forms += [sympy.sympify(s) for s in signs]
        return exact.nonnegative(values, forms)

    part.proves(gaps(sympy.Max), breaks={"a concave function": gaps(sympy.Min)}, at=AT)


def lem5(below: Part, above: Part, half: Part, steps: Part) -> None:
    """Convexity; the variance minus the gap's square, then four times it; psi(x) - psi(mu) <= |x
    - mu| by signs."""
    convex(below)
    u, v, mean = sympy.symbols("u v mean", nonnegative=True)  # S times the mean of x

    def room(factor: int) -> Shown:
        """V[x] minus the gap's square times factor at a mean >= 0, for one value below 0 and for
        two; for a mean < 0 the gap is that of -x. The first value is what the others leave to the
        mean. The form is that of the factor 4, a bound of half, and what is left of it."""
        values, forms = [], []
        for plus, minus in (((0, u, 0), (0, 0, v)), ((0, 0, 0), (0, u, v))):
            up, down = sympy.Matrix(plus), sympy.Matrix(minus)
            up[0] = (mean - MASS.dot(up - down)) / MASS[0]
            gap, lower = MASS.dot(up) - mean, MASS.dot(down)
            values.append(spread(up - down) - factor * gap**2)
            forms.append(_pairs(up + down) + (4 - factor) * lower**2 + 4 * lower * mean)
        return exact.nonnegative(values, forms)

    above.proves(room(1), breaks={"a third of the sd": room(9)}, at=AT)
    half.proves(room(4), breaks={"a third of the sd": room(9)}, at=AT)
    a, b = sympy.symbols("a b", nonnegative=True)

    def rise(slope: int) -> Shown:
        """|x - mu| - slope (psi(x) - psi(mu)), for all signs and orders of x and mu."""
        cases = {
            (a, -b): b,
            (-a, b): a + 2 * b,
            (a + b, a): 0 * a,
            (a, a + b): 2 * b,
            (-a - b, -a): b,
            (-a, -a - b): b,
        }
        values = [abs(x - m) - slope * (sympy.Max(x, 0) - sympy.Max(m, 0)) for x, m in cases]
        return exact.nonnegative(values, list(cases.values()))

    steps.proves(rise(1), breaks={"slope 2": rise(2)})


def eq94(inequality: Part, last: Part) -> None:
    """Lagrange's identity, for any masses; and that masses which sum to 1 leave the variance."""
    g = sympy.Matrix(sympy.symbols("g:3", nonnegative=True))
    square, first = MASS.dot(_squares(g)), MASS.dot(g)
    inequality.proves(
        exact.nonnegative(square * sum(MASS.flat()) - first**2, _pairs(g)),
        breaks={"its factor left out": exact.nonnegative(square - first**2, _pairs(g))},
        at=AT,
    )
    p, x = chances(), exact.vector("x", 3)
    raw = p.dot(_squares(x)) - p.dot(x) ** 2
    last.proves(
        exact.equal(variance(p, x) * sum(p), raw),
        breaks={"mass 2": exact.equal(variance(p, x) * 2 * sum(2 * p), raw)},
        at=AT,
    )
