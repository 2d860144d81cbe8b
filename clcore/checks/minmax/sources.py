"""Table 1 of acl once more, in numpy and by complex steps: the losses of its sources, written out,
and how the library's phi and psi stand to the page's.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Trial
from clcore.reference import Array, relative, tensors

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
            if sphere:
                halves = [h / np.sqrt((h**2).sum(-1, keepdims=True)) for h in halves]
            return f(*halves)

        return at

    page = joined(lambda z, z2: ref.family_loss(*ref.distances(z, z2), *row))
    value, slope = page(both), ref.gradient(page, both)
    other, other_slope = joined(source)(both), ref.gradient(joined(source), both)
    factor = max(0.0, float((slope * other_slope).sum() / (other_slope**2).sum()))
    theirs = factor * other + (value - factor * other).mean()
    return np.maximum(relative(theirs, value, 1.0), relative(factor * other_slope, slope))


def simclr(z: Array, z2: Array, tau: float) -> Array:
    """NT-Xent of unit vectors, half of the sum over all 2N anchors."""
    n, total, both = z.shape[-2], 0.0, np.concatenate([z, z2], -2)
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


def lifted(
    z: Array,
    z2: Array,
    margin: float = 1.0,
    squared: bool = False,
    both: bool = True,
    second_views: bool = True,
) -> Array:
    """Lifted structured, times twice the number of positive pairs: unsquared distances, negatives
    of both members, of both views."""

    def distance(a: Array, b: Array) -> Array:
        square = ((a - b) ** 2).sum(-1)
        return square / 2 if squared else np.sqrt(square)

    n, total = z.shape[-2], 0.0
    for i in range(n):
        own = z[..., i, :], z2[..., i, :]
        others = [
            np.exp(margin - distance(a, view[..., j, :]))
            for a, same in zip(own if both else own[:1], (z, z2), strict=False)
            for view in ((z, z2) if second_views else (same,))
            for j in range(n)
            if j != i
        ]
        total = total + ref.rectified(np.log(sum(others)) + distance(*own)) ** 2
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
    unit = (v / np.sqrt((v**2).sum(-1, keepdims=True)) for v in (z, z2))
    return _on_triplets(*unit, np.subtract, lambda x: (1 / (1 + np.exp(-c * x))).sum(-1))


def same_values(t: Trial, views: tuple, tau: float, margin: float, c: float) -> None:
    """The sources' losses in numpy, their constants and factors too, which the rows leave free.

    Controls: sums for means, in a logarithm or outside of it.
    """
    part = t.defines("clcore's losses of the sources", 1e-12)
    n = views[0].shape[-2]
    unit = [v / np.linalg.norm(v, axis=-1, keepdims=True) for v in views]

    def by_hand(g: Callable, f: Callable = np.subtract) -> Array:
        return _on_triplets(*views, f, g)

    def summed(x: Array) -> Array:
        return x.sum(-1)

    def with_margin(near: Array, far: Array) -> Array:
        return tau * np.log(1 + np.exp((near - far + margin) / tau))

    def anchored(x: Array, mean: bool = True) -> Array:
        return np.log(np.exp(x).mean(-1) if mean else np.exp(x).sum(-1))

    batch = {
        losses.source_mine: mine(*views),
        losses.source_mine_per_sample: by_hand(anchored),
        partial(losses.source_infonce, tau=tau): by_hand(
            lambda x: np.log(1 + np.exp(x / tau).sum(-1))
        ),
        partial(losses.source_triplet, margin=margin): by_hand(
            summed, lambda near, far: ref.rectified(2 * near - 2 * far + margin)
        ),
        partial(losses.source_soft_triplet, tau=tau, margin=margin): by_hand(summed, with_margin),
        partial(losses.source_modified_triplet, c=c): modified_triplet(*views, c),
        losses.source_tuplet: tuplet(*views),
        losses.source_linear: linear(*views),
        partial(losses.source_simclr, tau=tau): simclr(*unit, tau),
    }
    for squared, both, second in product((False, True), repeat=3):
        changes = {"margin": margin, "squared": squared, "both": both, "second_views": second}
        batch[partial(losses.source_lifted, **changes)] = lifted(*views, **changes)
    for source, values in batch.items():
        part.add(relative(source(*tensors(*views)), values, 1.0))
    per_anchor = losses.source_mine_per_sample(*tensors(*views))
    part.breaks(
        "a sum in each logarithm", relative(by_hand(lambda x: anchored(x, False)), per_anchor)
    )
    meant = losses.source_linear(*tensors(*views))
    part.breaks("a sum over negatives", relative((n - 1) * meant.numpy(), meant))


def same_functions(t: Trial, pairs: list[losses.Pair], page: Mapping[str, Functions]) -> None:
    """phi, psi, their slopes, and both in terms of log sum psi, on a grid. Controls: the kink of
    [.]_+ moved to 0; phi' left out of a slope in log x."""
    part = t.defines("clcore's phi and psi", 1e-12, draws=1)
    x, u = np.linspace(-3, 3, 201) + 1e-3, np.linspace(-4, 4, 201) + 1e-3
    at_x, at_u = torch.from_numpy(x), torch.from_numpy(u)

    def apart(ours: torch.Tensor, theirs: Array) -> Array:
        return np.abs(ours.numpy() - theirs) / np.maximum(1.0, np.abs(theirs))

    for pair in pairs:
        phi, psi = page[pair.name]
        grow = np.exp(u)
        in_log = ref.slope(lambda v, phi=phi: phi(np.exp(v)), u)
        part.add(apart(pair.phi(at_u.exp()), phi(grow)), apart(pair.psi(at_x), psi(x)))
        part.add(apart(pair.dphi(at_u.exp()), ref.slope(phi, grow)))
        part.add(apart(pair.dpsi(at_x), ref.slope(psi, x)))
        if pair.log is not None:
            part.add(apart(pair.log.phi(at_u), phi(grow)), apart(pair.log.dphi(at_u), in_log))
            part.add(apart((at_x / pair.log.tau + pair.log.shift).exp(), psi(x)))
            missed = np.abs(in_log - ref.slope(phi, grow)).max()
            part.breaks(f"{pair.name}, slope in x for that in log x", missed)
    hinge = np.abs(ref.rectified(x) - page["Triplet"][1](x)).max()
    part.breaks("the margin of Triplet left out", hinge)
