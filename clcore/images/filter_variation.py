"""Total variation of convolution filters (acl Eq. 18), and their colour."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

SCHEMES = ("forward", "central")


def total_variation(
    w: Float[Tensor, "*b c h w"], scheme: Literal["forward", "central"] = "forward"
) -> Float[Tensor, "*b"]:
    """sum over channels and places of |grad w_c|, one value per filter (acl Eq. 18).

    The paper names no scheme. "forward": differences to the next pixel, zero beyond the last row
    and column. "central": half the difference of the two neighbours, one-sided at the border.
    It grows in proportion to the filter. Errors: an unknown scheme; central on a side of 1.

    Examples:
        >>> total_variation(torch.tensor([[[0.0, 1.0, 0.0]]]))  # up, and down again
        tensor(2.)
    """
    if scheme == "forward":
        down = torch.nn.functional.pad(w.diff(dim=-2), (0, 0, 0, 1))
        right = torch.nn.functional.pad(w.diff(dim=-1), (0, 1))
    elif scheme != "central":
        raise ValueError(f"scheme: expected one of {', '.join(SCHEMES)}, got {scheme!r}")
    elif min(w.shape[-2:]) < 2:
        raise ValueError(
            f"w: expected filters of at least 2 x 2 pixels, got {w.shape[-2]} x {w.shape[-1]}; "
            "scheme='forward' takes any"
        )
    else:
        down, right = torch.gradient(w, dim=(-2, -1))
    return (down**2 + right**2).sqrt().sum((-3, -2, -1))


def colour_parts(w: Float[Tensor, "n c h w"]) -> dict[str, Float[Tensor, ""]]:
    """Means over filters: total variation at norm 1 of "whole" filters and of "grey" ones (the mean
    over the channels, as a filter of one channel), and "colour", the share of the squared norm that
    differs between channels. A filter that is alike in all c channels has sqrt(c) times the total
    variation of its grey one."""
    grey = w.mean(1, keepdim=True)
    norm, left = w.flatten(1).norm(dim=1), (w - grey).flatten(1).norm(dim=1)
    return {
        "whole": (total_variation(w) / norm).mean(),
        "grey": (total_variation(grey) / grey.flatten(1).norm(dim=1)).mean(),
        "colour": (left / norm).square().mean(),
    }
