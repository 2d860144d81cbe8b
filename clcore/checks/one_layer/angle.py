"""From the angle between unit vectors to their distance: nl Eqs. 81 to 83 (App. B.3)."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import relative, typical, worst


def eq83(draws: int, seed: int) -> Iterator[Check]:
    """Both inequalities for angles up to 1.5; the last step as "=" at the edge
    w.w_* = 1 - epsilon, and as "<=" with epsilon free.

    Controls: 0.9 of the right side at small angles; 1 + epsilon for 1 - epsilon; "=" with epsilon
    free.
    """
    rng, n = ref.generator("nl eq83", seed), 100 * draws
    check = partial(Check, "nl/eq83", draws=n)
    angle = 10.0 ** rng.uniform(-3, math.log10(1.5), n)
    x = np.cos(angle)
    arcs = np.arcsin(np.sqrt(1 - x**2)) / (np.sqrt(1 - x**2) / x)
    yield check(
        worst(np.array(arcs)) - 1, 1e-9, {"0.9 of it": typical(arcs / 0.9) - 1}, part="arcsin"
    )
    w, v = np.stack([x, np.sin(angle)], -1), np.array([1.0, 0.0])
    far = np.linalg.norm(w - v, axis=-1)
    yield check(
        worst(angle / (far / x)) - 1,
        1e-9,
        {"0.9 of it": typical(angle / (0.9 * far / x)) - 1},
        part="arccos",
    )
    # w.w_* >= 1 - epsilon: the edge lies further out than w, up to an angle of 1.5.
    edge = angle + (1.5 - angle) * rng.uniform(0, 1, n)
    free, root = 1 - np.cos(edge), np.sqrt(2 * (1 - w @ v)) / x
    small = free <= 0.05  # the paper's epsilon is much less than 1
    away = angle > 0.1  # at smaller angles epsilon hardly shows
    plus = (root / (far / (2 - x)))[away] - 1
    loose = relative(root, far / (1 - free))[small]
    yield check(
        max(worst(root / (far / (1 - free))) - 1, worst(relative(root, far / x))),
        1e-9,
        {"1 + epsilon at the edge": typical(plus), '"=" with epsilon free': typical(loose)},
        part="Eq. 83",
        note=r'"$=$" with $\epsilon=1-w^\top w_*$, "$\le$" for a larger $\epsilon$, which App. B.3 '
        r"allows ($w^\top w_*\ge1-\epsilon$); Eqs. 84 and 90 need no more. Fails as an equation "
        r"where $\epsilon$ is larger: $w^\top w_*=0.99$, $\epsilon=0.02$: $0.1428$ and $0.1443$.",
    )
