"""Finite worlds, deep ReLU nets and losses for the checks of ddn Sec. 4, written without `clcore`.

numpy loops over every sample and view; gradients by complex steps in one tower's weights. Weights
are lists of [draws, n_l, n_{l-1}]; outputs [..., draws, S, V, k].
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product

import numpy as np
import torch

from clcore import random
from clcore import reference as ref
from clcore.losses import anchors
from clcore.reference import Array
from clcore.theory.operator import covariance_operator as co

DEPTHS = {1: (4, 3), 2: (4, 5, 2), 3: (4, 5, 4, 2), 4: (3, 4, 4, 3, 2)}


@dataclass(frozen=True)
class Case:
    """A loss of one negative: the library's, the page's (complex arguments), and the page's xi."""

    ours: co.Loss  # of the library
    page: Callable[[Array, Array], Array]  # the loss of (r_+, r_-) as printed
    weight: Callable[[Array], Array]  # xi of r_- - r_+ as printed
    library_weight: Callable[[torch.Tensor], torch.Tensor]  # xi of the library


def simple(beta: float = 0.0) -> Case:
    """The simple loss (1 + beta) r_+ - r_-, weight 1."""
    return Case(
        partial(anchors.simple, beta=beta),
        lambda a, b: (1 + beta) * a - b,
        np.ones_like,
        torch.ones_like,
    )


def triplet(tau: float, margin: float = 0.3) -> Case:
    """The soft triplet loss tau log(1 + e^((r_+ - r_- + margin)/tau)), and its weight of Eq. 6."""
    return Case(
        partial(anchors.soft_triplet, tau=tau, margin=margin),
        lambda a, b: tau * (_infonce_loss(a + margin, b, tau)),
        lambda r: 0.5 * (1 + np.tanh((margin - r) / (2 * tau))),
        partial(co.triplet_weight, tau=tau, margin=margin),
    )


def _infonce_loss(a: Array, b: Array, tau: float) -> Array:
    """-log(e^(-a/tau) / (e^(-a/tau) + e^(-b/tau))), exponents shifted so that one is near 0."""
    shift = np.minimum(np.real(a), np.real(b))
    near, far = np.exp((shift - a) / tau), np.exp((shift - b) / tau)
    return np.log(near + far) + (a - shift) / tau


def infonce(tau: float) -> Case:
    """InfoNCE of one negative, -log(e^(-r_+/tau)/(e^(-r_+/tau) + e^(-r_-/tau))), and its weight."""
    return Case(
        partial(anchors.infonce, tau=tau),
        lambda a, b: _infonce_loss(a, b, tau),
        lambda r: np.exp(-r / tau) / (1 + np.exp(-r / tau)) / tau,
        partial(co.infonce_weight, tau=tau),
    )


def world(
    rng: np.random.Generator,
    draws: int,
    d: int,
    kind: str = "scale",
    strength: float = 0.6,
    samples: int = 3,
    views: int = 3,
) -> co.World:
    """Random finite worlds, one per draw: samples with their chances, and of each some views with
    theirs, by noise that is added, a mask or a scale (kind), more or less of it (strength)."""
    keys = random.fold_in(random.key(int(rng.integers(2**40))), torch.arange(draws))
    return co.random_world(keys, samples, views, d, kind, strength)


def weights(rng: np.random.Generator, draws: int, widths: tuple[int, ...]) -> list[Array]:
    """Layers of variance 2 / fan-in; two nodes at least of each hidden layer are always active.

    (First-layer rows in opposite pairs, nonnegative rows above: dead nets would show nothing.)
    """
    layers = [
        rng.standard_normal((draws, high, low)) * np.sqrt(2 / low) for low, high in pairwise(widths)
    ]
    if len(layers) > 1:
        layers[0][:, 1:4:2] = -rng.uniform(0.5, 1.5, (draws, 2, 1)) * layers[0][:, 0:4:2]
    for w in layers[1:-1]:
        w[:, :2] = np.abs(w[:, :2])
    return layers


def output(layers: list[Array], x: Array, unit: bool = False) -> Array:
    """f_L of x [draws, S, V, d], or f_L / |f_L|; a layer may have leading axes before draws."""
    for number, w in enumerate(layers):
        x = x @ np.swapaxes(w, -1, -2)[..., None, :, :]
        x = ref.rectified(x) if number < len(layers) - 1 else x
    return x / np.sqrt((x**2).sum(-1, keepdims=True)) if unit else x


def half(a: Array, b: Array) -> Array:
    return ((a - b) ** 2).sum(-1) / 2


def parts(w: co.World) -> tuple[Array, Array, Array, Array]:
    """(samples [draws, S, 1, d], p [draws, S], views [draws, S, V, d], q [draws, S, V])."""
    x, p, v, q = (t.numpy() for t in (w.samples, w.chances, w.views, w.view_chances))
    return x[:, :, None], p, v, q


def mean_loss(loss: Callable, near: Array, far: Array, w: co.World) -> Array:
    """E[L(r_+, r_-)], [..., draws], by loops over the sample, its two views and the negative."""
    _, p, _, q = parts(w)
    S, V = q.shape[1:]
    total = np.zeros(())
    for s, i, t, m in product(range(S), range(V), range(S), range(V)):
        negative = half(near[..., s, i, :], far[..., t, m, :])
        for j in range(V):
            positive = half(near[..., s, i, :], far[..., s, j, :])
            chance = p[:, s] * q[:, s, i] * q[:, s, j] * p[:, t] * q[:, t, m]
            total = total + chance * loss(positive, negative)
    return total


def gradient(
    objective: Callable[[Array, Array], Array],
    layers: list[Array],
    layer: int,
    x: Array,
    tied: bool = False,
    unit: bool = False,
) -> Array:
    """d objective(near, far) / dW_l by complex steps, [draws, n_l, n_{l-1}]; layers count from 1.

    x: [draws, S, V, d]. Only the near tower's weights move unless `tied`.
    """
    held = output(layers, x, unit)

    def value(w: Array) -> Array:
        moved = output([*layers[: layer - 1], w, *layers[layer:]], x, unit)
        return objective(moved, moved if tied else held)

    return ref.gradient(value, layers[layer - 1])


def vec(w: Array) -> Array:
    """Columns stacked: [draws, n, m] -> [draws, n m]."""
    return np.swapaxes(w, -1, -2).reshape(*w.shape[:-2], -1)


def off_line(a: Array, b: Array) -> Array:
    """[draws]: how far a, [draws, w], is from the nearest multiple of b, over its own norm."""
    along = (a * b).sum(-1, keepdims=True) / np.maximum((b**2).sum(-1, keepdims=True), 1e-300)
    size = np.maximum(np.linalg.norm(a, axis=-1), 1e-300)
    return np.linalg.norm(a - along * b, axis=-1) / size


def connection(layers: list[Array], layer: int, x: Array) -> Array:
    """K_l as the transposed Jacobian of f_L by vec(W_l), complex steps: [draws, S, V, w, k]."""
    w = layers[layer - 1]
    moved = output([*layers[: layer - 1], ref.stepped(w), *layers[layer:]], x)
    jacobian = np.imag(moved) / ref.STEP  # [n m, draws, S, V, k], entries of W by rows
    n, m = w.shape[1:]
    order = np.arange(n * m).reshape(n, m).T.ravel()
    return np.moveaxis(jacobian[order], 0, -2)
