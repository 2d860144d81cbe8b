"""What is shown of what augmentation keeps: Assumption 1, Examples 2 and 3 (ddn Sec. 5)."""

from typing import Any

import numpy as np

from clcore.checks.dual_networks import symbols as sy
from clcore.checks.dual_networks.augmentation import rings
from clcore.checks.dual_networks.exact_pairs import Proof
from clcore.ledger import polynomials as poly

SIZES = (4, 5, 6)
RINGS = "d = 4, 5, 6"


def _images(d: int) -> Any:
    return rings.ring(d).astype(int).astype(object)


def mean_connection() -> Proof:
    """What a linear neuron with any weights sees of an object, over all its positions."""
    left, right = [], []
    for d in SIZES:
        (w,) = poly.arrays(w=(d,))
        drives = _images(d) @ w
        left += [place.sum(keepdims=True) for place in drives]
        right += 2 * [w.sum(keepdims=True) * 2]
    return {
        "shown": poly.equal(left, right),
        "breaks": {"1 / d": poly.unlike(left[0] * 2, right[0])},
        "at": RINGS,
    }


def _slopes(x: Any, w: Any, u: Any, p: Any) -> tuple[Any, Any]:
    """Derivatives of E[r_+] and of E[r_-] in the first tower, views x [o, v, k] of chances p."""
    near = far = p[0].ring.zero
    for a, i, b, j in np.ndindex(2, len(p), 2, len(p)):
        r = (x[a, i] @ u - x[b, j] @ w) ** 2 * sy.HALF * p[i] * p[j]
        near, far = near + (r * 2 if a == b else 0), far + r
    pull, push = (poly.put(poly.gradient(np.array(r), u), u, w) for r in (near, far))
    return pull, push


def nothing(window: bool) -> Proof:
    """Positives pull as negatives push, E[r_+] and E[r_-] over the ring of 4; `window`: the neuron
    sees two places."""
    d = 4
    x = _images(d)[..., : 2 if window else d]
    k = x.shape[-1]
    w, u, p = poly.arrays(w=(k,), u=(k,), p=(d,))
    even = np.full(d, p[0].ring.one)
    pull, push = _slopes(x, w, u, even)
    return {
        "shown": poly.equal(pull, push),
        "breaks": {"positions not uniform": poly.unlike(*_slopes(x, w, u, p))},
        "at": "d = 4",
    }


def _means(x: Any, d: int) -> Any:
    """d Kbar of both objects [2, ...] for any vectors x [4, ...] that stand for 00, 01, 10, 11."""
    seen = (_images(d)[..., :2] @ [2, 1]).astype(int)
    return np.stack([sum(x[p] for p in places) for places in seen])


def counts() -> Proof:
    """Kbar_1 of both objects as printed, over d."""
    (x,) = poly.arrays(x=(4,))
    left = [_means(x, d) for d in SIZES]
    right = [
        np.array([x[3] + x[1] + x[2] + x[0] * (d - 3), x[1] * 2 + x[2] * 2 + x[0] * (d - 4)])
        for d in SIZES
    ]
    return {
        "shown": poly.equal(left, right),
        "breaks": {"objects swapped": poly.unlike(left[0], right[0][::-1])},
        "at": RINGS,
    }


def operator() -> Proof:
    """d^2 V_{z_0}[Kbar] = u u^T / 4 for any vectors x_p."""
    (x,) = poly.arrays(x=(4, 2))
    u = x[3] + x[0] - x[1] - x[2]
    left = []
    for d in SIZES:
        means = _means(x, d)
        off = means - means.sum(0) * sy.HALF
        left.append((np.outer(off[0], off[0]) + np.outer(off[1], off[1])) * sy.HALF)
    right = np.outer(u, u) * sy.HALF * sy.HALF
    return {
        "shown": poly.equal(left, [right] * len(SIZES)),
        "breaks": {"1 / (2 d^2)": poly.unlike(left[0], right * 2)},
        "at": RINGS,
    }


# --------------------------------------------------------------------------- Assumption 1


def redrawn() -> Proof:
    """V over all x = (z_0, z') of the mean of views that redraw z', against V over z_0."""
    world, _ = sy.world(outputs=2)
    joint = world.p[:, None] * world.q

    def spread(K: Any) -> Any:
        mean = np.einsum("ab,abwk->wk", joint, K)
        return np.einsum("ab,abwk,abvk->wv", joint, K, K) - mean @ mean.T

    bar = np.stack([world.bar, world.bar], 1)  # the same for both z' of an object
    return {
        "shown": poly.equal(spread(bar), world.between),
        "breaks": {"no average over views": poly.unlike(spread(world.K), world.between)},
        "at": "two objects at two places, two outputs, a layer of two numbers",
    }
