"""Checks of the proof of ncl Theorem 1(b): Eqs. 19 to 21, orthogonality, permutations.

One function a claim, named after it, `check(draws, seed)`. Setting as in
`landscape.contrastive_landscape`.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import factorial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.landscape.contrastive_landscape import all_permutations
from clcore.checks.landscape.surrogate import rises
from clcore.checks.landscape.theorem1 import members, unit
from clcore.ledger import Check
from clcore.reference import best, tensors, typical, worst
from clcore.sweep import optim
from clcore.theory.sparse import mask_landscape as ml

SIZES = (2, 3, 4)
SETTINGS = tuple(product((0.3, 0.5, 1.0), (0.1, 1.0, 5.0)))  # (alpha, tau)


def eq19(draws: int, seed: int) -> Iterator[Check]:
    """The least similarity of two masked views over random W and masks. Control: no ReLU."""
    check, rng = partial(Check, "ncl/eq19"), ref.generator("eq19", seed)
    least, linear = [], []
    for d in (2, 4, 8):
        W = rng.standard_normal((min(draws, 100), d, d))
        D1, D2 = (rng.random((2, len(W), d, d)) < 0.6).astype(float)  # a mask a column
        u, v = W * D1.diagonal(0, 1, 2)[:, None], W * D2.diagonal(0, 1, 2)[:, None]
        least.append(-(np.swapaxes(u.clip(0), 1, 2) @ v.clip(0)).min())
        linear.append(-(np.swapaxes(u, 1, 2) @ v).min())
    yield check(
        worst(np.hstack(least)), 0.0, {"no ReLU": best(np.hstack(linear))}, 3 * min(draws, 100)
    )


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


def eq20(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 20 with the printed g, by loops over masks, at random W, with the E over D_1, D_2.

    The right side falls as g grows, so that only a smaller g can fail: controls are the square root
    of the g that Eq. 18 gives, and columns of norm 2d; by the letters D_2 stands twice.
    """
    check, rng = partial(Check, "ncl/eq20"), ref.generator("eq20", seed)
    below, long, formula, other, small, twice, slack = [], [], [], [], [], [], []
    n = min(draws, 100)
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        right = _printed_bound(d, alpha, tau)
        formula.append(abs(right - ml.proof_bound(d, alpha, tau, "traces")))
        other.append(abs(right - ml.proof_bound(d, alpha, tau, "own")))
        if alpha < 1:  # at 1 all masks are one
            twice.append(abs(_printed_bound(d, alpha, tau, one=True) - right))
        P = float(ml.one_hot_surrogate(torch.eye(d, dtype=torch.float64), alpha, tau))
        small.append(_printed_bound(d, alpha, tau, own=True, power=0.5) - P)
        slack.append(P - right)
        W = torch.cat([*tensors(members(rng, n, d), members(rng, n, d, True)), all_permutations(d)])
        below.append(right - ml.one_hot_surrogate(W, alpha, tau).numpy())
        scaled = 2 * d * torch.eye(d, dtype=W.dtype)
        long.append(right - float(ml.one_hot_surrogate(scaled, alpha, tau)))
    total = sum(map(len, below))
    yield check(
        worst(np.hstack(below)),
        1e-12,
        {"columns of norm 2d": max(long), "the root of Eq. 18's g": min(small)},
        total,
        "bound",
        note=r"True and loose: the right side falls as $g$ grows, so that every $g$ from that of "
        r"Eq. 18, $e^{\tau D_{1,ii}D_{2,ii}}$, upwards passes, and the printed one, with traces, "
        f"is larger; at permutations, where the left side is least, it leaves {min(slack):.1e} or "
        "more (ncl/eq20-eq).",
    )
    control = {
        "own entries for the traces": typical(np.array(other)),
        "as typeset, D_2 twice": typical(np.array(twice)),
    }
    yield check(
        worst(np.hstack(formula)),
        1e-12,
        control,
        len(formula),
        "closed form of the right side",
        misprint=r"$\mathbb E_{D_2,D_2}$ -> $\mathbb E_{D_1,D_2}$: $g$ takes $D_1^i$ and $D_2^i$",
    )


def eq20_eq(draws: int, seed: int) -> Iterator[Check]:
    """The gap of Eq. 20 at all permutations, with g as printed and with D_1,ii D_2,ii alone.

    Control: random members of U, whose gap is not zero.
    """
    check, rng = partial(Check, "ncl/eq20-eq"), ref.generator("eq20-eq", seed)
    gaps, off = {"traces": [], "own": []}, {"traces": [], "own": []}
    n = min(draws, 100)
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        P = ml.one_hot_surrogate(all_permutations(d), alpha, tau).numpy()
        W = np.concatenate([members(rng, n, d), unit(0.1 + rng.random((n, d, d)))])
        value = ml.one_hot_surrogate(*tensors(W), alpha, tau).numpy()
        for g, own in (("traces", False), ("own", True)):
            right = _printed_bound(d, alpha, tau, own)
            gaps[g].append(np.abs(P - right))
            off[g].append(value - right)
    tag = {"bound": 1e-12, "draws": sum(map(len, gaps["own"])), "part": "equality"}
    yield check(
        worst(np.hstack(gaps["traces"])),
        **tag,
        control={"other W": best(np.hstack(off["traces"]))},
        counterexample=r"$d=2$, $\alpha=1$: at $\mathbf W=\mathbf I$ the left side is "
        r"$2\log(1+e^{-\tau})$. The printed exponent is $\tau\cdot2\cdot2$, and the right side "
        r"$2\log(1+e^{-4\tau})$ is less: no $\mathbf W\in\mathcal U$ attains it.",
        note="Gap of Eq. 20 at permutations, where the left side is least: "
        f"{best(np.hstack(gaps['traces'])):.1e} or more.",
    )
    yield check(
        worst(np.hstack(gaps["own"])),
        **tag,
        control={"other W": best(np.hstack(off["own"]))},
        form="corrected",
        correction=r"$g(\mathbf D_1^i,\mathbf D_2^i):=\exp\{\tau(\mathbf D_1^i)_{ii}"
        r"(\mathbf D_2^i)_{ii}\}$, which is what Eq. 18 gives, and $\mathbb E_{D_1,D_2}$ for "
        r"$\mathbb E_{D_2,D_2}$.",
    )
    yield check(
        best(np.hstack(off["own"])),
        1e-9,
        {"permutations": worst(np.hstack(gaps["own"]))},
        sum(map(len, off["own"])),
        "no other W",
        relation=">=",
    )


def eq21(draws: int, seed: int) -> Iterator[Check]:
    """Norm lost to the negative entries of a column, through W and masks; both losses of a
    permutation with a column turned round; the surrogate at any W.

    Controls: a mask that drops i; nothing lost; another permutation.
    """
    check, rng = partial(Check, "ncl/eq21"), ref.generator("eq21", seed)
    errors, dropped, equal = [], [], []
    for d in (2, 5, 8):
        W, i = members(rng, min(draws, 100), d), int(rng.integers(d))
        W[..., [0, i]] = W[..., [i, 0]]  # `members` has a negative entry in column 0
        lost = (np.minimum(W[..., i], 0) ** 2).sum(-1)
        D = (rng.random((len(W), d)) < 0.5).astype(float)
        for kept, place in ((1.0, errors), (0.0, dropped)):
            D[:, i] = kept
            view = np.maximum(np.einsum("nkj,nj->nk", W, D * np.eye(d)[i]), 0)
            place.append(np.abs((view**2).sum(-1) - (1 - lost)))
        equal.append(lost)
    yield check(
        worst(np.hstack(errors)),
        1e-14,
        {"a mask that drops i": worst(*dropped), "nothing lost": best(*equal)},
        sum(map(len, errors)),
        "norm",
        note=r"$\|\mathrm{ReLU}(WD_1^ie_i)\|^2=1-\sum_k\min(W_{ki},0)^2$ in columns of any signs. "
        "Eq. 17 is then strict where both masks keep i; the proof names the first mask only.",
    )
    yield rises(
        draws,
        seed,
        "ncl/eq21",
        r"$\tilde L(W)-\tilde L(P)\ge\alpha^2\sum_i[\log(1+(d-1)e^{-\tau s_i})-\log(1+(d-1)"
        r"e^{-\tau})]$, $s_i=\|\mathrm{ReLU}(W_{*i})\|^2$: zero only without negative entries.",
        positive=False,
        overlaps=False,
    )
    raised, same = [], []
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        P = all_permutations(d)
        turned = P * torch.where(torch.arange(d) == int(rng.integers(d)), -1.0, 1.0).double()
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            raised.append((loss(turned, alpha, tau) - loss(P, alpha, tau)).numpy())
            same.append((loss(P.roll(1, 0), alpha, tau) - loss(P, alpha, tau)).abs().numpy())
    control = {"another permutation": worst(np.hstack(same))}
    total = sum(map(len, raised))
    yield check(
        best(np.hstack(raised)), 1e-6, control, total, "losses of a negated column", relation=">="
    )


def thm1b_orth(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 19's quantity is <W_i, W_j> when both masks keep; any overlap costs, the more the more.

    Controls: a mask that drops; the non-contrastive loss, which no overlap changes.
    """
    check, rng = partial(Check, "ncl/thm1b-orth"), ref.generator("thm1b-orth", seed)
    same, dropped = [], []
    for d in (3, 5):
        W = members(rng, min(draws, 60), d, True)
        D = (rng.random((2, len(W), d)) < 0.5).astype(float)
        D[0, :, 0] = D[1, :, 1] = 1
        u, v = (np.maximum((W * D[k][:, None])[..., k], 0) for k in (0, 1))
        same.append(np.abs((u * v).sum(-1) - (W[..., 0] * W[..., 1]).sum(-1)))
        D[1, :, 1] = 0
        v = np.maximum((W * D[1][:, None])[..., 1], 0)
        dropped.append(np.abs((u * v).sum(-1) - (W[..., 0] * W[..., 1]).sum(-1)))
    total = sum(map(len, same))
    control = {"a mask that drops": typical(*[d[d > 0] for d in dropped])}
    yield check(worst(np.hstack(same)), 1e-14, control, total, "both masks keep")
    yield rises(
        draws,
        seed,
        "ncl/thm1b-orth",
        r"$W\ge0$: the surrogate above its value at permutations, against a bound in the largest "
        r"$\langle W_{*i},W_{*j}\rangle$ of every $i$: zero only if all are zero.",
        positive=True,
    )
    overlap = torch.tensor([0.0, 0.01, 0.1, 0.3, 0.5], dtype=torch.float64)
    steps, without = [], []
    for d, (alpha, tau) in product((3, 4), SETTINGS):
        W = torch.eye(d, dtype=torch.float64).repeat(len(overlap), 1, 1)
        W[:, 0, 1], W[:, 1, 1] = overlap, (1 - overlap**2).sqrt()
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            steps.append((loss(W, alpha, tau).diff() / overlap.diff()).numpy())
        slope = ml.one_hot_non_contrastive(W, alpha).diff() / overlap.diff()
        without.append(slope.abs().numpy())
    yield check(
        best(np.hstack(steps)),
        1e-6,
        {"without negatives": worst(np.hstack(without))},
        len(steps) * 4,
        "losses rise with the overlap",
        relation=">=",
        note='The sentence before the conclusion has "inequality" for "equality".',
    )


def _families(m: int, d: int) -> int:
    """How many ways d columns on m rows can have supports that are disjoint and not empty."""
    supports = range(1, 2**m)

    def extend(used: int, left: int) -> int:
        if not left:
            return 1
        return sum(extend(used | s, left - 1) for s in supports if not used & s)

    return extend(0, d)


def thm1b_perm(draws: int, seed: int) -> Iterator[Check]:
    """Supports of non-negative orthonormal columns, counted; limits of alternating projections.

    Non-negative columns are orthogonal if and only if their supports are disjoint. Controls: one
    row more; orthonormal without the sign.
    """
    check, rng = partial(Check, "ncl/thm1b-perm"), ref.generator("thm1b-perm", seed)
    counts = [float(abs(_families(d, d) - factorial(d))) for d in (1, 2, 3, 4, 5)]
    wide = [float(abs(_families(d + 1, d) - factorial(d + 1))) for d in (2, 3, 4)]
    yield check(
        worst(np.hstack(counts)),
        0.0,
        {"one row more": min(wide)},
        len(counts),
        "supports",
        note="Families of disjoint supports less d!; with m = d + 1 there are more than the (d+1)! "
        "partial permutations.",
    )
    d, runs = 5, max(20, min(draws, 200))
    (W,) = tensors(rng.random((runs, d, d)))
    for _ in range(400):
        U, _, V = torch.linalg.svd(W)
        W = (U @ V).clamp(min=0)
    W = optim.unit_columns(W)
    residual = (W.mT @ W - torch.eye(d, dtype=W.dtype)).abs().amax((-2, -1))
    gaps = ml.permutation_gap(W[residual < 1e-10]).numpy()
    free = (U @ V)[: len(gaps)]
    turned = free @ torch.linalg.qr(*tensors(rng.standard_normal((len(free), d, d)))).Q
    control = {"orthogonal, signs free": best(ml.permutation_gap(turned).numpy())}
    yield check(worst(gaps), 1e-6, control, len(gaps), "alternating projections")
