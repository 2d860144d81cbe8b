"""From the angle between unit vectors to their distance: nl Eqs. 81 to 83 (App. B.3)."""

import math

import numpy as np
import sympy

from clcore.ledger import Part, Trial, check, exact, typical
from clcore.reference import relative


def _proofs(arcsin: Part, arccos: Part, edge: Part) -> None:
    """By slopes in s, the tangent of the angle: at s = 0 all is 0, and no slope is negative."""
    s, m, t = (sympy.Symbol(name, positive=True) for name in ("s", "m", "t"))
    x, root = 1 / sympy.sqrt(1 + s**2), s / sympy.sqrt(1 + s**2)
    same = [1 - x**2, root**2]  # root is sqrt(1 - x^2), not negative
    form = s**2 / (1 + s**2)

    def slope(share: sympy.Expr, angle: sympy.Expr) -> sympy.Expr:
        return (share * root / x - angle).diff(s)

    angles, part = (sympy.asin(root), sympy.acos(x)), sympy.Rational(9, 10)
    for place, angle in zip((arcsin, arccos), angles, strict=True):
        broken = {"0.9 of it": exact.nonnegative(slope(part, angle), form)}
        place.proves(exact.nonnegative(slope(sympy.Integer(1), angle), form), breaks=broken)
    arcsin.proves(exact.equal(*same), breaks={"1 - x": exact.equal(1 - x, same[1])})
    # sqrt(1 - c^2) <= sqrt(2 (1 - c)), squared, and 2 (1 - c) = |w - w_*|^2
    c = sympy.Symbol("c", real=True)
    w, v = exact.vector("w", 2), exact.vector("v", 2)
    wider, bare = (k * (1 - c) - (1 - c**2) for k in (2, 1))
    broken = {"1 for 2": exact.nonnegative(bare, (1 - c) ** 2)}
    arccos.proves(exact.nonnegative(wider, (1 - c) ** 2), breaks=broken)
    far = (w - v).dot(w - v) - (w.dot(w) - 1) - (v.dot(v) - 1)
    broken = {"1 for 2": exact.equal(far, 1 - w.dot(v))}
    edge.proves(exact.equal(far, 2 - 2 * w.dot(v)), breaks=broken, at="d = 2")
    # m = 1 - epsilon, and c = m + t at or above it
    gap, form = 1 / m - 1 / (m + t), t / (m * (m + t))
    broken = {"1 + epsilon at the edge": exact.nonnegative(1 / (2 - m) - 1 / (m + t), form)}
    edge.proves(exact.nonnegative(gap, form), breaks=broken)


@check("nl/eq83")
def eq83(t: Trial) -> None:
    """Angle between unit vectors bounded by their distance (Eqs. 81-83).

    Given   angles up to 1.5 between unit vectors; epsilon at the edge, and free.
    Claim   arcsin sqrt(1 - x^2) <= sqrt(1 - x^2)/x; arccos w^T w_* <= |w - w_*|/(1 - eps), the
            last step as an equation for eps = 1 - w^T w_* and as <= otherwise.
    Fails   for 0.9 of a right side, 1 + eps, and "=" with eps free, as typeset; in the proofs, for
            1 - x in place of 1 - x^2, and 1 in place of 2 in |w - w_*|^2 = 2 (1 - w^T w_*).
    """
    rng, n = t.rng, 100 * t.draws
    angle = 10.0 ** rng.uniform(-3, math.log10(1.5), n)
    x = np.cos(angle)

    # arcsin sqrt(1 - x^2) over its bound.
    arcs = np.arcsin(np.sqrt(1 - x**2)) / (np.sqrt(1 - x**2) / x)
    arcsin = t.part("arcsin", 1e-9, controls=typical).add(arcs - 1)
    arcsin.breaks("0.9 of it", np.median(arcs / 0.9) - 1)

    # The angle over its bound |w - w_*| / x, x = w^T w_*.
    w, v = np.stack([x, np.sin(angle)], -1), np.array([1.0, 0.0])
    far = np.linalg.norm(w - v, axis=-1)
    arccos = t.part("arccos", 1e-9, controls=typical).add(angle / (far / x) - 1)
    arccos.breaks("0.9 of it", np.median(angle / (0.9 * far / x)) - 1)

    # epsilon free, w.w_* >= 1 - epsilon: its edge lies further out than w, up to an angle of 1.5.
    edge = angle + (1.5 - angle) * rng.uniform(0, 1, n)
    free, root = 1 - np.cos(edge), np.sqrt(2 * (1 - w @ v)) / x
    small = free <= 0.05  # the paper's epsilon is much less than 1
    away = angle > 0.1  # at smaller angles epsilon hardly shows
    last = t.part("Eq. 83", 1e-9, controls=typical, draws=n)
    # sqrt(2 (1 - w^T w_*)) / x: <= with epsilon free, = at the edge, where 1 - epsilon is x.
    last.add(root / (far / (1 - free)) - 1, relative(root, far / x))
    last.breaks("1 + epsilon at the edge", (root / (far / (2 - x)))[away] - 1)
    last.breaks('as typeset, "=" with epsilon free', relative(root, far / (1 - free))[small])
    _proofs(arcsin, arccos, last)
