"""Data of the orthogonal mixture model within receptive fields (acl Assumption 1).

A field's part of a sample is at most one of M orthonormal patterns, times a positive amplitude; its
second view is the same times gamma > 0. By rotation the patterns are the unit vectors (acl Sec.
5.1), so that the entries of a field are its modes. Fields are the second last dimension:
`*b n K M`; disjoint ones are drawn by `draw_fields`, overlapping ones are `windows` of `draw_line`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random

Range = tuple[float, float]


def draw(
    key: Int[Tensor, "*b"],
    n: int,
    modes: int,
    amplitudes: Range = (0.5, 1.5),
    gamma: Range = (0.6, 1.4),
    empty: float = 0.1,
    cover: bool = True,
) -> tuple[Float[Tensor, "*b n modes"], Float[Tensor, "*b n modes"]]:
    """Two views of n samples of one field; amplitudes and gamma uniform in their ranges.

    A sample has no active mode with probability `empty`. With `cover`, the first samples show
    every mode once. In float64. Errors: n < modes with `cover`.
    """
    if cover and n < modes:
        raise ValueError(f"expected n >= {modes} samples to cover {modes} modes, got {n}")
    active = random.randint(random.fold_in(key, 0), (n,), 0, modes)
    present = ~random.bernoulli(random.fold_in(key, 1), empty, (n,))
    if cover:
        first = torch.arange(n, device=key.device)
        active = torch.where(first < modes, first.clamp(max=modes - 1), active)
        present = present | (first < modes)
    size = random.uniform(random.fold_in(key, 2), (n,), *amplitudes, dtype=torch.float64)
    x = torch.nn.functional.one_hot(active, modes) * (size * present)[..., None]
    return x, x * _factor(key, (n,), gamma)[..., None]


def draw_fields(
    key: Int[Tensor, "*b"],
    n: int,
    fields: int,
    modes: int,
    gamma: Range = (0.6, 1.4),
    shared: bool = True,
) -> tuple[Float[Tensor, "*b n K modes"], Float[Tensor, "*b n K modes"]]:
    """Two views of n samples of K independent disjoint fields.

    gamma is one factor per sample, as Assumption 1 prints it, or, not `shared`, one per sample and
    field.
    """
    views = [draw(random.fold_in(key, k), n, modes, gamma=gamma) for k in range(fields)]
    x, x2 = (torch.stack(parts, -2) for parts in zip(*views, strict=True))
    return (x, x * _factor(key, (n, 1, 1), gamma)) if shared else (x, x2)


def draw_line(
    key: Int[Tensor, "*b"], n: int, length: int, field: int, gamma: Range = (0.6, 1.4)
) -> tuple[Float[Tensor, "*b n length"], Float[Tensor, "*b n length"]]:
    """Two views of n rows of pixels of which any `field` neighbours have at most one active.

    Active pixels repeat with a period of `field` or more; their amplitudes are independent.
    """
    period = random.randint(random.fold_in(key, 0), (n, 1), field, field + 3)
    start = random.randint(random.fold_in(key, 1), (n, 1), 0, field)
    active = (torch.arange(length, device=key.device) - start) % period == 0
    size = random.uniform(random.fold_in(key, 2), (n, length), 0.5, 1.5, dtype=torch.float64)
    x = size * active
    return x, x * _factor(key, (n, 1), gamma)


def windows(
    x: Float[Tensor, "*b n length"], field: int, stride: int
) -> Float[Tensor, "*b n K field"]:
    """The receptive fields of `field` neighbouring pixels, `stride` apart; overlapping if less."""
    return x.unfold(-1, field, stride)


def violations(
    x: Float[Tensor, "*b n K M"], x2: Float[Tensor, "*b n K M"], atol: float = 1e-9
) -> list[str]:
    """Which properties of Assumption 1 the two views break: nonnegative, one-hot, augmentation.

    The augmentation must scale a field's part by one positive factor, up to `atol` of its size.
    """
    broken = []
    if bool((x < 0).any()):
        broken.append("nonnegative")
    if bool(((x > 0).sum(-1) > 1).any()):
        broken.append("one-hot")
    inner, square = (x * x2).sum(-1), (x * x).sum(-1)
    factor = inner / torch.where(square > 0, square, 1.0)
    off = (x2 - factor[..., None] * x).abs().amax(-1)
    turned = (square > 0) & (factor <= 0)
    if bool((off > atol * (1 + x.abs().amax(-1))).any() | turned.any()):
        broken.append("augmentation")
    return broken


def _factor(key: Tensor, shape: tuple[int, ...], gamma: Range) -> Tensor:
    return random.uniform(random.fold_in(key, 9), shape, *gamma, dtype=torch.float64)
