"""What is shown of pair weights and of the slope F = -dL/dr_- (ddn App. B.4, Eqs. 58 to 77)."""

from typing import Any

import sympy
from sympy import exp

from clcore.checks.dual_networks.exact_pairs import Proof
from clcore.checks.dual_networks.residue.losses import INFONCE_1, MARGIN, TAU, TRIPLET, R
from clcore.ledger import exact

r = sympy.Symbol("r", real=True)


def _weight(loss: Any) -> Any:
    """xi(r) = -dL/dr_- at r_+ = 0, r_- = r."""
    return -sympy.diff(loss, R[1]).subs({R[0]: 0, R[1]: r})


def eq6() -> Proof:
    """The three weights as Eq. 6 has them."""
    lift, share = exp(-(r - MARGIN) / TAU), exp(-r / TAU)
    left = [_weight(loss) for loss in (TRIPLET, INFONCE_1)]
    right = [lift / (1 + lift), share / (1 + share) / TAU]
    return {
        "shown": exact.equal([_weight(R[0] - R[1]), *left], [1, *right]),
        "breaks": {
            "no margin": exact.equal(left[0], share / (1 + share)),
            "no 1/tau": exact.equal(left[1], share / (1 + share)),
        },
    }


def eq62() -> Proof:
    """The triplet's weight in its other form."""
    share, most = exp(-r / TAU), exp(-MARGIN / TAU)
    return {
        "shown": exact.equal(_weight(TRIPLET), share / (most + share)),
        "breaks": {"no margin": exact.equal(_weight(TRIPLET), share / (1 + share))},
    }


def falls() -> Proof:
    """-dxi/dr of both weights, as products of positive factors."""
    slopes = [-sympy.diff(_weight(loss), r) for loss in (TRIPLET, INFONCE_1)]
    lift, share = exp(-(r - MARGIN) / TAU), exp(-r / TAU)
    forms = [lift / (1 + lift) ** 2 / TAU, share / (1 + share) ** 2 / TAU**2]
    return {
        "shown": exact.nonnegative(slopes, forms),
        "breaks": {"in -r": exact.nonnegative([-s for s in slopes], forms)},
    }


def sharp() -> Proof:
    """The triplet's weight as tau -> 0, at p below the margin and p above it: 1 and 0."""
    p = sympy.Symbol("p", positive=True)
    ends = []
    for side in (MARGIN - p, MARGIN + p):
        ends.append(sympy.limit(sympy.simplify(_weight(TRIPLET).subs(r, side)), TAU, 0, "+"))
    return {
        "shown": exact.equal([p * end for end in ends], [p, 0]),
        "breaks": {"the sides exchanged": exact.equal([p * end for end in ends], [0, p])},
    }


def range_of_slope() -> tuple[Proof, Proof]:
    """0 < F < 1/tau and F (1/tau - F) < 1/tau^2, at F = 1 / (tau (1 + s)) with s > 0, which is
    exp((r_- - r_+)/tau). A number is positive if its reciprocal is nonnegative."""
    s = exp((R[1] - R[0]) / TAU)
    F = -sympy.diff(INFONCE_1, R[1])
    above, whole = 1 / (1 / TAU - F), TAU * (1 + s)
    rise = F * (1 / TAU - F)
    gap = (1 + s + s**2) / (1 + s) ** 2
    return {
        "shown": exact.nonnegative([1 / F, above], [whole, whole / s]),
        "breaks": {"F < 1": exact.nonnegative(1 / (1 - F), whole / s)},
    }, {
        "shown": exact.nonnegative(
            [1 / (1 - TAU**2 * rise), TAU**2 * rise], [1 / gap, s / (1 + s) ** 2]
        ),
        "breaks": {"1/tau for 1/tau^2": exact.nonnegative(1 / (1 - TAU * rise), 1 / gap)},
    }


def slopes_of_slope() -> Proof:
    """dF/dr_+ = F (1/tau - F) and dF/dr_- = -F (1/tau - F): the printed signs exchanged."""
    F = -sympy.diff(INFONCE_1, R[1])
    rise, found = F * (1 / TAU - F), [sympy.diff(F, v) for v in R[:2]]
    return {
        "shown": exact.equal(found, [rise, -rise]),
        "breaks": {
            "as typeset": exact.equal(found, [-rise, rise]),
            "1 - F for 1/tau - F": exact.equal(found, [F * (1 - F), -F * (1 - F)]),
        },
    }


def offsets() -> tuple[Proof, Proof]:
    """Eqs. 75 and 77 of vectors."""
    a, b, da, db = (exact.vector(name, 3) for name in ("a", "b", "x", "y"))
    left = (a + da - b - db).dot(a + da - b - db) - (a - b).dot(a - b)
    cross, square = (da - db).dot(a - b), (da - db).dot(da - db)
    return {
        "shown": exact.equal(left, 2 * cross + square),
        "breaks": {"no square": exact.equal(left, 2 * cross)},
        "at": "three dimensions",
    }, {
        "shown": exact.equal(left / 2, cross + square / 2),
        "breaks": {
            "no 1/2": exact.equal(left / 2, cross + square),
            "sum of offsets": exact.equal(left / 2, (da + db).dot(a - b) + square / 2),
        },
        "at": "three dimensions",
    }
