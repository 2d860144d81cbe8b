"""Which weights alpha belong to a loss of the family of Eq. 1 (acl Sec. 3.2, after Corollary 1).

Two marks of every pair (phi, psi), whatever it is: alpha_ij = phi'(xi_i) psi'(d_i - d_ij) does not
change if d_i and all d_ij of a row move together, and the ratio of two weights of a row does not
depend on a third distance. And one mark of weights of any loss of the distances: the field with
-alpha_ij for d_ij has a symmetric Jacobian.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Trial, check, typical
from clcore.losses import contrast, minplayer
from clcore.reference import Array, relative, tensors

_TAU = 0.5
Weights = Callable[[Array, Array], Array]
"""alpha [draws, n, n] of inter [draws, n, n] and intra [draws, n]."""


def _of_pair(pair: losses.Pair) -> Weights:
    """The weights of Eq. 4 for a pair (phi, psi), by the library, from distances."""
    return lambda inter, intra: contrast.importance_of_distances(
        *tensors(inter, intra), pair
    ).numpy()


def _of_player(solve: Callable) -> Weights:
    return lambda inter, intra: solve(*tensors(2 * (inter - intra[..., None]))).numpy()


SECTION_6: dict[str, Weights] = {
    "entropy": _of_player(lambda c: minplayer.entropy_weights(c, _TAU)),
    "inverse": _of_player(lambda c: minplayer.inverse_weights(c, _TAU, 2.0)),
    "square": _of_player(lambda c: minplayer.square_weights(c, 5.0)),
    "direct": lambda inter, intra: minplayer.direct_weights(*tensors(inter), 2.0, _TAU).numpy(),
}
"""The four losses of Sec. 6 by the weights that they give to distances."""


def _marks(weights: Weights, inter: Array, intra: Array) -> Array:
    """[draws]: how far weights are from the marks of the family, the larger error of the two."""
    off = ~np.eye(inter.shape[-1], dtype=bool)
    alpha = weights(inter, intra)
    moved = weights(inter + 0.3 * off, intra + 0.3)
    third = inter.copy()
    third[:, 0, 3] += 0.2
    other = weights(third, intra)
    # square weights may leave out both pairs
    both = (np.maximum(a[:, 0, 1] + a[:, 0, 2], 1e-300) for a in (alpha, other))
    ratio, now = (a[:, 0, 1] / sum_ for a, sum_ in zip((alpha, other), both, strict=True))
    return np.maximum(relative(moved, alpha), np.abs(now - ratio))


def _asymmetry(weights: Weights, inter: Array, intra: Array) -> Array:
    """[draws]: of the Jacobian d alpha_0j / d d_0k, central differences, over its size."""
    n, h = inter.shape[-1], 1e-5
    columns = []
    for k in range(1, n):
        up, down = inter.copy(), inter.copy()
        up[:, 0, k] += h
        down[:, 0, k] -= h
        columns.append((weights(up, intra) - weights(down, intra))[:, 0, 1:] / (2 * h))
    jacobian = np.stack(columns, -1)
    return relative(jacobian, jacobian.swapaxes(-1, -2))


@check("acl/num22")
def num22(t: Trial) -> None:
    """Choosing φ and ψ amounts to choosing α for one energy (Sec. 3.2, after Corollary 1).

    Given   the pairs (phi, psi) of Table 1 at tau = 1/2, random batches of 6, for (2) and (3) with
            distances times 0.3; weights of Sec. 6.1: entropy, inverse, square, direct.
    Claim   (1) Other functions, other weights: alpha of any two rows of Table 1 differ by 1e-3 or
            more (median). (2) Weights of a smooth pair (not Triplet, not Lifted Structured) and of
            entropy have two marks: alpha stays if all distances of a row move together, and a ratio
            of two weights of a row does not depend on a third distance. (3) For weights of any loss
            of the distances, as entropy's and inverse ones, d alpha_ij / d d_ik is symmetric.
    Fails   (1) for two names of one pair (InfoNCE at eps = tau = 1 is N+1 Tuplet); (2) for
            inverse, square and direct weights, which belong to no (phi, psi); (3) for direct
            weights with p = 2, which belong to no loss at all.
    """
    count = min(t.draws, 100)
    wide = ref.distances(*ref.views(t.rng, count, 6, 3))
    inter, intra = (0.3 * d for d in wide)
    table = losses.table1(_TAU)

    # (1) Weights of one row of Table 1 against those of another.
    other = t.part("other functions, other weights", 1e-3, ">=", draws=count)
    for first, second in combinations([_of_pair(pair)(*wide) for pair in table], 2):
        other.add(np.median(relative(second, first)))
    tuplet = next(p for p in table if p.name == "N+1 Tuplet")
    same = [_of_pair(p)(inter, intra) for p in (tuplet, losses.infonce_pair(1.0, 1.0))]
    other.breaks("InfoNCE at eps = tau = 1 and N+1 Tuplet, one pair", relative(*same))

    # (2) Weights after all distances moved by 0.3, and the share of one in two weights after a
    # third distance moved, against those before.
    marks = t.part("marks of the family", 1e-9, draws=count)
    smooth = [p for p in table if p.name not in ("Triplet", "Lifted Structured")]
    marks.add(*(_marks(_of_pair(pair), inter, intra) for pair in smooth))
    marks.add(_marks(SECTION_6["entropy"], inter, intra))
    for name in ("inverse", "square", "direct"):
        by = typical if name == "square" else None
        marks.breaks(name, _marks(SECTION_6[name], inter, intra), by=by)

    # (3) The Jacobian of a row's weights against its transpose.
    any_loss = t.part("weights of any loss of the distances", 1e-5, draws=count)
    any_loss.add(*(_asymmetry(SECTION_6[name], inter, intra) for name in ("entropy", "inverse")))
    any_loss.breaks("direct", _asymmetry(SECTION_6["direct"], inter, intra))
