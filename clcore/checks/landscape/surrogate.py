"""The surrogate of ncl Theorem 1(b)'s proof, Eq. 16: its value, its minimisers, how steep it is.

One function a claim, named after it, `check(draws, seed)`. Setting as in
`landscape.contrastive_landscape`.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.landscape.theorem1 import descended, members
from clcore.ledger import Check
from clcore.reference import Array, best, tensors, typical, worst
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


def rises(
    draws: int,
    seed: int,
    claim: str,
    note: str,
    positive: bool | None = None,
    overlaps: bool = True,
) -> Check:
    """Eq. 16 above its value at a permutation against `rise_bound`, at random members of U
    (`positive`: of U_>= alone, or none of them), several d, alpha and tau. Control: 1.01 times the
    bound, which is exact at d = 2 and where columns have been turned round."""
    rng, n = ref.generator(f"{claim} rises", seed), min(draws, 40)
    below, over = [], []
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
        below.append(bound - (rise[1:] - rise[0]))
        over.append(1.01 * bound - (rise[1:] - rise[0]))
    return Check(
        claim,
        worst(*below),
        1e-12,
        {"1.01 times the bound": worst(*over)},
        draws=sum(map(len, below)),
        part="any W",
        note=note,
    )


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


def eq16(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 16 by loops over all masks; its minimisers, and those of the limit with x' != x.

    Control: the limit with i.i.d. negatives at tau = 5, whose minimisers are others.
    """
    check, rng = partial(Check, "ncl/eq16"), ref.generator("eq16", seed)
    value, wrong = [], []
    for _ in range(min(draws, 4)):
        alpha, tau = float(rng.uniform(0.2, 0.9)), float(rng.uniform(0.5, 5))
        W = members(rng, 1, 2)[0]
        slow = _surrogate_by_loops(W, alpha, tau)
        value.append(abs(slow - float(ml.one_hot_surrogate(*tensors(W), alpha, tau))))
        wrong.append(abs(slow - float(ml.one_hot_surrogate(*tensors(W), 1 - alpha, tau))))
    control = {"1 - alpha": typical(np.array(wrong))}
    yield check(worst(np.hstack(value)), 1e-12, control, len(value), "value, all masks")
    yield rises(
        draws,
        seed,
        "ncl/eq16",
        r"$\tilde L(W)-\tilde L(P)$ against a bound in $\|r_i\|^2$ and the largest $\langle r_i,r_j"
        r"\rangle$ of every $i$, $r_i=\mathrm{ReLU}(W_{*i})$, that is zero at permutations only; "
        r"for $L_{CL}$ Theorem 1(b) has one.",
    )
    lower, gaps, total, runs = [], [], 0, max(24, min(draws, 60))
    for d, alpha, tau in ((2, 0.3, 5.0), (3, 0.9, 1.0), (3, 0.5, 2.0)):
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            f = partial(loss, keep=alpha, tau=tau)
            ends = descended(f"eq16 {d} {alpha} {tau}", seed, runs, d, f)
            above = (f(ends) - f(torch.eye(d, dtype=ends.dtype))).numpy()
            lower.append(-above)
            gaps.append(ml.permutation_gap(ends[above < 1e-10]).numpy())
            total += runs
    f = partial(ml.one_hot_contrastive, keep=0.3, tau=5.0, negatives="data")
    ends = descended("eq16 data", seed, runs, 3, f)
    eye = torch.eye(3, dtype=ends.dtype)
    control = {"i.i.d. negatives, tau = 5": float((f(eye) - f(ends)).max())}
    yield check(
        worst(np.hstack(lower)), 1e-12, control, total, "the least value is that of permutations"
    )
    lowest = ends[f(ends) < f(ends).min() + 1e-6]
    control = {"i.i.d. negatives, tau = 5": best(ml.permutation_gap(lowest).numpy())}
    yield check(
        worst(np.hstack(gaps)),
        1e-3,
        control,
        sum(map(len, gaps)),
        "minimisers are permutations",
        note=r"$L_{CL}$ with $x'\ne x$ by value. With the sum over all $j\in[d]$ of Eq. 15, "
        r"which is that of i.i.d. negatives, its minimisers are those of Eq. 16 only for "
        r"$e^\tau\le(d-\alpha)/(1-\alpha)$.",
    )


def thm1b_AB(draws: int, seed: int) -> Iterator[Check]:
    """The softmax term and B_i, all masks, d = 2. Controls: j = i in A-, the ratio turned round."""
    check, rng = partial(Check, "ncl/thm1b-AB"), ref.generator("thm1b-AB", seed)
    errors, with_own, turned = [], [], []
    for _ in range(min(draws, 3)):
        alpha, tau, W = float(rng.uniform(0.2, 0.9)), 1.5, members(rng, 1, 2)[0]
        softmax, ratio = (_surrogate_by_loops(W, alpha, tau, r) for r in (False, True))
        errors.append(abs(softmax - ratio))
    for d in (3, 5):
        s = rng.standard_normal((min(draws, 50), d, d))
        plus, whole = np.exp(s.diagonal(0, 1, 2)), np.exp(s).sum(-1)
        minus = whole - plus
        softmax = np.log(plus / whole)
        errors.append(np.abs(softmax - np.log(1 / (1 + minus / plus))).max())
        with_own.append(np.abs(softmax - np.log(1 / (1 + whole / plus))).max(-1))
        turned.append(np.abs(softmax - np.log(1 / (1 + plus / minus))).max(-1))
    control = {"j = i kept": best(np.hstack(with_own)), "ratio turned": best(np.hstack(turned))}
    yield check(worst(np.hstack(errors)), 1e-12, control, min(draws, 3) + 2 * min(draws, 50))
