"""A two-layer net with disjoint receptive fields and homogeneous activation (nl Sec. 4, App. C, D).

K fields of d inputs each, M filters w_km in every field, f_1 = h(w_km^T x_k), f_2 = V f_1. Data
are a `one_layer.World` whose points have fields, x `*b n K d`; C_alpha is normalised as nl does.
Vectors over all filters run field by field, `K*M`, and with inputs `K*M*d`.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.nets.networks import activate
from clcore.theory.one_layer import one_layer
from clcore.theory.one_layer.one_layer import World

HOMOGENEOUS = ("linear", "relu", "leaky_relu")  # h(u) = h'(u) u exactly


class Flow(NamedTuple):
    """Velocities of V `*b n KM` and W `*b K M d`."""

    V: Tensor
    W: Tensor


def of_views(
    alpha: Float[Tensor, "*b n n"], x: Float[Tensor, "*b n K d"], x2: Float[Tensor, "*b n K d"]
) -> World:
    """`one_layer.of_views` for inputs with fields: 2n points."""
    world = one_layer.of_views(alpha, x.flatten(-2), x2.flatten(-2))
    return world._replace(x=world.x.unflatten(-1, x.shape[-2:]))


def _require(x: Tensor, W: Tensor, kind: str) -> None:
    if kind not in HOMOGENEOUS:
        raise ValueError(
            f"activation: expected h(u) = h'(u) u, one of {', '.join(HOMOGENEOUS)}, got {kind!r}; "
            "the two-layer theory needs it"
        )
    if (x.shape[-2], x.shape[-1]) != (W.shape[-3], W.shape[-1]):
        raise ValueError(
            f"expected filters of shape [*b, K, M, d] with K={x.shape[-2]} fields of "
            f"d={x.shape[-1]} inputs, got {list(W.shape)}"
        )


def gated(
    x: Float[Tensor, "*#b n K d"],
    W: Float[Tensor, "*#b K M d"],
    kind: str = "relu",
    slope: float = 0.05,
) -> Float[Tensor, "*c n K M d"]:
    """The gated inputs x_km = x_k h'(w_km^T x_k) (nl Sec. 4).

    Errors: an activation that is not homogeneous, dimensions that differ.
    """
    _require(x, W, kind)
    u = torch.einsum("...nkd,...kmd->...nkm", x, W)
    return one_layer.derivative(u, kind, slope)[..., None] * x[..., None, :]


def hidden(
    x: Float[Tensor, "*#b n K d"],
    W: Float[Tensor, "*#b K M d"],
    kind: str = "relu",
    slope: float = 0.05,
) -> Float[Tensor, "*c n KM"]:
    """f_1 = h(w_km^T x_k). Errors: as `gated`."""
    _require(x, W, kind)
    return activate(torch.einsum("...nkd,...kmd->...nkm", x, W), kind, slope).flatten(-2)


def energy(
    world: World,
    W: Float[Tensor, "*b K M d"],
    V: Float[Tensor, "*b q KM"],
    kind: str = "relu",
    slope: float = 0.05,
) -> Float[Tensor, "*b"]:
    """1/2 tr C_alpha[V f_1] (nl Eq. 2 and App. C.1)."""
    f = hidden(world.x, W, kind, slope) @ V.mT
    return one_layer.covariance(world, f).diagonal(dim1=-2, dim2=-1).sum(-1) / 2


# ---------------------------------------------------------------------------------- the dynamics


def masked(
    S: Float[Tensor, "*b KM KM"], C: Float[Tensor, "*b KMd KMd"]
) -> Float[Tensor, "*b KMd KMd"]:
    """(S (x) 1_d 1_d^T) o C (nl Eq. 12). Errors: sizes that do not divide."""
    q, size = S.shape[-1], C.shape[-1]
    if size % q:
        raise ValueError(
            f"expected C of size K*M*d, a multiple of the K*M={q} filters in S, got {size}"
        )
    d = size // q
    return S.repeat_interleave(d, -1).repeat_interleave(d, -2) * C


def push(
    S: Float[Tensor, "*b KM KM"], C: Float[Tensor, "*b KMd KMd"], W: Float[Tensor, "*b K M d"]
) -> Float[Tensor, "*b K M d"]:
    """[(S (x) 1 1^T) o C] w, stacked as W is: nl Eqs. 12 and 166 without the projection."""
    w = W.flatten(-3)
    return (masked(S, C) @ w[..., None])[..., 0].unflatten(-1, W.shape[-3:])


def tangent(
    W: Float[Tensor, "*b K M d"], move: Float[Tensor, "*b K M d"]
) -> Float[Tensor, "*b K M d"]:
    """P_w^perp of every filter, for unit filters (nl Sec. 4)."""
    return move - (W * move).sum(-1, keepdim=True) * W


def flow(
    world: World,
    W: Float[Tensor, "*b K M d"],
    V: Float[Tensor, "*b q KM"],
    kind: str = "relu",
    slope: float = 0.05,
) -> Flow:
    """V' and W' of nl Lemma 4, W' before its projection (`tangent`): the gradient of `energy`."""
    C = one_layer.covariance(world, gated(world.x, W, kind, slope).flatten(-3))
    top = one_layer.covariance(world, hidden(world.x, W, kind, slope))
    return Flow(V @ top, push(V.mT @ V, C, W))


def top_weights(C: Float[Tensor, "*b q q"]) -> Float[Tensor, "*b q"]:
    """s, the unit top eigenvector of C_alpha[f_1]: what fast training of V leaves, S = s s^T."""
    return torch.linalg.eigh(C).eigenvectors[..., -1]


def common_direction(
    C: Float[Tensor, "*b Kd Kd"], s: Float[Tensor, "*b KM"], W: Float[Tensor, "*b K M d"]
) -> Float[Tensor, "*b K d"]:
    """b_k of nl Theorem 4, for the covariance C_alpha[x] of all inputs: w_km' = s_km b_k."""
    u = (s.unflatten(-1, W.shape[-3:-1])[..., None] * W).sum(-2)
    return (C @ u.flatten(-2)[..., None])[..., 0].unflatten(-1, u.shape[-2:])


def merge(
    W: Float[Tensor, "*b K M d"], s: Float[Tensor, "*b KM"], c: float
) -> Float[Tensor, "*b K M d"]:
    """A share c of the way from W to filters that are equal within a field.

    They go to the mean with weights s_km, which leaves sum_m s_km w_km and so every b_k alone; a
    critical point of a linear net stays critical. Errors: weights that sum to zero in a field.
    """
    s = s.unflatten(-1, W.shape[-3:-1])[..., None]
    total = s.sum(-2, keepdim=True)
    if bool((total.abs() <= 1e-12 * s.abs().sum(-2, keepdim=True)).any()):
        raise ValueError(
            "expected sum_m s_km != 0 in every field, got zero; move along (1 - c) W to W = 0"
        )
    return (1 - c) * W + c * (s * W).sum(-2, keepdim=True) / total


# ------------------------------------------------------------------- diagonal plus rank one (C.3)


class Top(NamedTuple):
    """Top eigenpair of diag(d) + scale b b^T: eigenvalue `*b`, its distances lambda - d_k `*b K`,
    the unit eigenvector s `*b K` and its normaliser Z `*b`."""

    value: Tensor
    gaps: Tensor
    s: Tensor
    Z: Tensor


def top_of_rank_one(
    d: Float[Tensor, "*b K"], b: Float[Tensor, "*b K"], scale: Float[Tensor, "*b"]
) -> Top:
    """s_k = b_k / (Z (d_k - lambda)) with 1 = scale sum_k b_k^2 / (lambda - d_k) (nl Eq. 139).

    The equation is solved for lambda - max d, so that small gaps keep their digits. Errors:
    another shape, scale <= 0, and b = 0 at the largest d, where the formula is undefined.
    """
    if d.shape != b.shape:
        raise ValueError(
            f"expected d and b of one shape [*b, K], got {list(d.shape)}, {list(b.shape)}"
        )
    if not bool((scale > 0).all()):
        raise ValueError("expected scale > 0, got some that are not")
    drop = d.max(-1, keepdim=True).values - d
    strength = scale[..., None] * b**2
    low = torch.where(drop == 0, strength, 0.0).sum(-1, keepdim=True)
    if not bool((low > 0).all()):
        raise ValueError("expected b_k != 0 at the largest d_k; there Eq. 139 is undefined")
    high = strength.sum(-1, keepdim=True)
    for _ in range(100):
        middle = (low * high).sqrt()
        under = (strength / (middle + drop)).sum(-1, keepdim=True) > 1
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
    gaps = high + drop
    s = -b / gaps
    Z = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    return Top((high + d.max(-1, keepdim=True).values)[..., 0], gaps, s / Z, Z[..., 0])


def modulation(
    top: Top, b: Float[Tensor, "*b K"], scale: Float[Tensor, "*b"]
) -> Float[Tensor, "*b K"]:
    """delta_k of nl Eq. 143, which is scale / (Z^2 (lambda - d_k)) sum_{k' != k} b_k'^2 / (lambda -
    d_k'), never negative."""
    terms = b**2 / top.gaps
    K = b.shape[-1]
    others = 1 - torch.eye(K, dtype=b.dtype, device=b.device)
    rest = terms @ others
    return scale[..., None] * rest / (top.Z[..., None] ** 2 * top.gaps)


# -------------------------------------------------------------------------------- BatchNorm (D)


def statistics(
    f: Float[Tensor, "*b n q"], p: Float[Tensor, "*b n"]
) -> tuple[Float[Tensor, "*b q"], Float[Tensor, "*b q"]]:
    """(mu, sigma) over all points of mass p: both views of a batch (nl Eqs. 164, 165)."""
    p = (p / p.sum(-1, keepdim=True))[..., None]
    mean = (p * f).sum(-2)
    return mean, (p * (f - mean[..., None, :]) ** 2).sum(-2).sqrt()


def batch_norm(
    f: Float[Tensor, "*b n q"],
    p: Float[Tensor, "*b n"],
    through_mean: bool = True,
    through_deviation: bool = False,
) -> Float[Tensor, "*b n q"]:
    """(f - mu) / sigma. By default mean-backprop BatchNorm: no gradient through sigma (nl Def. 5).

    Errors: a feature that is constant over the batch.
    """
    mean, deviation = statistics(f, p)
    if not bool((deviation > 0).all()):
        raise ValueError("expected features that vary over the batch, got a constant one")
    mean = mean if through_mean else mean.detach()
    deviation = deviation if through_deviation else deviation.detach()
    return (f - mean[..., None, :]) / deviation[..., None, :]


def normalised_flow(
    world: World,
    W: Float[Tensor, "*b K M d"],
    V: Float[Tensor, "*b q KM"],
    kind: str = "relu",
    slope: float = 0.05,
) -> Flow:
    """V' and W' with mean-backprop BatchNorm after the activation (nl Lemma 6, Eq. 166)."""
    f = hidden(world.x, W, kind, slope)
    _, deviation = statistics(f, world.p)
    scaled = (
        gated(world.x, W, kind, slope)
        / deviation.unflatten(-1, W.shape[-3:-1])[..., None, :, :, None]
    )
    top = one_layer.covariance(world, batch_norm(f, world.p))
    return Flow(V @ top, push(V.mT @ V, one_layer.covariance(world, scaled.flatten(-3)), W))
