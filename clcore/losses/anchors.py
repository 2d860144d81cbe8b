"""Contrastive losses of one anchor as functions of distances (ddn Sec. 4, Eq. 2; Sec. 4.2).

`positive` is r_+ [*b], the halved squared distance of an anchor to its other view; `negatives` are
r_{k-} [*b, h], to h negatives. One value an anchor, no mean. They are members of the family in
`losses` on d - d_k, stated here with the scale that ddn gives them: InfoNCE is `infonce_pair`'s
divided by tau, and the margin of the triplet is in units of distance.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses.floating import at_least_single
from clcore.losses.infonce_family import log_share
from clcore.losses.pairs import Scalar, require_above, require_temperature


def _single(negatives: Tensor) -> Tensor:
    if negatives.shape[-1] != 1:
        raise ValueError(
            f"expected one negative, got {negatives.shape[-1]}; only `infonce` takes several"
        )
    return negatives[..., 0]


@at_least_single
def simple(
    positive: Float[Tensor, "*b"], negatives: Float[Tensor, "*b h"], beta: float = 0.0
) -> Float[Tensor, "*b"]:
    """(1 + beta) r_+ - r_-, one negative (ddn Sec. 4 and Cor. 1). Errors: several negatives."""
    return (1 + beta) * positive - _single(negatives)


@at_least_single
def soft_triplet(
    positive: Float[Tensor, "*b"],
    negatives: Float[Tensor, "*b h"],
    tau: Scalar,
    margin: float = 0.0,
) -> Float[Tensor, "*b"]:
    """tau log(1 + exp((r_+ - r_- + margin) / tau)), one negative; never overflows.

    Errors: tau <= 0; margin < 0; several negatives.
    """
    tau = require_temperature(tau)
    require_above("margin", margin, 0, "a margin asks for distance", or_equal=True)
    u = (positive - _single(negatives) + margin) / tau
    return tau * torch.logaddexp(u, torch.zeros_like(u))


@at_least_single
def infonce(
    positive: Float[Tensor, "*b"], negatives: Float[Tensor, "*b h"], tau: Scalar
) -> Float[Tensor, "*b"]:
    """-log of the positive's share of exp(-r / tau) (ddn Eq. 2), stable. Errors: tau <= 0."""
    return -log_share(positive, negatives, -require_temperature(tau))
