"""Orthogonal-mixture data and sticky flows for the checks of acl Sec. 5, in numpy, without clcore.

Leading axes are draws. A field's data are [draws, n, M], several fields' [draws, n, K, M].
"""

import numpy as np

from clcore import reference as ref
from clcore.reference import Array


def field(
    rng: np.random.Generator,
    draws: int,
    n: int,
    modes: int,
    gamma: tuple[float, float] = (0.6, 1.4),
    missing: int = 0,
) -> tuple[Array, Array]:
    """Two views [draws, n, modes] of Assumption 1; every mode is shown but the last `missing`."""
    shown = modes - missing
    active = rng.integers(0, shown, (draws, n))
    active[:, :shown] = np.arange(shown)
    x = np.eye(modes)[active] * rng.uniform(0.5, 1.5, (draws, n, 1))
    x[:, shown:] *= rng.random((draws, n - shown, 1)) > 0.1  # some samples show nothing
    return x, x * rng.uniform(*gamma, (draws, n, 1))


def fields(
    rng: np.random.Generator, draws: int, n: int, count: int, modes: int
) -> tuple[Array, Array]:
    """Two views [draws, n, count, modes] of disjoint fields, one gamma per sample."""
    x = np.stack([field(rng, draws, n, modes)[0] for _ in range(count)], 2)
    return x, x * rng.uniform(0.6, 1.4, (draws, n, 1, 1))


def two_hot(rng: np.random.Generator, x: Array) -> Array:
    """One-hot fields x with a second active mode each: x plus its modes in cyclic order."""
    return x + np.roll(x, 1, -1) * rng.uniform(0.5, 1.0, x.shape)


def weights(rng: np.random.Generator, draws: int, n: int) -> Array:
    """alpha > 0 off the diagonal, [draws, n, n]."""
    return (rng.random((draws, n, n)) + 0.02) * ~np.eye(n, dtype=bool)


def covariance(alpha: Array, x: Array, x2: Array) -> Array:
    """C_alpha[x, x], [draws, M, M], by the loop of `reference`."""
    return ref.covariance(alpha, x, x2, x, x2)


def starts(rng: np.random.Generator, draws: int, modes: int) -> Array:
    """Uniform on the nonnegative part of the unit sphere."""
    return ref.unit(np.abs(rng.standard_normal((draws, modes))))


def top(x: Array) -> Array:
    """A unit eigenvector of the largest eigenvalue of each [draws, M, M]."""
    return np.linalg.eigh(x)[1][..., -1]


def energy(x: Array, w: Array) -> Array:
    """w^T X w."""
    return np.einsum("...m,...ml,...l->...", w, x, w)


def sticky_ends(x: Array, w: Array, until: float = 1e6) -> tuple[Array, Array]:
    """(w at the time `until`/|X|, which entries have not reached 0), [draws, M], |w| = 1, of the
    flow w' = diag(w > 0) X w; |X| as in clcore's `sticky_limit`.

    By exponentials, from one entry's death to the next, and not by steps. Parts of an eigenvector
    below 1e-12 of |w| count as none, since a start may lie on one.
    """
    ends, alive = np.zeros(w.shape), w > 0
    for row, (matrix, left) in enumerate(zip(x, alive, strict=True)):
        u, clock = w[row] * left, 0.0
        size = np.linalg.norm(matrix - np.trace(matrix) / len(matrix) * np.eye(len(matrix)))
        while True:
            lam, vectors = np.linalg.eigh(matrix[np.ix_(left, left)] / (size or 1))
            parts = vectors.T @ (u[left] / np.linalg.norm(u))
            parts[np.abs(parts) < 1e-12] = 0
            lam = np.where(parts, lam - lam[parts != 0].max(), 0)

            def at(time: Array, lam=lam, parts=parts, vectors=vectors) -> Array:
                return np.exp(lam * time) * parts @ vectors.T

            times = np.geomspace(1e-4, until - clock, 300)[:, None]
            path = at(times)
            dead = (path < -1e-12 * np.linalg.norm(path, axis=-1, keepdims=True)).any(-1)
            if not dead.any():
                break
            low, high = times[max(dead.argmax() - 1, 0)], times[dead.argmax()]
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (low, middle) if at(middle).min() <= 0 else (middle, high)
            u[left], clock = at(high), clock + high[0]
            left[np.flatnonzero(left)[u[left].argmin()]] = False  # in `alive`, too
            u *= left
        ends[row, left] = path[-1] / np.linalg.norm(path[-1])
    return ends, alive


def output(w1: Array, w2: Array, x: Array, kind: str = "relu") -> Array:
    """W2 h(W1 x): w1 [draws, K, M], w2 [draws, o, K], x [draws, n, K, M] -> [draws, n, o]."""
    u = np.einsum("bkm,bnkm->bnk", w1, x)
    return np.einsum("bok,bnk->bno", w2, u * (u > 0) if kind == "relu" else u)


def blocks(w1: Array) -> Array:
    """W1 [draws, K, M] as the block-diagonal matrix [draws, K, K M]."""
    draws, count, modes = w1.shape
    full = np.zeros((draws, count, count * modes))
    for k in range(count):
        full[:, k, k * modes : (k + 1) * modes] = w1[:, k]
    return full


def trace(w1: Array, w2: Array, x: Array) -> Array:
    """tr(W2 W1 X W1^T W2^T), [draws], by matrix products."""
    left = w2 @ blocks(w1)
    return np.trace(left @ x @ left.swapaxes(-1, -2), axis1=-2, axis2=-1)
