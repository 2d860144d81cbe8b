"""InfoNCE of large batches of unit vectors, with its gradient written out.

At 1024 samples the matrix of exponentials is the cost of a step: one is made, in place, and value
and gradient are read off it. First derivatives only. Negatives and means as "ncl" and "nt-xent" of
`infonce_family`; that tau is the temperature here.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def _require_range(temperature: float) -> None:
    if not temperature >= 0.025:
        raise ValueError(
            f"temperature: expected at least 0.025 (exponentials in float32), got {temperature}"
        )


def _with_gradient(value: Tensor, z: Tensor, gradient: Tensor) -> Tensor:
    """`value`, whose derivative in z is `gradient`: both are known in closed form."""
    linear = (z * gradient.detach()).sum()
    return value.detach() + linear - linear.detach()


def _exponentials(x: Tensor, y: Tensor, most: float) -> Tensor:
    """exp(x y^T - most): `most` as one more coordinate, and in place, since at 1024 x 1024 every
    pass over the matrix shows."""
    last = torch.ones_like(y[:, :1])
    return (torch.cat([x, -most * last], -1) @ torch.cat([y, last], -1).mT).exp_()


def other_views(
    a: Float[Tensor, "N m"], b: Float[Tensor, "N m"], temperature: float = 0.05
) -> Float[Tensor, ""]:
    """The anchor is a row of a, its negatives are the other N - 1 rows of b; rows of norm 1 or 0.

    One N x N matrix: the gradient is softmax times views. Errors: temperature < 0.025.
    """
    _require_range(temperature)
    n = a.shape[0]
    with torch.no_grad():
        x, y = a.detach() / temperature, b.detach()
        E = _exponentials(x, y, 1 / temperature)
        total = E.sum(-1, keepdim=True)
        value = (total.squeeze(-1).log() + 1 / temperature - (x * y).sum(-1)).mean()
        left = (E @ y / total - y) / (n * temperature)
        right = (E.mT @ (x / total) - x) / n
    return _with_gradient(value, torch.stack([a, b]), torch.stack([left, right]))


def all_views(
    a: Float[Tensor, "N m"], b: Float[Tensor, "N m"], temperature: float = 0.05
) -> Float[Tensor, ""]:
    """2N anchors, each with its other view against that and 2N - 2 negatives; rows of norm 1 or 0.

    E is symmetric, so that one product of it with (z, z / row sum) is the whole gradient. Errors:
    temperature < 0.025.
    """
    _require_range(temperature)
    z = torch.cat([a, b])
    n = a.shape[0]
    with torch.no_grad():
        y = z.detach()
        E = _exponentials(y / temperature, y, 1 / temperature)
        E.diagonal().zero_()
        total = E.sum(-1, keepdim=True)
        other = y.roll(n, 0)
        positive = (y * other).sum(-1)
        value = (total.squeeze(-1).log() + (1 - positive) / temperature).mean()
        both = E @ torch.cat([y, y / total], -1)
        gradient = both[:, : y.shape[1]] / total + both[:, y.shape[1] :] - 2 * other
    return _with_gradient(value, z, gradient / (2 * n * temperature))
