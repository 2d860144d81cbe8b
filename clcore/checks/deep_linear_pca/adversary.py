"""When alpha follows the network: rank and spectrum under the min player (acl Sec. 4.3).

`draws` counts seeds.
"""

from collections.abc import Iterable
from itertools import product

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.deep_linear_pca.landscape import SPECTRA, climb, trap
from clcore.checks.deep_linear_pca.limits import data_views
from clcore.ledger import Trial, check, typical
from clcore.losses import contrast
from clcore.reference import Array, tensors
from clcore.theory import deep_linear as dl

TEMPERATURES = (1.0, 0.3, 0.1, 0.03)


def rank_profile(
    keys: Tensor, taus: tuple[float, ...], steps: int, d: int = 8, n: int = 64
) -> tuple[Tensor, Tensor]:
    """Singular values of W [taus, runs, 4] and eigenvalues of X_alpha [taus, runs, d], over the
    largest, where the ascent ends with alpha renewed at every step; of tau = inf it is uniform."""
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


def _thickest(weights: Iterable[Array]) -> Array:
    """[runs]: the largest s_2/s_1 of a layer."""
    sizes = [np.linalg.svd(w, compute_uv=False) for w in weights if min(w.shape[-2:]) > 1]
    return np.max([s[:, 1] / s[:, 0] for s in sizes], 0)


def _deeper(t: Trial) -> None:
    """The same for one to four layers and four spectra: maxima with E > 0 certified as for
    Theorem 3. Controls: local maxima with E = 0; one layer, the largest eigenvalue repeated."""
    count = max(20, min(t.draws, 60))
    deep = t.part("fixed alpha, maximisers of deeper nets", 1e-5, controls=typical)
    traps = {}
    for name, widths in product(SPECTRA, ((6, 4), (6, 3, 2), (6, 2, 4, 2), (6, 3, 3, 3, 3))):
        ends, X = climb(t.keys(count, f"{name} {widths}"), SPECTRA[name], widths)
        thickest = _thickest([w.numpy() for w in ends.weights])
        if len(widths) == 2 and name == "repeated top":
            deep.breaks("one layer, repeated top eigenvalue", thickest)
            continue
        flat = dl.curvature(ends.weights, X)[:, -1] < 1e-6
        maximum = (ends.residual < 1e-7) & flat
        deep.add(thickest[(maximum & (ends.energy > 1e-6)).numpy()])
        if name == "mostly negative" and len(widths) > 3:
            none = (ends.energy < 1e-6).numpy() & (thickest > 0.01)
            traps["-".join(map(str, widths))] = none.mean()
    deep.breaks("a local maximum with E = 0", _thickest(trap(2)[0]))
    told = ", ".join(f"{share:.0%} (widths {widths})" for widths, share in traps.items())
    deep.says(starts=count, traps=told)


@check("acl/rem2")
def rem2(t: Trial) -> None:
    """Fixed α gives rank one, an adversarial α may give a higher rank (Sec. 4.3, remark after
    Theorem 3).

    Given   Gaussian data; nets of widths 8-8-4, alpha uniform and fixed, or that of Eq. 6 renewed
            at every step, tau in {1, 0.3, 0.1, 0.03}; for (2) one to four layers and fixed X.
    Claim   (1) Fixed alpha: the ascent ends at rank one, s_2/s_1 -> 0; (2) so does every layer at
            every certified maximum with E > 0. (3) Adversarial alpha: s_2/s_1 > 0.1 at some
            temperature; (4) lambda_min/lambda_max of X_alpha, at some temperature, is above that
            of uniform alpha by 0.01 or more; (5) its spectrum moves continuously: for half the step
            along a path of nets by at most 0.6 of the move.
    Fails   (1) and (3) for the other's alpha; (2) at maxima with E = 0, and for one layer with a
            repeated top eigenvalue; (4) at temperature 100; (5) for a min player without entropy.
    """
    count, few = min(t.draws, 8), min(t.draws, 4)
    taus = (float("inf"), *TEMPERATURES, 100.0)  # inf: alpha is uniform
    ratio, values = rank_profile(t.keys(count), taus, steps=400)
    second = ratio[:, :, 1].median(1).values
    fixed, cold = second[0], second[1:-1].max()

    # (1), (2) Fixed alpha.
    one = t.part("fixed alpha, rank one", 1e-3, draws=count).add(ratio[0, :, 1])
    one.breaks("adversarial, the best temperature", cold)
    _deeper(t)

    # (3) Adversarial alpha, the temperature with the highest median of s_2/s_1.
    higher = t.part("adversarial alpha, higher rank", 0.1, ">=", draws=count).add(cold)
    higher.breaks("fixed alpha", fixed)

    # (4) The least eigenvalue of X_alpha against that for uniform alpha.
    weakest = values[:, :, -1]  # the least eigenvalue over the largest, paired with uniform alpha
    change = (weakest[1:] - weakest[0]).median(1).values  # of each temperature, last of 100
    magnified = t.part("minimal eigen-directions magnified", 0.01, ">=", draws=count)
    magnified.add(change[:-1].max()).breaks("temperature 100", change[-1])

    # (5) The spectrum of X_alpha along a path of nets, in steps half as long.
    keys = t.keys(few, "path")

    def shrunk(tau: float) -> float:
        """A step half as long moves the spectrum by this much of what it did: median over seeds."""
        return float(np.median(largest_jump(keys, tau, 400) / largest_jump(keys, tau, 200)))

    moves = t.part("spectrum moves continuously", 0.6, draws=few)
    moves.add(*(shrunk(tau) for tau in TEMPERATURES))
    moves.breaks("no entropy: the nearest sample only", shrunk(0.0))
