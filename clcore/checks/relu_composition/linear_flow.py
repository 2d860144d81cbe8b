"""The linear flow between two deaths in the proof of Theorem 5 (acl App. A.3)."""

from itertools import combinations

import numpy as np

from clcore.checks.relu_composition.lemmas import clcore_covariance, no_weight_between
from clcore.ledger import Trial, pooled
from clcore.reference import Array, mixture

SIZES = (2, 3, 5)


def _least(x: Array, w: Array) -> Array:
    """[draws]: the least entry of exp(X t) w / |exp(X t) w|, t large, with w's own sign."""
    values, vectors = np.linalg.eigh(x)
    gap = np.maximum(values[:, -1] - values[:, -2], 1e-6 * np.abs(values).max(-1))
    grown = np.exp((values - values[:, -1:]) * (60 / gap)[:, None])
    end = np.einsum("bik,bk,bjk,bj->bi", vectors, grown, vectors, w)
    return end.min(-1) / np.linalg.norm(end, axis=-1)


def leaves_the_orthant(t: Trial) -> None:
    """From w > 0 the linear flow ends with a negative entry, so that on its way an entry reaches 0;
    and so it does for what is left of X, whichever entries have died. Controls: no weight between
    modes, correlations made positive.
    """
    count = t.share(len(SIZES))
    first, again = (
        t.part(name, -1e-6, controls=pooled)
        for name in ("the linear flow leaves w >= 0", "and again, entries left out")
    )
    rng = t.stream("orthant")
    for modes in SIZES:
        x, x2 = mixture.field(rng, count, 2 * modes + 4, modes)
        alpha, w = mixture.weights(rng, count, x.shape[1]), mixture.starts(rng, count, modes)
        X = clcore_covariance(x, x2, alpha)
        lonely = clcore_covariance(x, x2, alpha * no_weight_between(x))

        # All entries.
        first.add(_least(X, w)).breaks("no weight between modes", _least(lonely, w))
        first.breaks("correlations made positive", _least(np.abs(X), w))

        # Those that are left, whichever have died.
        again.breaks("no weight between modes", _least(lonely, w))
        for kept in (k for n in range(2, modes) for k in combinations(range(modes), n)):
            here = np.ix_(range(count), kept, kept)
            again.add(_least(X[here], w[:, kept]))
            again.breaks("correlations made positive", _least(np.abs(X[here]), w[:, kept]))
