"""The step of Theorem 3's proof that moves the upper layers (acl App. A.2.2, Eqs. 44 to 48)."""

from itertools import pairwise

import numpy as np

from clcore.checks.deep_linear_pca.flow import layers, product, symmetric
from clcore.ledger import Trial, check, typical
from clcore.reference import Array, relative, sphere, unit

WIDTHS = ((3, 2), (4, 3, 2), (1, 4, 3), (5, 1, 3, 2), (3, 3, 3, 3, 2))
"""n_1, ..., n_L."""
PUSHES, SIZE = 100, 1e-3


def _length(ws: list[Array], u: Array) -> Array:
    """|W_L ... W_2 u|, [...]."""
    return np.linalg.norm(np.einsum("...ij,...j->...i", product(ws), u), axis=-1)


def _gain(rng: np.random.Generator, ws: list[Array], u: Array) -> Array:
    """[draws]: the most that a random push of 0.001 in the upper layers adds to |W_{>1} u|,
    relative."""
    here = _length(ws, u)
    moved = [unit(w + SIZE * rng.standard_normal((PUSHES, *w.shape)), (-2, -1)) for w in ws]
    return (_length(moved, u) / here - 1).max(0)


@check("acl/eq44")
def eq44(t: Trial) -> None:
    """A product of spectral norm below one can be moved to raise the energy (Eqs. 44-48).

    Given   random upper layers W_2..W_L of unit norms, not aligned; u the top right singular
            vector of W_{>1}; random symmetric X with top eigenvector v_0.
    Claim   (1) Some of 100 random pushes of 0.001 raises |W_{>1} u| for the same u. (2) With W_1 =
            u v_0^T kept, the energy after a push is lambda_max |W'_{>1} u|^2, by products of
            weights. (3) A push also gets away from W_{>1} = 0, whose top eigenvalue is distinct if
            n_1 = 1.
    Fails   (1) for aligned-rank-1 upper layers, which nothing raises; (2) for W_1 along the second
            eigenvector; (3) not pushed.
    """
    count = min(t.share(len(WIDTHS)), 100)
    raises = t.part("a push that raises", 1e-7, ">=").says(pushes=PUSHES, size=SIZE)
    energy = t.part("Eqs. 44-48", 1e-10, controls=typical)
    for widths in WIDTHS:
        # (1) The best of the pushes, from layers with |W_{>1}|_2 < 1 and from aligned ones.
        upper = [unit(w, (-2, -1)) for w in layers(t.rng, count, widths)]
        u = np.linalg.svd(product(upper), full_matrices=False)[2][:, 0]
        raises.add(_gain(t.rng, upper, u))
        directions = [sphere(t.rng, count, n) for n in widths]
        rank1 = [high[:, :, None] * low[:, None] for low, high in pairwise(directions)]
        raises.breaks("aligned-rank-1", _gain(t.rng, rank1, directions[0]))

        X = symmetric(t.rng, count, 4)
        values, vectors = np.linalg.eigh(X)
        moved = [unit(w + SIZE * t.rng.standard_normal(w.shape), (-2, -1)) for w in upper]
        eq48 = values[:, -1] * _length(moved, u) ** 2

        def error(column: int, X=X, u=u, moved=moved, vectors=vectors, eq48=eq48) -> Array:
            """Of the energy, W_1 along an eigenvector of X."""
            W = product([u[:, :, None] * vectors[:, None, :, column], *moved])
            return relative(np.einsum("bij,bjk,bik->b", W, X, W), eq48)

        # (2) tr(W X W^T) of all layers after a push.
        energy.add(error(-1)).breaks("along the second eigenvector", error(-2))

    # (3) W_{>1} = 0.
    _from_zero(t, count)


def _from_zero(t: Trial, count: int) -> None:
    """W_{>1} = 0, which has a distinct top eigenvalue where n_1 = 1: a push leaves it."""
    part = t.part("a push from $W_{>1}=0$, $n_1=1$", 1e-7, ">=", controls=typical)
    rng, u = t.stream("from zero"), np.ones((count, 1))
    upper = [rng.standard_normal((count, n, m)) for m, n in ((1, 4), (4, 3), (3, 2))]
    upper[0][:, 2:] = 0  # reaches the first two nodes
    upper[1][:, :, :2] = 0  # and the next layer hears the last two
    upper = [unit(w, (-2, -1)) for w in upper]
    moved = [unit(w + SIZE * rng.standard_normal((PUSHES, *w.shape)), (-2, -1)) for w in upper]
    part.add(_length(moved, u).max(0)).breaks("not pushed", _length(upper, u))
