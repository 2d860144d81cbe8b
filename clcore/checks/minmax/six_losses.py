"""The losses that acl Table 2 compares, once more by hand: weights from generic solvers, energies
by loops, gradients by complex steps."""

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.minmax.printed_cells import NAMES
from clcore.experiments import image_losses
from clcore.ledger import Trial, check, pooled
from clcore.reference import Array, tensors

SOLVED = {"entropy": "entropy", "inverse": "inverse, gamma = 2", "square": "square"}
"""Rows whose weights are the min player's best ones, by name of the regulariser."""


def _weights(name: str, inter: Array, intra: Array, tau: float) -> Array | None:
    """alpha [1, n, n] of a row at the distances given; None of InfoNCE, which has no weights."""
    n = inter.shape[-1]
    if name in SOLVED:
        c = ref.off(ref.costs(inter, intra))
        start = np.full(c.shape, 1 / (n - 1))
        shares, alpha = ref.minimiser(SOLVED[name], c, tau, start, 100), np.zeros((1, n, n))
        alpha[:, ~np.eye(n, dtype=bool)] = shares.ravel()
        return alpha
    if name == "inverse-released":
        return (inter + tau) ** -2.0 * ~np.eye(n, dtype=bool)
    powers = {"direct": 2, "direct-4": 4, "backprop": 1}
    return ref.softmax(inter ** powers[name], tau) if name in powers else None


def _one_way(name: str, z: Array, z2: Array, alpha: Array | None, tau: float) -> Array:
    """L_nce / n, or -E_alpha / (2 n), of [..., n, d]."""
    inter, intra = ref.distances(z, z2)
    if alpha is None:
        return ref.infonce(inter, intra, tau, 1.0) / z.shape[-2]
    if name == "backprop":  # the gradient goes through its weights
        alpha = ref.softmax(inter, tau)
    return -(alpha * (inter - intra[..., None])).sum((-1, -2)) / z.shape[-2]


def _by_hand(name: str, z: Array, z2: Array, tau: float, sides: tuple[int, ...] = (0, 1)) -> Array:
    """The gradient in z and the value, mean over which view has the anchors; alpha held."""
    held = [_weights(name, *ref.distances(*pair), tau) for pair in ((z, z2), (z2, z))]

    def value(v: Array) -> Array:
        ways = ((v, z2), (z2 + 0 * v, v))
        return sum(_one_way(name, *ways[k], held[k], tau) for k in sides) / len(sides)

    return np.append(ref.gradient(value, z).ravel(), value(z))


@check("acl/tab2a")
def six_losses(t: Trial) -> None:
    """Six contrastive formulations on CIFAR-10, linear evaluation (Table 2).

    Given   random unit outputs of 5 samples, 3 batches; the six losses of the table and two as the
            released program has them, at their own temperatures.
    Claim   The losses that are trained are those of the table: value and gradient in the first
            views against weights of generic solvers, energies by loops and complex steps, weights
            held except in the row that back-propagates through them.
    Fails   with anchors of the first views only, and at twice the temperature.
    """
    part = t.defines("losses and gradients", 1e-7, controls=pooled)
    for _ in range(min(t.draws, 3)):
        z, z2 = ref.views(t.rng, 1, 5, 3, unit=True)
        for name in NAMES:
            tau = dict(image_losses.LOSSES[name].settings)["tau"]
            first, second = (v[0].requires_grad_() for v in tensors(z, z2))
            found = image_losses.loss(name, first, second)
            (slope,) = torch.autograd.grad(found, first)
            ours = np.append(slope.numpy().ravel(), found.item())
            part.add(np.abs(ours - _by_hand(name, z, z2, tau)).max())
            part.breaks(
                "anchors of one side", np.abs(ours - _by_hand(name, z, z2, tau, (0,))).max()
            )
            part.breaks(
                "twice the temperature", np.abs(ours - _by_hand(name, z, z2, 2 * tau)).max()
            )
