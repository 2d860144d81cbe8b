"""From the angle between unit vectors to their distance: nl Eqs. 81 to 83 (App. B.3)."""

import math

import numpy as np

from clcore.ledger import Trial, check, typical
from clcore.reference import relative


@check("nl/eq83", stream="nl eq83")
def eq83(t: Trial) -> None:
    """Both inequalities for angles up to 1.5; the last step as "=" at the edge
    w.w_* = 1 - epsilon, and as "<=" with epsilon free.

    Controls: 0.9 of the right side at small angles; 1 + epsilon for 1 - epsilon; "=" with epsilon
    free.
    """
    rng, n = t.rng, 100 * t.draws
    angle = 10.0 ** rng.uniform(-3, math.log10(1.5), n)
    x = np.cos(angle)
    arcs = np.arcsin(np.sqrt(1 - x**2)) / (np.sqrt(1 - x**2) / x)
    part = t.part("arcsin", 1e-9, controls=typical).add(arcs - 1)
    part.breaks("0.9 of it", np.median(arcs / 0.9) - 1)
    w, v = np.stack([x, np.sin(angle)], -1), np.array([1.0, 0.0])
    far = np.linalg.norm(w - v, axis=-1)
    part = t.part("arccos", 1e-9, controls=typical).add(angle / (far / x) - 1)
    part.breaks("0.9 of it", np.median(angle / (0.9 * far / x)) - 1)
    # w.w_* >= 1 - epsilon: the edge lies further out than w, up to an angle of 1.5.
    edge = angle + (1.5 - angle) * rng.uniform(0, 1, n)
    free, root = 1 - np.cos(edge), np.sqrt(2 * (1 - w @ v)) / x
    small = free <= 0.05  # the paper's epsilon is much less than 1
    away = angle > 0.1  # at smaller angles epsilon hardly shows
    part = t.part("Eq. 83", 1e-9, controls=typical, draws=n)
    part.add(root / (far / (1 - free)) - 1, relative(root, far / x))
    part.breaks("1 + epsilon at the edge", (root / (far / (2 - x)))[away] - 1)
    part.breaks('"=" with epsilon free', relative(root, far / (1 - free))[small])
