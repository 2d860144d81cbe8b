"""Checks of ncl Theorem 1(b) and of every step of its proof: the contrastive landscape.

One function a claim, named after it, `check(draws, seed)`. One-hot latents, M = I, no noise, W with
unit columns, tau > 0. Where the negatives matter, both readings are computed: x' != x ("others", as
Eq. 8 prints) and x' from the data law ("data"), which may repeat the anchor.
"""

from collections.abc import Iterator
from functools import partial
from itertools import permutations, product

import numpy as np
import torch
from scipy.stats import multinomial
from torch import Tensor

from clcore import reference as ref
from clcore.checks.landscape.theorem1 import descended, members, unit
from clcore.ledger import Check
from clcore.reference import Array, best, tensors, typical, worst
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


def thm1b(draws: int, seed: int) -> Iterator[Check]:
    """Permutations share the least value, by enumeration; nothing lower; no other W reaches it.

    Random W, W near permutations, ends of descents. Controls: normalised representations, signed
    latents, m = d + 1 rows; with i.i.d. negatives tau above log((d - alpha) / (1 - alpha)).
    """
    check, rng = partial(Check, "ncl/thm1b"), ref.generator("thm1b", seed)
    spread, lower, gaps, excess, twice = ([] for _ in range(5))
    below, below_gaps, above = [], [], []
    n, runs = min(draws, 100), max(24, min(draws, 40))
    cells = list(product(SIZES, *SETTINGS)) if draws > 20 else FEW
    for d, alpha, tau in cells:
        name, law, P = f"thm1b {d} {alpha} {tau}", ml.one_hot(d), all_permutations(d)
        at = ml.contrastive(P, law, alpha, tau)
        floor = float(at[0])
        spread.append((at - floor).abs().numpy())
        near = P.numpy()[:, None] + rng.choice((1e-3, 0.1)) * rng.standard_normal((4, d, d))
        W = [members(rng, n, d), members(rng, n, d, True), unit(near.reshape(-1, d, d))]
        (W,) = tensors(np.concatenate(W))
        ends = descended(name, seed, runs, d, partial(ml.one_hot_contrastive, keep=alpha, tau=tau))
        W = torch.cat([W, ends])
        value = ml.contrastive(W, law, alpha, tau)
        lower.append((floor - value).numpy())
        gaps.append(ml.permutation_gap(ends[value[-runs:] < floor + 1e-10]).numpy())
        least = excess_bound(W, alpha, tau)
        excess.append((least - (value - floor)).numpy())
        twice.append((2 * least - (value - floor)).numpy())
        limit = ml.repeats_threshold(d, alpha)
        for t, place in ((0.98 * limit, below), (1.5 * limit, above)):
            loss = partial(ml.one_hot_contrastive, keep=alpha, tau=t, negatives="data")
            found = [W, descended(name, seed, runs, d, loss), beyond(d, alpha, t)[None]]
            found = torch.cat(found)
            rise = loss(found) - loss(P[0])
            place.append(-rise.min().numpy()[None])
            if place is below:
                below_gaps.append(ml.permutation_gap(found[rise < 1e-11]).numpy())
    total = sum(map(len, lower))
    control = {"i.i.d. negatives, tau 1.5 times the threshold": best(np.hstack(above))}
    yield check(
        worst(np.hstack(spread + lower)),
        1e-12,
        control,
        total,
        "permutations, nothing lower",
        note=r"Negatives differ from the anchor, $x'\ne x$, as Eq. 8 prints, by their value. Fails "
        r"where they are i.i.d., so that they may repeat the anchor's point, and "
        r"$e^\tau>(d-\alpha)/(1-\alpha)$: columns shorter than 1 after the ReLU are then better. "
        "The proof's sum over "
        r"all $j\in[d]$ with $B/d$ is of i.i.d. negatives; those of a batch of one-hot samples, "
        r"told apart by their index, tend to these; and the experiments' $\tau=20$ (the program's) "
        rf"is above the threshold, {ml.repeats_threshold(10, 0.5):.2g} at $d=10$, "
        r"$\alpha=\frac12$.",
    )
    yield check(
        worst(np.hstack(gaps)),
        1e-3,
        _ties(),
        sum(map(len, gaps)),
        "only permutations",
        note="Largest entry of W - P at ends of descents that reach the least value; controls: the "
        "same for some W that tie with a permutation once a hypothesis is dropped.",
    )
    yield check(
        worst(np.hstack(excess)),
        1e-13,
        {"twice the bound": worst(np.hstack(twice))},
        total,
        "quantitative",
        note=r"$L-L_P\ge\frac{\tau\alpha^2}d\sum_i[1-\|r_i\|^2+\mathrm{mean}_{j\ne i}\langle r_i,"
        r"r_j\rangle]$, $r_i=\mathrm{ReLU}(W_{*i})$: zero at permutations only.",
    )
    tag = {"control": control, "draws": total}
    text = r"If negatives may repeat the anchor, the statement holds for $e^\tau\le(d-\alpha)/"
    yield check(
        worst(np.hstack(below)),
        1e-12,
        **tag,
        part="i.i.d. negatives, small tau: nothing lower",
        note=text
        + r"(1-\alpha)$. Fails where $\tau$ is larger: there $\|\mathrm{ReLU}(W_{*i})\|^2<1$ is "
        "better.",
    )
    yield check(
        worst(np.hstack(below_gaps)),
        1e-3,
        {"columns that are best at a larger tau": float(1 - ml.best_length(3, 0.5, 4.0) ** 0.5)},
        sum(map(len, below_gaps)),
        "i.i.d. negatives, small tau: only permutations",
    )


def _compositions(total: int, parts: int) -> Array:
    """All non-negative integer vectors of this sum, [count, parts]."""
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


def thm1b_lln(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 8 at B i.i.d. negatives, exactly, against the formula: the difference falls as 1 / B.

    Ratio of the differences at 4B and B. Control: the expectation taken over the anchor as well.
    """
    check, rng = partial(Check, "ncl/thm1b-lln"), ref.generator("thm1b-lln", seed)
    ratios, broken = [], []
    cases = ((2, "others", 250), (2, "data", 30), (3, "others", 30))
    for _ in range(min(draws, 4)):
        for (d, negatives, B), tau in product(cases, (1.0, 5.0)):
            alpha, W = float(rng.uniform(0.3, 0.9)), unit(0.1 + rng.random((d, d)))
            gaps = []
            for size in (B, 4 * B):
                exact = finite_batch(W, alpha, tau, size, negatives)
                gaps.append(abs(exact - limit_formula(W, alpha, tau, size, negatives)))
            other = limit_formula(W, alpha, tau, size, negatives, per=False)
            ratios.append(gaps[1] / gaps[0])
            broken.append(abs(exact - other) / gaps[0])
    control = {"one expectation for all anchors": typical(np.array(broken))}
    yield check(worst(np.hstack(ratios)), 0.5, control, len(ratios), "four times the batch")
    large = []
    for negatives in ml.NEGATIVES:
        W, alpha = unit(0.1 + rng.random((3, 3))), 0.5
        value = limit_formula(W, alpha, 2.0, 10**9, negatives) - np.log(1e9)
        closed = ml.contrastive(*tensors(W), ml.one_hot(3), alpha, 2.0, negatives)
        large.append(abs(value - float(closed)))
    off = limit_formula(W, alpha, 2.0, 10**9, "others") - np.log(1e9) - float(closed)
    control = {"the other reading": abs(off)}
    yield check(worst(np.hstack(large)), 1e-7, control, len(large), "log B split off")


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


def eq15(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 15 against the large-B limit, both readings. Corrected: the mean inside the log.

    Printed: the spread over W of the difference, so that no constant counts. Control: the other
    reading's pool. A part of its own: Eq. 16 is d times Eq. 8 at the batch of all other points,
    each once; control there: every point, the anchor's included.
    """
    check, rng = partial(Check, "ncl/eq15"), ref.generator("eq15", seed)
    printed, mended, mixed = {n: [] for n in ml.NEGATIVES}, [], []
    once, all_points = [], []
    n = min(draws, 40)
    for d, alpha, tau in product((2, 3, 4), (0.3, 0.5), (1.0, 5.0)):
        W = torch.cat([*tensors(members(rng, n, d, True)), all_permutations(d)[:2]])
        exact = {kind: ml.contrastive(W, ml.one_hot(d), alpha, tau, kind) for kind in ml.NEGATIVES}
        for kind in ml.NEGATIVES:
            gap = exact[kind] - printed_right_side(W, alpha, tau)
            printed[kind].append((gap.max() - gap.min()).numpy()[None])
        G, eye = np.maximum(W.numpy(), 0), np.eye(d)
        G = np.swapaxes(G, -1, -2) @ G
        inside = 1 - alpha + alpha * np.exp(tau * G)  # E over D_2^j of exp, D_1^i kept
        own = tau * alpha**2 * G.diagonal(0, -2, -1).mean(-1)
        for kind, pool in (("data", eye + (1 - eye)), ("others", 1 - eye)):
            right = alpha * np.log((inside * pool).sum(-1) / pool.sum(-1)).mean(-1) - own
            mended.append(np.abs(right - exact[kind].numpy()))
            mixed.append(np.abs(right - exact["others" if kind == "data" else "data"].numpy()))
    for alpha, tau in product((0.3, 0.5), (1.0, 5.0)):
        (W,) = members(rng, 1, 3, True)
        surrogate = float(ml.one_hot_surrogate(*tensors(W), alpha, tau)) / 3
        once.append(abs(surrogate - _one_of_each(W, alpha, tau)))
        all_points.append(abs(surrogate - _one_of_each(W, alpha, tau, own=True)))
    tag = {
        "bound": 1e-10,
        "control": {"the other reading's pool": typical(np.array([m.max() for m in mixed]))},
        "draws": len(printed["data"]) * (n + 2),
        "part": "large batches",
    }
    yield check(
        min(worst(np.hstack(printed[kind])) for kind in ml.NEGATIVES),
        **tag,
        counterexample=r"$\mathbf W=\mathbf I$, $d=2$, $\alpha=\frac12$, $\tau=1$. Without "
        r"$\log B$ the left is $-\frac14$ if $x'\ne x$ and $-\frac14+\frac12\log\frac{3+e}4"
        r"=-0.071$ if $x'$ is i.i.d.; the right side is $-\frac14+\frac14\log\frac{1+e}2=-0.095$.",
        note="Largest less smallest difference of the sides over W: constants do not count. The "
        "better of the two readings of the negatives.",
    )
    yield check(
        worst(np.hstack(mended)),
        **tag,
        form="corrected",
        correction=r"The denominator is $\sum_j\mathbb E_{D_2^j}\exp\{\cdot\}$, the expectation "
        r"inside the logarithm and the term $j=i$ under a mask of its own, over $j\in[d]$ with "
        r"$\log\frac Bd$ if $x'$ may repeat $x$, over $j\ne i$ with $\log\frac B{d-1}$ if not.",
    )
    control = {"the anchor's point as well": best(np.array(all_points))}
    yield check(
        worst(np.array(once)),
        1e-12,
        control,
        len(once),
        "the batch of all other points",
        note="Eq. 16 over d is Eq. 8, exactly and for every $W$, if the batch is each of the other "
        "d - 1 points once under a mask of its own: one small batch, not a large one.",
    )


def rem13(draws: int, seed: int) -> Iterator[Check]:
    """Where projected gradient descent ends in the setting of Theorem 1, d = 10, from 50 random
    starts or more: NCL at minimisers that are short of the truth, CL at permutations? Shares,
    against a half. Controls: permutations for the first, starts for the second. The rule of descent
    is ours, hence partial. See `sparse_runs.remarks.rem13` for trained nets."""
    d, alpha, tau, runs = 10, 0.5, 2.0, min(max(draws, 50), 200)
    (start,) = tensors(ref.generator("rem13", seed).standard_normal((runs, d, d)))
    eye = torch.eye(d, dtype=torch.float64)

    def share_bad(W: Tensor) -> float:
        """Optimal within 1e-6, with a column of the truth that no row matches to 0.9."""
        least = ml.one_hot_non_contrastive(eye, alpha)
        scores = (W / W.norm(dim=-1, keepdim=True)).abs().amax(-2).amin(-1)
        return float(((ml.one_hot_non_contrastive(W, alpha) < least + 1e-6) & (scores < 0.9))
                     .double().mean())  # fmt: skip

    ncl = ml.descend(partial(ml.one_hot_non_contrastive, keep=alpha), start, 200)
    shared = {"claim": "ncl/rem13", "bound": 0.5, "relation": ">=", "evidence": "partial"}
    yield Check(
        **shared,
        measured=share_bad(ncl),
        control={"permutations": share_bad(eye[None])},
        draws=runs,
        part="Theorem 1's setting: NCL ends at bad minima",
    )
    cl = ml.descend(partial(ml.one_hot_contrastive, keep=alpha, tau=tau), start, 200)
    found = ml.permutation_gap(cl) < 0.01
    positive = ml.descend(partial(ml.one_hot_contrastive, keep=alpha, tau=tau), start.abs(), 200)
    alive = float((ml.permutation_gap(positive) < 0.01).double().mean())
    rise = ml.one_hot_contrastive(cl[~found], alpha, tau) - ml.one_hot_contrastive(eye, alpha, tau)
    yield Check(
        **shared,
        measured=float(found.double().mean()),
        control={
            "starts": float((ml.permutation_gap(ml.unit_columns(start)) < 0.01).double().mean())
        },
        draws=runs,
        part="Theorem 1's setting: CL ends at permutations",
        note=f"The others end {float(rise.median()):.2g} above the minimum. Coordinates that the "
        f"ReLU has switched off are a part of it: from starts without negative entries {alive:.2g} "
        "do.",
    )
