"""Checks of the proof of ncl Theorem 1(b): Eqs. 19 to 21, orthogonality.

Setting as in `landscape.contrastive_landscape`.
"""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import sympy
import torch

from clcore.checks.landscape import symbols as sy
from clcore.checks.landscape.contrastive_landscape import all_permutations
from clcore.checks.landscape.surrogate import rises
from clcore.checks.landscape.theorem1 import members, unit
from clcore.ledger import Part, Trial, check, exact, pooled, typical, worst
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml

SIZES = (2, 3, 4)
SETTINGS = tuple(product((0.3, 0.5, 1.0), (0.1, 1.0, 5.0)))  # (alpha, tau)


@check("ncl/eq19")
def eq19(t: Trial) -> None:
    """Similarity of ReLU outputs is never negative (Eq. 19).

    Given   random W of any columns, random masks.
    Claim   The similarity of any two masked views after the ReLU is at least 0.
    Fails   without the ReLU.
    """
    least = t.part()
    for d in (2, 4, 8):
        # 40 or more: without the ReLU, too, seven of ten draws at d = 2 have nothing below 0
        W = t.rng.standard_normal((min(max(t.draws, 40), 100), d, d))
        D1, D2 = (t.rng.random((2, len(W), d, d)) < 0.6).astype(float)  # a mask a column
        u, v = W * D1.diagonal(0, 1, 2)[:, None], W * D2.diagonal(0, 1, 2)[:, None]
        least.add(-(np.swapaxes(u.clip(0), 1, 2) @ v.clip(0)).min((-2, -1)))
        least.breaks("no ReLU", -(np.swapaxes(u, 1, 2) @ v).min())
    least.proves(_products(_rectified), breaks={"no ReLU": _products(sy.identity)}, at=sy.AT)


def _rectified(v: sympy.MatrixBase) -> sympy.MatrixBase:
    """max(x, 0), written so that its sign is known."""
    return v.applyfunc(lambda x: sympy.Max(x, 0))


def _products(act: sy.Act) -> exact.Shown:
    """Eq. 19 at every i, j and masks, as a sum of products of entries that are at least 0."""
    cases: list[Any] = list(product(range(2), sy.masks(2), repeat=2))
    H = act(sy.ANY)
    forms = [sum(D1[i] * D2[j] * H[k, i] * H[k, j] for k in range(2)) for i, D1, j, D2 in cases]
    return exact.nonnegative([sy.similarity(sy.ANY, *case, act) for case in cases], forms)


def _bound(
    d: int, alpha: float, tau: float, traces: bool = False, power: float = 1.0, one: bool = False
) -> float:
    """The right side of Eq. 20 by a loop over pairs of masks; `traces`: for the entries ii, as g is
    typeset; g to a power; `one`: D_2 in both places, the typeset subscripts of E by the letter."""
    total = 0.0
    for D1, D2, i in product(sy.masks(d), sy.masks(d), range(d)):
        q = np.prod(np.where(np.array(D1 + D2), alpha, 1 - alpha))
        first = D2 if one else D1
        g = np.exp(power * tau * (sum(first) * sum(D2) if traces else first[i] * D2[i]))
        total -= q * np.log(1 / (1 + (d - 1) / g))
    return total


@check("ncl/eq20")
def eq20(t: Trial) -> None:
    """Lower bound on the surrogate contrastive loss (Eq. 20).

    Given   members of U and permutations, all masks, d = 2, 3, 4; g_i = e^{tau D_1,ii D_2,ii}, the
            largest that e^tau times the similarity of a positive pair can be by Eq. 18.
    Claim   (1) The surrogate loss of Eq. 16 is at least the right side, the same with g_i for the
            positive pair and 1 for negatives. (2) The right side, by loops over masks, is the
            library's closed form.
    Fails   (1) for columns of norm 2d, and the root of g; (2) as typeset, with traces for the
            entries ii, or D_2 twice; in the proof, for 1 - alpha.

    The right side falls as g grows, so that only a smaller g can fail.
    """
    n, slack = min(t.draws, 100), []
    bound = t.part("bound", 1e-12)
    formula = t.part("closed form of the right side", 1e-12, controls=pooled)
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        right, traces = (_bound(d, alpha, tau, k) for k in (False, True))

        # (1) The right side minus the loss is at most 0; at a permutation it is 0.
        W = torch.cat(
            [*tensors(members(t.rng, n, d), members(t.rng, n, d, True)), all_permutations(d)]
        )
        bound.add(right - ml.one_hot_surrogate(W, alpha, tau).numpy())
        scaled = 2 * d * torch.eye(d, dtype=W.dtype)
        longer = right - float(ml.one_hot_surrogate(scaled, alpha, tau))
        bound.breaks("columns of norm 2d", longer, by=worst)
        least = float(ml.one_hot_surrogate(torch.eye(d, dtype=torch.float64), alpha, tau))
        bound.breaks("the root of Eq. 18's g", _bound(d, alpha, tau, power=0.5) - least)
        slack.append(least - traces)

        # (2) Loops against closed form.
        formula.add(abs(right - ml.proof_bound(d, alpha, tau)))
        formula.breaks("as typeset, traces for the entries", abs(right - traces))
        if alpha < 1:  # at 1 all masks are one
            twice = abs(_bound(d, alpha, tau, one=True) - right)
            formula.breaks("as typeset, D_2 twice", twice)

    # (1) The same term by term, for symbols.
    bound.says(slack=min(slack))
    bound.proves(
        _terms(sy.IN_U),
        breaks={"columns longer than 1": _terms(sy.IN_U + sy.T * sympy.eye(2))},
        at=sy.AT,
    )

    # (2) The same for symbols.
    loops, closed = sy.proof_bound(sy.entries), _counted(sy.ALPHA)
    formula.proves(
        exact.equal(loops, closed),
        breaks={
            "traces for the entries": exact.equal(sy.proof_bound(sy.traces), closed),
            "1 - alpha": exact.equal(loops, _counted(1 - sy.ALPHA)),
        },
        at=sy.AT,
    )


def _terms(X: sympy.MatrixBase) -> exact.Shown:
    """Eq. 20 mask by mask, which is enough as log increases: g A- / A+ is at least d - 1 = 1, with
    Eq. 16's A- and A+ by the kernel's powers X. Anchor 0; for the other one X has other names."""
    k, values = sy.powers(X), []
    for D1, D2, D3 in product(sy.masks(2), repeat=3):
        g = sy.T ** (D1[0] * D2[0])
        values.append(k(0, D1, 1, D3) / k(0, D1, 0, D2) * g - 1)
    # Multiplied out, all is a sum of positive terms.
    return exact.nonnegative(values, [sympy.expand(value) for value in values])


def _counted(keep: sympy.Expr) -> sympy.Expr:
    """The right side of Eq. 20 by whether both masks keep i, d = 2."""
    both = keep**2
    return 2 * (both * sympy.log(1 + sympy.exp(-sy.TAU)) + (1 - both) * sympy.log(2))


@check("ncl/eq20-eq")
def eq20_eq(t: Trial) -> None:
    """Permutation matrices alone attain the lower bound on the surrogate loss (Equality in Eq. 20).

    Given   random members of U and all permutations, all masks, d = 2, 3, 4; g with the entries ii
            that Eq. 18 gives.
    Claim   (1) Permutations attain the bound: Eq. 16 there is the right side of Eq. 20. (2) No
            other W attains it: there Eq. 16 is larger, also at I with a column negated or repeated.
    Fails   (1) for other W, with g as typeset, with traces, and in the proof without the ReLU; (2)
            for permutations.
    """
    n = min(t.draws, 100)
    form, unique, least = t.part("equality", 1e-12), t.part("no other W", 1e-9, ">="), []
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        P = ml.one_hot_surrogate(all_permutations(d), alpha, tau).numpy()
        turned, twice = np.diag([-1.0] + [1.0] * (d - 1)), np.eye(d)[:, [1, *range(1, d)]]
        W = [members(t.rng, n, d), unit(0.1 + t.rng.random((n, d, d))), [turned, twice]]
        W = np.concatenate(W)
        value = ml.one_hot_surrogate(*tensors(W), alpha, tau).numpy()
        right, traces = (_bound(d, alpha, tau, k) for k in (False, True))
        form.add(np.abs(P - right)).breaks("other W", value - right)
        form.breaks("as typeset, traces for the entries", np.abs(P - traces))
        least.append((P - traces).min())
        unique.add(value - right).breaks("permutations", np.abs(P - right))
    eye = torch.eye(2, dtype=torch.float64)
    form.says(least=min(least), typeset=_bound(2, 0.5, 1.0, True))
    form.says(eq16=ml.one_hot_surrogate(eye, 0.5, 1.0).item())
    form.confirms(typeset=ml.proof_bound(2, 0.5, 1.0, "traces"), eq16=_bound(2, 0.5, 1.0))
    _proves_equality(form, unique)


def _proves_equality(form: Part, unique: Part) -> None:
    """Eq. 20 at permutations: with entries (i, i) it is an equality, with traces it is not.
    Elsewhere it is less, by an excess that is 0 at permutations alone."""
    permutations = [sympy.eye(2), sympy.eye(2)[[1, 0], :]]

    def left(P: sympy.MatrixBase) -> sympy.Expr:
        k = sy.powers(sy.rectified_powers(P, sympy.exp(sy.TAU)))
        return sy.merged(sy.surrogate(k, sy.ALPHA))

    by_traces, by_entries = (
        exact.equal([left(P) for P in permutations], [sy.merged(sy.proof_bound(g))] * 2)
        for g in (sy.traces, sy.entries)
    )
    form.proves(by_entries, breaks={"traces for the entries": by_traces}, at=sy.AT)
    no_relu = sy.similarities(rectified=False)
    form.proves(sy.similarities(), breaks={"no ReLU": no_relu}, at=sy.AT)
    least = sy.proof_bound(lambda i, D1, D2: sy.T ** (D1[i] * D2[i]), sy.KEEP)
    elsewhere, there = (
        sy.nonnegative_logs(
            sy.merged(sy.surrogate(sy.powers(X), sy.KEEP)) - sy.merged(least),
            sy.surrogate_excess(),
        )
        for X in (sy.IN_U, sy.AT_P)
    )
    unique.proves(elsewhere, breaks={"permutations": there}, at=sy.AT)


@check("ncl/eq21")
def eq21(t: Trial) -> None:
    """Minimisers of the contrastive loss have no negative entries (Eq. 21).

    Given   random members of U, a mask D that keeps i; permutations with a column negated.
    Claim   (1) |ReLU(W D e_i)|^2 = 1 - sum of squares of the negative entries of column i. (2) The
            surrogate loss at any W is above that at permutations by at least a bound that is 0 only
            without negative entries. (3) Surrogate and contrastive loss rise where one column of a
            permutation is negated.
    Fails   (1) for a mask that drops i, and with nothing lost; (2) for 1.01 times the bound; (3)
            for another permutation, with no column negated, and in the proof without the ReLU.
    """
    # (1) By the mask and the layer on the left, by the column's entries on the right.
    norm = t.part("norm", 1e-14)
    for d in (2, 5, 8):
        W, i = members(t.rng, min(t.draws, 100), d), int(t.rng.integers(d))
        W[..., [0, i]] = W[..., [i, 0]]  # `members` has a negative entry in column 0
        lost = (np.minimum(W[..., i], 0) ** 2).sum(-1)
        D = (t.rng.random((len(W), d)) < 0.5).astype(float)
        errors = {}
        for kept in (1.0, 0.0):
            D[:, i] = kept
            view = np.maximum(np.einsum("nkj,nj->nk", W, D * np.eye(d)[i]), 0)
            errors[kept] = np.abs((view**2).sum(-1) - (1 - lost))
        norm.add(errors[1.0])
        norm.breaks("a mask that drops i", errors[0.0], by=worst).breaks("nothing lost", lost)
    _proves_norm(norm)

    # (2) Random W, and permutations with columns negated, against the bound.
    rises(t, positive=False, overlaps=False)

    # (3) Losses with a column negated minus those without.
    raised = t.part("losses of a negated column", 1e-6, ">=")
    raised.proves(_turned(-1), breaks={"another permutation": _turned(1)}, at=sy.AT)
    no_relu = sy.similarities(rectified=False)
    raised.proves(sy.similarities(), breaks={"no ReLU": no_relu}, at=sy.AT)
    for d, (alpha, tau) in product(SIZES, SETTINGS):
        P = all_permutations(d)
        turned = P * torch.where(torch.arange(d) == int(t.rng.integers(d)), -1.0, 1.0).double()
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            raised.add(loss(turned, alpha, tau) - loss(P, alpha, tau))
            same = (loss(P.roll(1, 0), alpha, tau) - loss(P, alpha, tau)).abs()
            raised.breaks("another permutation", same)


def _proves_norm(norm: Part) -> None:
    """A column with an entry -q < 0 and masks that keep it: |W_i|^2 is above |ReLU(W D e_i)|^2 by
    q^2 and the squares of other negative entries."""
    q, rest = sympy.Symbol("q", positive=True), sy.ANY[0, 0]
    W = sympy.Matrix([[-q, 1], [rest, 0]])

    def shown(bit: int) -> exact.Shown:
        views = [sy.view(W, D, 0) for D in sy.masks(2) if D[0] == bit]
        lost = q**2 + sy.square(sy.relu(sympy.Matrix([-rest])))
        values = [sy.square(W[:, 0]) - sy.square(view) for view in views]
        return exact.nonnegative(values, [lost] * len(values))

    norm.proves(shown(1), breaks={"a mask that drops i": shown(0)}, at=sy.AT)


@cache
def _turned(sign: int) -> exact.Shown:
    """Both losses at a permutation with a column times `sign`, above another, tau = log T."""
    P, turned = sympy.eye(2), sympy.eye(2)[[1, 0], :] * sympy.diag(1, sign)
    kernels = [sy.powers(sy.rectified_powers(W, sy.T)) for W in (turned, P)]
    above = []
    for loss in (sy.surrogate, sy.limit):
        at_turned, at_p = (sy.merged(loss(k, sy.KEEP)) for k in kernels)
        above.append(at_turned - at_p)
    softmax = sy.KEEP**2 * sympy.log(1 + (sy.T - 1) / (1 + sy.T))
    forms = [softmax, sy.KEEP**2 * sympy.log(sy.T) / 2]
    return exact.nonnegative([above[0] + softmax - sy.merged(softmax), above[1]], forms)


@check("ncl/thm1b-orth")
def thm1b_orth(t: Trial) -> None:
    """Minimisers of the contrastive loss have orthogonal columns (App. A.1).

    Given   members of U_>=; columns of overlap 0 to 0.5.
    Claim   (1) Where the masks keep i and j, the similarity of Eq. 19 is <W_i, W_j>. (2) The
            surrogate loss is above that at permutations by at least a bound that is 0 only without
            overlaps. (3) Surrogate and contrastive loss rise with the overlap of two columns.
    Fails   (1) for a second mask that drops j, where the columns overlap; (2) for 1.01 times the
            bound; (3) for the loss without negatives, and in the proof for the losses in place of
            their slopes.
    """
    # (1) The similarity of the views of e_1 and e_2, under masks of which the first keeps its own.
    keep = t.part("both masks keep", 1e-14, controls=typical)
    for d in (3, 5):
        W = members(t.rng, min(t.draws, 60), d, True)
        masks = (t.rng.random((2, len(W), d)) < 0.5).astype(float)
        masks[0, :, 0] = 1

        def off_inner(second: float, W=W, masks=masks) -> Array:
            """|similarity - <W_1, W_2>|, [draws]; `second`: the second mask's separate entry."""
            masks[1, :, 1] = second
            first, other = (np.maximum((W * masks[k][:, None])[..., k], 0) for k in (0, 1))
            return np.abs((first * other).sum(-1) - (W[..., 0] * W[..., 1]).sum(-1))

        overlapping = (W[..., 0] * W[..., 1]).sum(-1) > 0
        keep.add(off_inner(1)).breaks("a mask that drops", off_inner(0)[overlapping])
    keep.proves(_both_keep(1), breaks={"a mask that drops": _both_keep(0)}, at=sy.AT)

    # (2) Random members of U_>= against the bound.
    rises(t, positive=True)

    # (3) Losses of the identity with its second column leaned towards the first, by the overlap.
    steps = t.part("losses rise with the overlap", 1e-6, ">=")
    overlap = torch.tensor([0.0, 0.01, 0.1, 0.3, 0.5], dtype=torch.float64)
    for d, (alpha, tau) in product((3, 4), SETTINGS):
        W = torch.eye(d, dtype=torch.float64).repeat(len(overlap), 1, 1)
        W[:, 0, 1], W[:, 1, 1] = overlap, (1 - overlap**2).sqrt()
        for loss in (ml.one_hot_surrogate, ml.one_hot_contrastive):
            steps.add(loss(W, alpha, tau).diff() / overlap.diff())
        slope = ml.one_hot_non_contrastive(W, alpha).diff() / overlap.diff()
        steps.breaks("without negatives", slope.abs())
    _proves_slopes(steps)


def _both_keep(bit: int) -> exact.Shown:
    """The similarity of columns 0 and 1 of W >= 0 where D_1 keeps 0 and D_2 keeps 1, or drops."""
    W = sy.POSITIVE
    pairs = [(D1, D2) for D1, D2 in product(sy.masks(2), repeat=2) if (D1[0], D2[1]) == (1, bit)]
    views = [sy.similarity(W, 0, D1, 1, D2) for D1, D2 in pairs]
    return exact.equal(views, [W[:, 0].dot(W[:, 1])] * len(pairs))


def _proves_slopes(steps: Part) -> None:
    """Derivatives of both losses by the overlap g of two unit columns W >= 0: positive terms, which
    the masks that keep both leave."""
    g = sympy.Symbol("g", nonnegative=True)
    T, G = sympy.exp(sy.TAU), sympy.exp(sy.TAU * g)
    k = sy.powers(sympy.Matrix([[T, G], [G, T]]))
    losses = [sy.surrogate(k, sy.KEEP), sy.limit(k, sy.KEEP)]
    one_kept = 2 * sy.KEEP**2 * sy.TAU * G
    forms = [
        one_kept * (sy.KEEP / (T + G) + sy.DROP / (1 + G)),
        one_kept / 2 / (sy.DROP + sy.KEEP * G),
    ]
    steps.proves(
        exact.nonnegative([sympy.diff(loss, g) for loss in losses], forms),
        breaks={"of the values": exact.nonnegative(losses, forms)},
        at=sy.AT,
    )
