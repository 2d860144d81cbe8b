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

    Given   Theorem 1's setting with one-hot latents, alpha = 1/2, d = 2, 3, 5, 10: W >= 0
            whose columns have two large entries, in neighbouring rows, and small ones elsewhere;
            for the contrastive loss the ends of descents, d = 2, 3, 5.
    Claim   (1) These W have the least non-contrastive loss. (2) They are far from every
            permutation: by weights, by the Minimum of Eq. 11, by Eq. 9. (3) Their least singular
            value is not small. (4) The lowest contrastive ends are permutations.
    Fails   (1) for a negative diagonal; (2) for permutations and W near them; (3) for columns
            around the uniform direction; (4) for ends of non-contrastive descents. Under i.i.d.
            latents neither (1) nor (4) is true.
    """
    n = min(t.draws, 200)
    W, around = {}, {}
    for d in (2, 3, 5, 10):
        W[d] = witnesses(t.rng, n, d)
        around[d] = unit(1 + t.rng.uniform(0.2, 1, (n, 1, 1)) * t.rng.random((n, d, d)))
    truth, near = np.eye(3)[[1, 2, 0]], unit(np.eye(3) + 0.05 * t.rng.random((n, 3, 3)))

    # (1) W has the least loss, 2 - 2 alpha^2 = 1.5; under i.i.d. latents equal columns have less.
    minimal = t.part("minimisers", 1e-12)
    for d, w in W.items():
        signs = np.where(np.eye(d), -1, 1)
        least, more = (ml.one_hot_non_contrastive(*tensors(v), 0.5) for v in (w, signs * w))
        minimal.add((least - 1.5).abs()).breaks("a negative diagonal", (more - 1.5).abs())
    iid = ml.sparse(3, 0.3)
    first = unit(1 + t.rng.random((n, 3, 3)))
    free, equal = tensors(first, np.repeat(first[..., :1], 3, -1))
    excess = ml.non_contrastive(free, free, iid, 0.5) - ml.non_contrastive(equal, equal, iid, 0.5)
    minimal.breaks("i.i.d. latents, against equal columns", excess)

    # (2) Far from every permutation: the weights,
    far = t.part("far from the truth", 0.5, ">=")
    far.add(*(np.array([distance(w) for w in some]) for some in W.values()))
    far.breaks("permutations", distance(truth))
    # the Minimum max-cosine of Eq. 11,
    cosine = t.part("far by Eq. 11", 0.9).add(*map(_min_max_cosine, W.values()))
    cosine.breaks("permutations", _min_max_cosine(truth[None]))
    cosine.breaks("near a permutation", _min_max_cosine(near))
    # and the outputs of the d latents, as Eq. 9 compares them.
    outputs = t.part("far by Eq. 9", 0.3, ">=")
    for d, some in W.items():
        outputs.add(np.array([misfit(np.maximum(w.T, 0), np.eye(d)) for w in some]))
    outputs.breaks("permutations", misfit(truth.T, np.eye(3)))
    outputs.breaks("near a permutation", np.array([misfit(w.T, np.eye(3)) for w in near]))

    # (3) The least singular value.
    rank = t.part("not collapsed", 0.1, ">=", controls=typical)
    for d, w in W.items():
        rank.add(np.linalg.svd(w, compute_uv=False)[:, -1])
        beside = np.linalg.svd(around[d], compute_uv=False)[:, -1]
        rank.breaks("columns around the uniform direction", beside)

    # (4) How far the lowest ends of descents are from a permutation.
    contrastive, others = t.part("contrastive minimisers", 1e-3), []
    for d in (2, 3, 5):
        loss = partial(ml.one_hot_contrastive, keep=0.5, tau=1.0)
        contrastive.add(np.array(_lowest_ends(t, f"contrastive {d}", d, loss)))
        others += _lowest_ends(t, f"not {d}", d, partial(ml.one_hot_non_contrastive, keep=0.5))
    contrastive.breaks("non-contrastive ends", np.array(others), by=typical)
    pair = partial(ml.contrastive, law=ml.sparse(2, 0.3), keep=0.5, tau=5.0)
    ends = descended(t, "iid", 12, 2, pair, 40)
    contrastive.breaks("i.i.d. latents, tau = 5", distance(ends[pair(ends).argmin()].numpy()))
