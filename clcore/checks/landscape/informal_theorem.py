"""Check of the informal theorem of ncl Sec. 2.1: bad optima of the non-contrastive loss alone.

Setting as in `theorem1`.
"""

from functools import partial

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from clcore.checks.landscape.recovery import misfit
from clcore.checks.landscape.theorem1 import descended, unit
from clcore.ledger import Trial, check, typical
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml


def distance(W: Array) -> float:
    """min over permutations P of |W - P|_F."""
    rows, columns = linear_sum_assignment(-W)
    P = np.zeros_like(W)
    P[rows, columns] = 1
    return float(np.linalg.norm(W - P))


def witnesses(rng: np.random.Generator, n: int, d: int) -> Array:
    """Members of U_> that are neither collapsed nor near a permutation, [n, d, d]."""
    t, eye = rng.uniform(0.6, 0.75, (n, 1, 1)), np.eye(d)
    return unit(eye + t * np.roll(eye, 1, 0) + 0.05 * rng.random((n, d, d)))


def _min_max_cosine(W: Array) -> Array:
    """[n]: Minimum max-cosine (Eq. 11) of W >= 0 at M = I."""
    return (W / np.linalg.norm(W, axis=-1, keepdims=True)).max(-2).min(-1)


def _lowest_ends(t: Trial, what: str, d: int, loss) -> list[float]:
    """Distances from the permutations of the ends of descents that are as low as I."""
    W = descended(t, what, max(40, min(t.draws, 100)), d, loss)
    value = loss(W)
    lowest = W[value < loss(torch.eye(d, dtype=W.dtype)) + 1e-9]
    return [distance(w) for w in lowest.numpy()]


@check("ncl/thm1")
def thm1(t: Trial) -> None:
    """Non-contrastive loss has infinitely many bad optima, contrastive loss none (Sec. 2.1).

    Given   Theorem 1's setting, d = 3, 5, 10: W of two neighbouring rows a column and a little of
            all others; ends of contrastive descents.
    Claim   These W are minimisers of full rank, far from all permutations by weights, by Eq. 11
            and by Eq. 9; contrastive ends are permutations.
    Fails   for permutations and W near them, a negative diagonal, columns around the uniform
            direction, ends of non-contrastive descents; under i.i.d. latents neither half is true.
    """
    n = min(t.draws, 200)
    minimal = t.part("minimisers", 1e-12)
    far = t.part("far from the truth", 0.5, ">=")
    cosine = t.part("far by Eq. 11", 0.9)
    outputs = t.part("far by Eq. 9", 0.3, ">=")
    rank = t.part("not collapsed", 0.1, ">=", controls=typical)
    contrastive = t.part("contrastive minimisers", 1e-3)
    for d in (3, 5, 10):
        W = witnesses(t.rng, n, d)
        far.add(np.array([distance(w) for w in W]))
        cosine.add(_min_max_cosine(W))
        outputs.add(np.array([misfit(np.maximum(w.T, 0), np.eye(d)) for w in W]))
        rank.add(np.linalg.svd(W, compute_uv=False)[:, -1])
        around = unit(1 + t.rng.uniform(0.2, 1, (n, 1, 1)) * t.rng.random((n, d, d)))
        rank.breaks(
            "columns around the uniform direction", np.linalg.svd(around, compute_uv=False)[:, -1]
        )
        minimal.add((ml.one_hot_non_contrastive(*tensors(W), 0.5) - 1.5).abs())
        signs = np.where(np.eye(d), -1, 1)
        minimal.breaks(
            "a negative diagonal",
            (ml.one_hot_non_contrastive(*tensors(signs * W), 0.5) - 1.5).abs(),
        )
    truth = np.eye(3)[[1, 2, 0]]
    for part, value in (
        (far, distance(truth)),
        (cosine, _min_max_cosine(truth[None])),
        (outputs, misfit(truth.T, np.eye(3))),
    ):
        part.breaks("permutations", value)
    near = unit(np.eye(3) + 0.05 * t.rng.random((n, 3, 3)))
    cosine.breaks("near a permutation", _min_max_cosine(near))
    outputs.breaks("near a permutation", np.array([misfit(w.T, np.eye(3)) for w in near]))
    others = []
    for d in (3, 5):
        loss = partial(ml.one_hot_contrastive, keep=0.5, tau=1.0)
        contrastive.add(np.array(_lowest_ends(t, f"contrastive {d}", d, loss)))
        others += _lowest_ends(t, f"not {d}", d, partial(ml.one_hot_non_contrastive, keep=0.5))
    contrastive.breaks("non-contrastive ends", np.array(others), by=typical)
    iid = ml.sparse(3, 0.3)
    first = unit(1 + t.rng.random((n, 3, 3)))
    some, equal = tensors(first, np.repeat(first[..., :1], 3, -1))
    excess = ml.non_contrastive(some, some, iid, 0.5) - ml.non_contrastive(equal, equal, iid, 0.5)
    minimal.breaks("i.i.d. latents, against equal columns", excess)
    pair = partial(ml.contrastive, law=ml.sparse(2, 0.3), keep=0.5, tau=5.0)
    W = descended(t, "iid", 12, 2, pair, 40)
    contrastive.breaks("i.i.d. latents, tau = 5", distance(W[pair(W).argmin()].numpy()))
