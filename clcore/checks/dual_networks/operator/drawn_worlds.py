"""What the finite worlds of ddn Sec. 4 are drawn from: samples, chances, and views of each kind.

Of many draws at once, in the scale of Kolmogorov's law, and correlations in standard errors.
"""

from itertools import combinations

import numpy as np
from scipy.special import ndtr

from clcore.checks.dual_networks import worlds as dw
from clcore.ledger import Trial
from clcore.reference import Array, kolmogorov
from clcore.theory.operator import covariance_operator as co

N = 3000


def _share(ratio: Array) -> Array:
    """The chance of a smaller ratio of two independent numbers that are uniform on [1/2, 3/2]."""
    below = 0.5 + (np.arange(1000) + 0.5) / 1000
    return np.clip(ratio[:, None] * below - 0.5, 0, 1).mean(1)


def drawn(t: Trial) -> None:
    """Laws of all that is drawn, and that one is drawn apart from another. Controls: half or twice
    the strength, twice the ratio of chances, one number for two."""
    laws, views = t.defines("laws of random worlds", 3.0), t.defines("views by hand", 1e-12)
    apart = t.defines("worlds drawn apart", 6.0)
    for kind, strength in (("additive", 0.4), ("mask", 0.3), ("scale", 0.5)):
        world = co.random_world(t.keys(N, f"worlds {kind}"), 2, 3, 2, kind, strength)
        x, p, v, q = dw.parts(world)  # x: [N, 2, 1, 2]
        views.add(np.abs(p.sum(-1) - 1).max(), np.abs(q.sum(-1) - 1).max())
        laws.add(kolmogorov(ndtr(x).ravel(), 0, 1))
        for a, b in ((p[:, 0], p[:, 1]), (q[:, 0, 0], q[:, 0, 2]), (q[:, 1, 1], q[:, 1, 2])):
            laws.add(kolmogorov(_share(a / b), 0, 1))
            laws.breaks("twice the ratio", kolmogorov(_share(2 * a / b), 0, 1))
        if kind == "mask":
            hit = np.abs(v / x - 1) > strength / 2
            views.add(np.abs(v - x * np.where(hit, 1 - strength, 1)).max())
            views.breaks(
                "half the strength", np.abs(v - x * np.where(hit, 1 - strength / 2, 1)).max()
            )
            laws.add(np.sqrt(hit.size) * abs(hit.mean() - 0.5))
            moved = hit.astype(float)
        elif kind == "scale":
            moved = np.log(v / x) / strength
            laws.add(kolmogorov(ndtr(moved).ravel(), 0, 1))
            laws.breaks("twice the strength", kolmogorov(ndtr(moved / 2).ravel(), 0, 1))
        else:
            views.add(np.abs((q[..., None] * (v - x)).sum(2)).max())
            views.breaks("mean of all alike", np.abs((v - x).mean(2)).max())
            moved = (v[:, :, :1] - v[:, :, 1:2]) / strength / 2**0.5
            laws.add(kolmogorov(ndtr(moved).ravel(), 0, 1))
            laws.breaks("twice the strength", kolmogorov(ndtr(moved / 2).ravel(), 0, 1))
        every = [*x.reshape(N, -1).T, p[:, 0], q[:, 0, 0], q[:, 1, 0], *moved.reshape(N, -1).T]
        for a, b in combinations(every, 2):
            apart.add(np.sqrt(N) * abs(np.corrcoef(a, b)[0, 1]))
        apart.breaks("one number for two", np.sqrt(N) * np.corrcoef(every[0], every[0])[0, 1])
