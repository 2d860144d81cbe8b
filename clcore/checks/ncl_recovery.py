"""Checks of ncl Sec. 5 before Theorem 1, and Remark 2: what counts as finding the ground truth.

One function a claim, named after it, `check(draws, seed)`.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from .. import mask_landscape as ml
from .. import random as cr
from .. import sparse_coding as sc
from .. import view_losses as vl
from ..ledger import Check
from . import reference as ref
from .reference import Array, best, tensors, typical, worst

SIZES = ((50, 10), (20, 20), (7, 3))


def permutation(rng: np.random.Generator, d: int) -> Array:
    """A random permutation matrix."""
    return np.eye(d)[rng.permutation(d)]


def _dictionary(rng: np.random.Generator, p: int, d: int) -> Array:
    return np.linalg.qr(rng.standard_normal((p, d)))[0]


def misfit(h: Array, z: Array) -> float:
    """min over permutations P and constants c of |h - c P z| / |h|, h and z [n, d].

    For a given P the best c is <h, Pz> / |z|^2, so the best P maximises that inner product.
    """
    score = h.T @ z
    rows, columns = linear_sum_assignment(-score)
    along = score[rows, columns].sum() / np.sqrt((z**2).sum())
    return float(np.sqrt(max(1 - along**2 / (h**2).sum(), 0)))


def eq9(draws: int, seed: int) -> Iterator[Check]:
    """W = P M^T recovers z; relabelling changes nothing; unit rows do not force c = 1 if p > d.

    Controls: W in U_>, signed latents, latents permuted without M, rows with a part across M.
    """
    check, rng = partial(Check, "ncl/eq9"), ref.generator("eq9", seed)
    recovered, positive, signed, same, half = [], [], [], [], []
    factor, span, off = [], [], []
    for _ in range(min(draws, 60)):
        for p, d in SIZES:
            M, P = _dictionary(rng, p, d), permutation(rng, d)
            while P.trace() == d:
                P = permutation(rng, d)
            z = (rng.random((200, d)) < 0.3).astype(float)
            z[0] = 1.0
            x = z @ M.T

            def h(W, x=x):
                return vl.encode(*tensors(W, x)).numpy()

            recovered.append(np.abs(h(P @ M.T) - z @ P.T).max())
            if p == d:
                V = ml.positive_columns(*tensors(rng.standard_normal((d, d)))).numpy()
                positive.append(misfit(h(V @ M.T), z))
            z_signed = z * np.where(rng.random(z.shape) < 0.5, -1, 1)
            signed.append(np.abs(h(P @ M.T, z_signed @ M.T) - z_signed @ P.T).max())
            same.append(np.abs(z @ P.T @ (M @ P.T).T - x).max())
            half.append(np.abs(z @ P.T @ M.T - x).max())
            if p > d:
                c = float(rng.uniform(0.2, 0.8))
                across = rng.standard_normal((d, p)) @ (np.eye(p) - M @ M.T)
                across /= np.linalg.norm(across, axis=-1, keepdims=True)
                W = c * P @ M.T + np.sqrt(1 - c**2) * across
                fitted = (h(W) * (z @ P.T)).sum() / (z**2).sum()
                factor.append(abs(fitted - 1))
                recovered.append(np.abs(h(W) - fitted * z @ P.T).max())  # Eq. 9, exactly
                off.append(abs(np.linalg.norm(W @ M, axis=-1).mean() - 1))
                W = P @ M.T * rng.uniform(0.1, 3, (d, 1))
                W /= np.linalg.norm(W, axis=-1, keepdims=True)
                span.append(np.abs(h(W) - z @ P.T).max())
    n = len(recovered)
    control = {"signed latents": best(np.hstack(signed)), "W M in U_>": typical(np.array(positive))}
    yield check(worst(np.hstack(recovered)), 1e-12, control, len(recovered), "W = P M^T")
    control = {"latents relabelled, M not": best(np.hstack(half))}
    yield check(worst(np.hstack(same)), 1e-12, control, n, "relabelling")
    tag = {
        "bound": 1e-12,
        "control": {"|W M| of such rows": best(np.hstack(off))},
        "part": "unit rows",
    }
    yield check(
        worst(np.hstack(factor)),
        draws=len(factor),
        **tag,
        counterexample=r"$p=2$, $d=1$, $\mathbf M=(1,0)^\top$, $\mathbf W^o=(0.6,\,0.8)$: a row of "
        r"norm 1 and $\mathrm{ReLU}(\mathbf W^o\mathbf x)=0.6\,\mathbf z$ for every "
        r"$\mathbf z\in\{0,1\}$. The part of a row across the columns of $\mathbf M$ is not seen.",
        note="|c - 1| of encoders with unit rows that satisfy Eq. 9 exactly.",
    )
    yield check(
        worst(np.hstack(span)),
        draws=len(span),
        **tag,
        form="corrected",
        correction=r"Unit rows give $c\le1$; if $\mathbf z$ ranges over $\{0,1\}^d$, $c=1$ exactly "
        r"if the rows lie in the span of the columns of $\mathbf M$, as they do if $p=d$.",
    )


def margin(W: Array, M: Array) -> float:
    """Worst over neurons of the best max outside / min inside over the sets N_i of Eq. 10.

    A set that makes the ratio small consists of the largest entries, so d - 1 sets are tried.
    """
    inner = np.sort(np.abs(W @ M), -1)[:, ::-1]
    outside, inside = inner[:, 1:], inner[:, :-1]
    return float((outside / np.maximum(inside, 1e-300)).min(-1).max())


def eq10(draws: int, seed: int) -> Iterator[Check]:
    """The separation at P M^T, and near it; members of U_> have none. Ratio outside / inside."""
    check, rng = partial(Check, "ncl/eq10"), ref.generator("eq10", seed)
    exact, near, mixed = [], [], []
    for _ in range(min(draws, 60)):
        p, d = SIZES[0]
        M, P = _dictionary(rng, p, d), permutation(rng, d)
        exact.append(margin(P @ M.T, M))
        near.append(margin(P @ M.T + 1e-3 * rng.standard_normal((d, p)), M))
        V = rng.random((d, d)) + 0.5
        mixed.append(margin(V / np.sqrt((V**2).sum(0)) @ M.T, M))
    control = {"W M with entries of one size": best(np.hstack(mixed))}
    yield check(worst(np.hstack(exact + near)), 0.02, control, len(exact))


def _by_loops(W: Array, M: Array) -> Array:
    out = []
    for j in range(M.shape[1]):
        cosines = [abs(w @ M[:, j]) / np.linalg.norm(w) / np.linalg.norm(M[:, j]) for w in W]
        out.append(max(cosines))
    return np.array(out)


def eq11(draws: int, seed: int) -> Iterator[Check]:
    """The metric against loops and at P M^T; its index runs over [d]. Controls: no norm, no |.|."""
    check, rng = partial(Check, "ncl/eq11"), ref.generator("eq11", seed)
    value, long, exact, signless, order, order_off = [], [], [], [], [], []
    missing, rows = [], []
    for _ in range(min(draws, 60)):
        for p, d in SIZES:
            m = 2 * d
            M, W = _dictionary(rng, p, d), rng.standard_normal((m, p))
            found = sc.max_cosine(*tensors(W, M)).numpy()
            value.append(np.abs(found - _by_loops(W, M)).max())
            long.append(np.abs(found - np.abs(W @ M).max(0)).max())
            scale = rng.uniform(0.1, 3, (d, 1)) * np.where(np.arange(d) % 2, -1, 1)[:, None]
            truth = scale * permutation(rng, d) @ M.T
            exact.append(np.abs(sc.max_cosine(*tensors(truth, M)).numpy() - 1).max())
            unit = truth / np.linalg.norm(truth, axis=-1, keepdims=True)
            signless.append(np.abs((unit @ M).max(0) - 1).max())
            low, middle, high = (float(v) for v in sc.summary(torch.from_numpy(found)).values())
            order.append(max(low - middle, middle - high, abs(middle - np.median(found))))
            order_off.append(abs(middle - found.mean()))
            missing.append(float(abs(m - M.shape[1])))
            rows.append(float(abs(len(found) - M.shape[1])))
    n = len(value)
    yield check(
        worst(np.hstack(value)), 1e-13, {"rows not normalised": best(np.hstack(long))}, n, "value"
    )
    control = {"no absolute value": best(np.hstack(signless))}
    yield check(worst(np.hstack(exact)), 1e-12, control, n, "1 at P M^T of any row scale and sign")
    control = {"the mean for the median": typical(np.array(order_off))}
    yield check(worst(np.hstack(order)), 1e-12, control, n, "minimum, median, maximum")
    tag = {"bound": 0.0, "control": {"rows of M": float(SIZES[0][0] - SIZES[0][1])}, "draws": n}
    yield check(
        worst(np.hstack(missing)),
        part="index",
        **tag,
        counterexample=r"With the paper's own $m=50$, $d=10$ the columns $\mathbf M_{*j}$, "
        r"$j=11,\dots,50$, of $\forall j\in[m]$ do not exist.",
        note="Number of indices j without a column, or of columns without an index.",
    )
    yield check(
        worst(np.hstack(rows)),
        part="index",
        **tag,
        form="corrected",
        correction=r"$\forall j\in[d]$, as the sentence after the equation has it; $i$ runs over "
        r"$[m]$.",
    )


def rem2(draws: int, seed: int) -> Iterator[Check]:
    """SReLU_0 is the identity, SReLU_b is off by b; so the one-hot losses see all of W^T W.

    Controls: the plain ReLU; a bias of 0.1.
    """
    check, rng = partial(Check, "ncl/rem2"), ref.generator("rem2", seed)
    x = rng.standard_normal((min(draws, 100), 1000))
    zero = sc.symmetric_relu(*tensors(x), 0.0).numpy()
    biased = sc.symmetric_relu(*tensors(x), 0.1).numpy()
    control = {
        "plain ReLU": best(np.abs(np.maximum(x, 0) - x).max(-1)),
        "bias 0.1": best(np.abs(biased - x).max(-1)),
    }
    yield check(np.abs(zero - x).max(), 0.0, control, x.size, "no bias")
    by_case = np.where(x > 0.1, x - 0.1, np.where(x < -0.1, x + 0.1, 0.0))
    yield check(
        np.abs(biased - by_case).max(),
        1e-15,
        {"no bias": best(np.abs(zero - by_case).max(-1))},
        x.size,
        "Eq. 14 by cases",
    )
    # A column turned into its negative: a linear encoder's losses cannot tell, a ReLU's can.
    keys = cr.fold_in(cr.key(seed), torch.arange(min(draws, 60)))
    W = ml.unit_columns(cr.normal(keys, (4, 4), torch.float64))
    turned = -W
    linear = (W.mT @ W - turned.mT @ turned).abs().amax((-2, -1)).numpy()
    gated = (ml.rectified_gram(W) - ml.rectified_gram(turned)).abs().amax((-2, -1)).numpy()
    yield check(worst(linear), 1e-14, {"ReLU": best(gated)}, len(linear), "W and -W")
