"""A latent with C values behind disjoint receptive fields (nl Ass. 2, Lemma 5), exactly.

z is c with probability p_c. Given z the K fields are independent, and each is in one of S states. A
feature of a field is then a table with one row per state: `g`, `*b K S q`; the inputs themselves
are such a table. Vectors over all fields are stacked field by field, `K*q`. Leading dimensions are
batches of models. `clcore.theory.relu.binary_latent` is the model of acl, whose states have one
active mode.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random

LIMIT = 100_000  # joint states


class Model(NamedTuple):
    """prior `*b C`; table P(state of field k | z) `*b C K S`; values `*b K S d`, the inputs."""

    prior: Tensor
    table: Tensor
    values: Tensor


class Joint(NamedTuple):
    """All joint states: index of z `n`, of every field's state `n K`, probabilities `*b n`."""

    z: Tensor
    states: Tensor
    p: Tensor


def draw(key: Int[Tensor, "*b"], classes: int, fields: int, states: int, d: int) -> Model:
    """A random model in float64: Dirichlet(1) tables, normal inputs, every p_c > 0.1 / C:
    uniform numbers of [0.1, 1] over their sum. Errors: fewer than two classes.
    """
    if classes < 2:
        raise ValueError(f"expected at least two values of the latent, got {classes}")
    keys = [random.fold_in(key, i) for i in range(3)]
    weights = -random.uniform(keys[0], (classes, fields, states), 1e-6, 1.0, torch.float64).log()
    prior = random.uniform(keys[1], (classes,), 0.1, 1.0, torch.float64)
    values = random.normal(keys[2], (fields, states, d), torch.float64)
    return Model(
        prior / prior.sum(-1, keepdim=True), weights / weights.sum(-1, keepdim=True), values
    )


def _require(model: Model, g: Tensor) -> None:
    expected = list(model.table.shape[-2:])
    if list(g.shape[-3:-1]) != expected:
        raise ValueError(
            f"expected features of shape [*b, K, S, q] with [K, S] = {expected}, got "
            f"{list(g.shape)}; a feature has one row for each state of each field"
        )


def joint(model: Model) -> Joint:
    """Every joint state of z and the fields. Errors: more than 100000 of them."""
    C, K, S = model.table.shape[-3:]
    if C * S**K > LIMIT:
        raise ValueError(f"expected at most {LIMIT} joint states, got {C} * {S}^{K}")
    ranges = [torch.arange(C), *[torch.arange(S)] * K]
    grid = torch.cartesian_prod(*ranges).to(model.prior.device)
    z, states = grid[:, 0], grid[:, 1:]
    field = torch.arange(K, device=z.device)
    chance = model.table[..., z[:, None], field, states].prod(-1)
    return Joint(z, states, model.prior[..., z] * chance)


def features(states: Int[Tensor, "n K"], g: Float[Tensor, "*b K S q"]) -> Float[Tensor, "*b n K q"]:
    """The features of given joint states."""
    return g[..., torch.arange(g.shape[-3], device=g.device), states, :]


def means(model: Model, g: Float[Tensor, "*b K S q"]) -> Float[Tensor, "*b C K q"]:
    """E[g_k | z = c]. Errors: shapes."""
    _require(model, g)
    return torch.einsum("...cks,...ksq->...ckq", model.table, g)


def contrasts(model: Model, g: Float[Tensor, "*b K S q"]) -> Float[Tensor, "*b C K q"]:
    """Delta_k(c) = E[g_k | z = c] - E[g_k | z != c] (nl Eqs. 132, 133)."""
    mu, p = means(model, g), model.prior[..., None, None]
    rest = (p * mu).sum(-3, keepdim=True) - p * mu
    return mu - rest / (1 - p)


def within(model: Model, g: Float[Tensor, "*b K S q"]) -> Float[Tensor, "*b K q q"]:
    """L_k = E_z V[g_k | z] (nl Lemma 5)."""
    gap = g[..., None, :, :, :] - means(model, g)[..., None, :]
    weights = model.prior[..., None, None] * model.table
    return torch.einsum("...cks,...cksq,...cksr->...kqr", weights, gap, gap)


def covariance(model: Model, g: Float[Tensor, "*b K S q"]) -> Float[Tensor, "*b Kq Kq"]:
    """V[g] = diag_k(L_k) + sum_c p_c (1 - p_c)^2 Delta(c) Delta(c)^T (nl Lemma 5, Eq. 120)."""
    L = within(model, g)
    K, q = L.shape[-3], L.shape[-1]
    eye = torch.eye(K, dtype=L.dtype, device=L.device)
    blocks = torch.einsum("...kqr,kl->...kqlr", L, eye).reshape(*L.shape[:-3], K * q, K * q)
    delta = contrasts(model, g).flatten(-2)
    weights = model.prior * (1 - model.prior) ** 2
    return blocks + torch.einsum("...c,...ci,...cj->...ij", weights, delta, delta)
