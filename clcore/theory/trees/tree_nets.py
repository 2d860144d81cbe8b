"""Nets that follow a latent tree, and their exact conditional moments (ddn Sec. 6, App. C).

A net has a group of units per tree node, fed by the groups of the node's children; a leaf's group
is one unit that shows the leaf's state. A group sees finitely many inputs, hence its exact law is a
finite mixture (`laws`); what is linear passes from node to node as moments (`lifted`).
"""

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random
from clcore.nets.networks import activate
from clcore.theory.trees import latent_tree as lt

CONFIGURATIONS = 2**20
Weights = dict[int, Tensor]


class Law(NamedTuple):
    """The law of a group: chance `*b m S` of each input below given the node's state; the group's
    pre-activations and outputs there, `*b S n` (a leaf's are both its value)."""

    chance: Tensor
    pre: Tensor
    out: Tensor


def group_sizes(tree: lt.Tree, units: int) -> tuple[int, ...]:
    """|N_mu| of every node: `units` above the leaves, one at a leaf."""
    return tuple(units if below else 1 for below in lt.children(tree))


def net(key: Int[Tensor, "*b"], tree: lt.Tree, units: int, scale: float = 1.0) -> Weights:
    """Weights `*b |N_mu| |N_mu^ch|` of every group above the leaves, in float64: uniform within
    +-scale sqrt(3 / fan-in), so that their variance is scale^2 / fan-in (ddn Theorem 5)."""
    sizes, out = group_sizes(tree, units), {}
    for node, below in enumerate(lt.children(tree)):
        if below:
            fan_in = sum(sizes[child] for child in below)
            bound = scale * (3 / fan_in) ** 0.5
            mine = random.fold_in(key, node)
            out[node] = random.uniform(mine, (units, fan_in), -bound, bound, torch.float64)
    return out


def forward(
    tree: lt.Tree, weights: Weights, x: Float[Tensor, "*b n leaves"], kind: str = "relu"
) -> tuple[Float[Tensor, "*b n _"], ...]:
    """The outputs of every node's group on the input x, root first."""
    below = lt.children(tree)
    out: dict[int, Tensor] = {node: x[..., [i]] for i, node in enumerate(lt.leaves(tree))}
    for node in reversed(range(len(below))):
        if below[node]:
            f = torch.cat([out[child] for child in below[node]], -1)
            out[node] = activate(f @ weights[node].mT, kind)
    return tuple(out[node] for node in range(len(below)))


def laws(
    model: lt.Model,
    weights: Weights,
    values: Float[Tensor, "m"] | None = None,
    kind: str = "relu",
) -> tuple[Law, ...]:
    """The exact law of every group given its own latent, by messages from the leaves up.

    values: what a leaf's unit shows in each state; by default the state's number (ddn Sec. 6). The
    cost is the number of inputs below a node. Errors: more than 2^20 of them.
    """
    tree, below = model.tree, lt.children(model.tree)
    inputs = prod(tree.states[leaf] for leaf in lt.leaves(tree))
    if inputs > CONFIGURATIONS:
        raise ValueError(
            f"expected at most 2^20 joint states of the leaves, got {inputs}; use `sample`, or "
            "`linear_moments` if the net is linear"
        )
    like: dict[str, Any] = {"dtype": model.table.dtype, "device": model.table.device}
    values = torch.arange(max(tree.states), **like) if values is None else values
    out: dict[int, Law] = {}
    for node in reversed(range(len(below))):
        if not below[node]:
            m = tree.states[node]
            batch = model.table.shape[:-3]
            shown = values[:m, None].expand(*batch, m, 1)
            out[node] = Law(torch.eye(m, **like).expand(*batch, m, m), shown, shown)
            continue
        messages, parts, first = [], [], 0
        for child in below[node]:
            law = out[child]
            last = first + law.out.shape[-1]
            messages.append(lt.edge(model, child) @ law.chance)
            parts.append(law.out @ weights[node][..., first:last].mT)
            first = last
        chance = reduce(lambda a, b: (a[..., :, None] * b[..., None, :]).flatten(-2), messages)
        pre = reduce(lambda a, b: (a[..., :, None, :] + b[..., None, :, :]).flatten(-3, -2), parts)
        out[node] = Law(chance, pre, activate(pre, kind))
    return tuple(out[node] for node in range(len(below)))


# ---------------------------------------------------------------------------------------- moments


def mean(
    chance: Float[Tensor, "*b m S"], values: Float[Tensor, "*b S n"]
) -> Float[Tensor, "*b m n"]:
    """v(z) = E[f | z]: one row per state (ddn Table 5)."""
    return chance @ values


def covariance(
    chance: Float[Tensor, "*b m S"], values: Float[Tensor, "*b S n"]
) -> Float[Tensor, "*b m n n"]:
    """Cov[f | z], one matrix per state."""
    gap = values[..., None, :, :] - mean(chance, values)[..., :, None, :]
    return (gap * chance[..., None]).mT @ gap


def lifted(
    P: Float[Tensor, "*b r c"],
    means: Float[Tensor, "*b c n"],
    covariances: Float[Tensor, "*b c n n"],
) -> tuple[Float[Tensor, "*b r n"], Float[Tensor, "*b r n n"]]:
    """The same moments given the state of an ancestor, P = P(z_node | z_ancestor).

    Mean P v (ddn Eq. 95); covariance by the law of total covariance (ddn Eq. 156).
    """
    up = P @ means
    gap = means[..., None, :, :] - up[..., :, None, :]
    between = (gap * P[..., None]).mT @ gap
    within = torch.einsum("...rc,...cij->...rij", P, covariances)
    return up, between + within


def children_moments(
    model: lt.Model, groups: Sequence[Law], node: int
) -> tuple[Float[Tensor, "*b m c"], Float[Tensor, "*b m c c"]]:
    """Mean and covariance of the children's outputs f_{N^ch} given z_node.

    Different children are independent given z_node, hence the covariance has one block a child.
    """
    below = lt.children(model.tree)[node]
    if not below:
        raise ValueError(f"expected a node with children, got the leaf {node}")
    means, blocks = [], []
    for child in below:
        law = groups[child]
        moments = mean(law.chance, law.out), covariance(law.chance, law.out)
        up, spread = lifted(lt.edge(model, child), *moments)
        means.append(up)
        blocks.append(spread)
    return torch.cat(means, -1), _block_diagonal(blocks)


def _block_diagonal(blocks: Sequence[Tensor]) -> Tensor:
    """[..., n_i, n_i] -> [..., sum n_i, sum n_i]."""
    total, first, rows = sum(block.shape[-1] for block in blocks), 0, []
    for block in blocks:
        last = first + block.shape[-1]
        rows.append(torch.nn.functional.pad(block, (first, total - last)))
        first = last
    return torch.cat(rows, -2)


def linear_moments(
    model: lt.Model, weights: Weights, values: Float[Tensor, "m"] | None = None
) -> tuple[tuple[Tensor, Tensor], ...]:
    """(E[f | z] `*b m n`, Cov[f | z] `*b m n n`) of every group of a LINEAR net, by messages.

    The cost is linear in the nodes: trees of any depth.
    """
    tree, below = model.tree, lt.children(model.tree)
    table = model.table
    if values is None:
        values = torch.arange(max(tree.states), dtype=table.dtype, device=table.device)
    out: dict[int, tuple[Tensor, Tensor]] = {}
    for node in reversed(range(len(below))):
        if not below[node]:
            m = tree.states[node]
            shown = values[:m, None].expand(*table.shape[:-3], m, 1)
            out[node] = shown, torch.zeros_like(shown)[..., None]
            continue
        parts = [lifted(lt.edge(model, child), *out[child]) for child in below[node]]
        means, spread = torch.cat([p[0] for p in parts], -1), _block_diagonal([p[1] for p in parts])
        w = weights[node][..., None, :, :]
        out[node] = means @ weights[node].mT, w @ spread @ w.mT
    return tuple(out[node] for node in range(len(below)))


def selectivity(v: Float[Tensor, "*b 2 n"]) -> Float[Tensor, "*b n"]:
    """s_k = (v_k(1) - v_k(0)) / 2 (ddn Eq. 108)."""
    return (v[..., 1, :] - v[..., 0, :]) / 2


def child_selectivity(model: lt.Model, groups: Sequence[Law], node: int) -> Float[Tensor, "*b c"]:
    """a_mu = [rho_{mu nu(k)} s_k] over the children's units k of a binary model (ddn Eq. 110)."""
    parts = []
    for child in lt.children(model.tree)[node]:
        law = groups[child]
        rho = lt.edge(model, child)[..., 1, 1] - lt.edge(model, child)[..., 0, 1]
        parts.append(rho[..., None] * selectivity(mean(law.chance, law.out)))
    return torch.cat(parts, -1)


def root_means(model: lt.Model, groups: Sequence[Law], node: int) -> Float[Tensor, "*b m0 c"]:
    """V_{0, N_mu^ch}: E[f_k | z_0] of the children's units k of a node (ddn Eq. 167)."""
    parts = []
    for child in lt.children(model.tree)[node]:
        law = groups[child]
        parts.append(lt.path_transition(model, child) @ mean(law.chance, law.out))
    return torch.cat(parts, -1)


def root_covariance(
    prior: Float[Tensor, "*b m0"], V: Float[Tensor, "*b m0 n"]
) -> Float[Tensor, "*b n n"]:
    """V_{z_0}[E[f | z_0]] of columns V = E[f_k | z_0] (ddn Eq. 166):
    V^T (P_0 - P_0 1 1^T P_0) V."""
    P0 = torch.diag_embed(prior) - prior[..., :, None] * prior[..., None, :]
    return V.mT @ P0 @ V
