"""Pairwise importance that is a kernel with nonnegative features (nl Sec. 2, App. A.1).

Features phi of n un-augmented samples x_0 are `*b n L`; alpha = phi phi^T (nl Def. 1). Over a
finite world, samples with masses p `*b n`, each with v views of masses `*b n v` and features g
`*b n v q`, the limits of large batches (nl Lemma 2) are finite sums.

The covariance is normalised as in nl: 1/(2 N^2) times that of `clcore.losses.contrast`, minus what
nl's Eq. 3 adds by summing over i = j too; `batch_covariance` converts.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random
from clcore.losses import contrast


class Batch(NamedTuple):
    """Which samples, `*b N`, and which of their views are the first and the second."""

    sample: Tensor
    first: Tensor
    second: Tensor


# ------------------------------------------------------------------------------ Gaussian importance


def gaussian(y: Float[Tensor, "*b n d"], tau: float) -> Float[Tensor, "*b n n"]:
    """alpha_ij = exp(-|y_i - y_j|^2 / (2 tau)), the diagonal 1 (nl Lemma 1). Errors: tau <= 0."""
    if tau <= 0:
        raise ValueError(f"tau: expected a positive number, got {tau}")
    return torch.exp(-contrast.inter_distances(y) / tau)


def gaussian_features(
    y: Float[Tensor, "*b n d"], tau: float, orders: int
) -> Float[Tensor, "*b n L"]:
    """phi(y) up to and with order `orders`, exp(-|y|^2 / 2 tau) AllChoose(y / sqrt tau, k) /
    sqrt k! (nl Eqs. 20, 22), L = 1 + d + ... + d^orders; AllChoose lists all ordered products of
    k entries.

    For y = g(x_0) - v with v below g. phi phi^T falls short of `gaussian` by the Poisson tail
    beyond `orders` at mean y_i . y_j / tau, times alpha_ij over its exponential.
    Errors: tau <= 0, y < 0.
    """
    if tau <= 0:
        raise ValueError(f"tau: expected a positive number, got {tau}")
    if bool((y < 0).any()):
        raise ValueError("expected y >= 0, got negative entries; subtract a lower bound of g")
    parts = [torch.exp(-(y * y).sum(-1, keepdim=True) / (2 * tau))]
    for k in range(1, orders + 1):
        step = y / (tau * k) ** 0.5
        parts.append((parts[-1][..., :, None] * step[..., None, :]).flatten(-2))
    return torch.cat(parts, -1)


# ------------------------------------------------------------------------------------ adjusted laws


def adjusted(
    phi: Float[Tensor, "*b n L"], p: Float[Tensor, "*b n"]
) -> tuple[Float[Tensor, "*b L"], Float[Tensor, "*b L n"]]:
    """(z_l, p~_l) of nl Def. 2: z_l = sum_i phi_l(i) p_i, p~_l(i) = phi_l(i) p_i / z_l.

    Where z_l = 0 there is no such law; p~_l is 0 there. Errors: numbers of samples that differ.
    """
    if phi.shape[-2] != p.shape[-1]:
        raise ValueError(
            f"expected features of shape [*b, n, L] with n={p.shape[-1]} samples, got "
            f"{list(phi.shape)}"
        )
    mass = (phi * p[..., None]).mT
    z = mass.sum(-1)
    return z, mass / torch.where(z > 0, z, 1.0)[..., None]


def _variance(p: Tensor, m: Tensor) -> Tensor:
    """V_p[m] for laws p `*b L n` over the samples' m `*b n q`."""
    mean = p @ m
    gaps = m[..., None, :, :] - mean[..., :, None, :]
    return gaps.mT @ (p[..., None] * gaps)


def _within(views: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """(E[g | x_0] `*b n q`, V[g | x_0] `*b n q q`)."""
    mean = (views[..., None] * g).sum(-2)
    gaps = g - mean[..., None, :]
    return mean, gaps.mT @ (views[..., None] * gaps)


def intra_limit(
    phi: Float[Tensor, "*b n L"],
    p: Float[Tensor, "*b n"],
    views: Float[Tensor, "*b n v"],
    g: Float[Tensor, "*b n v q"],
) -> Float[Tensor, "*b q q"]:
    """sum_l z_l^2 E_{p~_l} V[g | x_0] (nl Eq. 41)."""
    z, law = adjusted(phi, p)
    weight = (z[..., None] ** 2 * law).sum(-2)
    return (weight[..., None, None] * _within(views, g)[1]).sum(-3)


def limit(
    phi: Float[Tensor, "*b n L"],
    p: Float[Tensor, "*b n"],
    views: Float[Tensor, "*b n v"],
    g: Float[Tensor, "*b n v q"],
) -> Float[Tensor, "*b q q"]:
    """sum_l z_l^2 V_{p~_l}[E[g | x_0]], what C_alpha[g] tends to (nl Lemma 2, Eq. 4)."""
    z, law = adjusted(phi, p)
    spread = _variance(law, _within(views, g)[0])
    return (z[..., None, None] ** 2 * spread).sum(-3)


def inter_limit(
    phi: Float[Tensor, "*b n L"],
    p: Float[Tensor, "*b n"],
    views: Float[Tensor, "*b n v"],
    g: Float[Tensor, "*b n v q"],
) -> Float[Tensor, "*b q q"]:
    """sum_l z_l^2 V_{p~_l, views}[g] (nl Eq. 32), the variance over samples and views together."""
    z, law = adjusted(phi, p)
    joint = (law[..., None] * views[..., None, :, :]).flatten(-2)
    return (z[..., None, None] ** 2 * _variance(joint, g.flatten(-3, -2))).sum(-3)


# --------------------------------------------------------------------------------------- batches


def _pick(key: Tensor, masses: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Draws of 0..n-1 with the masses `*b n`, which may already be chosen per draw."""
    level = random.uniform(key, shape, dtype=torch.float64)
    if masses.ndim == key.ndim + 1:
        masses = masses[..., None, :]
    return (masses.cumsum(-1)[..., :-1] <= level[..., None]).sum(-1)


def draw(
    key: Int[Tensor, "*b"], p: Float[Tensor, "*b n"], views: Float[Tensor, "*b n v"], size: int
) -> Batch:
    """A batch of `size` independent samples, each with two independent views."""
    sample = _pick(random.fold_in(key, 0), p, (size,))
    chosen = views.gather(-2, sample[..., None].expand(*sample.shape, views.shape[-1]))
    first, second = (_pick(random.fold_in(key, k), chosen, (size,)) for k in (1, 2))
    return Batch(sample, first, second)


def features(
    batch: Batch, g: Float[Tensor, "*b n v q"]
) -> tuple[Float[Tensor, "*b N q"], Float[Tensor, "*b N q"]]:
    """g of the first and of the second views of a batch."""
    count, width = g.shape[-2:]
    flat = g.flatten(-3, -2)

    def at(view: Tensor) -> Tensor:
        index = (batch.sample * count + view)[..., None]
        return flat.gather(-2, index.expand(*index.shape[:-1], width))

    return at(batch.first), at(batch.second)


def batch_covariance(
    alpha: Float[Tensor, "*b N N"],
    a: Float[Tensor, "*b N p"],
    a2: Float[Tensor, "*b N p"],
    b: Float[Tensor, "*b N q"],
    b2: Float[Tensor, "*b N q"],
) -> Float[Tensor, "*b p q"]:
    """C_alpha[a, b] exactly as nl prints it (Eq. 3): 1/(2 N^2), and i = j in the sum.

    Pairs i = j leave -alpha_ii (a[i] - a[i'])(b[i] - b[i'])^T, a part of size 1/N.
    """
    pairs = contrast.contrastive_covariance(alpha, a, a2, b, b2)
    diagonal = alpha.diagonal(dim1=-2, dim2=-1)[..., None]
    own = (a - a2).mT @ (diagonal * (b - b2))
    return (pairs - own) / (2 * a.shape[-2] ** 2)


def of_batch(
    batch: Batch, kernel: Float[Tensor, "*b n n"], g: Float[Tensor, "*b n v q"]
) -> Float[Tensor, "*b q q"]:
    """C_alpha[g] of a batch drawn from the finite world with alpha_ij = kernel(x_0[i], x_0[j])."""
    N, n = batch.sample.shape[-1], kernel.shape[-1]
    rows = kernel.gather(-2, batch.sample[..., None].expand(*batch.sample.shape, n))
    columns = batch.sample[..., None, :].expand(*batch.sample.shape[:-1], N, N)
    a, a2 = features(batch, g)
    return batch_covariance(rows.gather(-1, columns), a, a2, a, a2)
