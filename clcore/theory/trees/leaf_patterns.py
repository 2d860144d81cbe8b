"""The leaves of a complete binary SB-HLTM, drawn as whole patterns (ddn Secs. 6.1, 7).

Binary latents on a complete binary tree of depth L; a latent has its parent's value with
probability (1 + rho) / 2. The polarities rho are one tensor of the 2^(L+1) - 2 edges, by depth and
then from left to right: 2 to the children of the root, then 4, and so on.

The leaves below a latent at `block_depth` (at most 8) are one number, their pattern. Its law given
that latent is exact, and so is the law of all blocks' latents given the root: a view of a sample
is one draw of the latter and one pattern per block, five draws for L = 5, where latent by latent
it would be 62.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random as cr
from clcore.theory.trees.pattern_net import block_depth, check_sizes

BITS = 24  # of an alias table's thresholds


def depth_of(polarity: Float[Tensor, "*b edges"]) -> int:
    """The depth of the complete binary tree with so many edges. Errors: there is none."""
    count = polarity.shape[-1]
    depth = (count + 2).bit_length() - 2
    if depth < 1 or 2 ** (depth + 1) - 2 != count:
        raise ValueError(f"expected 2, 6, 14, 30, ... polarities, one per edge, got {count}")
    return depth


def given_parent(polarity: Tensor, depth: int) -> Tensor:
    """P(z = i | parent = j) of the latents at one depth: [*b, 2^depth, j, i]."""
    rho = polarity[..., 2**depth - 2 : 2 ** (depth + 1) - 2, None, None]
    sign = 2 * torch.eye(2, dtype=rho.dtype, device=rho.device) - 1
    return (1 + rho * sign) / 2


def _climb(polarity: Tensor, low: int, high: int) -> Tensor:
    """P(the latents at depth `low` below it | z) for every z at depth `high`:
    [*b, 2^high, 2, 2^(2^(low-high))], the first latent as the most significant bit."""
    law = torch.eye(2, dtype=polarity.dtype, device=polarity.device)
    law = law.expand(*polarity.shape[:-1], 2**low, 2, 2)
    for d in range(low, high, -1):
        given = given_parent(polarity, d) @ law
        left, right = given[..., 0::2, :, :], given[..., 1::2, :, :]
        law = (left[..., :, None] * right[..., None, :]).flatten(-2)
    return law


def pattern_law(
    polarity: Float[Tensor, "*b edges"], at: int | None = None
) -> Float[Tensor, "*b latents two patterns"]:
    """P(pattern of the leaves below a latent | the latent) for all latents at depth `at`
    (default: the blocks), by messages up the tree."""
    depth = depth_of(polarity)
    return _climb(polarity, depth, block_depth(depth) if at is None else at)


def block_law(polarity: Float[Tensor, "*b edges"]) -> Float[Tensor, "*b two states"]:
    """P(latents of all blocks | root), the blocks read as bits from left to right."""
    return _climb(polarity, block_depth(depth_of(polarity)), 0)[..., 0, :, :]


def alias_table(law: Float[Tensor, "*b n"]) -> Int[Tensor, "*b n"]:
    """Walker's alias tables of laws on n = 2^k values: threshold + 2^25 alias.

    To draw: take an entry at random; stay if 24 random bits lie below its threshold, else go to
    its alias. Probabilities are met to 2^-25. All laws are worked on at once, an entry a round.
    """
    n = law.shape[-1]
    if n & (n - 1) or n > 256:
        raise ValueError(f"expected laws on 1, 2, 4, ... or 256 values, got {n}")
    place = torch.arange(n, device=law.device)
    share = law.double() * n / law.double().sum(-1, keepdim=True)
    open_, threshold = torch.ones_like(share), torch.ones_like(share)
    alias = place.expand(law.shape)
    for _ in range(n - 1):
        least = place == torch.where(open_ > 0, share, torch.inf).argmin(-1, keepdim=True)
        open_ = torch.where(least, 0.0, open_)
        most = torch.where(open_ > 0, share, -torch.inf).argmax(-1, keepdim=True)
        taken = torch.where(least, share, 0.0).sum(-1, keepdim=True).clamp(0, 1)
        threshold = torch.where(least, taken, threshold)
        alias = torch.where(least, most, alias)
        share = torch.where(place == most, share - (1 - taken), share)
    return (threshold * 2**BITS).round().long() + (alias << (BITS + 1))


def _look_up(table: Tensor, row: Tensor, random: Tensor) -> Tensor:
    """One draw a place from `table` [rows, n], in the rows given, with the low 32 bits of each."""
    n = table.shape[-1]
    place = random & (n - 1)
    entry = table.flatten().gather(0, (row * n + place).flatten()).reshape(place.shape)
    stay = ((random >> 8) & (2**BITS - 1)) < (entry & (2 ** (BITS + 1) - 1))
    return torch.where(stay, place, entry >> (BITS + 1))


def sampler(polarity: Float[Tensor, "edges"]) -> dict[str, Int[Tensor, "..."]]:
    """The tables that `draw` needs for one model (to be mapped over models)."""
    return {
        "states": alias_table(block_law(polarity)),
        "patterns": alias_table(pattern_law(polarity)),
    }


def draw(
    key: Int[Tensor, ""], tables: Mapping, roots: Int[Tensor, "views"]
) -> Int[Tensor, "blocks views"]:
    """One view for each root: a pattern of leaves a block, all latents below the root drawn anew.

    key: one key; roots: 0 or 1. The patterns are what `pattern_net.forward` takes.
    """
    blocks = tables["patterns"].shape[0]
    random = cr.bits(key, (1 + blocks // 2, roots.shape[-1]))
    random = torch.cat([random, random >> 32])  # 64 bits are enough for two draws
    state = _look_up(tables["states"], roots, random[0])
    block = torch.arange(blocks, device=roots.device)[:, None]
    latent = (state >> (blocks - 1 - block)) & 1
    return _look_up(tables["patterns"].flatten(0, 1), 2 * block + latent, random[1 : 1 + blocks])


def leaves(patterns: Int[Tensor, "blocks views"], depth: int) -> Int[Tensor, "views leaves"]:
    """The single leaves, 0 or 1, that the blocks' patterns spell, from left to right."""
    count = 2 ** (depth - block_depth(depth))
    place = torch.arange(count - 1, -1, -1, device=patterns.device)
    return ((patterns[..., None] >> place) & 1).movedim(0, 1).flatten(1)


def random_polarity(
    key: Int[Tensor, ""],
    depth: int,
    low: float | Float[Tensor, ""],
    signs: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Float[Tensor, "edges"]:
    """One polarity an edge, uniform on [low, 1], with random signs where `signs` is True."""
    check_sizes(depth, 1)
    if not isinstance(low, Tensor) and not 0 <= low <= 1:
        raise ValueError(f"low: expected the least polarity in [0, 1], got {low}")
    count = (2 ** (depth + 1) - 2,)
    rho = cr.uniform(key, count, low, 1.0, dtype)
    if not signs:
        return rho
    return rho * (1 - 2 * cr.bernoulli(cr.fold_in(key, 1), 0.5, count).to(dtype))
