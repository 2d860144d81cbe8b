"""Checks of what ncl says of its theorems in its abstract, introduction and overview: landscapes.

One function a claim, named after it, `check(draws, seed)`. Losses are exact: all latents and masks.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from scipy.stats import norm

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.landscape.theorem1 import unit
from clcore.ledger import Check
from clcore.losses import two_view as vl
from clcore.reference import Array, best, tensors, worst
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc

# ------------------------------------------------------------------------- the bad global optima


def optima(rng: np.random.Generator, n: int, d: int) -> Array:
    """Members of U_>= by its uniform measure: columns of independent normals, their sizes."""
    return unit(np.abs(rng.standard_normal((n, d, d))))


def least_rank(W: Array, keep: float = 0.5) -> Array:
    """[n]: least eigenvalue of E[h h^T] over one-hot latents and masks, times d over the share
    kept: by a loop over latents, each seen or not."""
    d, total = W.shape[-1], 0.0
    for j in range(d):
        for seen, chance in ((1.0, keep), (0.0, 1 - keep)):
            h = np.maximum(seen * W[..., j], 0)
            total = total + chance / d * h[:, :, None] * h[:, None, :]
    return np.linalg.eigvalsh(total)[:, 0] * d / keep


def rem15(draws: int, seed: int) -> Iterator[Check]:
    """Random minimisers of Theorem 1's loss are collapsed neither to a point nor in dimension.

    Controls: equal columns, which are minimisers too; the minimisers under i.i.d. latents.
    """
    rng, check = ref.generator("rem15", seed), partial(Check, "ncl/rem15")
    n = min(draws, 100)
    apart, rank, value, flat, wrong = [], [], [], [], []
    for d in (3, 5, 10):
        W, equal = optima(rng, n, d), optima(rng, n, d)
        equal[:] = equal[:, :, :1]
        gram = np.swapaxes(W, 1, 2) @ W - 2 * np.eye(d)
        apart.append(1 - gram.max((1, 2)))
        rank.append(np.linalg.svd(W, compute_uv=False)[:, -1])
        value.append(np.abs(rank[-1] ** 2 - least_rank(W)))
        flat.append(np.abs(least_rank(equal)))
        wrong.append((ml.one_hot_non_contrastive(*tensors(W), 0.5) - 1.5).abs().numpy())
    law = ml.sparse(3, 0.3)
    some, same = tensors(optima(rng, n, 3), equal[:, :3, :3] / equal[:, :3, :1].max())
    same = ml.unit_columns(same)
    rise = ml.non_contrastive(some, some, law, 0.5) - ml.non_contrastive(same, same, law, 0.5)
    control = {"equal columns": worst(*[np.sqrt(f) for f in flat])}
    total = 3 * n
    yield check(
        worst(*wrong),
        1e-12,
        {"i.i.d. latents, against equal columns": best(rise.numpy())},
        total,
        "minimisers",
        note="Uniform on the minimisers, in Theorem 1's setting. Fails where latents are the "
        "i.i.d. ones of Eq. 1: then all minimisers have equal columns, which is collapse in "
        "dimension.",
    )
    yield check(
        best(*apart),
        1e-6,
        {"equal columns": 0.0},
        total,
        "not one point",
        relation=">=",
        note="1 less the largest cosine of the outputs of two latents.",
    )
    yield check(
        best(*rank),
        1e-6,
        control,
        total,
        "of full dimension",
        relation=">=",
        note=r"Least singular value of $W$; its square is the least eigenvalue of the outputs' "
        rf"second moment, in units of $\alpha/d$ (to {worst(*value):.0e}). Collapsed members of "
        r"$\mathcal U_\ge$ exist, such as equal columns, and have measure zero.",
    )


def rem18(draws: int, seed: int) -> Iterator[Check]:
    """The share of Theorem 1's minimisers that are bad: no row matches some column to 0.9.

    By the uniform measure of U_>=. Controls: minimisers near a permutation; equal columns, for
    those that are not collapsed. And how much of U they are: 2^(-d^2), by drawing U at d = 2.
    """
    rng, check = ref.generator("rem18", seed), partial(Check, "ncl/rem18")
    n, shares, near, total = 500 * max(draws, 4), [], [], 0
    for d in (3, 5, 10):
        W = optima(rng, min(n, 20_000), d)
        planted = unit(np.eye(d) + 0.05 * rng.random((200, d, d)))
        for V, place in ((W, shares), (planted, near)):
            rows = V / np.linalg.norm(V, axis=-1, keepdims=True)
            good = rows.max(-2).min(-1) >= 0.9
            full = np.linalg.svd(V, compute_uv=False)[:, -1] > 1e-6
            place.append(np.array([(~good & full).mean()]))
        total += len(W)
    yield check(
        best(*shares),
        0.5,
        {"near a permutation": worst(*near)},
        total,
        "of the minima",
        relation=">=",
        note=f"Shares at d = 3, 5, 10: {', '.join(f'{float(s[0]):.3f}' for s in shares)}. Bad: "
        "Minimum max-cosine below 0.9, and of full rank. Permutations, the truth, have measure "
        "zero. Fails where latents are the i.i.d. ones of Eq. 1 (ncl/rem15).",
    )
    W = unit(rng.standard_normal((n, 2, 2)))
    loss = ml.one_hot_non_contrastive(*tensors(W), 0.5).numpy()
    error = (1 / 16 * 15 / 16 / n) ** 0.5

    def off(share: float) -> float:
        return abs(float((loss < 1.5 + 1e-12).mean()) - share) / error

    yield check(
        off(2.0**-4),
        5.0,
        {"2^-d": off(2.0**-2)},
        n,
        "of all W",
        note=r"In standard errors, $d=2$. Of $\mathcal U$ the minima are the share $2^{-d^2}$: "
        "most of the minima are bad, not most of the points.",
    )


# ----------------------------------------------------------------------------- what is recovered


def rem17(draws: int, seed: int) -> Iterator[Check]:
    """Which z a ReLU layer with a bias gives back: the support of ReLU(M^T x - b) is that of z.

    Shares of samples with another support. Without noise for every b in [0, 1), with noise in the
    span of less than 1/2 at b = 1/2. Controls: a random encoder, b > 1; larger noise.
    """
    rng, check = ref.generator("rem17", seed), partial(Check, "ncl/rem17")
    exact, strange, high, bounded, loud, total = [], [], [], [], [], 0

    def missed(W: Array, b: float, x: Array, z: Array) -> float:
        h = vl.encode(*tensors(W, x, np.full(len(W), -b))).numpy()
        return float(((h > 1e-9) != (z > 0)).any(-1).mean())

    for p, d in ((50, 10), (20, 20)):
        for run in range(min(draws, 20)):
            M = sc.dictionary(cr.fold_in(cr.key(seed), 100 * p + run), p, d, torch.float64).numpy()
            z = (rng.random((200, d)) < 0.3).astype(float)
            b = float(rng.uniform(0, 0.99))
            P = np.eye(d)[rng.permutation(d)]
            exact.append(missed(P @ M.T, b, z @ M.T, z @ P.T))
            strange.append(missed(rng.standard_normal((d, p)), b, z @ M.T, z))
            high.append(missed(M.T, 1.01, z @ M.T, z))
            for size, place in ((0.49, bounded), (0.6, loud)):
                noise = size * rng.uniform(-1, 1, z.shape)
                noise[:, 0] = size * np.where(rng.random(len(z)) < 0.5, -1, 1)
                across = rng.standard_normal((len(z), p)) @ (np.eye(p) - M @ M.T)
                place.append(missed(M.T, 0.5, (z + noise) @ M.T + across, z))
            total += len(z)
    yield check(
        max(exact),
        0.0,
        {"a random encoder": min(strange), "b = 1.01": min(high)},
        total,
        "no noise",
        note=r"$z\in\{0,1\}^d$ with any number of ones, $0\le b<1$; signed latents need the "
        "symmetric ReLU.",
    )
    sigma = sc.noise_std(10)
    chance = 1 - norm.cdf(0.5 / sigma) ** 10
    yield check(
        max(bounded),
        0.0,
        {"noise of 0.6": min(loud)},
        total,
        "bounded noise",
        note=r"$\max_j|M_{*j}^\top\epsilon|<\frac12$, $b=\frac12$, any noise across the span. "
        rf"Gaussian noise has no such bound: at $\sigma_0=\log d/d$ and $d=10$ the share "
        f"{chance:.2f} of samples has another support.",
    )
