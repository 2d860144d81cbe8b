"""Checks of ncl Theorem 1(a) and of every step of its proof: the non-contrastive landscape.

One-hot latents, M = I, no noise, W with unit columns. `loops` sums over anchors and all masks in
plain numpy; `mask_landscape` has the same by closed form, and by batched enumeration.
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import sympy
import torch
from torch import Tensor

from clcore.checks.landscape import symbols as sy
from clcore.ledger import Part, Trial, check, exact, pooled, typical
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml

ALPHAS = (0.1, 0.5, 0.9)
SIZES = (2, 3, 4, 5)


def unit(W: Array) -> Array:
    """Columns over their norms."""
    return W / np.sqrt((W**2).sum(-2, keepdims=True))


ONE_ROW_TWICE = torch.eye(3, dtype=torch.float64)[:, [0, 0, 2]][None]
"""Two columns choose the same row: no permutation, though every column is one of its columns."""


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
    d, total = W.shape[-1], np.zeros(())
    masks = [np.array(D) for D in product((0, 1), repeat=d)]
    chance = [np.prod(np.where(D, alpha, 1 - alpha)) for D in masks]
    for e in np.eye(d):
        views = [np.maximum(W @ (D * e), 0) for D in masks]
        for (u, q1), (v, q2) in product(zip(views, chance, strict=True), repeat=2):
            total = total + q1 * q2 * (u * v).sum(-1)
    return total


def descended(t: Trial, what: str, runs: int, d: int, loss, steps: int = 120) -> Tensor:
    """Where projected gradient descent takes random members of U."""
    start = t.stream(what).standard_normal((runs, d, d))
    return ml.descend(loss, *tensors(start), steps)


def _chain(t: Trial) -> None:
    """The chain of inequality (1): exact equality first, the bound, and when it is attained."""
    n = min(t.draws, 40)
    total = n * 20 * 2 * (2 + 4 + 7)
    first = t.part("first equality", 1e-14, controls=pooled, draws=total)
    bound = t.part("inequality", 1e-14, controls=pooled, draws=total)
    attained = t.part("equality for W >= 0", 1e-14, controls=pooled, draws=total)
    for d, positive in product((2, 4, 7), (True, False)):
        W = members(t.rng, n, d, positive)
        D1, D2 = (t.rng.random((2, n, 20, d)) < 0.6).astype(float)
        for j in range(d):
            views = [np.maximum((W[:, None] * D[..., None, :])[..., j], 0) for D in (D1, D2)]
            similarity, both_keep = (views[0] * views[1]).sum(-1), D1[..., j] * D2[..., j]

            # It is D_1,jj D_2,jj |ReLU(W_j)|^2,
            squares = (np.maximum(W[..., j], 0) ** 2).sum(-1)[:, None]
            first.add(np.abs(similarity - both_keep * squares))
            first.breaks("D_1 alone", np.abs(similarity - D1[..., j] * squares).max())

            # at most D_1,jj D_2,jj,
            bound.add(similarity - both_keep)
            if positive:  # columns times 1.3^(1/2) = 1.14
                bound.breaks("columns of norm 1.14", (1.3 * similarity - both_keep).max())

            # and that without negative entries, which `members` puts into column 0 alone.
            if positive:
                attained.add(np.abs(similarity - both_keep))
            elif j == 0:
                attained.breaks("a negative entry", (both_keep - similarity).max(-1))
    _proves_chain(first, bound, attained)


def _proves_chain(first: Part, bound: Part, attained: Part) -> None:
    """The chain at every pair of masks and each column, for symbols; |W_j|^2 is 1 in U."""
    cases = list(product(range(2), sy.masks(2), sy.masks(2)))
    kept = [D1[j] * D2[j] for j, D1, D2 in cases]

    def left(W: sympy.MatrixBase) -> list[sympy.Expr]:
        return [sy.similarity(W, j, D1, j, D2) for j, D1, D2 in cases]

    def times(masks: list[int], factor: Callable[[int], sympy.Expr]) -> list[sympy.Expr]:
        return [bit * factor(j) for bit, (j, _, _) in zip(masks, cases, strict=True)]

    def below(W: sympy.MatrixBase) -> exact.Shown:
        above = times(kept, lambda j: sy.square(sy.ANY[:, j]))
        slack = [a - b for a, b in zip(above, left(W), strict=True)]
        return exact.nonnegative(slack, times(kept, lambda j: sy.lost(sy.ANY, j)))

    squares = partial(times, factor=lambda j: sy.square(sy.relu(sy.ANY[:, j])))
    alone = [D1[j] for j, D1, _ in cases]
    first.proves(
        exact.equal(left(sy.ANY), squares(kept)),
        breaks={"D_1 alone": exact.equal(left(sy.ANY), squares(alone))},
        at=sy.AT,
    )
    bound.proves(below(sy.ANY), breaks={"columns twice as long": below(2 * sy.ANY)}, at=sy.AT)
    whole, signed = (
        exact.equal(left(W), times(kept, lambda j, W=W: sy.square(W[:, j])))
        for W in (sy.POSITIVE, sy.SIGNED)
    )
    attained.proves(whole, breaks={"a negative entry": signed}, at=sy.AT)


@check("ncl/thm1a-ineq")
def thm1a_ineq(t: Trial) -> None:
    """Alignment of two masked views of a basis vector is at most 1 (App. A.1, inequality (1)).

    Given   random members of U and U_>=, random masks of both views.
    Claim   <ReLU(W D_1 e_j), ReLU(W D_2 e_j)> = D_1,jj D_2,jj |ReLU(W_j)|^2 <= D_1,jj D_2,jj, with
            equality for W >= 0.
    Fails   the first equality for D_1,jj alone; the inequality for longer columns; the last
            equality with a negative entry.
    """
    _chain(t)


@check("ncl/eq17")
def eq17(t: Trial) -> None:
    """Similarity of a positive pair is at most the product of its mask entries (Eqs. 17-18).

    Given   random members of U and U_>=, random masks of both views of a positive pair.
    Claim   <ReLU(W D_1 e_j), ReLU(W D_2 e_j)> = D_1,jj D_2,jj |ReLU(W_j)|^2 <= D_1,jj D_2,jj, with
            equality for W >= 0: the first steps of the proof of Theorem 1(a).
    Fails   the first equality for D_1,jj alone; the inequality for longer columns; the last
            equality with a negative entry.
    """
    _chain(t)


@check("ncl/thm1a-sum")
def thm1a_sum(t: Trial) -> None:
    """Non-contrastive loss of one-hot data as a sum over basis vectors (App. A.1, first display).

    Given   members of U and U_>=, one-hot latents, d = 2, 3.
    Claim   (1) L is 1/d times the printed sum. (2) What maximises every summand has unit columns
            and the least loss: the sum belongs behind the argmax, as the proof ends with.
    Fails   (1) without 1/d; (2) for a maximiser of one summand, and for a sum of argmaxes as
            typeset.
    """
    n = min(t.draws, 100)
    scale = t.part("first equality", 1e-12)
    joint = t.part("second equality", 1e-12)
    for d, alpha in product((2, 3), ALPHAS):
        W = np.concatenate([members(t.rng, n, d), members(t.rng, n, d, True)])
        L = ml.non_contrastive(*tensors(W, W), ml.one_hot(d), alpha).numpy()
        printed = 2 * d - 2 * loops(W, alpha)
        scale.add(np.abs(L - printed / d))
        scale.breaks("without 1/d", np.abs(L - printed))
        # each[j] maximises summand j, by a column j >= 0, and not summand j - 1; together all.
        each = unit(t.rng.standard_normal((d, n, d, d)))
        together = np.empty((n, d, d))
        for j in range(d):
            each[j, :, :, j] = together[:, :, j] = np.abs(each[j, :, :, j])
            each[j, :, 0, j - 1] = -np.abs(each[j, :, 0, j - 1]) - 0.1
        each = unit(each)

        def from_minimal(V: Array, d: int = d, alpha: float = alpha) -> Array:
            value = ml.non_contrastive(*tensors(V, V), ml.one_hot(d), alpha).numpy()
            length = np.abs(np.sqrt((V**2).sum(-2)) - 1).max(-1)
            return np.maximum(length, np.abs(value - (2 - 2 * alpha**2)))

        joint.add(from_minimal(together))
        joint.breaks("a maximiser of one summand", from_minimal(each[0]))
        joint.breaks("as typeset, a sum of argmaxes", from_minimal(each.sum(0)))
    total = sum(2 - 2 * sy.expected(sy.ANY, j) for j in range(2))
    scale.proves(
        exact.equal(sy.non_contrastive(sy.ANY), total / 2),
        breaks={"without 1/d": exact.equal(sy.non_contrastive(sy.ANY), total)},
        at=sy.AT,
    )
    # Summand j falls short of alpha^2 |W_j|^2 by the negative entries of its column j alone, and
    # 2/d times the shortfalls is what the loss is above its value where there are none.

    def falls(W: sympy.MatrixBase, columns: tuple[int, ...]) -> exact.Shown:
        top = [sy.ALPHA**2 * sy.square(W[:, j]) for j in range(2)]
        missing = [sy.ALPHA**2 * sy.lost(W, j) for j in range(2)]
        short = [top[j] - sy.expected(W, j) for j in range(2)]
        excess = sy.non_contrastive(W) - 2 + sum(top)
        return exact.nonnegative([*short, excess], [*missing, sum(missing[j] for j in columns)])

    joint.proves(
        falls(sy.ANY, (0, 1)),
        breaks={"a maximiser of one summand": falls(sy.SIGNED, (1,))},
        at=sy.AT,
    )


@check("ncl/thm1a-max")
def thm1a_max(t: Trial) -> None:
    """Total alignment is at most dα², attained by every nonnegative W (App. A.1).

    Given   random members of U and U_>=, d = 2, 3, 4; the sum over basis vectors by loops over all
            pairs of masks.
    Claim   (1) The sum over basis vectors e_j of E <ReLU(W D_1 e_j), ReLU(W D_2 e_j)> is at most d
            alpha^2, (2) attained by every W >= 0 of U; (3) there L = 2 - 2 alpha^2.
    Fails   (1) for columns of norm 1.1; (2) for d alpha, and a negative entry; (3) without the
            weight 1/d.
    """
    n = min(t.draws, 100)
    bound = t.part("bound", 1e-13)
    attained = t.part("attained by every W >= 0", 1e-12)
    value = t.part("L = 2 - 2 alpha^2", 1e-12)
    for d, alpha in product((2, 3, 4), ALPHAS):
        W, V = members(t.rng, n, d), members(t.rng, n, d, True)
        top = d * alpha**2
        lower, full = loops(W, alpha), loops(V, alpha)

        # (1) Any W of U: the sum minus d alpha^2 is at most 0.
        bound.add(lower - top)
        bound.breaks("columns of norm 1.1", loops(1.1 * V, alpha) - top)

        # (2) W >= 0: the two are equal.
        attained.add(np.abs(full - top))
        attained.breaks("d alpha", np.abs(full - d * alpha))
        attained.breaks("a negative entry", np.abs(lower - top), by=typical)

        # (3) The library's loss at these W >= 0.
        L = ml.one_hot_non_contrastive(*tensors(V), alpha).numpy()
        value.add(np.abs(L - (2 - 2 * alpha**2)))
        value.breaks("without the weight 1/d", np.abs(L - (2 - 2 * d * alpha**2)))

    _proves_maximum(bound, attained, value)


def _sum(W: sympy.MatrixBase) -> sympy.Expr:
    return sum((sy.expected(W, j) for j in range(W.cols)), sympy.S.Zero)


def _proves_maximum(bound: Part, attained: Part, value: Part) -> None:
    """The bound for symbols of any sign, as alpha^2 |W|^2, which is d alpha^2 in U; its value and
    the loss's at all W >= 0 of U."""

    def below(W: sympy.MatrixBase) -> exact.Shown:
        lost = sy.ALPHA**2 * sum(sy.lost(sy.ANY, j) for j in range(2))
        return exact.nonnegative(sy.ALPHA**2 * sy.square(sy.ANY) - _sum(W), lost)

    full, signed = (sy.on_unit_columns(_sum, V) for V in (sy.POSITIVE, sy.SIGNED))
    loss = sy.on_unit_columns(sy.non_contrastive, sy.POSITIVE)
    bound.proves(below(sy.ANY), breaks={"columns twice as long": below(2 * sy.ANY)}, at=sy.AT)
    attained.proves(
        exact.equal(full, 2 * sy.ALPHA**2),
        breaks={
            "d alpha": exact.equal(full, 2 * sy.ALPHA),
            "a negative entry": exact.equal(signed, 2 * sy.ALPHA**2),
        },
        at=sy.AT,
    )
    value.proves(
        exact.equal(loss, 2 - 2 * sy.ALPHA**2),
        breaks={"without the weight 1/d": exact.equal(loss, 2 - 4 * sy.ALPHA**2)},
        at=sy.AT,
    )


@check("ncl/thm1a")
def thm1a(t: Trial) -> None:
    """Every nonnegative W with unit columns minimises the non-contrastive loss (Theorem 1(a)).

    Given   one-hot latents, M = I, masks and latents enumerated, d = 2..5: random members of U_>=
            and U, ends of descents.
    Claim   (1) All of U_>= has the loss 2 - 2 alpha^2, and (2) nothing in U a lower one. (3) For
            signed one-hots, +-e_j, all of U has one loss, 2 - alpha^2.
    Fails   (1) for a negative entry; (2), (3) for columns of norm 1.1.
    """
    n, runs = min(t.draws, 200), min(t.draws, 60)
    settings = len(SIZES) * len(ALPHAS)
    equal = t.part("one value on U_>=", 1e-12)
    lower = t.part("nothing lower in U", 1e-12, draws=settings * (n + runs))
    both = t.part("signed one-hot latents", 1e-12)
    for d, alpha in product(SIZES, ALPHAS):
        law, floor = ml.one_hot(d), 2 - 2 * alpha**2
        V, W = tensors(members(t.rng, n, d, True), members(t.rng, n, d))
        off = (ml.non_contrastive(W, W, law, alpha) - floor).numpy()

        # (1) V in U_>=; as control W, which has a negative entry.
        equal.add((ml.non_contrastive(V, V, law, alpha) - floor).abs())
        equal.breaks("a negative entry, over alpha^2", off / alpha**2)

        # (2) Random W in U, and ends of descents from such.
        if alpha == ALPHAS[0]:  # which only scales the slope
            loss = partial(ml.one_hot_non_contrastive, keep=1.0)
            ends = descended(t, f"{d}", runs, d, loss)
        lower.add(-off, floor - ml.non_contrastive(ends, ends, law, alpha))
        lower.breaks(
            "columns of norm 1.1", floor - ml.non_contrastive(1.1 * V, 1.1 * V, law, alpha)
        )

        # (3) Latents of both signs, any W in U.
        wide = ml.one_hot(d, signed=True)
        both.add((ml.non_contrastive(W, W, wide, alpha) - (2 - alpha**2)).abs())
        longer = ml.non_contrastive(1.1 * W, 1.1 * W, wide, alpha)
        both.breaks("columns of norm 1.1", (longer - (2 - alpha**2)).abs())

    _proves_minima(equal, lower, both)


def _proves_minima(equal: Part, lower: Part, both: Part) -> None:
    """Theorem 1(a) for symbols: the value on U_>=; at any W nothing below 2 - 2 alpha^2 |W|^2 / d,
    which is that value in U; and signed latents on U."""
    at_positive, at_signed = (
        exact.equal(sy.on_unit_columns(sy.non_contrastive, V), 2 - 2 * sy.ALPHA**2)
        for V in (sy.POSITIVE, sy.SIGNED)
    )
    equal.proves(at_positive, breaks={"a negative entry": at_signed}, at=sy.AT)

    def above(W: sympy.MatrixBase) -> exact.Shown:
        lost = sy.ALPHA**2 * sum(sy.lost(sy.ANY, j) for j in range(2))
        floor = 2 - sy.ALPHA**2 * sy.square(sy.ANY)
        return exact.nonnegative(sy.non_contrastive(W) - floor, lost)

    lower.proves(above(sy.ANY), breaks={"columns twice as long": above(2 * sy.ANY)}, at=sy.AT)
    wide = partial(sy.non_contrastive, signs=(1, -1))
    flat, longer = (
        exact.equal(sy.on_unit_columns(wide, sy.ANY, length), 2 - sy.ALPHA**2)
        for length in (sympy.S.One, sympy.Integer(2))
    )
    both.proves(flat, breaks={"columns of norm 2": longer}, at=sy.AT)
