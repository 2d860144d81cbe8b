"""The surrogate of ncl Theorem 1(b)'s proof, Eq. 16: its value, its minimisers, how steep it is.

Setting as in `landscape.contrastive_landscape`.
"""

from collections.abc import Callable
from functools import cache, partial
from itertools import product

import numpy as np
import sympy
import torch

from clcore.checks.landscape import symbols as sy
from clcore.checks.landscape.theorem1 import ONE_ROW_TWICE, descended, members
from clcore.ledger import Part, Trial, check, exact, pooled, worst
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml


def rise_bound(W: Array, alpha: float, tau: float, overlaps: bool = True) -> Array:
    """A lower bound on Eq. 16 at W above its value at a permutation, [...]; W [..., d, d].

    Of anchor i's sum it keeps i's own term, by s = |r_i|^2, and the neighbour with the largest
    overlap g = <r_i, r_j>, r = ReLU(W)'s columns; the others' terms are at least 1. Zero only if
    all s = 1 and all g = 0. Without `overlaps` g = 0, as Eq. 20 has it: then it is
    alpha^2 sum_i [log(1 + (d - 1) e^{-tau s_i}) - log(1 + (d - 1) e^{-tau})].
    """
    d, R = W.shape[-1], np.maximum(W, 0)
    G = np.swapaxes(R, -1, -2) @ R
    s = np.diagonal(G, axis1=-2, axis2=-1)
    g = (G * (1 - np.eye(d))).max(-1) if overlaps else 0 * s
    alone = np.log1p((d - 1) * np.exp(-tau * s))
    beside = np.log1p((d - 2 + np.exp(tau * g)) * np.exp(-tau * s))
    both_kept = (1 - alpha) * alone + alpha * beside - np.log1p((d - 1) * np.exp(-tau))
    own_dropped = alpha * np.log((d - 1 + np.exp(tau * g)) / d)
    return (alpha**2 * both_kept + alpha * (1 - alpha) * own_dropped).sum(-1)


def rises(t: Trial, positive: bool | None = None, overlaps: bool = True) -> None:
    """Eq. 16 above its value at a permutation against `rise_bound`, at random members of U
    (`positive`: of U_>= alone, or none of them), several d, alpha and tau. Control: 1.01 times the
    bound, which is exact at d = 2 and where columns have been turned round."""
    rng, n = t.stream("rises"), min(t.draws, 40)
    part = t.part("any W", 1e-12, controls=worst)
    for d, alpha, tau in product((2, 3, 4, 6), (0.3, 0.6, 1.0), (0.1, 1.0, 5.0)):
        kinds = (True, False) if positive is None else (positive,)
        W = np.concatenate([members(rng, n, d, kind) for kind in kinds])
        if not positive:
            turned = np.where(rng.random((2, 1, d)) < 0.5, -1, 1)
            turned[:, :, 0] = -1
            W = np.concatenate([W, np.eye(d)[rng.permutation(d)] * turned])
        P = np.eye(d)[rng.permutation(d)]
        rise = ml.one_hot_surrogate(*tensors(np.concatenate([P[None], W])), alpha, tau).numpy()
        bound = rise_bound(W, alpha, tau, overlaps)
        part.add(bound - (rise[1:] - rise[0]))
        part.breaks("1.01 times the bound", 1.01 * bound - (rise[1:] - rise[0]))
    more = {"1.01 times the bound": _rise(overlaps, sympy.Rational(101, 100))}
    part.proves(_rise(overlaps, sympy.S.One), breaks=more, at=sy.AT)


@cache
def _rise(overlaps: bool, times: sympy.Expr) -> exact.Shown:
    """Whether Eq. 16 rises by `times` `rise_bound` or more, in symbols, d = 2, all of U; with
    overlaps the bound is the rise itself, so that equality is shown."""
    bound, rest = sympy.S.Zero, sympy.S.Zero
    for own in sy.IN_U.diagonal():
        alone = sympy.log(1 + 1 / own)
        beside = sympy.log(1 + (1 + sy.E) / own) if overlaps else alone
        kept = sy.DROP * alone + sy.KEEP * beside - sympy.log(1 + 1 / sy.T)
        dropped = sympy.log(1 + sy.E / 2)
        bound += sy.KEEP**2 * (kept + int(overlaps) * sy.DROP * dropped)
        rest += sy.KEEP**3 * sympy.log(1 + sy.E / (1 + own)) + sy.KEEP**2 * sy.DROP * dropped
    gap = sy.surrogate_gap() - sy.merged(times * bound)
    return exact.equal(gap) if overlaps else sy.nonnegative_logs(gap, rest)


def _surrogate_by_loops(W: Array, alpha: float, tau: float, ratio: bool = False) -> float:
    """Eq. 16 by a loop over all masks D_1^i, D_2^1, ..., D_2^d; `ratio` uses B_i for each term."""
    d, total = W.shape[-1], 0.0
    masks = [np.array(D) for D in product((0, 1), repeat=d)]
    eye = np.eye(d)
    for i in range(d):
        for D in product(masks, repeat=d + 1):
            q = np.prod(np.where(np.array(D), alpha, 1 - alpha))
            anchor = np.maximum(W @ (D[0] * eye[i]), 0)
            s = [anchor @ np.maximum(W @ (D[1 + j] * eye[j]), 0) for j in range(d)]
            plus = np.exp(tau * s[i])
            if ratio:
                minus = sum(np.exp(tau * s[j]) for j in range(d) if j != i)
                total -= q * np.log(1 / (1 + minus / plus))
            else:
                total -= q * np.log(plus / sum(np.exp(tau * v) for v in s))
    return total


@check("ncl/eq16")
def eq16(t: Trial) -> None:
    """Surrogate contrastive loss with the same minimisers (Eq. 16).

    Given   members of U, one-hot latents, all masks; ends of descents on both losses, negatives x'
            != x.
    Claim   (1) The surrogate by loops over masks is the closed form. (2) Any W is above
            permutations by at least a bound that is zero only there. (3) At the ends of descents
            neither loss is lower than at permutations, and (4) ends as low are permutations.
    Fails   (1) for 1 - alpha; (2) for 1.01 times the bound; (3), (4) for i.i.d. negatives at tau =
            5; (4) for two columns on one row; in the proofs (1) without the ReLU, (3), (4) with an
            excess that leaves overlaps out.
    """
    # (1) Loops against the closed form that the library uses.
    value = t.part("value, all masks", 1e-12, controls=pooled)
    for _ in range(min(t.draws, 4)):
        alpha, tau = float(t.rng.uniform(0.2, 0.9)), float(t.rng.uniform(0.5, 5))
        W = members(t.rng, 1, 2)[0]
        by_loops = _surrogate_by_loops(W, alpha, tau)
        value.add(abs(by_loops - float(ml.one_hot_surrogate(*tensors(W), alpha, tau))))
        other = abs(by_loops - float(ml.one_hot_surrogate(*tensors(W), 1 - alpha, tau)))
        value.breaks("1 - alpha", other)

    # (2) Random members of U, and permutations with columns negated, against the bound.
    rises(t)

    # (3) The value of both losses at the ends minus that at I; (4) at ends where it is 0, how far
    # they are from a permutation.
    lower = t.part("the least value is that of permutations", 1e-12)
    gaps = t.part("minimisers are permutations", 1e-3)
    runs = max(24, min(t.draws, 60))
    for d, alpha, tau in ((2, 0.3, 5.0), (3, 0.9, 1.0), (3, 0.5, 2.0)):
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            at = partial(loss, keep=alpha, tau=tau)
            ends = descended(t, f"{d} {alpha} {tau}", runs, d, at)
            above = at(ends) - at(torch.eye(d, dtype=ends.dtype))
            lower.add(-above)
            # (4) Ends as low are permutations.
            gaps.add(ml.permutation_gap(ends[above < 1e-10]))

    # (3), (4) Negatives that may repeat the anchor: lower ends, which are no permutations.
    at = partial(ml.one_hot_contrastive, keep=0.3, tau=5.0, negatives="data")
    ends = descended(t, "data", runs, 3, at)
    below = at(torch.eye(3, dtype=ends.dtype)) - at(ends)
    lower.breaks("i.i.d. negatives, tau = 5", below.max())
    lowest = ends[at(ends) < at(ends).min() + 1e-6]
    gaps.breaks("i.i.d. negatives, tau = 5", ml.permutation_gap(lowest))
    gaps.breaks("two columns on one row", ml.permutation_gap(ONE_ROW_TWICE))

    _proves_minimisers(value, lower, gaps)


def _proves_minimisers(value: Part, lower: Part, gaps: Part) -> None:
    """The value at any W by the overlaps of its rectified columns. Both losses above permutations:
    nothing lower, and as high only if the rectified columns have norm 1 and do not overlap, which
    is at permutations alone (ncl/eq21, ncl/thm1b-perm)."""
    R = sy.POSITIVE  # for ReLU(W)

    def closed(keep: sympy.Expr) -> sympy.Expr:
        total = (1 - keep) * 2 * sympy.log(2)
        for i, kept in product(range(2), sy.masks(2)):
            overlaps = [sy.TAU * R[:, i].dot(R[:, j]) * kept[j] for j in range(2)]
            softmax = sympy.log(sum(map(sympy.exp, overlaps))) - overlaps[i]
            total += keep * sy.chance(kept, keep=keep) * softmax
        return total

    by_masks = sy.merged(sy.surrogate(sy.kernel(R)))
    value.proves(sy.similarities(), breaks={"no ReLU": sy.similarities(rectified=False)}, at=sy.AT)
    value.proves(
        exact.equal(by_masks, sy.merged(closed(sy.ALPHA))),
        breaks={"1 - alpha": exact.equal(by_masks, sy.merged(closed(1 - sy.ALPHA)))},
        at=sy.AT,
    )
    no_overlaps = {"overlaps left out": sy.surrogate_rises(overlaps=False)}
    iid = {"i.i.d. negatives": sy.limit_rises(own=True)}
    for part in (lower, gaps):
        part.proves(sy.surrogate_rises(), breaks=no_overlaps, at=sy.AT)
        part.proves(sy.limit_rises(), breaks=iid, at=sy.AT)


@check("ncl/thm1b-AB")
def thm1b_AB(t: Trial) -> None:
    """Positive and negative parts of the surrogate contrastive loss (App. A.1, after Eq. 16).

    Given   random W and all masks, d = 2; random similarities, d = 3, 5.
    Claim   The log terms of Eq. 16 are log(1/(1 + A-/A+)), A+ = e^{tau S+} of the positive pair, A-
            the sum of e^{tau S-} over all j != i.
    Fails   with j = i kept in A-, and with A+/A- for the ratio.
    """
    part = t.part(bound=1e-12)
    # All of Eq. 16 by loops over masks, in either form; then its terms at any similarities s.
    for _ in range(min(t.draws, 3)):
        alpha, tau, W = float(t.rng.uniform(0.2, 0.9)), 1.5, members(t.rng, 1, 2)[0]
        softmax, ratio = (_surrogate_by_loops(W, alpha, tau, r) for r in (False, True))
        part.add(abs(softmax - ratio))
    for d in (3, 5):
        s = t.rng.standard_normal((min(t.draws, 50), d, d))
        plus, whole = np.exp(s.diagonal(0, 1, 2)), np.exp(s).sum(-1)
        minus = whole - plus
        softmax = np.log(plus / whole)
        part.add(np.abs(softmax - np.log(1 / (1 + minus / plus))).max(-1))
        part.breaks("j = i kept", np.abs(softmax - np.log(1 / (1 + whole / plus))).max(-1))
        part.breaks("ratio turned", np.abs(softmax - np.log(1 / (1 + plus / minus))).max(-1))
    part.proves(
        _log_terms(lambda plus, minus: minus / plus),
        at="d = 3",
        breaks={
            "j = i kept": _log_terms(lambda plus, minus: (plus + minus) / plus),
            "ratio turned": _log_terms(lambda plus, minus: plus / minus),
        },
    )


def _log_terms(ratio: Callable[[sympy.Expr, sympy.Expr], sympy.Expr]) -> exact.Shown:
    """Eq. 16's log terms at any similarities, against log(1 / (1 + ratio of A+ and A-))."""
    A = exact.matrix("s", 3, 3).applyfunc(sympy.exp)
    softmax = [sympy.log(A[i, i] / sum(A[i, :])) for i in range(3)]
    others = [sum(A[i, j] for j in range(3) if j != i) for i in range(3)]
    B = [sympy.log(1 / (1 + ratio(A[i, i], others[i]))) for i in range(3)]
    return exact.equal([sy.merged(x) for x in softmax], [sy.merged(x) for x in B])
