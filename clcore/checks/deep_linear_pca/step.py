"""The step of Theorem 3's proof that moves the upper layers (acl App. A.2.2, Eqs. 44 to 48)."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import layers, product, symmetric
from clcore.ledger import Check
from clcore.reference import Array, best, relative, typical, worst

WIDTHS = ((3, 2), (4, 3, 2), (1, 4, 3), (5, 1, 3, 2), (3, 3, 3, 3, 2))
"""n_1, ..., n_L."""
PUSHES, SIZE = 100, 1e-3


def _unit(ws: list[Array]) -> list[Array]:
    return [w / np.sqrt((w**2).sum((-1, -2), keepdims=True)) for w in ws]


def _read(ws: list[Array], u: Array) -> Array:
    """|W_L ... W_2 u|, [...]."""
    return np.linalg.norm(np.einsum("...ij,...j->...i", product(ws), u), axis=-1)


def _gain(rng: np.random.Generator, ws: list[Array], u: Array) -> Array:
    """[draws]: the most that a random push of 0.001 in the upper layers adds to |W_{>1} u|,
    relative."""
    here = _read(ws, u)
    moved = _unit([w + SIZE * rng.standard_normal((PUSHES, *w.shape)) for w in ws])
    return (_read(moved, u) / here - 1).max(0)


def eq44(draws: int, seed: int) -> Iterator[Check]:
    """Not aligned: a small push of W_2, ..., W_L raises |W_{>1} u| for the same u, and the energy.

    Energies by products of weights, against lambda_max |W_{>1} u|^2. Controls: aligned-rank-1 upper
    layers; W_1 along the second eigenvector.
    """
    rng = ref.generator("eq44", seed)
    raised, level, equal, second = [], [], [], []
    count = min(ref.share(draws, len(WIDTHS)), 100)
    for widths in WIDTHS:
        upper = _unit(layers(rng, count, widths))
        u = np.linalg.svd(product(upper), full_matrices=False)[2][:, 0]
        raised.append(_gain(rng, upper, u))
        vs = [rng.standard_normal((count, n)) for n in widths]
        vs = [v / np.linalg.norm(v, axis=-1, keepdims=True) for v in vs]
        rank1 = [b[:, :, None] * a[:, None] for a, b in pairwise(vs)]
        level.append(_gain(rng, rank1, vs[0]))
        X = symmetric(rng, count, 4)
        values, vectors = np.linalg.eigh(X)
        moved = _unit([w + SIZE * rng.standard_normal(w.shape) for w in upper])
        right = values[:, -1] * _read(moved, u) ** 2
        for column, found in ((-1, equal), (-2, second)):
            W = product([u[:, :, None] * vectors[:, None, :, column], *moved])
            found.append(relative(np.einsum("bij,bjk,bik->b", W, X, W), right))
    check = partial(Check, "acl/eq44")
    yield check(
        best(*raised),
        1e-7,
        {"aligned-rank-1": worst(*level)},
        relation=">=",
        draws=sum(map(len, raised)),
        part="a push that raises",
        note=f"Most of {PUSHES} random pushes of {SIZE:g}, relative. The proof first has "
        r"$\|W'_{>1}\|_2$ grow, 'or more specifically' $\|W'_{>1}u\|_2$; the second is more than "
        r"the first says, and true. ($\lambda_{\max}(W_{>1}^\top W_{>1})$ is $\|W_{>1}\|_2^2$; the "
        r"proof writes $\|W_{>1}\|_2$, and means both to be 1.) Where $W_{>1}=0$ it is the step "
        "before this one that fails: $W_1$ need not be $uv_0^\\top$ there, see acl/thm3.",
    )
    yield check(
        worst(*equal),
        1e-10,
        {"along the second eigenvector": typical(*second)},
        draws=count * len(WIDTHS),
        part="Eqs. 44-48",
        note=r"$\mathcal J(\theta')=\lambda_{\max}(X)\|W'_{>1}u\|_2^2$ for $W_1=uv_0^\top$.",
    )
