"""When alpha follows the network: rank and spectrum under the min player (acl Sec. 4.3).

`draws` counts seeds.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.deep_linear_pca.landscape import keys_of
from clcore.checks.deep_linear_pca.limits import data_views
from clcore.ledger import Check
from clcore.losses import contrast
from clcore.reference import Array, tensors
from clcore.theory import deep_linear as dl

TEMPERATURES = (1.0, 0.3, 0.1, 0.03)


def rank_profile(
    keys: Tensor, taus: tuple[float, ...], steps: int, d: int = 8, n: int = 64
) -> tuple[Tensor, Tensor]:
    """Singular values of W [taus, runs, 4] and eigenvalues of X_alpha [taus, runs, d], relative."""
    x, x2 = data_views(keys, n, d)
    weights = dl.starts(cr.fold_in(keys, 15), (d, d, 4))
    k, runs = len(taus), len(keys)
    tau = torch.tensor(taus, dtype=torch.float64).repeat_interleave(runs)
    many = [t.repeat(k, *(1 for _ in t.shape[1:])) for t in (x, x2, *weights)]
    last, X = dl.adversarial_ascent(many[2:], many[0], many[1], tau, 0.5, steps)
    s = torch.linalg.svdvals(dl.above(last)[0])
    values = torch.linalg.eigvalsh(X).flip(-1)
    ratio = (s / s[:, :1]).unflatten(0, (k, runs))
    return ratio, (values / values[:, :1]).unflatten(0, (k, runs))


def largest_jump(keys: Tensor, tau: float, steps: int, n: int = 16, d: int = 6) -> Array:
    """[runs]: the most that an eigenvalue of X_alpha moves in one of `steps` equal steps along a
    path of nets, relative to the largest. tau = 0 is the min player without entropy: all weight on
    the nearest sample.
    """
    x, x2 = (v[:, None].numpy() for v in data_views(keys, n, d))
    ends = (dl.starts(cr.fold_in(keys, tag), (d, d, 3)) for tag in (16, 17))
    t = np.linspace(0, 1, steps + 1)[:, None, None]
    first, second = (
        (1 - t) * a.numpy()[:, None] + t * b.numpy()[:, None] for a, b in zip(*ends, strict=True)
    )
    norms = [np.linalg.norm(w, axis=(-2, -1), keepdims=True) for w in (first, second)]
    z = x @ np.swapaxes(second @ first / (norms[0] * norms[1]), -1, -2)
    inter = ((z[..., :, None, :] - z[..., None, :, :]) ** 2).sum(-1) / 2
    if tau > 0:
        alpha = ref.softmax(inter, tau)
    else:
        far = inter + np.where(np.eye(n, dtype=bool), np.inf, 0.0)
        alpha = np.eye(n)[far.argmin(-1)]
    views = tensors(*(np.broadcast_to(v, (*alpha.shape[:-1], d)) for v in (x, x2)))
    values = np.linalg.eigvalsh(contrast.contrastive_covariance(*tensors(alpha), *views, *views))
    return np.abs(np.diff(values, axis=1)).max((1, 2)) / np.abs(values).max((1, 2))


def rem2(draws: int, seed: int) -> Iterator[Check]:
    """alpha fixed: rank one. alpha of Eq. 6 refreshed: more at low tau, and X_alpha flattens.

    Each is the other's control. Its spectrum moves continuously with the net; control: a min
    player without entropy, whose alpha jumps.
    """
    count = min(draws, 8)
    taus = (float("inf"), *TEMPERATURES, 100.0)
    ratio, values = rank_profile(keys_of("rem2", seed, count), taus, steps=400)
    second = ratio[:, :, 1].median(1).values
    check = partial(Check, "acl/rem2", draws=count)
    cold = float(second[1:].max())
    yield check(
        float(second[0]),
        1e-3,
        {"adversarial, the best temperature": cold},
        part="fixed alpha, rank one",
        note="Median over seeds of $s_2(W)/s_1(W)$.",
    )
    yield check(
        cold,
        0.1,
        {"fixed alpha": float(second[0])},
        relation=">=",
        part="adversarial alpha, higher rank",
        note="The largest over the temperatures 1, 0.3, 0.1, 0.03 of the median $s_2/s_1$.",
    )
    weakest = values[:, :, -1]  # the least eigenvalue over the largest, paired with uniform alpha
    change = (weakest[1:] - weakest[0]).median(1).values
    yield check(
        float(change.max()),
        0.01,
        {"temperature 100": float(change[-1])},
        relation=">=",
        part="minimal eigen-directions magnified",
        note=r"Rise of $\lambda_{\min}/\lambda_{\max}$ of $X_\alpha$ over its value for uniform "
        r"$\alpha$, median over seeds, best temperature.",
    )
    few = min(draws, 4)
    keys = keys_of("rem2 path", seed, few)
    shrunk = {
        tau: float(np.median(largest_jump(keys, tau, 400) / largest_jump(keys, tau, 200)))
        for tau in (*TEMPERATURES, 0.0)
    }
    yield check(
        max(shrunk[tau] for tau in TEMPERATURES),
        0.6,
        {"no entropy: the nearest sample only": shrunk[0.0]},
        part="spectrum moves continuously",
        draws=few,
        note=r"Largest move of an eigenvalue of $X_\alpha$ in a step along a path of nets, for "
        "steps half as long over that for 200 steps, median over seeds, worst temperature: 1/2 if "
        "continuous. Eigenvectors follow where the eigenvalue is distinct.",
    )
