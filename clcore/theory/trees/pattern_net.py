"""A deep ReLU net shaped like its data's latent tree, and its exact statistics (ddn Secs. 6, 7).

Every latent of a complete binary tree of depth L (the root, z_s0, z_s1, ..., down to the parents of
the 2^L leaves) owns a group of N nodes, which its two children's groups feed; the leaves are single
inputs. ReLU on all groups but the root's, whose N pre-activations are the output.

The leaves are bits, so the 2^h leaves below a latent of height h show at most 2^(2^h) patterns:
4, 16, 256. Up to height 3 a group is therefore evaluated once for each pattern and not once for
each sample, in training as well, where a batch holds more samples than that. Per-pattern values are
ordered with the first leaf as the most significant bit.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random as cr

Params = dict[str, Tensor]

HEIGHT = 3  # of the blocks of leaves that are tabulated: 8 leaves, 256 patterns


def block_depth(depth: int) -> int:
    """Depth of the latents whose patterns of leaves are tabulated; there are 2^that of them."""
    return max(depth - HEIGHT, 0)


def check_sizes(depth: int, width: int) -> None:
    """Raise ValueError unless a tree of this depth can carry a net of this width."""
    if depth < 1:
        raise ValueError(f"depth: expected a tree with at least one layer of edges, got {depth}")
    if width < 1:
        raise ValueError(f"width: expected at least one node per latent, got {width}")


def init(key: Int[Tensor, ""], depth: int, width: int) -> Params:
    """Weights `w{d}` [2^d, N, fan-in] and biases `b{d}` [2^d, N] of the groups of every depth
    below L, uniform on +-1/sqrt(fan-in), which is torch's own default. Errors: depth, width < 1."""
    check_sizes(depth, width)
    keys = cr.split(key, 2 * depth)
    params = {}
    for d in range(depth):
        fan_in = 2 if d == depth - 1 else 2 * width
        bound = fan_in**-0.5
        shape = (2**d, width, fan_in)
        params[f"w{d}"] = cr.uniform(keys[..., 2 * d], shape, -bound, bound, torch.float64)
        params[f"b{d}"] = cr.uniform(keys[..., 2 * d + 1], shape[:2], -bound, bound, torch.float64)
    return params


def sides(w: Float[Tensor, "g N inputs"], width: int) -> Float[Tensor, "children n N"]:
    """Weights [g, N, 2 n] of groups on both children -> [2 g, n, N], a matrix a child."""
    return w.unflatten(-1, (2, width)).permute(0, 2, 3, 1).flatten(0, 1)


def _of_both(parts: Tensor) -> tuple[Tensor, ...]:
    """[2 g, A, N] -> the left and the right children's [g, A, N]."""
    return parts.unflatten(0, (-1, 2)).unbind(1)


def tables(params: Params, signed: bool = False, top: int | None = None) -> list[Tensor]:
    """Pre-activations of every group for every pattern of its leaves, by depth d = L-1, ..., top.

    Each entry is [2^d, 2^(2^(L-d)), N]; top: `block_depth` unless told, for height 4 has 65536
    patterns. signed: leaves are -1, 1, not 0, 1.
    """
    depth, w = len(params) // 2, params["w0"]
    leaf = torch.tensor([-1.0 if signed else 0.0, 1.0], dtype=w.dtype, device=w.device)
    below = leaf[:, None].expand(2**depth, 2, 1)
    out = []
    for d in range(depth - 1, (block_depth(depth) if top is None else top) - 1, -1):
        left, right = _of_both(below @ sides(params[f"w{d}"], below.shape[-1]))
        both = left[:, :, None] + (right + params[f"b{d}"][:, None])[:, None]
        out.append(both.flatten(1, 2))
        below = torch.relu(out[-1])
    return out


def forward(
    params: Params, patterns: Int[Tensor, "blocks batch"], signed: bool = False
) -> Float[Tensor, "batch N"]:
    """The output: the root's pre-activations for samples given by the patterns of their blocks.

    patterns: for every block (left to right) the number that its leaves spell, see `tables`.
    """
    depth, top = len(params) // 2, tables(params, signed)[-1]
    first = block_depth(depth)
    if first == 0:
        return top[0][patterns[0]]
    # The next layer's products first, on 256 patterns: there are more samples than that.
    parts = torch.relu(top) @ sides(params[f"w{first - 1}"], top.shape[-1])
    values = parts.gather(1, patterns[..., None].expand(*patterns.shape, top.shape[-1]))
    for d in range(first - 1, -1, -1):
        values = values.unflatten(0, (-1, 2)).sum(1) + params[f"b{d}"][:, None]
        if d:
            values = torch.relu(values) @ sides(params[f"w{d - 1}"], values.shape[-1])
    return values[0]


def by_sample(
    params: Params, leaves: Float[Tensor, "batch leaves"]
) -> list[Float[Tensor, "groups batch N"]]:
    """Pre-activations of every group for every sample, from the root (depth 0) down to L-1."""
    depth = len(params) // 2
    below = leaves.mT[..., None]
    out = []
    for d in range(depth - 1, -1, -1):
        left, right = _of_both(below @ sides(params[f"w{d}"], below.shape[-1]))
        out.append(left + right + params[f"b{d}"][:, None])
        below = torch.relu(out[-1])
    return out[::-1]


def rescaled(params: Params, like: Params) -> Params:
    """Every layer (weights and biases together) at the Frobenius norm that it has in `like`."""
    out = {}
    for d in range(len(params) // 2):
        w, b = f"w{d}", f"b{d}"
        new, old = (p[w].square().sum() + p[b].square().sum() for p in (params, like))
        out |= {n: params[n] * (old / new).sqrt() for n in (w, b)}
    return out
