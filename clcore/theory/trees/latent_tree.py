"""Hierarchical latent tree models, binary and categorical (ddn Sec. 6, App. C.2).

Node 0 is the root; node i > 0 hangs below `parents[i] < i`; nodes without children are the input.
Given its parent, a node's state is independent of everything that is not below it. Edge i - 1 leads
to node i; `table[..., i - 1, :, :]` is P(z_i | z_parent), rows are states of the parent, padded
with zeros. Leading dimensions `*b` are batches of models. An augmentation keeps the root's state
and draws all other states anew.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random


class Tree(NamedTuple):
    """parents: of every node, -1 for the root; states: how many values every node takes."""

    parents: tuple[int, ...]
    states: tuple[int, ...]


class Model(NamedTuple):
    """prior P(z_0) `*b m0`; table P(z_i | z_parent) `*b edges m m`, m the most states."""

    tree: Tree
    prior: Tensor
    table: Tensor


# --------------------------------------------------------------------------------------- the tree


def tree(parents: Sequence[int], states: int | Sequence[int] = 2) -> Tree:
    """A tree from a parent array. Errors: order, depth 0, fewer than two states."""
    parents = tuple(parents)
    if len(parents) < 2:
        raise ValueError(
            f"expected a tree of depth 1 at least, got {len(parents)} nodes; a root needs children"
        )
    for node, parent in enumerate(parents):
        if (parent != -1) if node == 0 else not 0 <= parent < node:
            raise ValueError(
                f"expected parents[0] = -1 and 0 <= parents[i] < i, got parents[{node}] = {parent}"
            )
    states = (states,) * len(parents) if isinstance(states, int) else tuple(states)
    if len(states) != len(parents) or min(states) < 2:
        raise ValueError(
            f"expected at least two states for each of {len(parents)} nodes, got {states}"
        )
    return Tree(parents, states)


def complete(depth: int, branching: int = 2, states: int = 2) -> Tree:
    """The complete tree, numbered level by level, left to right. Errors: depth or branching < 1."""
    if depth < 1 or branching < 1:
        raise ValueError(f"expected depth and branching >= 1, got {depth} and {branching}")
    inner = sum(branching**level for level in range(depth))
    parents = [-1] + [node for node in range(inner) for _ in range(branching)]
    return tree(parents, states)


def children(tree: Tree) -> tuple[tuple[int, ...], ...]:
    """The children of every node, in order."""
    below: list[list[int]] = [[] for _ in tree.parents]
    for node, parent in enumerate(tree.parents[1:], 1):
        below[parent].append(node)
    return tuple(map(tuple, below))


def leaves(tree: Tree) -> tuple[int, ...]:
    """The nodes without children, in order: the input."""
    return tuple(node for node, below in enumerate(children(tree)) if not below)


def levels(tree: Tree) -> tuple[tuple[int, ...], ...]:
    """The nodes at distance 0, 1, ... from the root."""
    out: list[tuple[int, ...]] = [(0,)]
    below = children(tree)
    while nodes := tuple(child for node in out[-1] for child in below[node]):
        out.append(nodes)
    return tuple(out)


def path(tree: Tree, node: int, ancestor: int = 0) -> tuple[int, ...]:
    """The nodes from `ancestor` down to `node`, both included. Errors: not above it."""
    out = [node]
    while out[-1] > ancestor:
        out.append(tree.parents[out[-1]])
    if out[-1] != ancestor:
        raise ValueError(f"expected an ancestor of node {node}, got {ancestor}")
    return tuple(reversed(out))


def positions(tree: Tree) -> Float[Tensor, "nodes 2"]:
    """Where to draw the nodes: leaves side by side, a parent above the middle of its children."""
    below = children(tree)
    place = torch.zeros(len(below), 2)
    slots = iter(range(len(below)))

    def visit(node: int, depth: int) -> float:
        mine = [visit(child, depth + 1) for child in below[node]] or [next(slots)]
        place[node, 0], place[node, 1] = sum(mine) / len(mine), -depth
        return float(place[node, 0])

    visit(0, 0)
    return place


# ------------------------------------------------------------------------------------- the models


def _slack(values: Tensor) -> float:
    """What rounding may do to sums of probabilities."""
    return 1e-9 if values.dtype == torch.float64 else 1e-5


def _require_unit(what: str, values: Tensor, low: float = -1.0) -> None:
    if not ((values >= low - _slack(values)) & (values <= 1 + _slack(values))).all():
        raise ValueError(
            f"{what}: expected values in [{low:g}, 1], got {values.min():.3g} to {values.max():.3g}"
        )


def transition(polarity: Float[Tensor, "*b"]) -> Float[Tensor, "*b 2 2"]:
    """P(z_nu | z_mu) of a symmetric binary edge (ddn Eq. 14): (1 + polarity) / 2 on the diagonal.

    Errors: polarities outside [-1, 1].
    """
    _require_unit("polarity", polarity)
    same, other = (1 + polarity) / 2, (1 - polarity) / 2
    return torch.stack([torch.stack([same, other], -1), torch.stack([other, same], -1)], -2)


def binary(
    tree: Tree, polarities: Float[Tensor, "*b edges"], root: Float[Tensor, "*b"] | float = 0.0
) -> Model:
    """SB-HLTM: all latents binary; root = P(z_0 = 1) - P(z_0 = 0). Errors: outside [-1, 1]."""
    if set(tree.states) != {2}:
        raise ValueError(f"expected two states at every node, got {tree.states}; use `categorical`")
    if polarities.shape[-1] != len(tree.parents) - 1:
        raise ValueError(
            f"expected one polarity for each of {len(tree.parents) - 1} edges, "
            f"got {polarities.shape[-1]}"
        )
    root = torch.as_tensor(root, dtype=polarities.dtype, device=polarities.device)
    _require_unit("root polarity", root)
    root = root.expand(polarities.shape[:-1])
    return Model(tree, torch.stack([1 - root, 1 + root], -1) / 2, transition(polarities))


def deviation(table: Float[Tensor, "*b r c"]) -> Float[Tensor, "*b r c"]:
    """C = P - 1 1^T / m of a transition matrix with m columns (ddn Def. 3)."""
    return table - 1 / table.shape[-1]


def categorical(
    tree: Tree,
    prior: Float[Tensor, "*b m0"],
    transitions: Sequence[Float[Tensor, "*b _ _"]],
    regular: bool = True,
) -> Model:
    """A model from one transition matrix an edge, TR-HLTM unless `regular` is False (ddn Def. 3).

    Errors: shapes, entries outside [0, 1], rows of P or the prior that do not sum to 1 (that is,
    C 1 != 0), and, if `regular`, columns of C that do not sum to 0.
    """
    if len(transitions) != len(tree.parents) - 1 or prior.shape[-1] != tree.states[0]:
        raise ValueError(
            f"expected {len(tree.parents) - 1} transition matrices and a prior over "
            f"{tree.states[0]} states, got {len(transitions)} and {prior.shape[-1]}"
        )
    _require_unit("prior", prior, 0.0)
    if ((prior.sum(-1) - 1).abs() > _slack(prior)).any():
        raise ValueError("prior: expected probabilities that sum to 1")
    most, padded = max(tree.states), []
    for node, table in enumerate(transitions, 1):
        shape = (tree.states[tree.parents[node]], tree.states[node])
        name = f"transition to node {node}"
        if tuple(table.shape[-2:]) != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {tuple(table.shape[-2:])}")
        _require_unit(name, table, 0.0)
        C = deviation(table)
        if (C.sum(-1).abs() > _slack(C)).any():
            raise ValueError(f"{name}: expected rows that sum to 1 (C 1 = 0); it is not stochastic")
        if regular and (C.sum(-2).abs() > _slack(C)).any():
            raise ValueError(
                f"{name}: expected columns that sum to {shape[0]}/{shape[1]} (C^T 1 = 0); it is "
                "not regular; pass regular=False for a general latent tree"
            )
        padded.append(torch.nn.functional.pad(table, (0, most - shape[1], 0, most - shape[0])))
    return Model(tree, prior, torch.stack(padded, -3))


def polarities(key: Int[Tensor, "*b"], tree: Tree, low: float = 0.0) -> Float[Tensor, "*b edges"]:
    """Uniform on [low, 1), one per edge, in float64 (ddn App. D.1). Errors: low outside [-1, 1]."""
    _require_unit("low", torch.tensor(low))
    return random.uniform(key, (len(tree.parents) - 1,), low, 1.0, torch.float64)


def regular_transition(
    key: Int[Tensor, "*b"], rows: int, columns: int, strength: float = 1.0
) -> Float[Tensor, "*b r c"]:
    """A random transition matrix of ddn Def. 3, float64; strength 1 gives it an entry 0."""
    _require_unit("strength", torch.tensor(strength), 0.0)
    C = random.normal(key, (rows, columns), torch.float64)
    C = C - C.mean(-1, keepdim=True)
    C = C - C.mean(-2, keepdim=True)
    scale = strength / (columns * (-C).amax((-1, -2), keepdim=True))
    return 1 / columns + scale * C


def draw(key: Int[Tensor, "*b"], tree: Tree, strength: float = 1.0) -> Model:
    """A random TR-HLTM, float64: regular transitions, a prior that is uniform on its simplex."""
    keys = random.split(key, len(tree.parents) + 1)
    weights = -random.uniform(keys[..., 0], (tree.states[0],), 1e-6, 1.0, torch.float64).log()
    tables = []
    for node, parent in enumerate(tree.parents[1:], 1):
        P = regular_transition(keys[..., node], tree.states[parent], tree.states[node], strength)
        tables.append(P)
    return categorical(tree, weights / weights.sum(-1, keepdim=True), tables)


# -------------------------------------------------------------------------------------- sampling


def _states(u: Tensor, chance: Tensor, most: Tensor | int) -> Tensor:
    """The state whose interval of the distribution `chance` [..., m] contains u [...]; `most`, the
    last state, is for sums of probabilities that end below 1 by rounding."""
    reached = (u[..., None] >= chance.cumsum(-1)).sum(-1)
    return reached.clamp(max=most)


def sample(
    key: Int[Tensor, "*b"], model: Model, n: int, root: Int[Tensor, "*b n"] | None = None
) -> Int[Tensor, "*b n nodes"]:
    """n draws of all states, given the root's if it is given (then: an augmentation)."""
    tree = model.tree
    u = random.uniform(key, (n, len(tree.parents)), dtype=torch.float64)
    if root is None:
        root = _states(u[..., 0], model.prior[..., None, :], tree.states[0] - 1)
    order, z = [0], [root[..., None]]
    for above, nodes in pairwise(levels(tree)):
        place = {node: i for i, node in enumerate(above)}
        parent = z[-1][..., [place[tree.parents[node]] for node in nodes]]
        rows = model.table[..., [node - 1 for node in nodes], :, :].unsqueeze(-4)
        rows = rows.expand(*parent.shape, *rows.shape[-2:])
        index = parent[..., None, None].expand(*parent.shape, 1, rows.shape[-1])
        most = torch.tensor([tree.states[node] - 1 for node in nodes], device=u.device)
        z.append(_states(u[..., list(nodes)], rows.gather(-2, index).squeeze(-2), most))
        order.extend(nodes)
    back = torch.tensor(order, device=u.device).argsort()
    return torch.cat(z, -1)[..., back]


def augment(
    key: Int[Tensor, "*b"], model: Model, z: Int[Tensor, "*b n nodes"]
) -> Int[Tensor, "*b n nodes"]:
    """Second views: everything below the root drawn anew, the root kept (ddn Sec. 6)."""
    return sample(key, model, z.shape[-2], z[..., 0])


# -------------------------------------------------------------------------- messages down the tree


def edge(model: Model, node: int) -> Float[Tensor, "*b r c"]:
    """P(z_node | z_parent) without its padding. Errors: the root has none."""
    if not 1 <= node < len(model.tree.parents):
        raise ValueError(f"expected a node from 1 to {len(model.tree.parents) - 1}, got {node}")
    rows = model.tree.states[model.tree.parents[node]]
    return model.table[..., node - 1, :rows, : model.tree.states[node]]


def path_transition(model: Model, node: int, ancestor: int = 0) -> Float[Tensor, "*b r c"]:
    """P(z_node | z_ancestor), the product of the transitions on the path (ddn Lemma 6)."""
    eye = torch.eye(model.tree.states[ancestor], dtype=model.table.dtype, device=model.table.device)
    out = eye.expand(*model.table.shape[:-3], *eye.shape)
    for step in path(model.tree, node, ancestor)[1:]:
        out = out @ edge(model, step)
    return out


def path_polarity(tree: Tree, polarities: Float[Tensor, "*b edges"]) -> Float[Tensor, "*b nodes"]:
    """rho_{0 mu} of every node mu: the product of the polarities on its path (ddn Eq. 177)."""
    out = [torch.ones_like(polarities[..., 0])]
    for node, parent in enumerate(tree.parents[1:], 1):
        out.append(out[parent] * polarities[..., node - 1])
    return torch.stack(out, -1)
