"""A binary latent variable behind disjoint receptive fields (acl Sec. 5.3), with exact moments.

y is 1 with probability p1. Given y the K fields are independent (acl Eq. 15), and each is in one of
S states; a state is an amplitude on one of d modes, or nothing (Assumption 1). Vectors over all
fields are stacked field by field, `K*d`. Leading dimensions are batches of models.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random


class Model(NamedTuple):
    """p1 `*b`; table P(state of field k | y) `*b 2 K S`; values `*b K S d`, the states' inputs."""

    p1: Tensor
    table: Tensor
    values: Tensor


def draw(key: Int[Tensor, "*b"], fields: int, modes: int) -> Model:
    """A random model: d + 2 states a field (every mode, one mode again, nothing), p1 in
    (0.05, 0.95), amplitudes in (0.5, 1.5). In float64."""
    keys = [random.fold_in(key, i) for i in range(4)]
    states = modes + 2
    weights = -random.uniform(keys[0], (2, fields, states), 1e-6, 1.0, torch.float64).log()
    again = random.randint(keys[1], (fields, 1), 0, modes)
    first = torch.arange(modes, device=key.device).expand(*again.shape[:-1], modes)
    active = torch.nn.functional.one_hot(torch.cat([first, again], -1), modes)
    size = random.uniform(keys[2], (fields, states - 1), 0.5, 1.5, torch.float64)
    values = torch.nn.functional.pad(active * size[..., None], (0, 0, 0, 1))
    p1 = random.uniform(keys[3], (), 0.05, 0.95, torch.float64)
    return Model(p1, weights / weights.sum(-1, keepdim=True), values)


def priors(model: Model) -> Float[Tensor, "*b 2"]:
    """(p0, p1)."""
    return torch.stack([1 - model.p1, model.p1], -1)


def means(model: Model) -> Float[Tensor, "*b 2 K d"]:
    """mu_kc = E[x_k | y = c] (acl Eq. 55)."""
    return torch.einsum("...cks,...ksd->...ckd", model.table, model.values)


def difference(model: Model) -> Float[Tensor, "*b K d"]:
    """Delta = E[x | y = 1] - E[x | y = 0] (acl Eq. 16), field by field."""
    mu = means(model)
    return mu[..., 1, :, :] - mu[..., 0, :, :]


def second_moments(model: Model) -> Float[Tensor, "*b K d"]:
    """E[x_m^2] of every feature."""
    table = torch.einsum("...c,...cks->...ks", priors(model), model.table)
    return torch.einsum("...ks,...ksd->...kd", table, model.values**2)


def within(model: Model) -> Float[Tensor, "*b Kd Kd"]:
    """D_V = diag_k(E_y V[x_k | y]) (acl Sec. 5.3): one block per field."""
    mu, p = means(model), priors(model)
    raw = torch.einsum("...cks,...ksd,...kse->...ckde", model.table, model.values, model.values)
    blocks = raw - mu[..., None] * mu[..., None, :]
    blocks = (p[..., None, None, None] * blocks).sum(-4)
    K, d = blocks.shape[-3], blocks.shape[-1]
    eye = torch.eye(K, dtype=blocks.dtype, device=blocks.device)
    full = torch.einsum("...kde,kl->...kdle", blocks, eye)
    return full.reshape(*blocks.shape[:-3], K * d, K * d)


def covariance(model: Model) -> Float[Tensor, "*b Kd Kd"]:
    """V[x] = p0 p1 Delta Delta^T + D_V (acl Lemma 4)."""
    delta = difference(model).flatten(-2)
    scale = (model.p1 * (1 - model.p1))[..., None, None]
    return scale * delta[..., :, None] * delta[..., None, :] + within(model)


def weak_augmentation(model: Model) -> Float[Tensor, "*b Kd"]:
    """The diagonal of D_aug in the weak case of acl Theorem 6: diag(D_V)."""
    return within(model).diagonal(dim1=-2, dim2=-1)


def strong_augmentation(
    model: Model, strength: float | Tensor = 1.0, eta: float | Float[Tensor, "*b Kd"] = 0.0
) -> Float[Tensor, "*b Kd"]:
    """diag(D_V) + strength (diag^2(Delta) + eta), the diagonal of D_aug.

    strength = 1 is the strong case of acl Theorem 6 as printed, p0 p1 the one that its proof needs.
    """
    delta = difference(model).flatten(-2)
    scale = torch.as_tensor(strength, dtype=delta.dtype)[..., None]
    return weak_augmentation(model) + scale * (delta**2 + eta)


def contrastive(model: Model, augmentation: Float[Tensor, "*b Kd"]) -> Float[Tensor, "*b Kd Kd"]:
    """X_alpha = V[x] - D_aug for uniform alpha and large batches (acl Eqs. 14, 17)."""
    return covariance(model) - torch.diag_embed(augmentation)


def joint(model: Model) -> tuple[Float[Tensor, "*b 2 J"], Int[Tensor, "J K"]]:
    """P(y = c, states j) of all J = S^K joint states, and the state of every field in each."""
    K, S = model.table.shape[-2:]
    states = torch.cartesian_prod(*[torch.arange(S)] * K).reshape(-1, K).to(model.table.device)
    chance = priors(model)[..., None]
    for k in range(K):
        chance = chance * model.table[..., k, states[:, k]]
    return chance, states


def inputs(model: Model, states: Int[Tensor, "*b n K"]) -> Float[Tensor, "*b n K d"]:
    """The samples with these states."""
    parts = []
    for k in range(states.shape[-1]):
        values = model.values[..., k, :, :]
        index = states[..., k, None].expand(*states.shape[:-1], values.shape[-1])
        parts.append(values.expand(*index.shape[:-2], *values.shape[-2:]).gather(-2, index))
    return torch.stack(parts, -2)


def sample(
    key: Int[Tensor, "*b"], model: Model, n: int
) -> tuple[Int[Tensor, "*b n"], Float[Tensor, "*b n K d"]]:
    """n draws of (y, x)."""
    K, S = model.table.shape[-2:]
    first = random.uniform(random.fold_in(key, 0), (n,), dtype=torch.float64)
    y = (first < model.p1[..., None]).long()
    u = random.uniform(random.fold_in(key, 1), (n, K), dtype=torch.float64)
    levels = model.table.cumsum(-1)
    index = y[..., None, None].expand(*y.shape, K, S)
    mine = levels.gather(-3, index)  # the row of the sample's own class
    states = (u[..., None] > mine).sum(-1).clamp(max=S - 1)
    return y, inputs(model, states)


def scaled(
    key: Int[Tensor, "*b"],
    x: Float[Tensor, "*b n K d"],
    variance: Float[Tensor, "*b K d"],
    shared: bool = False,
) -> Float[Tensor, "*b n K d"]:
    """Second views gamma x, gamma > 0 with mean 1 and the given variance for the active feature.

    Two values, 1 - a and 1 + variance / a with a <= 1/2. Independent over fields; or, `shared`, one
    factor a sample, with the variance averaged over all features. This makes
    D_aug = E[(1 - gamma)^2 x x^T] / 2 (acl Eq. 14).
    """
    if shared:
        variance = variance.mean((-2, -1), keepdim=True).expand_as(variance)
    low = variance.sqrt().clamp(max=0.5)
    high = variance / torch.where(low > 0, low, 1.0)
    shape = (x.shape[-3], 1, 1) if shared else (*x.shape[-3:-1], 1)
    u = random.uniform(key, shape, dtype=torch.float64)
    chance = low / torch.where(low > 0, low + high, 1.0)
    rare = u < chance[..., None, :, :]
    return x * torch.where(rare, 1 + high[..., None, :, :], 1 - low[..., None, :, :])
