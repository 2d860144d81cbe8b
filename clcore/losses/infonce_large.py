"""InfoNCE of large batches of unit vectors, with its gradient written out.

At 1024 samples the matrix of exponentials is the cost of a step: it is made once, in place, and
value and gradient are read off it. First derivatives only. Negatives and means as "ncl" and
"nt-xent" of `infonce_family`; that tau is the temperature here. `other_columns` and `all_columns`
have the samples in columns, where the products are fastest, and many runs at once. `in_tiles` is
for one batch that is larger still, and has second derivatives from elsewhere.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses.floating import at_least_single

COLDEST = 0.025  # from which on exponentials of cosines and their sums fit in float32
ROWS = 512  # of a tile: 16 MiB at 4096 samples


def _require_range(temperature: float) -> None:
    if not temperature >= COLDEST:
        raise ValueError(
            f"temperature: expected at least 0.025 (exponentials in float32), got {temperature}"
        )


def _with_gradient(value: Tensor, z: Tensor, gradient: Tensor) -> Tensor:
    """`value`, whose derivative in z is `gradient`: both are known in closed form."""
    linear = (z * gradient.detach()).sum()
    return value.detach() + linear - linear.detach()


def _exponentials(x: Tensor, y: Tensor, temperature: float) -> Tensor:
    """exp(x^T y / temperature), at most e^40: as a power of 2, which takes a third of the time, and
    in place, since at 1024 x 1024 every pass over the matrix shows."""
    return ((x / (temperature * math.log(2))).mT @ y).exp2_()


def other_columns(
    z: Float[Tensor, "*b two m N"], temperature: float = 0.05
) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b two m N"]]:
    """`other_views` of the columns of both views z, norm 1 or 0: its values, and their gradients.

    One N x N matrix: the gradient is softmax times views. Errors: temperature < 0.025.
    """
    _require_range(temperature)
    x, y = z.unbind(-3)
    each = 1 / (z.shape[-1] * temperature)
    E = _exponentials(x, y, temperature)
    total = E.sum(-1)
    value = (total.log() - (x * y).sum(-2) / temperature).mean(-1)
    weight = (each / total).unsqueeze(-2)
    left = (y @ E.mT).mul_(weight).sub_(y, alpha=each)
    right = ((x * weight) @ E).sub_(x, alpha=each)
    return value, torch.stack([left, right], -3)


def all_columns(
    z: Float[Tensor, "*b two m N"], temperature: float = 0.05
) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b two m N"]]:
    """`all_views` of the columns of both views z, norm 1 or 0: its values, and their gradients.

    The 2N x 2N matrix E is symmetric: three quarters of it are made, and the gradient is
    E_ij (1 / row sum i + 1 / row sum j), times z. Errors: temperature < 0.025.
    """
    _require_range(temperature)
    x, y = z.unbind(-3)
    within, across = _exponentials(z, z, temperature), _exponentials(x, y, temperature)
    within.diagonal(dim1=-2, dim2=-1).zero_()
    total = within.sum(-1) + torch.stack([across.sum(-1), across.sum(-2)], -2)
    positive = (x * y).sum(-2)
    value = (total.log().sum(-2) / 2 - positive / temperature).mean(-1)
    share = 0.5 / (z.shape[-1] * temperature * total)
    within.mul_(share.unsqueeze(-1) + share.unsqueeze(-2))
    first, second = share.unbind(-2)
    across.mul_(first.unsqueeze(-1) + second.unsqueeze(-2))
    gradient = z @ within
    gradient += torch.stack([y @ across.mT, x @ across], -3)
    return value, gradient.sub_(z.flip(-3), alpha=1 / (z.shape[-1] * temperature))


def other_views(
    a: Float[Tensor, "N m"], b: Float[Tensor, "N m"], temperature: float = 0.05
) -> Float[Tensor, ""]:
    """The anchor is a row of a, its negatives are the other N - 1 rows of b; rows of norm 1 or 0.
    Errors: temperature < 0.025."""
    z = torch.stack([a.mT, b.mT])
    with torch.no_grad():
        value, gradient = other_columns(z.detach(), temperature)
    return _with_gradient(value, z, gradient)


def all_views(
    a: Float[Tensor, "N m"], b: Float[Tensor, "N m"], temperature: float = 0.05
) -> Float[Tensor, ""]:
    """2N anchors, each with its other view against that and 2N - 2 negatives; rows of norm 1 or 0.
    Errors: temperature < 0.025."""
    z = torch.stack([a.mT, b.mT])
    with torch.no_grad():
        value, gradient = all_columns(z.detach(), temperature)
    return _with_gradient(value, z, gradient)


# -------------------------------------------------------------------------------------- in tiles


def _tiles(v: Tensor, eps: float) -> Iterator[tuple[int, int, Tensor]]:
    """Exponentials of products of rows, in tiles of rows `first` to `last` by columns from `first`
    on: the matrix is symmetric. 0 for a row with itself, eps times for the two views of a sample.
    """
    half = len(v) // 2
    for first in range(0, len(v), ROWS):
        rows = v[first : first + ROWS]
        tile = ((rows / math.log(2)) @ v[first:].mT).exp2_()
        tile.diagonal().zero_()
        if eps != 1:
            tile.diagonal(half).mul_(eps)
            tile.diagonal(-half).mul_(eps)  # in a tile that has both views
        yield first, first + len(rows), tile


@at_least_single  # whoever goes back under autocast gets the gradient, too
def _slope(v: Tensor, total: Tensor, eps: float, weights: Tensor) -> Tensor:
    """The slope in v of the anchors' values, weighted by w: the sum over j of v_j times
    E_ij (w_i / sum i + w_j / sum j), minus what pulls the two views of a sample together."""
    share = weights / total
    slope = -(weights + weights.roll(len(v) // 2)).unsqueeze(-1) * v.roll(len(v) // 2, 0)
    for first, last, tile in _tiles(v, eps):
        tile.mul_(share[first:last, None] + share[first:])
        slope[first:last] += tile @ v[first:]
        slope[last:] += tile[:, last - first :].mT @ v[first:last]
    return slope


class _InTiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, eps: float, plain: Callable[[Tensor], Tensor]) -> Tensor:
        total = torch.zeros_like(v[:, 0])
        for first, last, tile in _tiles(v, eps):
            total[first:last] += tile.sum(-1)
            total[last:] += tile[:, last - first :].sum(-2)
        ctx.eps, ctx.plain = eps, plain
        ctx.save_for_backward(v, total)
        return total.log() - (v * v.roll(len(v) // 2, 0)).sum(-1)

    @staticmethod
    def backward(ctx: Any, *weights: Tensor) -> tuple[Tensor, None, None]:
        v, total = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return _slope(v, total, ctx.eps, *weights), None, None
        return torch.autograd.grad(ctx.plain(v), v, weights, create_graph=True)[0], None, None


def in_tiles(
    v: Float[Tensor, "m d"], eps: float, plain: Callable[[Tensor], Tensor]
) -> Float[Tensor, " m"]:
    """The anchors' log(eps + sum_k exp(s_k - s)) without the m x m matrix in memory, s = v_i . v_j.

    v: the first views of m / 2 samples and the second, of squared norm at most 1 / COLDEST.
    plain: the same function, of v, by operations that autograd differentiates, which second
    derivatives come from. Not for `torch.func` and forward mode.
    """
    return _InTiles.apply(v, eps, plain)
