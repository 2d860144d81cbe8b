"""Latent trees and their nets once more, by enumeration of all joint states in numpy.

Arrays have draws first. A world is a `latent_tree.Model` with its net; here only its numbers are
read. J counts the joint states of all nodes, hidden and shown.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore.reference import Array, tensors
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

SHAPES = (
    (-1, 0, 0, 1, 1, 2, 2),
    (-1, 0, 0, 1, 1, 2, 3, 3, 5),
    (-1, 0, 1, 1, 2, 2, 2, 3),
    (-1, 0, 1, 2, 3, 4, 4, 0),
)
"""Four trees: the parent of each node, -1 of the root."""

CATERPILLAR = (-1, 0, 0, 1, 1, 3, 3, 5, 5)  # the path 0-1-3-5 has a leaf at every node


class World(NamedTuple):
    """A batch of models with one net each, and what `enumerate_states` found."""

    model: lt.Model  # the trees and their tables
    weights: tree_nets.Weights  # of every node's group
    groups: tuple[tree_nets.Law, ...]  # the law of every node's group, by the library
    z: Array  # J nodes
    chance: Array  # draws J
    pre: list[Array]  # pre-activations of every node's group, draws J n
    out: list[Array]  # outputs of every node's group, draws J n


def keys(rng: np.random.Generator, draws: int) -> torch.Tensor:
    """Random keys for the library's generators, one per draw."""
    return random.key(torch.from_numpy(rng.integers(2**40, size=draws)))


def signed(rng: np.random.Generator, draws: int, edges: int, low: float = 0.2) -> Array:
    """Polarities of both signs, |rho| in (low, 0.95): [draws, edges]."""
    return rng.choice([-1, 1], (draws, edges)) * rng.uniform(low, 0.95, (draws, edges))


def world(
    rng: np.random.Generator, draws: int, parents: tuple[int, ...], units: int, scale: float = 1.0
) -> World:
    """A random SB-HLTM, polarities of both signs, with a random net."""
    tree, rates = lt.tree(parents), signed(rng, draws, len(parents) - 1)
    model = lt.binary(tree, *tensors(rates, rng.uniform(-0.9, 0.9, draws)))
    return explore(model, tree_nets.net(keys(rng, draws), tree, units, scale))


def worlds(rng: np.random.Generator, draws: int, units: int) -> list[World]:
    """Binary worlds over trees of depth 2 to 5, regular and not."""
    return [world(rng, draws, parents, units) for parents in SHAPES]


def explore(model: lt.Model, weights: tree_nets.Weights) -> World:
    """A model and its net with the library's laws and the enumeration that does without them."""
    z, chance = enumerate_states(model)
    pre, out = propagate(model.tree, weights, z)
    return World(model, weights, tree_nets.laws(model, weights), z, chance, pre, out)


def enumerate_states(model: lt.Model) -> tuple[Array, Array]:
    """All joint states [J, nodes] and their probabilities [draws, J], the definition itself."""
    parents, states = model.tree
    z = np.array(list(product(*(range(m) for m in states))))
    chance = model.prior.numpy()[:, z[:, 0]]
    for node in range(1, len(parents)):
        table = model.table.numpy()[:, node - 1]
        chance = chance * table[:, z[:, parents[node]], z[:, node]]
    return z, chance


def propagate(
    tree: lt.Tree, weights: tree_nets.Weights, z: Array
) -> tuple[list[Array], list[Array]]:
    """Pre-activations and outputs [draws, J, n] of every group in every joint state; a leaf shows
    its latent."""
    draws = len(next(iter(weights.values())))
    leaf = [z[:, [node]].astype(float) for node in range(len(tree.parents))]
    pre = [np.broadcast_to(shown, (draws, *shown.shape)) for shown in leaf]
    out = list(pre)
    for node in sorted(weights, reverse=True):
        shown = [out[i] for i, parent in enumerate(tree.parents) if parent == node]
        pre[node] = np.einsum("djk,dsk->dsj", weights[node].numpy(), np.concatenate(shown, -1))
        out[node] = np.where(pre[node] > 0, pre[node], 0.0)
    return pre, out


def below(w: World, node: int) -> tuple[int, ...]:
    """The children of a node."""
    return tuple(i for i, parent in enumerate(w.model.tree.parents) if parent == node)


def inner(w: World) -> list[int]:
    """The nodes that have children."""
    return sorted(set(w.model.tree.parents) - {-1})


def fed(w: World, node: int) -> Array:
    """f of N_node^ch in every joint state: [draws, J, c]."""
    return np.concatenate([w.out[i] for i in below(w, node)], -1)


def given(w: World, node: int, f: Array) -> Array:
    """E[f | z_node], [draws, m, n], of f [draws, J, n]: sums over the joint states."""
    rows = []
    for state in range(w.model.tree.states[node]):
        here = w.chance * (w.z[:, node] == state)
        rows.append(np.einsum("ds,dsn->dn", here, f) / here.sum(-1)[:, None])
    return np.stack(rows, 1)


def spread(w: World, node: int, f: Array) -> Array:
    """Cov[f | z_node], [draws, m, n, n]."""
    means, rows = given(w, node, f), []
    for state in range(w.model.tree.states[node]):
        here = w.chance * (w.z[:, node] == state)
        gap = f - means[:, state][:, None]
        product_ = np.einsum("ds,dsn,dsk->dnk", here, gap, gap, optimize=True)
        rows.append(product_ / here.sum(-1)[:, None, None])
    return np.stack(rows, 1)


def over_root(w: World, f: Array) -> Array:
    """V_{z_0}[E[f | z_0]], [draws, n, n], as a sum over the root's states."""
    prior, means = w.model.prior.numpy(), given(w, 0, f)
    gaps = means - (prior[..., None] * means).sum(1, keepdims=True)
    return (prior[..., None, None] * gaps[..., :, None] * gaps[..., None, :]).sum(1)


def rho(w: World) -> Array:
    """The polarity of every edge, [draws, edges], as 2 P(z_nu = 1 | z_mu = 1) - 1."""
    return 2 * w.model.table.numpy()[:, :, 1, 1] - 1


def rho0(w: World) -> Array:
    """The root's polarity [draws]."""
    return w.model.prior.numpy()[:, 1] - w.model.prior.numpy()[:, 0]


def path_rho(w: World, node: int) -> Array:
    """The polarity between the root and a node, [draws], from the joint probabilities."""
    on = np.broadcast_to(w.z[:, [node]], (len(w.chance), len(w.z), 1))
    return 2 * given(w, 0, on)[:, 1, 0] - 1


def selective(w: World, node: int) -> tuple[Array, Array, Array]:
    """(s_k, v-bar_k, rho_{mu nu(k)}) over the units k below a node, each [draws, c]."""
    means = [given(w, child, w.out[child]) for child in below(w, node)]
    edges = [np.repeat(rho(w)[:, [i - 1]], w.out[i].shape[-1], 1) for i in below(w, node)]
    high, low = (np.concatenate([v[:, c] for v in means], -1) for c in (1, 0))
    return (high - low) / 2, (high + low) / 2, np.concatenate(edges, -1)
