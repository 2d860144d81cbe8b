"""Steps of the proof of Theorem 1 between Eqs. 56 and 65 (nl App. B.3)."""

from collections.abc import Callable

import numpy as np

from clcore.checks.one_layer.eigenvectors.families import across, pushed, tight
from clcore.ledger import Trial, typical
from clcore.reference import Array, tangent, unit


def split(t: Trial) -> None:
    """Eqs. 57 and 58 leave out second order only, and |u^T P_v x| <= |x| (Eq. 61)."""
    rng, n = t.stream("split"), t.draws
    A, w, second, _ = tight(rng, n, rng.uniform(0.2, 0.98, n))
    u, base = unit((second + across(rng, w)) / 2), A(w)
    top = np.einsum("bi,bij,bj->b", w, base, w)[:, None]

    def left(e: float, first: bool) -> Array:
        """What is left of P_v A(v) v at a turn of e: without P_w (A(w_*) - lambda_*) e u and
        P_v (A(v) - A(w_*)) v, or without the first alone."""
        v = np.sqrt(1 - e**2) * w + e * u
        straight = tangent(w, np.einsum("bij,bj->bi", base, u) - top * u)
        turned = 0 if first else pushed(A(v) - base, v)
        return np.linalg.norm(pushed(A(v), v) - e * straight - turned, axis=-1)

    part = t.part("Eqs. 57, 58", 0.05, controls=typical)
    # By how much the slope between both turns falls short of 2.
    rates = [2 - np.log10(left(1e-2, one) / left(1e-3, one)) for one in (False, True)]
    part.add(rates[0]).breaks("A(w_*) for A(v)", rates[1])
    x = rng.standard_normal((n, 4))
    v = np.sqrt(1 - 1e-2) * w + 0.1 * u
    seen = unit(tangent(v, x))  # the unit vector that reads most of it
    size, some = np.linalg.norm(x, axis=-1), t.part("Eq. 61", 1e-12, controls=typical)
    for reader in (seen, u):
        some.add(np.abs((tangent(v, reader) * x).sum(-1)) - size)
    some.breaks("half of the right side", np.abs((seen * x).sum(-1)) - size / 2)


def moved_twice(t: Trial) -> None:
    """Eqs. 63 and 64: |(A(v) - A(w_*)) v| exceeds rho epsilon by second order, unless A jumps."""
    rng, n = t.stream("moved twice"), t.draws
    share = rng.uniform(0.2, 0.98, n)
    moved = t.both("Eqs. 63, 64", 3.0, controls=typical)
    jump, w, second, gap = tight(rng, n, share, power=0)
    smooth, w2, other, gap2 = tight(rng, n, share)
    for e in (1e-2, 1e-3):

        def excess(A: Callable, w: Array, second: Array, gap: Array, e: float = e) -> Array:
            # (|(A(v) - A(w_*)) v| - rho e) / e^2
            v = np.sqrt(1 - e**2) * w + e * second
            change = np.einsum("bij,bj->bi", A(v) - A(w), v)
            return (np.linalg.norm(change, axis=-1) - share * gap * e) / e**2

        # Families that jump, by the matrices and in closed form; then those that do not.
        leaps = excess(jump, w, second, gap)
        aside = gap * (share * np.sqrt(1 - e**2) + 1)
        again = (np.hypot(aside, share * gap * e) - share * gap) / e
        moved.printed.add(leaps).fails_by(again, within=1e-8)
        within = excess(smooth, w2, other, gap2)
        moved.corrected.add(within).breaks("A jumps", leaps)
        moved.breaks("half of rho", within + share * gap2 / 2 / e)
