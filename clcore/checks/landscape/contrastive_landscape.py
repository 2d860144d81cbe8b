"""Checks of ncl Theorem 1(b) and of every step of its proof: the contrastive landscape.

One-hot latents, M = I, no noise, W with unit columns,
tau > 0. Where the negatives matter, both readings are computed: x' != x ("others", as Eq. 8 prints)
and x' from the data law ("data"), which may repeat the anchor.
"""

from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from math import factorial
from typing import Any

import numpy as np
import sympy
import torch
from scipy.stats import multinomial
from torch import Tensor

from clcore.checks.landscape import symbols as sy
from clcore.checks.landscape.theorem1 import ONE_ROW_TWICE, descended, members, unit
from clcore.ledger import Part, Trial, check, exact, pooled, worst
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml

SIZES = (2, 3, 4)
SETTINGS = ((0.3, 0.5, 0.9), (0.5, 1.0, 5.0))  # alpha, tau
FEW = ((2, 0.3, 5.0), (3, 0.5, 1.0), (4, 0.9, 0.5))


def all_permutations(d: int) -> Tensor:
    """All d! permutation matrices."""
    return torch.eye(d, dtype=torch.float64)[torch.tensor(list(permutations(range(d))))]


def beyond(d: int, alpha: float, tau: float) -> Tensor:
    """A member of U with rectified columns sqrt(s) e_i, s = `best_length`: the rest is negative."""
    s = ml.best_length(d, alpha, tau)
    eye = torch.eye(d, dtype=torch.float64)
    return s**0.5 * eye - (1 - s) ** 0.5 * eye.roll(1, 0)


def _normalised(W: Tensor, alpha: float, tau: float) -> Tensor:
    """The "others" loss on representations of norm 1: the control that the footnote rules out."""
    R = torch.relu(W)
    return ml.one_hot_contrastive(R / R.norm(dim=-2, keepdim=True).clamp(min=1e-30), alpha, tau)


def _linear_fall(alpha: float = 0.5, tau: float = 1.0) -> float:
    """By how much W = (e_1, -e_1) is below I for an encoder without a ReLU, d = 2: negatives are
    then at -1, and Eq. 8 is log(1 - alpha + alpha e^{tau <w_1, w_2>}) alpha - tau alpha^2."""
    loss = [alpha * np.log(1 - alpha + alpha * np.exp(tau * inner)) for inner in (0.0, -1.0)]
    return float(loss[0] - loss[1])


def excess_bound(W: Tensor, alpha: float, tau: float) -> Tensor:
    """tau alpha^2 / d sum_i [1 - |r_i|^2 + mean_{j != i} <r_i, r_j>], r = ReLU(W)'s columns.

    By Jensen, log(1 - alpha + alpha mean e^{tau G}) >= alpha tau mean G: a lower bound on the
    "others" loss above its value at a permutation. Zero at permutations only.
    """
    d, G = W.shape[-1], ml.rectified_gram(W)
    own = G.diagonal(dim1=-2, dim2=-1)
    others = (G.sum(-1) - own) / (d - 1)
    return tau * alpha**2 * (1 - own + others).mean(-1)


def _ties() -> dict[str, float]:
    """W that are no permutations but tie with one once a hypothesis is dropped: largest |W - P|.

    0 where the tie does not come about, so that the control passes and the ledger complains.
    """
    tensor = partial(torch.tensor, dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    slanted = tensor([[0.8, -0.6], [-0.6, 0.8]])
    tall, wide = tensor([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]]), tensor([[0, 0.0], [1, 0], [0, 1]])
    turned = tensor([[1.0, 0.0], [0.0, -1.0]])
    signed = partial(ml.contrastive, law=ml.one_hot(2, signed=True), keep=0.5, tau=1.0)
    plain = partial(ml.one_hot_contrastive, keep=0.5, tau=1.0)
    pairs = {
        "representations normalised": (slanted, eye, partial(_normalised, alpha=0.5, tau=1.0)),
        "m = d + 1": (tall, wide, plain),
        "signed one-hot latents": (turned, eye, signed),
    }
    return {
        name: float((W - P).abs().max()) * (abs(float(loss(W) - loss(P))) < 1e-12)
        for name, (W, P, loss) in pairs.items()
    }


def _descent(t: Trial, d: int, alpha: float, tau: float, loss) -> Tensor:
    """The ends of descents on a loss, from the same starts whatever the loss is."""
    runs = max(24, min(t.draws, 40))
    return descended(t, f"{d} {alpha} {tau}", runs, d, loss)


@check("ncl/thm1b")
def thm1b(t: Trial) -> None:
    """Minimisers of the contrastive loss are the permutation matrices (Theorem 1(b)).

    Given   one-hot latents, M = I, tau > 0, many negatives x' != x, d = 2, 3, 4: random W, W near
            permutations, ends of descents; i.i.d. negatives too.
    Claim   (1) Permutations share the least value; (2) only they have it, at the ends of descents;
            (3) the excess of any W over it is at least tau alpha^2/d sum_i [1 - |r_i|^2 + mean
            <r_i, r_j>], r_i = ReLU(W_i). (4), (5) For i.i.d. negatives (1) and (2) hold if e^tau <=
            (d - alpha)/(1 - alpha).
    Fails   (1), (4) for i.i.d. negatives at a larger tau; (1) for a linear encoder; (2) for W that
            tie: normalised representations, signed latents, d + 1 rows; (2), (5) for two columns on
            one row; (3) for twice the bound; (5) for columns that are best at a larger tau.
    """
    cells = list(product(SIZES, *SETTINGS)) if t.draws > 20 else FEW
    n, runs = min(t.draws, 100), max(24, min(t.draws, 40))
    total = sum(2 * n + 4 * factorial(d) + runs for d, _, _ in cells)
    lower = t.part("permutations, nothing lower", 1e-12).breaks("a linear encoder", _linear_fall())
    unique = t.part("only permutations", 1e-3)
    for what, gap in _ties().items():
        unique.breaks(what, gap)
    excess = t.part("quantitative", 1e-13, controls=worst)
    small = t.part("i.i.d. negatives, small tau: nothing lower", 1e-12, draws=total)
    small_unique = t.part("i.i.d. negatives, small tau: only permutations", 1e-3)
    # (5) Columns that are best at tau = 4, which are shorter than 1 behind the ReLU.
    longest = 1 - ml.best_length(3, 0.5, 4.0) ** 0.5
    small_unique.breaks("columns that are best at a larger tau", longest)
    for part in (unique, small_unique):
        part.breaks("two columns on one row", ml.permutation_gap(ONE_ROW_TWICE))
    for d, alpha, tau in cells:
        law, P = ml.one_hot(d), all_permutations(d)
        at = ml.contrastive(P, law, alpha, tau)
        # W near every permutation, random ones of U and of U_>=, and ends of descents.
        near = P.numpy()[:, None] + t.rng.choice((1e-3, 0.1)) * t.rng.standard_normal((4, d, d))
        drawn = members(t.rng, n, d), members(t.rng, n, d, True), unit(near.reshape(-1, d, d))
        ends = _descent(t, d, alpha, tau, partial(ml.one_hot_contrastive, keep=alpha, tau=tau))
        W = torch.cat([*tensors(*drawn), ends])
        rise = ml.contrastive(W, law, alpha, tau) - at[0]
        # (1) No W is below a permutation, and no permutation below another.
        lower.add(torch.maximum(-rise, (at - at[0]).abs().max()))
        # (2) Ends with the least value are permutations.
        unique.add(ml.permutation_gap(ends[rise[-len(ends) :] < 1e-10]))
        # (3) The excess against its bound.
        least = excess_bound(W, alpha, tau)
        excess.add(least - rise).breaks("twice the bound", 2 * least - rise)

        def iid(times: float, d: int = d, alpha: float = alpha, tau: float = tau, W: Tensor = W):
            """W, and how far they rise above I, at a multiple of the threshold of i.i.d. ones."""
            at = times * ml.repeats_threshold(d, alpha)
            loss = partial(ml.one_hot_contrastive, keep=alpha, tau=at, negatives="data")
            W = torch.cat([W, _descent(t, d, alpha, tau, loss), beyond(d, alpha, at)[None]])
            return W, loss(W) - loss(all_permutations(d)[0])

        # (4), (5) I.i.d. negatives, tau just below the threshold.
        found, rise = iid(0.98)
        small.add(-rise.min())
        # Points as low as a permutation are permutations.
        small_unique.add(ml.permutation_gap(found[rise < 1e-11]))
        # The control of (1) and (4), above the threshold.
        for part in (lower, small):
            part.breaks("i.i.d. negatives, tau 1.5 times the threshold", -iid(1.5)[1].min())


def _compositions(total: int, parts: int) -> Array:
    """All nonnegative integer vectors of this sum, [count, parts]."""
    free = np.indices((total + 1,) * (parts - 1)).reshape(parts - 1, -1).T
    free = free[free.sum(-1) <= total]
    return np.concatenate([free, total - free.sum(-1, keepdims=True)], -1)


def finite_batch(W: Array, alpha: float, tau: float, B: int, negatives: str) -> float:
    """Eq. 8 for B i.i.d. negatives: the sum over how many of them show which column, exactly."""
    d, R = W.shape[-1], np.maximum(W, 0)
    total = 0.0
    for i in range(d):
        pool = [j for j in range(d) if negatives == "data" or j != i]
        odds = np.array([1 - alpha] + [alpha / len(pool)] * len(pool))
        counts = _compositions(B, len(odds))
        chance = multinomial.pmf(counts, B, odds)
        for b1, b2 in product((0, 1), repeat=2):
            q = np.prod([alpha if b else 1 - alpha for b in (b1, b2)])
            values = np.exp(tau * b1 * np.array([0.0] + [R[:, i] @ R[:, j] for j in pool]))
            near = np.exp(tau * b1 * b2 * (R[:, i] @ R[:, i]))
            total -= q / d * (chance * np.log(near / (near + counts @ values))).sum()
    return total


def limit_formula(W: Array, alpha: float, tau: float, B: int, negatives: str, per: bool = True):
    """The display before Eq. 15; per=False averages exp(tau S-) over anchors too."""
    d, R = W.shape[-1], np.maximum(W, 0)
    weights = [(b, alpha if b else 1 - alpha) for b in (0, 1)]
    mean = {}
    for i, (b1, _) in product(range(d), weights):
        pool = [j for j in range(d) if negatives == "data" or j != i]
        far = [q * np.exp(tau * b1 * b3 * (R[:, i] @ R[:, j])) for j in pool for b3, q in weights]
        mean[i, b1] = sum(far) / len(pool)
    overall = sum(q * mean[i, b] for i in range(d) for b, q in weights) / d
    total = 0.0
    for i, (b1, q1), (b2, q2) in product(range(d), weights, weights):
        near = np.exp(tau * b1 * b2 * (R[:, i] @ R[:, i]))
        far = B * (mean[i, b1] if per else overall)
        total -= q1 * q2 / d * np.log(near / (near + far))
    return total


@check("ncl/thm1b-lln")
def thm1b_lln(t: Trial) -> None:
    """Law of large numbers for the negatives of the contrastive loss (App. A.1, before Eq. 15).

    Given   positive W, one-hot latents, B i.i.d. negatives that are x' != x ("others") or of the
            data law ("data"), the loss of Eq. 8 as an exact sum over all batches.
    Claim   (1) The loss nears the formula that has B times the mean of e^{tau S-} for its sum over
            the negatives, as 1/B: with 4B in place of B the gap is at most 0.35 of what it was,
            where 1/B gives 0.25 and B^(-1/2) a half. (2) The formula minus log B is, for B ->
            infinity, the closed form that the later steps use.
    Fails   (1) for one expectation over all anchors; (2) for the other kind of negatives.
    """
    # (1) Gap between loss and formula at 4B over the gap at B.
    ratio = t.part("four times the batch", 0.35, controls=pooled)
    cases = ((2, "others", 250), (2, "data", 30), (3, "others", 30))
    for _ in range(min(t.draws, 4)):
        for (d, negatives, B), tau in product(cases, (1.0, 5.0)):
            alpha, W = float(t.rng.uniform(0.3, 0.9)), unit(0.1 + t.rng.random((d, d)))
            gaps = []
            for size in (B, 4 * B):
                loss = finite_batch(W, alpha, tau, size, negatives)
                gaps.append(abs(loss - limit_formula(W, alpha, tau, size, negatives)))
            over_anchors = limit_formula(W, alpha, tau, size, negatives, per=False)
            ratio.add(gaps[1] / gaps[0])
            ratio.breaks("one expectation for all anchors", abs(loss - over_anchors) / gaps[0])

    # (2) The formula at B = 10^9 against the closed form.
    large, alpha = t.part("log B split off", 1e-7), 0.5
    for negatives in ml.NEGATIVES:
        W = unit(0.1 + t.rng.random((3, 3)))
        closed = float(ml.contrastive(*tensors(W), ml.one_hot(3), alpha, 2.0, negatives))
        value = limit_formula(W, alpha, 2.0, 10**9, negatives) - np.log(1e9)
        large.add(abs(value - closed))
    # The control: the formula of "others" against the closed form of "data", the last above.
    off = limit_formula(W, alpha, 2.0, 10**9, "others") - np.log(1e9) - closed
    large.breaks("the other reading", abs(off))


def printed_right_side(W: Tensor, alpha: float, tau: float) -> Tensor:
    """Eq. 15 without log B: 1/d times Eq. 16, minus log d."""
    d = W.shape[-1]
    return ml.one_hot_surrogate(W, alpha, tau) / d - np.log(d)


def _one_of_each(W: Array, alpha: float, tau: float, own: bool = False) -> float:
    """Eq. 8 by a loop over masks at the batch of all points but the anchor's; `own`: with it."""
    d, R, total = W.shape[-1], np.maximum(W, 0), 0.0
    for i in range(d):
        batch = [j for j in range(d) if own or j != i]
        for bits in product((0, 1), repeat=2 + len(batch)):  # do D_1, D_2, D_3' keep their points?
            chance = np.prod(np.where(bits, alpha, 1 - alpha))
            near = np.exp(tau * bits[0] * bits[1] * (R[:, i] @ R[:, i]))
            kept = zip(batch, bits[2:], strict=True)
            far = sum(np.exp(tau * bits[0] * b * (R[:, i] @ R[:, j])) for j, b in kept)
            total -= chance / d * np.log(near / (near + far))
    return total


@check("ncl/eq15")
def eq15(t: Trial) -> None:
    """Contrastive loss of one-hot data with many negatives, in closed form (Eq. 15).

    Given   members of U_>= and permutations, d = 2, 3, 4, many negatives: any point but the
            anchor's, or i.i.d. from the data.
    Claim   (1) The right side differs from the limit by a constant over W. (2) Eq. 16 over d is Eq.
            8 at the batch of all other points, each once.
    Fails   (1) as printed: the difference varies over W; in the proof it is another at I than at
            equal columns. Corrected: the mean over D_2^j inside the logarithm. Controls: (1) half
            of tau on the printed right side, the other reading's negatives in the corrected form;
            (2) the anchor's point in the batch as well; in the proofs of both, no ReLU.
    """
    n, cells = min(t.draws, 40), list(product((2, 3, 4), (0.3, 0.5), (1.0, 5.0)))
    forms = t.both("large batches", 1e-10, controls=pooled, draws=len(cells) * (n + 2))
    spread = {kind: [] for kind in ml.NEGATIVES}
    for d, alpha, tau in cells:
        W = torch.cat([*tensors(members(t.rng, n, d, True)), all_permutations(d)[:2]])
        exact = {kind: ml.contrastive(W, ml.one_hot(d), alpha, tau, kind) for kind in ml.NEGATIVES}

        # (1) As printed: how much the difference of both sides varies over W.
        for kind in ml.NEGATIVES:
            gap, half = (exact[kind] - printed_right_side(W, alpha, x) for x in (tau, tau / 2))
            spread[kind].append(gap.max() - gap.min())
            forms.printed.breaks("half of tau on the right", half.max() - half.min())

        # (1) Corrected: the mean over D_2^j inside, over the points that may be negatives.
        G, eye = np.maximum(W.numpy(), 0), np.eye(d)
        G = np.swapaxes(G, -1, -2) @ G
        inside = 1 - alpha + alpha * np.exp(tau * G)  # E over D_2^j of exp, D_1^i kept
        own = tau * alpha**2 * G.diagonal(0, -2, -1).mean(-1)
        for kind, other, pool in (
            ("data", "others", np.ones((d, d))),
            ("others", "data", 1 - eye),
        ):
            right = alpha * np.log((inside * pool).sum(-1) / pool.sum(-1)).mean(-1) - own
            forms.corrected.add(np.abs(right - exact[kind].numpy()))
            mixed = np.abs(right - exact[other].numpy()).max()
            forms.corrected.breaks("the other reading's pool", mixed)

    # As printed, the better of the two readings of the negatives.
    forms.printed.add(*min(spread.values(), key=max))

    # (2) Eq. 16 over d against Eq. 8 at one batch.
    once = t.part("the batch of all other points", 1e-12)
    for alpha, tau in product((0.3, 0.5), (1.0, 5.0)):
        (W,) = members(t.rng, 1, 3, True)
        surrogate = float(ml.one_hot_surrogate(*tensors(W), alpha, tau)) / 3
        once.add(abs(surrogate - _one_of_each(W, alpha, tau)))
        with_own = abs(surrogate - _one_of_each(W, alpha, tau, own=True))
        once.breaks("the anchor's point as well", with_own)
    _proves_limit(*forms, once)


def _inside(R: sympy.MatrixBase, keep: sympy.Expr, tau: sympy.Expr, own: bool) -> sympy.Expr:
    """The corrected Eq. 15 without log B at rectified columns R, d = 2, masks averaged inside."""
    total, G = sympy.S.Zero, R.T * R
    for i in range(2):
        pool = [j for j in range(2) if own or j != i]
        mean = sum(1 - keep + keep * sympy.exp(tau * G[i, j]) for j in pool) / len(pool)
        total += (keep * sympy.log(sympy.expand(mean)) - tau * keep**2 * G[i, i]) / 2
    return total


def _small_batch(k: sy.Kernel, own: bool = False) -> sympy.Expr:
    """Eq. 8 in symbols over all masks at the batch of the other point; `own`: of both."""
    terms = []
    cases: list[Any] = list(product(range(2), *[sy.masks(2)] * 4))
    for i, D1, D2, *D3 in cases:
        batch = [j for j in range(2) if own or j != i]
        near, far = k(i, D1, i, D2), sum(k(i, D1, j, D3[j]) for j in batch)
        terms.append((sy.chance(D1, D2, *D3) / 2, (near, far)))
    return sy.weighted(terms, lambda x: -sympy.log(x[0] / (x[0] + x[1])))


def _proves_limit(printed: Part, corrected: Part, once: Part) -> None:
    """At alpha = 1/2, tau = 1, from W = I to equal columns Eq. 15 rises by another amount than the
    limit, in either reading; the corrected form is the limit at any W; and Eq. 16 at one batch."""
    W = (sympy.eye(2), sympy.Matrix([[1, 1], [0, 0]]))
    half, one = sympy.S.Half, sympy.S.One

    def rise(value: Callable[[sympy.Matrix], sympy.Expr]) -> sympy.Expr:
        return sy.merged(value(W[1]) - value(W[0]))

    def powers(X: sympy.MatrixBase, tau: sympy.Expr) -> sy.Kernel:
        return sy.powers(sy.rectified_powers(X, sympy.exp(tau)))

    right = rise(lambda X: sy.surrogate(powers(X, one), half) / 2)
    R, no_relu = sy.POSITIVE, sy.similarities(rectified=False)  # R for ReLU(W)
    for own in (False, True):
        left = rise(lambda X, own=own: sy.limit(powers(X, one), half, own))
        mended = rise(lambda X, own=own: _inside(X, half, one, own))
        more = {"the corrected form": exact.differ(left, mended)}
        printed.proves(exact.differ(left, right), breaks=more, at=sy.AT)
        same, mixed = (
            exact.equal(
                sy.limit(powers(R, sy.TAU), sy.ALPHA, own), _inside(R, sy.ALPHA, sy.TAU, pool)
            )
            for pool in (own, not own)
        )
        corrected.proves(same, breaks={"the other reading's pool": mixed}, at=sy.AT)
    for part in (corrected, once):
        part.proves(sy.similarities(), breaks={"no ReLU": no_relu}, at=sy.AT)
    k = powers(R, sy.TAU)
    batch, with_own = (
        exact.equal(sy.merged(sy.surrogate(k) / 2), sy.merged(_small_batch(k, own)))
        for own in (False, True)
    )
    once.proves(batch, breaks={"the anchor's point as well": with_own}, at=sy.AT)
