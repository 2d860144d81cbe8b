"""The starts from which ncl Theorem 3's loop is run (App. C.2): warm ones, and biases too high."""

from typing import NamedTuple

import numpy as np

from clcore.reference import Array


class Warm(NamedTuple):
    """Warm starts as numpy arrays: leading axis draws; biases inside Assumption 3, below 0.4."""

    online: Array  # [draws, d, d]
    target: Array  # [draws, d, d]
    b_online: Array  # [draws, d]
    b_target: Array  # [draws, d]
    alpha: Array  # chance of keeping a coordinate, [draws]
    kappa: Array  # chance of a non-zero latent, [draws]


def warm(rng: np.random.Generator, draws: int, d: int, delta: float, noise: float = 0.0) -> Warm:
    """Random warm starts W = I + Delta, Delta_ij uniform in +-delta/d, with biases b between
    1.05 sup|c_b| (+ 0.02) and 0.4, row by row."""
    nets = np.eye(d) + delta / d * rng.uniform(-1, 1, (2, draws, d, d))
    off = np.abs(nets * (1 - np.eye(d))).sum(-1) + noise * np.abs(nets).sum(-1)
    low = 1.05 * off.max(0) + 0.02  # above what either net's errors ask for
    b = low + (0.4 - low) * rng.random((2, draws, d))
    alpha, kappa = rng.uniform(0.3, 0.95, draws), rng.uniform(0.1, 0.4, draws)
    return Warm(*nets, *b, alpha, kappa)


def wide(rng: np.random.Generator, draws: int, d: int, rate: float = 0.7) -> Warm:
    """Warm starts with kappa up to 0.9, but alpha^2 kappa / (1 - b) <= `rate` < 1: so it contracts.

    Every bias is then below 1 - alpha^2 kappa.
    """
    w = warm(rng, draws, d, 0.3)
    most = rate * (1 - np.maximum(w.b_online, w.b_target).max(-1)) / w.alpha**2
    return w._replace(kappa=rng.uniform(0.1, np.minimum(0.9, most)))


def just_below(rng: np.random.Generator, draws: int, d: int) -> Warm:
    """|Delta_ij| = 0.1, Delta_ii = -0.1; biases inside Assumption 3, 0.001 below 1 - alpha^2 kappa.

    They are above (1 - alpha^2 kappa) W_ii: in a row of norm 1 the errors grow.
    """
    delta = 0.1 * rng.choice([-1.0, 1.0], (2, draws, d, d))
    nets = np.where(np.eye(d) == 1, 0.9, delta)
    alpha = rng.uniform(0.75, 0.95, draws)
    kappa = rng.uniform(0.35, np.minimum(0.9, 0.75 / alpha**2))
    b = np.repeat((0.999 - alpha**2 * kappa)[:, None], d, -1)
    return Warm(*nets, b, b, alpha, kappa)


def at_the_limit(rng: np.random.Generator, draws: int, d: int, over: float = 0.999) -> Warm:
    """|Delta_ij| up to 0.07, all Delta_ii > 0; biases `over` times (1 - alpha^2 kappa) W_ii of the
    rows scaled to norm 1, the smaller of both nets'. They separate for `over` up to 1.2, d = 4."""
    delta = 0.07 * rng.uniform(-1, 1, (2, draws, d, d))
    nets = np.where(np.eye(d) == 1, 1 + np.abs(delta), delta)
    alpha = rng.uniform(0.75, 0.95, draws)
    kappa = rng.uniform(0.4 / alpha**2, np.minimum(0.9, 0.7 / alpha**2))
    own = (np.einsum("nrii->nri", nets) / np.linalg.norm(nets, axis=-1)).min(0)
    b = over * (1 - alpha**2 * kappa)[:, None] * own
    return Warm(*nets, b, b, alpha, kappa)


def unbiased(w: Warm) -> Warm:
    """Warm starts w without biases: the activation is the identity then."""
    return w._replace(b_online=0 * w.b_online, b_target=0 * w.b_target)


def random_rows(rng: np.random.Generator, w: Warm) -> Warm:
    """Starts in random directions, rows of norm 1, with the biases of these."""
    rows = rng.standard_normal((2, *w.online.shape))
    online, target = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return w._replace(online=online, target=target)


def beyond(rng: np.random.Generator, draws: int, d: int) -> Warm:
    """Errors of 0.03 / d at most, and every bias 0.05 above 1 - alpha^2 kappa: it separates, far
    above the crosstalk and below 1 minus the crosstalk, but is not o(1)."""
    w = warm(rng, draws, d, 0.03)
    alpha, kappa = rng.uniform(0.7, 0.95, draws), rng.uniform(0.3, 0.9, draws)
    b = np.repeat((1.05 - alpha**2 * kappa)[:, None], d, -1)
    return w._replace(b_online=b, b_target=b, alpha=alpha, kappa=kappa)
