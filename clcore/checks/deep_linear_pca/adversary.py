"""When alpha follows the network: rank and spectrum under the min player (acl Sec. 4.3).

`draws` counts seeds.
"""

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.deep_linear_pca.limits import data_views
from clcore.ledger import Trial, check
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


@check("acl/rem2")
def rem2(t: Trial) -> None:
    """alpha fixed: rank one. alpha of Eq. 6 refreshed: more at low tau, and X_alpha flattens.

    Each is the other's control. Its spectrum moves continuously with the net; control: a min
    player without entropy, whose alpha jumps.
    """
    count, few = min(t.draws, 8), min(t.draws, 4)
    taus = (float("inf"), *TEMPERATURES, 100.0)
    ratio, values = rank_profile(t.keys(count), taus, steps=400)
    second = ratio[:, :, 1].median(1).values
    fixed, cold = second[0], second[1:].max()
    one = t.part("fixed alpha, rank one", 1e-3, draws=count).add(fixed)
    one.breaks("adversarial, the best temperature", cold)
    higher = t.part("adversarial alpha, higher rank", 0.1, ">=", draws=count).add(cold)
    higher.breaks("fixed alpha", fixed)
    weakest = values[:, :, -1]  # the least eigenvalue over the largest, paired with uniform alpha
    change = (weakest[1:] - weakest[0]).median(1).values
    magnified = t.part("minimal eigen-directions magnified", 0.01, ">=", draws=count)
    magnified.add(change.max()).breaks("temperature 100", change[-1])
    keys = t.keys(few, "path")

    def shrunk(tau: float) -> float:
        """A step half as long moves the spectrum by this much of what it did: median over seeds."""
        return float(np.median(largest_jump(keys, tau, 400) / largest_jump(keys, tau, 200)))

    moves = t.part("spectrum moves continuously", 0.6, draws=few)
    moves.add(*(shrunk(tau) for tau in TEMPERATURES))
    moves.breaks("no entropy: the nearest sample only", shrunk(0.0))
