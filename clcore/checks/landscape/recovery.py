"""Checks of ncl Sec. 5 before Theorem 1, and Remark 2: what counts as finding the ground truth.

One function a claim, named after it, `check(draws, seed)`.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import relu

from clcore import random as cr
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import two_view as vl
from clcore.reference import Array, best, tensors, typical, worst
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc

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
    """W = P M^T recovers z; relabelling changes nothing; unit rows in the span of M have c = 1, as
    all rows are if p = d.

    Controls: W in U_>, signed latents, latents permuted without M; for unit rows at p > d with a
    part across M, and one-hot latents (which satisfy Eq. 9 with c < 1 and unit rows at p = d, too).
    """
    check, rng = partial(Check, "ncl/eq9"), ref.generator("eq9", seed)
    recovered, positive, signed, same, half = [], [], [], [], []
    factor, span, off, hot = [], [], [], []
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
            W = P @ M.T * rng.uniform(0.1, 3, (d, 1))
            W /= np.linalg.norm(W, axis=-1, keepdims=True)
            span.append(np.abs(h(W) - z @ P.T).max())
            c = float(rng.uniform(0.2, 0.8))
            if p == d:
                W = (c * P - np.sqrt(1 - c**2) * np.roll(P, 1, 0)) @ M.T  # unit rows
                e = np.eye(d)
                recovered.append(np.abs(h(W, e @ M.T) - c * e @ P.T).max())  # Eq. 9, exactly
                hot.append(1 - c)
            else:
                across = rng.standard_normal((d, p)) @ (np.eye(p) - M @ M.T)
                across /= np.linalg.norm(across, axis=-1, keepdims=True)
                W = c * P @ M.T + np.sqrt(1 - c**2) * across
                fitted = (h(W) * (z @ P.T)).sum() / (z**2).sum()
                factor.append(abs(fitted - 1))
                recovered.append(np.abs(h(W) - fitted * z @ P.T).max())  # Eq. 9, exactly
                off.append(abs(np.linalg.norm(W @ M, axis=-1).mean() - 1))
    n = len(recovered)
    control = {"signed latents": best(np.hstack(signed)), "W M in U_>": typical(np.array(positive))}
    yield check(worst(np.hstack(recovered)), 1e-12, control, len(recovered), "W = P M^T")
    control = {"latents relabelled, M not": best(np.hstack(half))}
    yield check(worst(np.hstack(same)), 1e-12, control, n, "relabelling")
    yield check(
        worst(np.hstack(span)),
        1e-12,
        {
            "p > d, |c - 1| of rows with a part across": best(np.hstack(factor)),
            "p > d, |W M| of rows with a part across": best(np.hstack(off)),
            "one-hot latents, p = d": best(np.array(hot)),
        },
        len(span),
        "unit rows",
        note=r"Rows in the span of the columns of $\mathbf M$, as all are where the paper assumes "
        r"unit rows in its theory (Assumption 4, $\mathbf M=\mathbf I$). Fails where $p>d$ and a "
        r"row has a part across the span, which no input sees: $\mathbf M=(1,0)^\top$, "
        r"$\mathbf W^o=(0.6,\,0.8)$ gives $c=0.6$; and with one-hot latents, also at $p=d$.",
    )


def margin(W: Array, M: Array) -> float:
    """Worst over neurons of the best max |outside| / min inside over the sets N_i of Eq. 10.

    Inside, the inner products count with their signs. A set that makes the ratio small consists of
    the largest entries, so d - 1 sets are tried.
    """
    inner = np.sort(W @ M, -1)[:, ::-1]
    # Of a sorted row the rest is largest in size at one of its two ends.
    outside = np.maximum(np.abs(inner[:, 1:]), np.abs(inner[:, -1:]))
    return float((outside / np.maximum(inner[:, :-1], 1e-300)).min(-1).max())


def eq10(draws: int, seed: int) -> Iterator[Check]:
    """The separation at P M^T, and near it; members of U_> and -P M^T have none. Ratio outside /
    inside."""
    check, rng = partial(Check, "ncl/eq10"), ref.generator("eq10", seed)
    exact, near, mixed, negative = [], [], [], []
    for _ in range(min(draws, 60)):
        p, d = SIZES[0]
        M, P = _dictionary(rng, p, d), permutation(rng, d)
        exact.append(margin(P @ M.T, M))
        negative.append(margin(-P @ M.T, M))
        near.append(margin(P @ M.T + 1e-3 * rng.standard_normal((d, p)), M))
        V = rng.random((d, d)) + 0.5
        mixed.append(margin(V / np.sqrt((V**2).sum(0)) @ M.T, M))
    control = {
        "W M with entries of one size": best(np.hstack(mixed)),
        "-P M^T": best(np.hstack(negative)),
    }
    yield check(
        worst(np.hstack(exact + near)),
        0.02,
        control,
        len(exact),
        note="With signs, as printed: $-PM^\\top$ fails, which Eq. 11 takes for the truth.",
    )


def _by_loops(W: Array, M: Array) -> Array:
    out = []
    for j in range(M.shape[1]):
        cosines = [abs(w @ M[:, j]) / np.linalg.norm(w) / np.linalg.norm(M[:, j]) for w in W]
        out.append(max(cosines))
    return np.array(out)


def eq11(draws: int, seed: int) -> Iterator[Check]:
    """The metric against loops and at P M^T; its three summaries; one value a column of M.

    Controls: no norm, no |.|; by the letters, one value a neuron.
    """
    check, rng = partial(Check, "ncl/eq11"), ref.generator("eq11", seed)
    value, long, exact, signless, order, order_off = [], [], [], [], [], []
    columns, neurons = [], []
    for _ in range(min(draws, 60)):
        for p, d in SIZES:
            M, W = _dictionary(rng, p, d), rng.standard_normal((2 * d, p))
            found = sc.max_cosine(*tensors(W, M)).numpy()
            value.append(np.abs(found - _by_loops(W, M)).max())
            columns.append(float(abs(len(found) - M.shape[1])))
            neurons.append(float(abs(len(W) - M.shape[1])))
            long.append(np.abs(found - np.abs(W @ M).max(0)).max())
            scale = rng.uniform(0.1, 3, (d, 1)) * np.where(np.arange(d) % 2, -1, 1)[:, None]
            truth = scale * permutation(rng, d) @ M.T
            exact.append(np.abs(sc.max_cosine(*tensors(truth, M)).numpy() - 1).max())
            unit = truth / np.linalg.norm(truth, axis=-1, keepdims=True)
            signless.append(np.abs((unit @ M).max(0) - 1).max())
            low, middle, high = (float(v) for v in sc.summary(torch.from_numpy(found)).values())
            order.append(max(low - middle, middle - high, abs(middle - np.median(found))))
            order_off.append(abs(middle - found.mean()))
    n = len(value)
    yield check(
        worst(np.hstack(value)),
        1e-13,
        {"rows not normalised": best(np.hstack(long))},
        n,
        "value",
    )
    yield check(
        max(columns),
        0.0,
        {"as typeset, j in [m]": min(neurons)},
        n,
        "range of j",
        misprint=r"$j\in[m]$ -> $j\in[d]$, as the sentence after the display has it",
        note=r"$j$ numbers the columns of $M$; of $m$ columns $m-d$ would not exist.",
    )
    control = {"no absolute value": best(np.hstack(signless))}
    yield check(worst(np.hstack(exact)), 1e-12, control, n, "1 at P M^T of any row scale and sign")
    control = {"the mean for the median": typical(np.array(order_off))}
    yield check(worst(np.hstack(order)), 1e-12, control, n, "minimum, median, maximum")


def rem2(draws: int, seed: int) -> Iterator[Check]:
    """SReLU_0 is the identity, SReLU_b is Eq. 14; with SReLU_0 Theorem 1's loss is flat on U.

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
    # Eq. 6 at one-hot latents, 2 - 2 alpha^2 mean |a(W_i)|^2, by loops over both masks.
    keys = cr.fold_in(cr.key(seed), torch.arange(min(draws, 60)))
    W = ml.unit_columns(cr.normal(keys, (4, 4), torch.float64)).numpy()
    losses = {"SReLU_0": 2.0, "plain ReLU": 2.0}
    for k, (b1, b2) in product(range(4), product((0, 1), repeat=2)):
        chance = (0.7 if b1 else 0.3) * (0.7 if b2 else 0.3)
        first, second = tensors(b1 * W[..., k], b2 * W[..., k])
        for name, act in (("SReLU_0", partial(sc.symmetric_relu, b=0.0)), ("plain ReLU", relu)):
            inner = (act(first) * act(second)).sum(-1).numpy()
            losses[name] = losses[name] - 2 * chance / 4 * inner
    off = {name: np.abs(value - (2 - 2 * 0.7**2)) for name, value in losses.items()}
    control = {"plain ReLU": typical(off["plain ReLU"])}
    yield check(worst(off["SReLU_0"]), 1e-14, control, len(W), "the loss is flat on U")
