"""Assumption 1 with its "additional global constant": h(x) = x^p behind fields (nl Sec. 4).

Outputs of all joint states themselves, and complex steps through their variances, meet the forms of
gated inputs, in which h'(x) x is p h(x).
"""

from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.reference import Array
from clcore.theory.two_layer import field_latent

DEGREES = {"quadratic": 2, "cubic": 3}


def gated(x: torch.Tensor, W: torch.Tensor, kind: str) -> torch.Tensor:
    """x_k h'(w_km^T x_k), [..., n, K, M, d]; `two_layer.gated` refuses what has a constant."""
    u = torch.einsum("...nkd,...kmd->...nkm", x, W)
    degree = DEGREES[kind]
    return (degree * u ** (degree - 1))[..., None] * x[..., None, :]


def _states(model: field_latent.Model) -> tuple[Array, Array, Array]:
    """Of every joint state: its value of z, [n], mass, [draws, n], and inputs, [draws, n, K, d]."""
    joint = field_latent.joint(model)
    x = field_latent.features(joint.states, model.values)
    return joint.z.numpy(), joint.p.numpy(), x.numpy()


def _outputs(x: Array, W: Array, kind: str) -> Array:
    """h(w_k^T x_k), [..., n, K]; M = 1, W real or complex."""
    return (x * W[..., None, :, 0, :]).sum(-1) ** DEGREES[kind]


def _variance(mass: Array, f: Array) -> Array:
    """The covariance of f [..., n, i] under masses [..., n]."""
    mean = (mass[..., None] * f).sum(-2, keepdims=True)
    gap = f - mean
    return np.einsum("...n,...ni,...nj->...ij", mass, gap, gap)


def spread(model: field_latent.Model, W: Array, kind: str) -> Array:
    """V[f_1], [draws, K, K]."""
    _, mass, x = _states(model)
    return _variance(mass, _outputs(x, W, kind))


def within(model: field_latent.Model, W: Array, kind: str) -> Array:
    """E_z V[f_k | z], [draws, K]."""
    z, mass, x = _states(model)
    total, f = np.zeros(x.shape[::2]), _outputs(x, W, kind)
    for c in np.unique(z):
        share = mass[:, z == c].sum(-1, keepdims=True)
        given = _variance(mass[:, z == c] / share, f[:, z == c])
        total += share * np.diagonal(given, axis1=-2, axis2=-1)
    return total


def climb(
    model: field_latent.Model, W: Array, s: Array, kind: str, sigma: Array | None = None
) -> Array:
    """The gradient in w_k of 1/2 s^T V[f_1 / sigma] s, s and sigma held, [draws, K, d]."""
    _, mass, x = _states(model)
    weight = s if sigma is None else s / sigma

    def half(v: Array, mass: Array, x: Array, weight: Array) -> Array:
        f = (_outputs(x, v, kind) * weight[:, None]).sum(-1, keepdims=True)
        return _variance(mass, f)[..., 0, 0] / 2

    return ref.gradient(partial(half, mass=mass, x=x, weight=weight), W)[:, :, 0]
