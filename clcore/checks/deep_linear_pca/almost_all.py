"""'Almost all local optima are global' (acl Sec. 4): which are not, how many, who ends there.

Thousands of random starts climb, as in `landscape`; `draws` counts starts a cell.
"""

from itertools import combinations
from itertools import product as every

import numpy as np
import torch

from clcore import random as cr
from clcore.checks.deep_linear_pca.landscape import (
    SPECTRA,
    WIDTHS,
    can_trap,
    climb,
    energy_of,
    trap,
)
from clcore.ledger import Trial, check, fraction, typical
from clcore.reference import Array, tensors, unit
from clcore.theory import deep_linear as dl

# L >= 3, W_{>1} of two columns: at a trap its top eigenvalue is repeated, and Theorem 3 silent.
TRAPS = ("mostly negative", (6, 2, 4, 2))
WORST = ("mostly negative", (6, 1, 2, 1))  # most traps: about half of the starts


@check("acl/num11")
def num11(t: Trial) -> None:
    """Almost all local optima are global and reach the PCA objective (Abstract, Sec. 4.3).

    Given   the deep linear max player on the spheres, fixed alpha, lambda_max(X_alpha) > 0, four
            spectra, L = 1..5; ascent from random starts.
    Claim   (1) E = lambda_max at local maxima, almost all; (2) from almost all starts (at least 99
            per cent): where X has few negative eigenvalues, and where E > 0 at the start, as (3)
            other points without slope curve upwards, but those with E = 0 and W_{>1} = 0; (4)
            which is the PCA objective.
    Fails   (1) at those with W_{>1} = 0 and W_1 X W_1^T negative definite, or the same of a higher
            layer: more of them than global ones, by dimension. Not where the maximal eigenvalue of
            W_{>1}^T W_{>1} is distinct and positive (Theorem 3). (2) where X has as many negative
            eigenvalues as some layer l <= L - 2 has nodes, from E < 0. (4) for more than one
            component. Controls: (1), (2) the starts themselves; (3) global maxima and traps; (4)
            the second eigenvalue.
    """
    many, few = max(min(t.draws, 1000), 200), min(t.draws, 1000)
    # Two shares are reported: 20 starts would not tell them.
    starts = dict.fromkeys(every(SPECTRA, WIDTHS), few) | {TRAPS: many, WORST: many}
    printed, corrected = maxima = t.both("local maxima", 1e-6)
    safe = t.part("share of starts, where there is no trap", 0.99, ">=")
    positive = t.part(
        "share of starts with E > 0", 0.99, ">=", measured=fraction, controls=fraction
    )
    safe.draws = sum(n for cell, n in starts.items() if not can_trap(SPECTRA[cell[0]], cell[1]))
    for (name, widths), count in starts.items():
        values = SPECTRA[name]
        keys = t.keys(count, f"{name} {widths}")
        limits, X = climb(keys, values, widths)
        E = energy_of([w.numpy() for w in limits.weights], X.numpy())
        begun = dl.energy(dl.starts(cr.fold_in(keys, 2), widths), X).numpy()

        # (1) Ends with no slope and no curvature upwards that are traps, or where W_{>1}^T W_{>1}
        # has a distinct top eigenvalue.
        top, distinct = dl.distinct_top(limits.weights)
        held = dl.trapped(limits.weights, X, 1e-4)
        flat = dl.curvature(limits.weights, X)[:, -1] < 1e-6
        maximum = ((limits.residual < 1e-7) & flat & (distinct | held)).numpy()
        gap = (limits.energy / values[0] - 1).abs().numpy()
        printed.add(gap[maximum])
        printed.fails_by(np.abs(E[maximum] / values[0] - 1))
        some = (distinct & (top > 1e-6)).numpy()
        corrected.add(gap[maximum & some])
        maxima.breaks("the starts, before the ascent", np.abs(begun / values[0] - 1), by=typical)
        corrected.breaks("local maxima with $W_{>1}=0$", gap[maximum & ~some])

        # (2) The share of starts that end at lambda_max.
        arrived, stayed = (np.abs(e / values[0] - 1) < 1e-4 for e in (E, begun))
        share, before = arrived.mean(), stayed.mean()
        positive.add(arrived[begun > 0]).breaks("no ascent", stayed[begun > 0])
        if can_trap(values, widths):
            positive.breaks("starts with E < 0", arrived[begun < 0])
        if not can_trap(values, widths):
            safe.add(share).breaks("no ascent", before)
        elif (name, widths) == WORST:
            safe.breaks("cells with traps", share)
            printed.says(worst=float(share), many=many)
        elif (name, widths) == TRAPS:
            # No closed form of the share at these widths: the same ends, their energies alone.
            safe.breaks("cells with traps", share)
            steep = sum(v < 0 for v in values)
            printed.says(reached=float(share), held=float(held.double().mean()), steep=steep)
            printed.confirms(0.03, held=(np.abs(E) < 1e-7).mean())  # a run may be on its way
            ends = [w.numpy()[held.numpy()] for w in limits.weights]
            printed.says(bad=int(_dimension(ends).max()), good=sum(widths[1:]) - len(widths[1:]))
            # W_2 is free, the rows of W_3 are across its columns, W_1 is free; three norms.
            printed.confirms(bad=8 + 4 + 12 - 3, good=1 + 3 + 1)  # v_1, v_2, v_3 on their spheres
    (hand, X1), (two, X2) = trap(1), trap(2)
    for ws, X0 in ((hand, X1), (two, X2)):
        printed.add((dl.energy(tensors(*ws), *tensors(X0)) - 1).abs())
        printed.fails_by(np.abs(energy_of(ws, X0) - np.linalg.eigvalsh(X0)[:, -1]))
    _saddles(t)
    _one_component(t)


# (3) The largest curvature upwards at points without slope that are no global maxima.
def _saddles(t: Trial) -> None:
    part = t.part("other stationary points", 1e-3, ">=")
    values = np.array(SPECTRA["indefinite"])
    X = np.diag(values)[None]
    below = [set(some) for size in (1, 2, 3) for some in combinations(range(6), size)]
    for depth in (2, 3, 4):
        for some in below:
            lam = values[sorted(some)]
            if some != {0} and (lam[0] > 0) == (lam[-1] > 0):  # of one sign, that of E
                part.add(_upwards(_balanced(sorted(some), depth), X))
        part.breaks("global maxima", _upwards(_balanced([0], depth), X))
        across = _balanced([0], depth)
        across[1] = across[1][:, :, ::-1]  # W_2 does not hear W_1: E = 0, W_{>1} is not
        part.add(_upwards(across, X))
    for n1 in (1, 2):
        part.breaks("traps, with $W_{>1}=0$", _upwards(*trap(n1)))


def _balanced(some: list[int], depth: int) -> list[Array]:
    """Layers with W_1 = sum_i s_i u_i e_i^T over these i, all lambda_i s_i^(2 (L - 1)) equal, and
    the same s_i in layers aligned above; three nodes a layer, X = diag("indefinite")."""
    lam = np.abs(np.array(SPECTRA["indefinite"])[some])
    s = lam ** (-0.5 / (depth - 1))
    first, next_ = np.zeros((1, 3, 6)), np.zeros((1, 3, 3))
    first[0, range(len(some)), some] = next_[0, range(len(some)), range(len(some))] = s
    return [unit(w, (-2, -1)) for w in (first, *[next_] * (depth - 1))]


def _upwards(ws: list[Array], X: Array) -> Array:
    """[runs]: the largest eigenvalue of E's Hessian on the spheres; below 0 where E has a slope."""
    weights, X0 = tensors(*ws), torch.from_numpy(X)
    slopes = dl.tangent(weights, dl.flow(weights, X0))
    slope = torch.stack([v.abs().amax((1, 2)) for v in slopes]).amax(0)
    top = dl.curvature(weights, X0)[:, -1]
    return torch.where(slope < 1e-12, top, -torch.ones_like(top)).numpy()


def _dimension(ws: list[Array]) -> Array:
    """[runs]: of the set W_3 W_2 = 0, all norms 1, at these weights: entries minus the rank of the
    conditions' slopes. (W_1 X W_1^T < 0 holds all around.)"""
    first, second, third = ws
    runs, rows, columns = len(first), third.shape[1], second.shape[2]
    low = np.stack([np.kron(np.eye(rows), w.T) for w in second])  # d(W_3 W_2) by W_3
    high = np.stack([np.kron(w, np.eye(columns)) for w in third])  # and by W_2
    slopes = np.concatenate([high, low], -1)
    norms = np.zeros((runs, 2, slopes.shape[-1]))
    norms[:, 0, : high.shape[-1]] = second.reshape(runs, -1)
    norms[:, 1, high.shape[-1] :] = third.reshape(runs, -1)
    slopes = np.concatenate([slopes, norms], 1)
    free = slopes.shape[-1] - np.linalg.matrix_rank(slopes, tol=1e-6)
    return free + first[0].size - 1


# (4) E at the ends against lambda_max; and against what PCA of n_L components would give.
def _one_component(t: Trial) -> None:
    pca = t.part("the PCA objective of Eq. 8", 1e-5)
    for widths in ((6, 4, 1), (6, 4, 3)):
        keys = t.keys(min(t.draws, 100), f"pca {widths}")
        limits, X = climb(keys, SPECTRA["PSD"], widths)
        values = np.linalg.eigvalsh(X.numpy())[:, ::-1]
        E = limits.energy.numpy()
        pca.add(np.abs(E / values[:, 0] - 1))
        pca.breaks("the second eigenvalue", np.abs(E / values[:, 1] - 1))
        if widths[-1] > 1:
            summed = values[:, : widths[-1]].sum(-1)
            pca.breaks("three components", np.abs(E / summed - 1))
