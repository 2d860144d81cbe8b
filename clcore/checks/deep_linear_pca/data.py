"""Theorem 3 on data that no distribution was chosen for (acl Sec. 4.3, after the theorem).

`draws` counts starts of two cells.
"""

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore.checks.deep_linear_pca.landscape import _error
from clcore.ledger import Trial, check
from clcore.losses import contrast
from clcore.reference import Array, tensors
from clcore.theory import deep_linear as dl

DATA = ("heavy-tailed", "discrete", "correlated", "outliers")
WIDTHS = ((5, 2, 2), (5, 3, 2), (5, 4, 3, 3), (5, 3, 3, 3, 2, 2))
# One node in layer 1 and L >= 3: here the hypothesis of Theorem 3 as printed lets traps through.
NARROW = (5, 1, 2, 1)


def hard_views(
    rng: np.random.Generator, kind: str, count: int, noise: float, n: int = 16, d: int = 5
) -> tuple[Array, Array]:
    """Two views [count, n, d] of data of this kind, of spread 1; larger entries move more."""
    if kind == "heavy-tailed":
        x = rng.standard_t(1.5, (count, n, d))
    elif kind == "discrete":
        x = rng.integers(0, 2, (count, n, d)).astype(float)
    elif kind == "correlated":
        x = np.cumsum(rng.standard_normal((count, n, d)), 1)
    else:
        x = rng.standard_normal((count, n, d))
        x[:, 0] *= 30
    x = x / x.std((1, 2), keepdims=True)
    return x, x + noise * rng.standard_normal(x.shape) * (1 + np.abs(x))


def frozen(keys: Tensor, widths: tuple[int, ...], x: Array, x2: Array) -> Tensor:
    """X_alpha of size 1 [runs, d, d], with InfoNCE's alpha at a random theta of these widths."""
    views = tensors(x, x2)
    distance = contrast.inter_distances(dl.forward(dl.starts(keys, widths), views[0]))
    logits = contrast.off_diagonal(-distance / distance.mean((-1, -2), keepdim=True), -torch.inf)
    X = contrast.contrastive_covariance(torch.softmax(logits, -1), *views, *views)
    return X / torch.linalg.matrix_norm(X, 2, keepdim=True)


def _dashed(widths: tuple[int, ...]) -> str:
    return "-".join(map(str, widths))


@check("acl/rem3")
def rem3(t: Trial) -> None:
    """Deep linear PCA without statistical assumptions, for InfoNCE (Sec. 4.3).

    Given   X_alpha of heavy-tailed, discrete, correlated data and of data with outliers, alpha of
            InfoNCE at a random theta, then frozen; lambda_max(X) > 0; L = 2, 3, 5.
    Claim   Theorem 3 asks nothing of data, augmentation and alpha: it holds, by the error that
            acl/thm3 measures, at every end of the ascent that has no slope, no upward curvature
            and a distinct and positive top eigenvalue (its corrected form).
    Fails   before the ascent; at local maxima with E = 0, where W_{>1} = 0, which occur with one
            node in layer 1: the only eigenvalue of W_{>1}^T W_{>1} is then distinct, but 0.
    """
    count, climbed, trapped = min(t.share(2), 100), 0, []
    holds = t.part("", 1e-6)
    # Strong augmentation makes most eigenvalues negative, which traps need.
    cells = [(widths, 0.3, count) for widths in WIDTHS] + [(NARROW, 1.0, max(count, 20))]
    for widths, noise, many in cells:
        views = [hard_views(t.rng, kind, many, noise) for kind in DATA]
        keys = t.keys(many * len(DATA), f"{widths}")
        X = frozen(cr.fold_in(keys, 5), widths, *map(np.concatenate, zip(*views, strict=True)))
        lam = torch.linalg.eigvalsh(X)[:, -1]
        X, keys, lam = X[lam > 0], keys[lam > 0], lam[lam > 0]
        W = dl.starts(cr.fold_in(keys, 2), widths)
        # Enough steps for most starts; those that still climb are left out below.
        limits = dl.ascend(W, X, steps=600, tolerance=1e-9)
        top, distinct = dl.distinct_top(limits.weights)
        # Where lambda_max is small beside |X| = 1, the same residual says less.
        critical = (limits.residual < 1e-7 * lam) & distinct
        flat = dl.curvature(limits.weights, X)[:, -1] < 1e-6
        # The distance from Theorem 3's form, at these ends, at starts and at traps.
        error = _error(limits.weights, X)
        holds.add(error[(critical & flat & (top > 1e-6)).numpy()])
        holds.breaks("before the ascent", _error(W, X))
        trapped.append(error[(critical & dl.trapped(limits.weights, X)).numpy()])
        climbed += len(X)
    exceptions = np.concatenate(trapped)
    holds.breaks("local maxima with $W_{>1}=0$", exceptions)
    ends = sum(map(len, holds.errors))
    holds.says(ends=ends, climbed=climbed, exceptions=len(exceptions))
    holds.says(widths=", ".join(map(_dashed, WIDTHS)), narrow=_dashed(NARROW))
