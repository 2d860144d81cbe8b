"""Which weights alpha belong to a loss of the family of Eq. 1 (acl Sec. 3.2, after Corollary 1).

Two marks of every pair (phi, psi), whatever it is: alpha_ij = phi'(xi_i) psi'(d_i - d_ij) does not
change if d_i and all d_ij of a row move together, and the ratio of two weights of a row does not
depend on a third distance. And one mark of weights of any loss of the distances: the field with
-alpha_ij for d_ij has a symmetric Jacobian.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast, minplayer
from clcore.reference import Array, best, relative, tensors, worst

_TAU = 0.5
Weights = Callable[[Array, Array], Array]
"""alpha [draws, n, n] of inter [draws, n, n] and intra [draws, n]."""


def _of_pair(pair: losses.Pair) -> Weights:
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


def _marks(weights: Weights, inter: Array, intra: Array) -> Array:
    """[draws]: how far weights are from both marks of the family."""
    off = ~np.eye(inter.shape[-1], dtype=bool)
    alpha = weights(inter, intra)
    moved = weights(inter + 0.3 * off, intra + 0.3)
    third = inter.copy()
    third[:, 0, 3] += 0.2
    other = weights(third, intra)
    ratio, now = (a[:, 0, 1] / (a[:, 0, 1] + a[:, 0, 2]) for a in (alpha, other))
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


def num22(draws: int, seed: int) -> Iterator[Check]:
    """Pairs (phi, psi) of Table 1 give different alpha; what marks them, and who lacks the marks.

    Controls: two names of one pair; the inverse, square and direct weights of Sec. 6.1.
    """
    rng = ref.generator("num22", seed)
    count = min(draws, 100)
    z, z2 = ref.views(rng, count, 6, 3)
    wide = ref.distances(z, z2)
    inter, intra = (0.3 * d for d in wide)
    check = partial(Check, "acl/num22", draws=count)
    found = [_of_pair(pair)(*wide) for pair in losses.table1(_TAU)]
    apart = [relative(found[a], found[b]) for a in range(len(found)) for b in range(a)]
    tuplet = next(p for p in losses.table1(_TAU) if p.name == "N+1 Tuplet")
    same = [_of_pair(p)(inter, intra) for p in (tuplet, losses.infonce_pair(1.0, 1.0))]
    yield check(
        ref.typical(*apart),
        1e-3,
        {"InfoNCE at eps = tau = 1 and N+1 Tuplet, one pair": worst(relative(*same))},
        relation=">=",
        part="other functions, other weights",
        note="Relative difference between the weights of two rows of Table 1, the least of all "
        "pairs of rows, median over draws.",
    )
    marks = {name: _marks(w, inter, intra) for name, w in SECTION_6.items()}
    smooth = [p for p in losses.table1(_TAU) if p.name not in ("Triplet", "Lifted Structured")]
    family = [_marks(_of_pair(pair), inter, intra) for pair in smooth]
    yield check(
        worst(*family, marks["entropy"]),
        1e-9,
        {name: best(marks[name]) for name in ("inverse", "direct")}
        | {"square": float(np.median(marks["square"]))},
        part="marks of the family",
        note="Change of the weights if all distances of a row move together, and of the ratio of "
        "two if a third distance moves: none for any $(\\phi,\\psi)$. Fails where $\\alpha$ is "
        "chosen by another regulariser of Sec. 6.1 or directly with $p=2$: such weights belong to "
        "no loss of the family. The sentence is read as going from the family to $\\alpha$.",
    )
    turned = {name: _asymmetry(w, inter, intra) for name, w in SECTION_6.items()}
    yield check(
        worst(turned["entropy"], turned["inverse"]),
        1e-5,
        {"direct": best(turned["direct"])},
        part="weights of any loss of the distances",
        note=r"Asymmetry of $\partial\alpha_{ij}/\partial d_{ik}$. The minimiser's weights are a "
        "gradient, that of the minimum, and so belong to a loss, if not of the family; the direct "
        "ones with $p=2$ to none: following them is no descent on a function of the distances.",
    )
