"""The ranges of Theorem 2's scalars in symbols (ncl App. C.1): c_t, lambda_t - c_t, C_1, C_2.

A number in (0, 1) is written as u / (1 + u) with u > 0, so that a sign can be read off.
"""

from functools import cache

import sympy
from sympy import Expr, Matrix

from clcore.checks.dynamics import linear_symbols as sym
from clcore.ledger import exact


def part_of(name: str) -> Expr:
    """Any number in (0, 1)."""
    u = sympy.Symbol(name, positive=True)
    return u / (1 + u)


def above(*values: Expr) -> exact.Shown:
    """Whether all values are above 0: numerator and denominator of each, as one fraction, are."""
    parts = [part for value in values for part in sympy.fraction(sympy.together(value))]
    return exact.positive(parts, [sympy.expand(part) for part in parts])


def coupling(eta: Expr, alpha: Expr, p_z: Expr, sigma: Expr) -> Expr:
    """c_t as the proof defines it."""
    return 2 * eta * alpha**2 * (2 * p_z + sigma**2)


def rate_in_unit(small: bool = True) -> exact.Shown:
    """c in (0, 1), for any noise level and any rate below 1 / [2 (1 + sigma_0^2)], or, not `small`,
    below 1."""
    s = sympy.Symbol("s", nonnegative=True)
    eta = part_of("e") / (2 * (1 + s**2) if small else 1)
    c = coupling(eta, part_of("a"), part_of("p") / 2, s)
    return above(c, 1 - c)


@cache
def own_factor() -> Expr:
    """By what one step on the enumerated loss multiplies the difference of two 1 x 1 networks."""
    own, other, M = exact.matrix("o", 1, 1), exact.matrix("w", 1, 1), Matrix([1])

    def moved(W: Matrix, V: Matrix) -> Expr:
        return (sym.DECAY * W - sym.ETA * sym.gradient(sym.loss(W, V, sym.data(M)), W))[0]

    return sympy.cancel((moved(own, other) - moved(other, own)) / (own - other)[0])


def decay_over_rate(over: bool = False) -> exact.Shown:
    """Whether `own_factor`, which is lambda - c, is above 0 for any rate below the limit, at which
    c = lambda, or `over` it."""
    alpha, p_z, decay = part_of("a"), part_of("p") / 2, sympy.Symbol("l", positive=True)
    sigma, share = sympy.Symbol("s", nonnegative=True), part_of("k")
    eta = decay / coupling(sympy.Integer(1), alpha, p_z, sigma) * (1 / share if over else share)
    at = {sym.ALPHA: alpha, sym.P_Z: p_z, sym.SIGMA: sigma, sym.ETA: eta, sym.DECAY: decay}
    return above(own_factor().subs(at))


def both_ends(step: Expr) -> exact.Shown:
    """C_1 in (-1, 1): `step`, its first factor, is, and so is C times x for any C, x in (-1, 1)."""
    C = 1 - 2 * part_of("C")
    x = 1 - 2 * part_of("x")
    return above(1 - step, 1 + step, 1 - C * x, 1 + C * x)


def unit_interval(step: Expr) -> exact.Shown:
    """C_1 in (0, 1): `step`, its first factor, is, and so is C times x for any C, x in (0, 1)."""
    C, x = part_of("C"), part_of("x")
    return above(step, 1 - step, C * x, 1 - C * x)


def free_step(size: int = 1) -> Expr:
    """lambda - c for any c in (0, 1) and lambda in (0, size)."""
    return size * part_of("l") - part_of("c")


def held_step(over: bool = False) -> Expr:
    """lambda - c for lambda in (0, 1) and any c below lambda, or `over` it."""
    decay, share = part_of("l"), part_of("c")
    return decay - decay * (1 / share if over else share)


def two_scalars(binary: bool = False) -> exact.Shown:
    """From C_1 W + C_2 (W^o + W^t), for both networks and any C_1 and C_2, one step of gradient
    descent with decay leads to the same with (lambda - c) C_1 and (lambda + c) C_2 + c C_1. Starts
    have C_1 = 1, C_2 = 0, so that it holds at every t. M = I; the gradient is that of
    ncl/thm2-grad0 with E[x x^T] by enumeration. `binary`: latents 0 and 1."""
    start = exact.matrix("o", 1, 2), exact.matrix("w", 1, 2)
    pull = -2 * sym.ALPHA**2 * sym.second_moment(sym.data(sympy.eye(2), binary)).expand()
    own, both = sympy.symbols("C_1 C_2", real=True)
    c = coupling(sym.ETA, sym.ALPHA, sym.P_Z, sym.SIGMA)

    def mixtures(own: Expr, both: Expr) -> list[Matrix]:
        return [own * W + both * (start[0] + start[1]) for W in start]

    online, target = mixtures(own, both)
    moved = [sym.DECAY * W - sym.ETA * V * pull for W, V in ((online, target), (target, online))]
    later = mixtures((sym.DECAY - c) * own, (sym.DECAY + c) * both + c * own)
    return exact.equal(moved, later)


def shared_above(sign: int = 1) -> exact.Shown:
    """From 1 x 1 networks W^o > 0, W^t >= 0 one step leads to W^o > 0, W^t > 0, for any c, lambda >
    0. From 1 and 0 the target is C_2, which is so above 0 at every t >= 1. Sign -1: ascent."""
    c, decay, online = sympy.symbols("c lambda o", positive=True)
    target = sympy.Symbol("w", nonnegative=True)
    moved = sym.trajectory(online, target, [sign * c], [decay])[-1]
    return exact.positive(list(moved), list(moved))
