"""InfoNCE of large batches of unit vectors, with its gradient written out.

At 1024 samples the matrix of exponentials is the cost of a step: it is made once, in place, and
value and gradient are read off it. First derivatives only. Negatives and means as "ncl" and
"nt-xent" of `infonce_family`; that tau is the temperature here. `other_columns` and `all_columns`
have the samples in columns, where the products are fastest, and many runs at once.
"""

import math

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
