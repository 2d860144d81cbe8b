"""Check of the last step of ncl Theorem 1(b)'s proof: from orthonormal columns to permutations."""

from itertools import combinations, product
from math import factorial

import sympy
import torch

from clcore.checks.landscape import symbols as sy
from clcore.checks.landscape.theorem1 import ONE_ROW_TWICE
from clcore.ledger import Trial, check, exact
from clcore.reference import tensors
from clcore.sweep import optim
from clcore.theory.sparse import mask_landscape as ml


def _families(m: int, d: int) -> int:
    """How many ways d columns on m rows can have supports that are disjoint and not empty."""
    supports = range(1, 2**m)

    def extend(used: int, left: int) -> int:
        if not left:
            return 1
        return sum(extend(used | s, left - 1) for s in supports if not used & s)

    return extend(0, d)


def _overlaps(W: sympy.MatrixBase) -> exact.Shown:
    """<W_i, W_j> as a sum of products of entries in one row, each at least 0."""
    pairs = list(combinations(range(W.cols), 2))
    forms = [sum(W[k, i] * W[k, j] for k in range(W.rows)) for i, j in pairs]
    return exact.nonnegative([W[:, i].dot(W[:, j]) for i, j in pairs], forms)


def _off_permutations(W: sympy.MatrixBase) -> exact.Shown:
    """sum_{i != j} <W_i, W_j>^2 is at least sum_ki w_ki^2 (|row k|^2 - w_ki^2). If W is orthogonal
    its rows have norm 1 and the left is 0, so that every w_ki is 0 or, for W >= 0, 1."""
    columns, rows = range(W.cols), range(W.rows)
    pairs = [(i, j) for i, j in product(columns, repeat=2) if i != j]
    left = sum(W[:, i].dot(W[:, j]) ** 2 for i, j in pairs)
    spread = sum(x**2 * (sy.square(W[k, :]) - x**2) for k in rows for x in W[k, :])
    form = sum(
        W[k, i] * W[k, j] * W[n, i] * W[n, j]
        for i, j in pairs
        for k, n in product(rows, repeat=2)
        if k != n
    )
    return exact.nonnegative(left - spread, form)


@check("ncl/thm1b-perm")
def thm1b_perm(t: Trial) -> None:
    """Nonnegative square matrices with orthonormal columns are permutations (App. A.1).

    Given   all supports of d columns on d rows, d <= 5; limits of alternating projections, d = 5.
    Claim   (1) Nonnegative orthonormal columns have disjoint supports, and d such supports on d
            rows form d! families, of one entry each. (2) Limits whose columns are orthonormal are
            permutations.
    Fails   (1) with one row more, where there are more families than partial permutations; (2) for
            two columns on one row; (1), (2) for columns of any sign.
    """
    # (1) Families of d supports of which no two meet, minus d!.
    supports = t.part("supports")
    supports.add(*(abs(_families(d, d) - factorial(d)) for d in (1, 2, 3, 4, 5)))
    wide = (abs(_families(d + 1, d) - factorial(d + 1)) for d in (2, 3, 4))
    supports.breaks("one row more", *wide)

    # An overlap of columns W >= 0 is 0 only where their supports are disjoint.
    supports.proves(
        _overlaps(sy.nonnegative("w", 3, 3)),
        breaks={"signs free": _overlaps(exact.matrix("w", 3, 3))},
        at="d = 3",
    )

    # (2) From random W >= 0 to the nearest orthogonal matrix, and back to W >= 0; where columns are
    # orthonormal in the end, how far they are from a permutation.
    d, runs = 5, max(20, min(t.draws, 200))
    (W,) = tensors(t.rng.random((runs, d, d)))
    for _ in range(400):
        U, _, V = torch.linalg.svd(W)
        W = (U @ V).clamp(min=0)
    W = optim.unit_columns(W)
    residual = (W.mT @ W - torch.eye(d, dtype=W.dtype)).abs().amax((-2, -1))
    limits = t.part("alternating projections", 1e-6)
    limits.add(ml.permutation_gap(W[residual < 1e-10]))
    free = (U @ V)[: int((residual < 1e-10).sum())]
    turned = free @ torch.linalg.qr(*tensors(t.rng.standard_normal((len(free), d, d)))).Q
    limits.breaks("orthogonal, signs free", ml.permutation_gap(turned))
    limits.breaks("two columns on one row", ml.permutation_gap(ONE_ROW_TWICE))
    limits.proves(
        _off_permutations(sy.nonnegative("w", 3, 3)),
        breaks={"orthogonal, signs free": _off_permutations(exact.matrix("w", 3, 3))},
        at="d = 3",
    )
