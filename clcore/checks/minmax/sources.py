"""Table 1 of acl once more, in numpy and by complex steps: the losses of its sources, written out.

That `clcore.losses` has these losses is tested in tests/losses/test_sources_by_hand.py.
"""

from collections.abc import Callable

import numpy as np

from clcore import reference as ref
from clcore.reference import Array, relative

Functions = tuple[ref.Function, ref.Function]


def apart(
    source: Callable[[Array, Array], Array], row: Functions, views: tuple, sphere: bool = False
) -> Array:
    """[draws]: the least error of row = factor * source + constant, in value and in gradient.

    The factor is the positive one that fits the gradients of all draws best. source: of two views.
    sphere: of both as functions of outputs that are divided by their norms first.
    """
    both = np.concatenate(views, -1)

    def joined(f: Callable) -> Callable:
        def at(v: Array) -> Array:
            halves = np.split(v, 2, -1)
            return f(*(map(ref.unit, halves) if sphere else halves))

        return at

    page = joined(lambda z, z2: ref.family_loss(*ref.distances(z, z2), *row))
    value, slope = page(both), ref.gradient(page, both)
    other, other_slope = joined(source)(both), ref.gradient(joined(source), both)
    factor = max(0.0, float((slope * other_slope).sum() / (other_slope**2).sum()))
    theirs = factor * other + (value - factor * other).mean()
    return np.maximum(relative(theirs, value, 1.0), relative(factor * other_slope, slope))


def simclr(z: Array, z2: Array, tau: float) -> Array:
    """NT-Xent of unit vectors, half of the sum over all 2N anchors."""
    n, total, both = z.shape[-2], np.zeros(()), np.concatenate([z, z2], -2)
    for i in range(2 * n):
        alike = [(both[..., i, :] * both[..., j, :]).sum(-1) / tau for j in range(2 * n)]
        others = sum(np.exp(s) for j, s in enumerate(alike) if j != i)
        total = total + (np.log(others) - alike[(i + n) % (2 * n)]) / 2
    return total


def mine(z: Array, z2: Array) -> Array:
    """Minus the Donsker-Varadhan bound of a batch: one logarithm."""
    inter, intra = ref.distances(z, z2)
    n = inter.shape[-1]
    others = [np.exp(-inter[..., i, j]) for i in range(n) for j in range(n) if i != j]
    return intra.sum(-1) / n + np.log(sum(others) / len(others))


def lifted(z: Array, z2: Array, margin: float = 1.0) -> Array:
    """Lifted structured, times twice the number of positive pairs: unsquared distances, negatives
    of both members, of both views."""

    def distance(a: Array, b: Array) -> Array:
        return np.sqrt(((a - b) ** 2).sum(-1))

    n, total = z.shape[-2], np.zeros(())
    for i in range(n):
        own, rest = (z[..., i, :], z2[..., i, :]), [j for j in range(n) if j != i]
        negatives = [view[..., j, :] for view in (z, z2) for j in rest]
        others = sum(np.exp(margin - distance(a, b)) for a in own for b in negatives)
        total = total + ref.rectified(np.log(others) + distance(*own)) ** 2
    return total


def _on_triplets(z: Array, z2: Array, f: Callable, g: Callable) -> Array:
    """Sum over anchors i of g(values over j != i of f(near, far)), both half squared distances."""
    inter, intra = ref.distances(z, z2)
    n = inter.shape[-1]
    return sum(
        g(np.stack([f(intra[..., i], inter[..., i, j]) for j in range(n) if j != i], -1))
        for i in range(n)
    )


def _on_products(z: Array, z2: Array, g: Callable) -> Array:
    """Sum over anchors i of g(z_i . z_j - z_i . z_i', over j != i)."""
    n = z.shape[-2]
    gaps = [
        [(z[..., i, :] * (z[..., j, :] - z2[..., i, :])).sum(-1) for j in range(n) if j != i]
        for i in range(n)
    ]
    return sum(g(np.stack(row, -1)) for row in gaps)


def tuplet(z: Array, z2: Array) -> Array:
    """N+1 tuplet, of inner products."""
    return _on_products(z, z2, lambda x: np.log(1 + np.exp(x).sum(-1)))


def linear(z: Array, z2: Array) -> Array:
    """Triplet contrastive, of inner products, its mean over negatives, without the regulariser."""
    return _on_products(z, z2, lambda x: x.mean(-1))


def modified_triplet(z: Array, z2: Array, c: float) -> Array:
    """Modified triplet, of cosine distances."""
    return _on_triplets(
        ref.unit(z), ref.unit(z2), np.subtract, lambda x: (1 / (1 + np.exp(-c * x))).sum(-1)
    )
