"""Checks of the proof of ncl Theorem 1(b): Eqs. 19 to 21, orthogonality, permutations.

One function a claim, named after it. Setting as in `landscape.contrastive_landscape`.
"""

from itertools import product
from math import factorial

import numpy as np
import torch

from clcore.checks.landscape.contrastive_landscape import all_permutations
from clcore.checks.landscape.surrogate import rises
from clcore.checks.landscape.theorem1 import members, unit
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import tensors
from clcore.sweep import optim
from clcore.theory.sparse import mask_landscape as ml

SIZES = (2, 3, 4)
SETTINGS = tuple(product((0.3, 0.5, 1.0), (0.1, 1.0, 5.0)))  # (alpha, tau)


@check("ncl/eq19", stream="eq19")
def eq19(t: Trial) -> None:
    """The least similarity of two masked views over random W and masks. Control: no ReLU."""
    least = t.part()
    for d in (2, 4, 8):
        W = t.rng.standard_normal((min(t.draws, 100), d, d))
        D1, D2 = (t.rng.random((2, len(W), d, d)) < 0.6).astype(float)  # a mask a column
        u, v = W * D1.diagonal(0, 1, 2)[:, None], W * D2.diagonal(0, 1, 2)[:, None]
        least.add(-(np.swapaxes(u.clip(0), 1, 2) @ v.clip(0)).min((-2, -1)))
        least.breaks("no ReLU", -(np.swapaxes(u, 1, 2) @ v).min())


def _printed_bound(
    d: int, alpha: float, tau: float, own: bool = False, power: float = 1.0, one: bool = False
) -> float:
    """The right side of Eq. 20 by a loop over pairs of masks; `own`: the entries ii for traces;
    g to a power; `one`: D_2 in both places, the printed subscripts of E by the letter."""
    total = 0.0
    for D1 in product((0, 1), repeat=d):
        for D2 in product((0, 1), repeat=d):
            q = np.prod(np.where(np.array(D1 + D2), alpha, 1 - alpha))
            first = D2 if one else D1
            for i in range(d):
                g = np.exp(power * tau * (first[i] * D2[i] if own else sum(first) * sum(D2)))
                total -= q * np.log(1 / (1 + (d - 1) / g))
    return total


@check("ncl/eq20", stream="eq20")
def eq20(t: Trial) -> None:
    """Eq. 20 with the printed g, by loops over masks, at random W, with the E over D_1, D_2.

    The right side falls as g grows, so that only a smaller g can fail: controls are the square root
    of the g that Eq. 18 gives, and columns of norm 2d; by the letters D_2 stands twice.
    """
    n, slack = min(t.draws, 100), []
    bound = t.part("bound", 1e-12)
    formula = t.part("closed form of the right side", 1e-12, controls=pooled)
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        right = _printed_bound(d, alpha, tau)
        formula.add(abs(right - ml.proof_bound(d, alpha, tau, "traces")))
        own = abs(right - ml.proof_bound(d, alpha, tau, "own"))
        formula.breaks("own entries for the traces", own)
        if alpha < 1:  # at 1 all masks are one
            twice = abs(_printed_bound(d, alpha, tau, one=True) - right)
            formula.breaks("as typeset, D_2 twice", twice)
        P = float(ml.one_hot_surrogate(torch.eye(d, dtype=torch.float64), alpha, tau))
        slack.append(P - right)
        W = torch.cat(
            [*tensors(members(t.rng, n, d), members(t.rng, n, d, True)), all_permutations(d)]
        )
        bound.add(right - ml.one_hot_surrogate(W, alpha, tau).numpy())
        scaled = 2 * d * torch.eye(d, dtype=W.dtype)
        longer = right - float(ml.one_hot_surrogate(scaled, alpha, tau))
        bound.breaks("columns of norm 2d", longer, by=worst)
        root = _printed_bound(d, alpha, tau, own=True, power=0.5) - P
        bound.breaks("the root of Eq. 18's g", root)
    bound.says(slack=min(slack))


@check("ncl/eq20-eq", stream="eq20-eq")
def eq20_eq(t: Trial) -> None:
    """The gap of Eq. 20 at all permutations, with g as printed and with D_1,ii D_2,ii alone.

    Control: random members of U, whose gap is not zero.
    """
    n = min(t.draws, 100)
    forms = t.part("equality", 1e-12), t.corrected("equality", 1e-12)
    unique = t.part("no other W", 1e-9, ">=")
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        P = ml.one_hot_surrogate(all_permutations(d), alpha, tau).numpy()
        W = np.concatenate([members(t.rng, n, d), unit(0.1 + t.rng.random((n, d, d)))])
        value = ml.one_hot_surrogate(*tensors(W), alpha, tau).numpy()
        for form, own in zip(forms, (False, True), strict=True):
            right = _printed_bound(d, alpha, tau, own)
            form.add(np.abs(P - right)).breaks("other W", value - right)
        unique.add(value - right).breaks("permutations", np.abs(P - right))
    forms[0].says(least=min(gaps.min() for gaps in forms[0].errors))


@check("ncl/eq21", stream="eq21")
def eq21(t: Trial) -> None:
    """Norm lost to the negative entries of a column, through W and masks; both losses of a
    permutation with a column turned round; the surrogate at any W.

    Controls: a mask that drops i; nothing lost; another permutation.
    """
    norm = t.part("norm", 1e-14)
    for d in (2, 5, 8):
        W, i = members(t.rng, min(t.draws, 100), d), int(t.rng.integers(d))
        W[..., [0, i]] = W[..., [i, 0]]  # `members` has a negative entry in column 0
        lost = (np.minimum(W[..., i], 0) ** 2).sum(-1)
        D = (t.rng.random((len(W), d)) < 0.5).astype(float)
        errors = []
        for kept in (1.0, 0.0):
            D[:, i] = kept
            view = np.maximum(np.einsum("nkj,nj->nk", W, D * np.eye(d)[i]), 0)
            errors.append(np.abs((view**2).sum(-1) - (1 - lost)))
        norm.add(errors[0])
        norm.breaks("a mask that drops i", errors[1], by=worst).breaks("nothing lost", lost)
    rises(t, positive=False, overlaps=False)
    raised = t.part("losses of a negated column", 1e-6, ">=")
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        P = all_permutations(d)
        turned = P * torch.where(torch.arange(d) == int(t.rng.integers(d)), -1.0, 1.0).double()
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            raised.add(loss(turned, alpha, tau) - loss(P, alpha, tau))
            same = (loss(P.roll(1, 0), alpha, tau) - loss(P, alpha, tau)).abs()
            raised.breaks("another permutation", same)


@check("ncl/thm1b-orth", stream="thm1b-orth")
def thm1b_orth(t: Trial) -> None:
    """Eq. 19's quantity is <W_i, W_j> when both masks keep; any overlap costs, the more the more.

    Controls: a mask that drops; the non-contrastive loss, which no overlap changes.
    """
    keep = t.part("both masks keep", 1e-14, controls=typical)
    for d in (3, 5):
        W = members(t.rng, min(t.draws, 60), d, True)
        D = (t.rng.random((2, len(W), d)) < 0.5).astype(float)
        D[0, :, 0] = D[1, :, 1] = 1
        u, v = (np.maximum((W * D[k][:, None])[..., k], 0) for k in (0, 1))
        inner = (W[..., 0] * W[..., 1]).sum(-1)
        keep.add(np.abs((u * v).sum(-1) - inner))
        D[1, :, 1] = 0
        v = np.maximum((W * D[1][:, None])[..., 1], 0)
        dropped = np.abs((u * v).sum(-1) - inner)
        keep.breaks("a mask that drops", dropped[dropped > 0])
    rises(t, positive=True)
    steps = t.part("losses rise with the overlap", 1e-6, ">=")
    overlap = torch.tensor([0.0, 0.01, 0.1, 0.3, 0.5], dtype=torch.float64)
    for d, (alpha, tau) in product((3, 4), SETTINGS):
        W = torch.eye(d, dtype=torch.float64).repeat(len(overlap), 1, 1)
        W[:, 0, 1], W[:, 1, 1] = overlap, (1 - overlap**2).sqrt()
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            steps.add(loss(W, alpha, tau).diff() / overlap.diff())
        slope = ml.one_hot_non_contrastive(W, alpha).diff() / overlap.diff()
        steps.breaks("without negatives", slope.abs())


def _families(m: int, d: int) -> int:
    """How many ways d columns on m rows can have supports that are disjoint and not empty."""
    supports = range(1, 2**m)

    def extend(used: int, left: int) -> int:
        if not left:
            return 1
        return sum(extend(used | s, left - 1) for s in supports if not used & s)

    return extend(0, d)


@check("ncl/thm1b-perm", stream="thm1b-perm")
def thm1b_perm(t: Trial) -> None:
    """Supports of non-negative orthonormal columns, counted; limits of alternating projections.

    Non-negative columns are orthogonal if and only if their supports are disjoint. Controls: one
    row more; orthonormal without the sign.
    """
    supports = t.part("supports")
    supports.add(*(abs(_families(d, d) - factorial(d)) for d in (1, 2, 3, 4, 5)))
    wide = (abs(_families(d + 1, d) - factorial(d + 1)) for d in (2, 3, 4))
    supports.breaks("one row more", *wide)
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
