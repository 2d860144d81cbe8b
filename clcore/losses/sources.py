"""The losses of acl Table 1 as their own sources write them.

They stand on their sources' own similarities (inner products, unsquared distances, cosine) and
share no distance and no (phi, psi) pair with `contrast`. They sum over the N anchors z[i], with
z2[i] as positive and, unless stated otherwise, the other first views z[j] as negatives. Batched
over leading dims.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses.contrast import require_views
from clcore.losses.floating import at_least_single
from clcore.losses.infonce_family import log_share
from clcore.losses.pairs import Scalar, require_temperature, softplus
from clcore.sweep.optim import directions


def negatives(z: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n m d"]:
    """For each anchor i its negatives z[j], j != i, in order of j (m = n - 1)."""
    n = z.shape[-2]
    j = torch.arange(n - 1, device=z.device).expand(n, n - 1)
    return z[..., j + (j >= torch.arange(n, device=z.device)[:, None]), :]


def _halves(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> tuple[Float[Tensor, "*b n 1"], Float[Tensor, "*b n m"]]:
    """Squared half distances to the positive and to the negatives. Errors: n < 2, shapes."""
    require_views(z, z2)
    positive = ((z - z2) ** 2).sum(-1, keepdim=True) / 2
    return positive, ((z[..., :, None, :] - negatives(z)) ** 2).sum(-1) / 2


@at_least_single
def source_infonce(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], tau: Scalar = 0.5
) -> Float[Tensor, "*b"]:
    """InfoNCE (Oord et al., 2018): cross entropy of picking the positive among N candidates.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_infonce(z, z2, tau=1.0)  # 3 log(1 + 2 exp(-1))
        tensor(1.6543)
    """
    tau = require_temperature(tau)
    positive, negative = _halves(z, z2)
    return -log_share(positive[..., 0], negative, -tau).sum(-1)


@at_least_single
def source_simclr(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    tau: Scalar = 0.5,
    second_views: bool = True,
) -> Float[Tensor, "*b"]:
    """NT-Xent (Chen et al., 2020): cosine similarities over tau, each anchor against all others.

    The 2N views are all anchors, each with 2N - 1 candidates; half of the sum over anchors, so that
    an anchor z[i] and its mirror image z2[i] count as one (the source divides by N once more).
    Without `second_views`, the sum over anchors z[i] with candidates z2[i] and z[j], j != i.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_simclr(z, z2, tau=1.0)  # 3 log(1 + 4 exp(-1))
        tensor(2.7145)
    """
    tau = require_temperature(tau)
    require_views(z, z2)
    z, z2 = directions(z), directions(z2)

    def total(anchors: Tensor, positives: Tensor) -> Tensor:
        positive = (anchors * positives).sum(-1)
        views = (anchors, positives) if second_views else (anchors,)
        others = torch.cat([negatives(v) for v in views], -2)
        negative = (anchors[..., :, None, :] * others).sum(-1)
        return -log_share(positive, negative, tau).sum(-1)

    return (total(z, z2) + total(z2, z)) / 2 if second_views else total(z, z2)


@at_least_single
def source_mine(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b"]:
    """MINE (Belghazi et al., 2018): minus the Donsker-Varadhan bound, ONE log for the batch.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_mine(z, z2)  # all negatives at distance 1
        tensor(-1.)
    """
    positive, negative = _halves(z, z2)
    pairs = negative.shape[-1] * negative.shape[-2]
    return positive.mean((-1, -2)) + torch.logsumexp(-negative.flatten(-2), -1) - math.log(pairs)


@at_least_single
def source_mine_per_sample(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> Float[Tensor, "*b"]:
    """The Donsker-Varadhan bound with a separate log for every anchor, summed over anchors.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_mine_per_sample(z, z2)
        tensor(-3.)
    """
    positive, negative = _halves(z, z2)
    inner = torch.logsumexp(-negative, -1) - math.log(negative.shape[-1])
    return (positive[..., 0] + inner).sum(-1)


@at_least_single
def source_triplet(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], margin: Scalar = 2.0
) -> Float[Tensor, "*b"]:
    """Triplet hinge (Schroff et al., 2015) on squared (not halved) distances.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_triplet(z, z2, margin=2.5)  # 6 triplets, each 2.5 - 2
        tensor(3.)
    """
    positive, negative = _halves(z, z2)
    return torch.relu(2 * positive - 2 * negative + margin).sum((-1, -2))


@at_least_single
def source_soft_triplet(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], tau: Scalar = 0.5, margin: Scalar = 0.5
) -> Float[Tensor, "*b"]:
    """Soft triplet of ddn Sec. 4: tau log(1 + exp((r+ - r- + margin) / tau)), over all triplets.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_soft_triplet(z, z2, tau=0.5, margin=1.0)  # 6 times 0.5 log 2
        tensor(2.0794)
    """
    tau = require_temperature(tau)
    positive, negative = _halves(z, z2)
    return (tau * softplus((positive - negative + margin) / tau)).sum((-1, -2))


@at_least_single
def source_tuplet(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b"]:
    """(N+1)-tuplet (Sohn, 2016) on inner products: log(1 + sum_j exp(z_i.z_j - z_i.z_i')).

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_tuplet(z, z2)  # 3 log(1 + 2 exp(-1))
        tensor(1.6543)
    """
    require_views(z, z2)
    positive = (z * z2).sum(-1, keepdim=True)
    gaps = (z[..., :, None, :] * negatives(z)).sum(-1) - positive
    return softplus(torch.logsumexp(gaps, -1)).sum(-1)


@at_least_single
def source_lifted(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    margin: Scalar = 1.0,
    squared: bool = False,
    both: bool = True,
    second_views: bool = False,
) -> Float[Tensor, "*b"]:
    """Lifted structured loss (Oh Song et al., 2016), times twice the number of positive pairs.

    The source uses unsquared distances (squared=False), the negatives of both members of a positive
    pair (both=True), and as negatives every view of another sample (second_views=True; without it,
    z[j] for z[i] and z2[j] for z2[i]). acl Table 1 is what is left with squared half distances and
    the first views among the negatives of the first member.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_lifted(z, z2, margin=1.0, squared=True, both=False)  # 3 (log 2)^2
        tensor(1.4414)
    """

    require_views(z, z2)

    def distance(square: Tensor) -> Tensor:
        if squared:
            return square / 2
        apart = square > 0  # of equal points the root has no slope; it counts as 0
        return torch.where(apart, square, 1.0).sqrt() * apart

    def to_negatives(anchors: Tensor, *views: Tensor) -> Tensor:
        others = torch.cat([negatives(v) for v in views], -2)
        return distance(((anchors[..., :, None, :] - others) ** 2).sum(-1))

    near = distance(((z - z2) ** 2).sum(-1))
    others = to_negatives(z, z, z2) if second_views else to_negatives(z, z)
    if both:
        second = to_negatives(z2, z, z2) if second_views else to_negatives(z2, z2)
        others = torch.cat([others, second], -1)
    return (torch.relu(torch.logsumexp(margin - others, -1) + near) ** 2).sum(-1)


@at_least_single
def source_modified_triplet(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], c: Scalar = 2.0
) -> Float[Tensor, "*b"]:
    """Sigmoid triplet (Coria et al., 2020, Eq. 10): sigmoid(c (distance to z[i'] - to z[j])).

    On cosine distances, so norms do not matter.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_modified_triplet(z, z2, c=2.0)  # 6 sigmoid(-2)
        tensor(0.7152)
    """
    require_views(z, z2)
    z, z2 = directions(z), directions(z2)
    positive, negative = _halves(z, z2)  # of unit vectors: 1 - cosine
    return torch.sigmoid(c * (positive - negative)).sum((-1, -2))


@at_least_single
def source_linear(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b"]:
    """Triplet contrastive loss (Ji et al., 2021, Eq. 2): inner products, no regulariser.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)
        >>> source_linear(z, z2)
        tensor(-3.)
    """
    require_views(z, z2)
    positive = (z * z2).sum(-1, keepdim=True)
    negative = (z[..., :, None, :] * negatives(z)).sum(-1)
    return (negative - positive).mean(-1).sum(-1)
