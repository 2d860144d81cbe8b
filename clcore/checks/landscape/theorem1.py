"""Checks of ncl Theorem 1(a) and of the informal theorem: the non-contrastive landscape.

One function a claim, named after it, `check(draws, seed)`. One-hot latents, M = I, no noise, W with
unit columns. `loops` sums over anchors and all masks in plain numpy; `mask_landscape` has the same
by closed form, and by batched enumeration.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, best, tensors, typical, worst
from clcore.theory.sparse import mask_landscape as ml

ALPHAS = (0.1, 0.5, 0.9)
SIZES = (2, 3, 4, 5)


def unit(W: Array) -> Array:
    """Columns over their norms."""
    return W / np.sqrt((W**2).sum(-2, keepdims=True))


def members(rng: np.random.Generator, draws: int, d: int, positive: bool = False) -> Array:
    """Random members of U (or U_>=, half of whose entries may be zero), [draws, d, d].

    Signed members have at least one entry below -0.1 in their first column.
    """
    W = rng.standard_normal((draws, d, d))
    if positive:
        W = np.abs(W) * (rng.random(W.shape) < 0.8)
        return unit(W + 1e-3 * np.eye(d))
    W[:, 0, 0] = -np.abs(W[:, 0, 0]) - 0.3 * np.sqrt((W[:, 1:, 0] ** 2).sum(-1))
    return unit(W)


def loops(W: Array, alpha: float) -> Array:
    """sum_j E <ReLU(W D_1 e_j), ReLU(W D_2 e_j)>, [draws], over all pairs of masks."""
    d, total = W.shape[-1], 0.0
    masks = [np.array(D) for D in product((0, 1), repeat=d)]
    chance = [np.prod(np.where(D, alpha, 1 - alpha)) for D in masks]
    for j in range(d):
        e = np.eye(d)[j]
        views = [np.maximum(W @ (D * e), 0) for D in masks]
        for u, q1 in zip(views, chance, strict=True):
            for v, q2 in zip(views, chance, strict=True):
                total = total + q1 * q2 * (u * v).sum(-1)
    return total


def descended(name: str, seed: int, runs: int, d: int, loss, steps: int = 120) -> Tensor:
    """Where projected gradient descent takes random members of U."""
    start = ref.generator(name, seed).standard_normal((runs, d, d))
    return ml.descend(loss, *tensors(start), steps)


def distance(W: Array) -> float:
    """min over permutations P of |W - P|_F."""
    rows, columns = linear_sum_assignment(-W)
    P = np.zeros_like(W)
    P[rows, columns] = 1
    return float(np.linalg.norm(W - P))


def _chain(claim: str, draws: int, seed: int) -> Iterator[Check]:
    """The chain of inequality (1): exact equality first, the bound, and when it is attained."""
    check, rng = partial(Check, claim), ref.generator(claim, seed)
    equal, wrong, above, long, tight, loose = ([] for _ in range(6))
    n = min(draws, 40)
    for d, positive in product((2, 4, 7), (True, False)):
        W = members(rng, n, d, positive)
        R = np.maximum(W, 0)
        D1, D2 = (rng.random((2, n, 20, d)) < 0.6).astype(float)
        for j in range(d):
            both = D1[..., j] * D2[..., j]
            masked = [np.maximum((W[:, None] * D[..., None, :])[..., j], 0) for D in (D1, D2)]
            left = (masked[0] * masked[1]).sum(-1)
            squares = (R[..., j] ** 2).sum(-1)[:, None]
            equal.append(np.abs(left - both * squares).max(-1))
            wrong.append(np.abs(left - D1[..., j] * squares).max(keepdims=True))
            above.append((left - both).max(-1))
            if positive:
                tight.append(np.abs(left - both).max(-1))
                long.append((1.3 * left - both).max(keepdims=True))
            elif j == 0:
                loose.append((both - left).max(-1))
    count = len(equal) * n * 20
    yield check(
        worst(np.hstack(equal)),
        1e-14,
        {"D_1 alone": typical(np.hstack(wrong))},
        count,
        "first equality",
    )
    yield check(
        worst(np.hstack(above)),
        1e-14,
        {"columns of norm 1.14": typical(np.hstack(long))},
        count,
        "inequality",
    )
    yield check(
        worst(np.hstack(tight)),
        1e-14,
        {"a negative entry": typical(np.hstack(loose))},
        count,
        "equality for W >= 0",
    )


def thm1a_ineq(draws: int, seed: int) -> Iterator[Check]:
    """Random W and masks; the equality for W >= 0 fails at every W with a negative entry."""
    yield from _chain("ncl/thm1a-ineq", draws, seed)


def eq17(draws: int, seed: int) -> Iterator[Check]:
    """The same chain with the masks of the contrastive loss, drawn anew."""
    yield from _chain("ncl/eq17", draws, seed)


def thm1a_sum(draws: int, seed: int) -> Iterator[Check]:
    """L is 1/d times the printed sum; the sum belongs behind the argmax, as the proof ends with.

    A maximiser of summand j alone has column j non-negative and the others with any sign. Measured
    is whether an intersection of such sets consists of minimisers over U: unit columns and the
    least loss. Controls: no 1/d; a maximiser of one summand; by the letters, sums of argmaxes.
    """
    check, rng = partial(Check, "ncl/thm1a-sum"), ref.generator("thm1a-sum", seed)
    affine, unscaled, summed, joint, single = ([] for _ in range(5))
    n = min(draws, 100)
    for d, alpha in product((2, 3), ALPHAS):
        W = np.concatenate([members(rng, n, d), members(rng, n, d, True)])
        L = ml.non_contrastive(*tensors(W, W), ml.one_hot(d), alpha).numpy()
        printed = 2 * d - 2 * loops(W, alpha)
        affine.append(np.abs(L - printed / d))
        unscaled.append(np.abs(L - printed))
        each = unit(rng.standard_normal((d, n, d, d)))  # one maximiser a summand
        together = np.empty((n, d, d))
        for j in range(d):
            each[j, :, :, j] = together[:, :, j] = np.abs(each[j, :, :, j])
            each[j, :, 0, j - 1] = -np.abs(each[j, :, 0, j - 1]) - 0.1
        each = unit(each)
        for V, place in ((each.sum(0), summed), (together, joint), (each[0], single)):
            value = ml.non_contrastive(*tensors(V, V), ml.one_hot(d), alpha).numpy()
            length = np.abs(np.sqrt((V**2).sum(-2)) - 1).max(-1)
            place.append(np.maximum(length, np.abs(value - (2 - 2 * alpha**2))))
    total = len(affine) * 2 * n
    yield check(
        worst(np.hstack(affine)),
        1e-12,
        {"without 1/d": best(np.hstack(unscaled))},
        total,
        "first equality",
    )
    yield check(
        worst(np.hstack(joint)),
        1e-12,
        {
            "a maximiser of one summand": best(np.hstack(single)),
            "as typeset, a sum of argmaxes": best(np.hstack(summed)),
        },
        len(joint) * n,
        "second equality",
        misprint=r"$\sum_{j\in[d]}\operatorname{argmax}_{W\in\mathcal U}$ -> "
        r"$\operatorname{argmax}_{W\in\mathcal U}\sum_{j\in[d]}$, as the end of the proof has it",
        note="How far a common maximiser of all summands is from unit columns and the least loss. "
        r"By the letters $\mathbf I+\mathbf I$, which is not in $\mathcal U$, would be one.",
    )


def thm1a_max(draws: int, seed: int) -> Iterator[Check]:
    """d alpha^2 bounds the sum, by loops over masks; W >= 0 attains it; then L = 2 - 2 alpha^2.

    Controls: d alpha for d alpha^2, signed W, longer columns.
    """
    check, rng = partial(Check, "ncl/thm1a-max"), ref.generator("thm1a-max", seed)
    above, attained, once, signed, long, value, raw = ([] for _ in range(7))
    n = min(draws, 100)
    for d, alpha in product((2, 3, 4), ALPHAS):
        W, V = members(rng, n, d), members(rng, n, d, True)
        top = d * alpha**2
        lower, full = loops(W, alpha), loops(V, alpha)
        above.append(lower - top)
        long.append(loops(1.1 * V, alpha) - top)
        attained.append(np.abs(full - top))
        once.append(np.abs(full - d * alpha))
        signed.append(np.abs(lower - top))
        L = ml.one_hot_non_contrastive(*tensors(V), alpha).numpy()
        value.append(np.abs(L - (2 - 2 * alpha**2)))
        raw.append(np.abs(L - (2 - 2 * d * alpha**2)))
    total = len(above) * n
    yield check(
        worst(np.hstack(above)),
        1e-13,
        {"columns of norm 1.1": best(np.hstack(long))},
        total,
        "bound",
    )
    control = {"d alpha": best(np.hstack(once)), "a negative entry": typical(*signed)}
    yield check(worst(np.hstack(attained)), 1e-12, control, total, "attained by every W >= 0")
    control = {"without the weight 1/d": best(np.hstack(raw))}
    yield check(worst(np.hstack(value)), 1e-12, control, total, "L = 2 - 2 alpha^2")


def thm1a(draws: int, seed: int) -> Iterator[Check]:
    """Every member of U_>= has the loss 2 - 2 alpha^2, by enumeration; no W of U has a lower one.

    Random members and the ends of descents. Controls: a negative entry, columns of norm 1.1. With
    signed one-hot latents all of U has the same loss.
    """
    check, rng = partial(Check, "ncl/thm1a"), ref.generator("thm1a", seed)
    equal, signed, lower, long, both, both_long = ([] for _ in range(6))
    n, runs = min(draws, 200), min(draws, 60)
    for d, alpha in product(SIZES, ALPHAS):
        law, floor = ml.one_hot(d), 2 - 2 * alpha**2
        V, W = tensors(members(rng, n, d, True), members(rng, n, d))
        equal.append((ml.non_contrastive(V, V, law, alpha) - floor).abs().numpy())
        off = (ml.non_contrastive(W, W, law, alpha) - floor).numpy()
        signed.append(off / alpha**2)
        if alpha == ALPHAS[0]:  # which only scales the slope
            loss = partial(ml.one_hot_non_contrastive, keep=1.0)
            ends = descended(f"thm1a {d}", seed, runs, d, loss)
        reached = (ml.non_contrastive(ends, ends, law, alpha) - floor).numpy()
        lower += [-off, -reached]
        long.append(-(ml.non_contrastive(1.1 * V, 1.1 * V, law, alpha) - floor).numpy())
        wide = ml.one_hot(d, signed=True)
        both.append((ml.non_contrastive(W, W, wide, alpha) - (2 - alpha**2)).abs().numpy())
        both_long.append((ml.non_contrastive(1.1 * W, 1.1 * W, wide, alpha) - (2 - alpha**2)).abs())
    total = len(equal) * n
    control = {"a negative entry, over alpha^2": best(np.hstack(signed))}
    yield check(worst(np.hstack(equal)), 1e-12, control, total, "one value on U_>=")
    control = {"columns of norm 1.1": best(np.hstack(long))}
    yield check(
        worst(np.hstack(lower)), 1e-12, control, total + len(equal) * runs, "nothing lower in U"
    )
    yield check(
        worst(np.hstack(both)),
        1e-12,
        {"columns of norm 1.1": best(np.hstack(both_long))},
        total,
        "signed one-hot latents",
        note="With z = +-e_j the loss is 2 - alpha^2 on all of U: every W is a minimiser.",
    )


def witnesses(rng: np.random.Generator, n: int, d: int) -> Array:
    """Members of U_> that are neither collapsed nor near a permutation, [n, d, d]."""
    t, eye = rng.uniform(0.35, 0.7, (n, 1, 1)), np.eye(d)
    return unit(eye + t * np.roll(eye, 1, 0) + 0.05 * rng.random((n, d, d)))


def thm1(draws: int, seed: int) -> Iterator[Check]:
    """A continuum of minimisers that are not collapsed and far from all permutations; contrastive
    ends are not far.

    The family: two neighbouring rows a column, and a little of all others. Controls: permutations;
    columns around the uniform direction, which are nearly collapsed; the ends of non-contrastive
    descents; the i.i.d. latents of Eq. 1, for which neither half is true.
    """
    check, rng = partial(Check, "ncl/thm1"), ref.generator("thm1", seed)
    far, rank, loss, near, wrong, ends, other = ([] for _ in range(7))
    n = min(draws, 200)
    for d in (3, 5, 10):
        W = witnesses(rng, n, d)
        far += [distance(w) for w in W]
        rank.append(np.linalg.svd(W, compute_uv=False)[:, -1])
        around = unit(1 + rng.uniform(0.2, 1, (n, 1, 1)) * rng.random((n, d, d)))
        near.append(np.linalg.svd(around, compute_uv=False)[:, -1])
        loss.append((ml.one_hot_non_contrastive(*tensors(W), 0.5) - 1.5).abs().numpy())
        signs = np.where(np.eye(d), -1, 1)
        wrong.append((ml.one_hot_non_contrastive(*tensors(signs * W), 0.5) - 1.5).abs().numpy())
    for d in (3, 5):
        runs = max(40, min(draws, 100))
        for name, place, f in (
            ("contrastive", ends, partial(ml.one_hot_contrastive, keep=0.5, tau=1.0)),
            ("not", other, partial(ml.one_hot_non_contrastive, keep=0.5)),
        ):
            W = descended(f"thm1 {name} {d}", seed, runs, d, f)
            value = f(W)
            lowest = W[value < f(torch.eye(d, dtype=W.dtype)) + 1e-9]
            place += [distance(w) for w in lowest.numpy()]
    iid = ml.sparse(3, 0.3)
    first = unit(1 + rng.random((n, 3, 3)))
    some, equal = tensors(first, np.repeat(first[..., :1], 3, -1))
    excess = ml.non_contrastive(some, some, iid, 0.5) - ml.non_contrastive(equal, equal, iid, 0.5)
    control = {
        "a negative diagonal": best(np.hstack(wrong)),
        "i.i.d. latents, against equal columns": best(excess.numpy()),
    }
    yield check(
        worst(np.hstack(loss)),
        1e-12,
        control,
        3 * n,
        "minimisers",
        note="One-hot latents: Sec. 2.1 announces simple special cases of the model and refers to "
        "Sec. 5.1 for the formal statement. Fails where latents are the i.i.d. ones of Eq. 1, for "
        "then only equal columns are minimal.",
    )
    control = {"permutations": distance(np.eye(3)[[1, 2, 0]])}
    yield check(
        best(np.hstack(far)),
        0.5,
        control,
        3 * n,
        "far from the truth",
        relation=">=",
        note="Frobenius norm.",
    )
    yield check(
        best(np.hstack(rank)),
        0.1,
        {"columns around the uniform direction": typical(*near)},
        3 * n,
        "not collapsed",
        relation=">=",
        note="Least singular value.",
    )
    pair = partial(ml.contrastive, law=ml.sparse(2, 0.3), keep=0.5, tau=5.0)
    W = descended("thm1 iid", seed, 12, 2, pair, 40)
    control = {
        "non-contrastive ends": typical(np.array(other)),
        "i.i.d. latents, tau = 5": distance(W[pair(W).argmin()].numpy()),
    }
    yield check(worst(np.hstack(ends)), 1e-3, control, len(ends), "contrastive minimisers")
