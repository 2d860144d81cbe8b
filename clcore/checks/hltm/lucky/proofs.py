"""Lucky nodes in symbols: what shows steps of Theorem 5's proof and its threshold."""

from itertools import product
from typing import Any

import sympy

from clcore.checks.hltm.lucky.lipschitz_proofs import convex
from clcore.checks.hltm.tail.mills_proofs import signed
from clcore.ledger import Part, exact
from clcore.ledger.exact import Shown

C = sympy.Symbol("c", positive=True)
SIGMA = sympy.Symbol("sigma", positive=True)
N = 2
"""Children."""
AT = f"n = {N}"


def _square(v: Any) -> Any:
    return v.dot(v)


def _expected(value: Any, w: Any) -> Any:
    """E[value] over weights uniform on +-sigma sqrt(3/n)."""
    edge = SIGMA * sympy.sqrt(sympy.Rational(3, len(w)))
    for x in w:
        value = sympy.integrate(sympy.expand(value), (x, -edge, edge)) / (2 * edge)
    return sympy.expand(value)


def _covariance(h: Any, a: Any) -> Any:
    """The covariance matrix of Eq. 142, as printed."""
    off = _square(h) - _square(a)
    return sympy.Matrix([[_square(h + a), off], [off, _square(h - a)]]) * SIGMA**2 / len(h)


def eq142(moments: Part) -> None:
    """Means and second moments of w^T (h + a) and w^T (h - a), by integrals over the weights."""
    h, a, w = (exact.vector(name, N) for name in "haw")
    v = sympy.Matrix([w.dot(h + a), w.dot(h - a)])
    mean, second = ([_expected(x, w) for x in m.flat()] for m in (v, v * v.T))
    printed = _covariance(h, a)
    flipped = printed.multiply_elementwise(sympy.Matrix([[1, -1], [-1, 1]]))
    moments.proves(
        exact.equal([mean, second], [[0, 0], list(printed)]),
        breaks={
            "sign off the diagonal": exact.equal(second, list(flipped)),
            "weights on +-1/sqrt n": exact.equal(second, list(printed / 3)),
        },
        at=AT,
    )


def eq144(standardised: Part, same: Part) -> None:
    """Eq. 142's covariance after the map; y_+ - sqrt c and y_- are v_+ minus its threshold
    and -v_-, times what is positive."""
    h, a = exact.vector("h", N), exact.vector("a", N)
    plus, minus = sympy.sqrt(_square(h + a)), sympy.sqrt(_square(h - a))
    scale = sympy.sqrt(N) / SIGMA
    gamma = (_square(h) - _square(a)) / (plus * minus)
    target = sympy.Matrix([[1, -gamma], [-gamma, 1]])

    def mapped(sign: int) -> Shown:
        to_y = sympy.diag(scale / plus, sign * scale / minus)
        return exact.equal(to_y * _covariance(h, a) * to_y, target)

    standardised.proves(mapped(-1), breaks={"y_- = +v_-": mapped(1)}, at=AT)
    v, norms = exact.vector("v", 2), exact.vector("norm", 2, positive=True)
    y = scale * v[0] / norms[0], -scale * v[1] / norms[1]
    level = sympy.sqrt(C) * SIGMA / sympy.sqrt(N) * norms[0]
    above = [(v[0] - level) * scale / norms[0], -v[1] * scale / norms[1]]
    same.proves(
        exact.equal([y[0] - sympy.sqrt(C), y[1]], above),
        breaks={"y_+ >= c": exact.equal([y[0] - C, y[1]], above)},
        at=AT,
    )


def eq147(sign: Part, identity: Part) -> None:
    """|h|^2 - |a|^2 from h = (u_+ + u_-)/2 and a = (u_+ - u_-)/2 >= 0, and by Lagrange's identity
    at most |u_+| |u_-|."""
    up = sympy.Matrix(sympy.symbols("u:3", nonnegative=True))
    down = sympy.Matrix(sympy.symbols("d:3", nonnegative=True))
    inner = _square((up + down) / 2) - _square((up - down) / 2)
    squares = sum((up[i] * down[j] - up[j] * down[i]) ** 2 for i in range(3) for j in range(i))
    sign.proves(
        exact.nonnegative([inner, _square(up) * _square(down) - inner**2], [up.dot(down), squares]),
        breaks={"leaves coded -1, 1": signed(inner.subs({down[k]: -up[k] for k in range(3)}))},
        at="n = 3",
    )
    h, a = exact.vector("h", 3), exact.vector("a", 3)
    means = (h + a).dot(h - a)
    identity.proves(
        exact.equal(_square(h) - _square(a), means),
        breaks={"+ |a|^2": exact.equal(_square(h) + _square(a), means)},
        at="n = 3",
    )


def eq152(norms: Part, jensen: Part, activation: Part) -> None:
    """The chain of norms for every division of three children into A_+ and A_-, A_+ the heavier;
    E[psi(f)] - psi(E f), where f has two values; and both together."""
    h = sympy.Matrix(sympy.symbols("h:3", nonnegative=True))
    b, d, e, q, r = sympy.symbols("b d e q r", nonnegative=True)

    def chain(up: list, down: list, less: Any) -> list[tuple[Any, Any]]:
        """(value, form) of |u_+|^2 minus the sum of a_k^2 over A_+, and of that minus half of the
        sum over all, u_+ = h + a: `up` are the a_k of A_+, `down` those of A_-, where h_k is
        |a_k| and a rest; less: what A_+ outweighs A_- by."""
        rest = sympy.Matrix([q, r])[: len(down), :]
        lower = sympy.Matrix(down) if down else sympy.zeros(0, 1)
        a = sympy.Matrix([*up, *lower])
        middle = sympy.Matrix([*h[: len(up)], *(rest - lower)])
        positive = sum(x**2 for x in up)
        first = sum(h[k] ** 2 + 2 * h[k] * x for k, x in enumerate(up)) + _square(rest)
        values = _square(middle + a) - positive, positive - _square(a) / 2
        return list(zip(values, (first, less / 2), strict=True))

    # Two of A_+ of any ratio e, one alone, all three; up to the order of the children.
    two, side = sympy.sqrt(b**2 + d), sympy.sqrt(1 + e**2)
    cases = [
        *chain([two / side, e * two / side], [-b], d),
        *chain([sympy.sqrt(b**2 + e**2 + d)], [-b, -e], d),
        *chain([b, d, e], [], b**2 + d**2 + e**2),
    ]
    lighter = chain([0 * b, 0 * b], [-b], d)
    shown, broken = (exact.nonnegative(*map(list, zip(*c, strict=True))) for c in (cases, lighter))
    norms.proves(shown, breaks={"A- heavier": broken}, at="n = 3")
    convex(jensen)
    # f is x with chance p, else -z, or z where neither value is negative, so that E psi(f) is E f;
    # E f = level |u_+| + more, level^2 = c sigma^2/n: the event. Of A_- is one child, or none.
    alpha, beta, level = sympy.symbols("alpha beta level", positive=True)
    z, more = sympy.symbols("z more", nonnegative=True)
    p = alpha / (alpha + beta)
    one, none = sympy.Matrix([sympy.sqrt(b**2 + d), -b]), sympy.Matrix([b, d])
    norms_of = [
        (one, sympy.Matrix([h[0], b + q]), h[0] ** 2 + 2 * h[0] * one[0] + q**2 + d / 2),
        (none, h[:2, :], _square(h[:2, :]) + 2 * h[:2, :].dot(none) + _square(none) / 2),
    ]

    def beyond(sign: int) -> Shown:
        """v_+^2 minus the square of the last bound."""
        values, forms = [], []
        for (a, middle, norm), lower in product(norms_of, ((1 - p) * z, 0)):
            root = sympy.sqrt(_square(middle + a))
            x = (level * root + sign * more + lower) / p
            active = p * x + ((1 - p) * sympy.Max(-z, 0) if lower else 0)
            over = more + sympy.factor(lower)
            values.append(active**2 - level**2 * _square(a) / 2)
            forms.append(level**2 * norm + over**2 + 2 * level * root * over)
        return exact.nonnegative(values, forms)

    activation.proves(beyond(1), breaks={"nodes that miss the event": beyond(-1)}, at=AT)


def thm5b(rising: Part, printed: Part, corrected: Part) -> None:
    """Slopes of Eq. 130's bracket, in rho_k^2, c and s_k^2; and two values of it."""
    s2, rho2 = (sympy.Matrix(sympy.symbols(f"{name}:{N}", nonnegative=True)) for name in ("s", "q"))
    spread, t = sympy.symbols("spread t", positive=True)
    terms = sum(s2[k] * ((C + 6) * rho2[k] / 6 - 1) for k in range(N))
    bracket = 3 * SIGMA**2 * (terms / N - spread)
    size = 3 * SIGMA**2 / N
    slopes = [bracket.diff(rho2[0]), bracket.diff(C)]
    rising.proves(
        exact.nonnegative(slopes, [size * s2[0] * (C + 6) / 6, size * s2.dot(rho2) / 6]),
        breaks={"in each s_k": signed(bracket.diff(s2[0]))},
        at=AT,
    )

    def at(polarity: Any, s: Any) -> Any:
        """At c = 9, sigma_w = 1, sigma_l = 0: the first child unchanged, the second as given."""
        numbers = {C: 9, SIGMA: 1, spread: 0, s2[0]: sympy.Rational(1, 4), rho2[0]: 1}
        return bracket.subs(numbers | {rho2[1]: polarity**2, s2[1]: s**2})

    half, more = sympy.Rational(1, 2), sympy.Rational(11, 20)
    weak, strong = sympy.Rational(1, 10), sympy.Rational(9, 10)
    printed.proves(
        exact.differ(at(weak, more), at(weak, half), ">="),
        breaks={"rho_k^2 > 6/(c + 6)": exact.differ(at(strong, more), at(strong, half), ">=")},
        at="rho = (1, 1/10), c = 9, s_2 from 1/2 to 11/20",
    )
    slope, edge = bracket.diff(s2[1]), 6 / (C + 6)
    corrected.proves(
        exact.nonnegative(slope.subs(rho2[1], edge + t), size * t * (C + 6) / 6),
        breaks={"weaker polarities": signed(slope.subs(rho2[1], edge - t))},
        at=AT,
    )
