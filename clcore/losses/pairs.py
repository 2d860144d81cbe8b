"""The (phi, psi) pairs of acl Table 1, and the losses as their own sources write them.

A pair stands for L = sum_i phi(sum_{j != i} psi(d_i - d_ij)) on squared half distances (acl Eq. 1,
`contrast.family_loss`). Five of the eight psi are exponentials; those pairs carry a `LogDomain`, so
that L and its pairwise importance are computed from log sum_j psi and never overflow.

The `source_*` functions state the same losses on their sources' own similarities (inner products,
unsquared distances, cosine). They share no code with `contrast`. They sum over the N anchors z[i],
with z2[i] as positive and, unless stated otherwise, the other first views z[j] as negatives.
Batched over leading dims.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

# A number, or a 0-d tensor: one value a run inside torch.func.vmap.
Scalar = float | int | Float[Tensor, ""]
Function = Callable[[Tensor], Tensor]


def require_above(
    name: str, value: float | int | Tensor, least: float, mend: str, *, or_equal: bool = False
) -> None:
    """Raise ValueError unless `value` > `least` (>= with `or_equal`).

    Tensors pass unseen: inside vmap their values are unknown.
    """
    if isinstance(value, Tensor) or value > least or (or_equal and value == least):
        return
    relation = ">=" if or_equal else ">"
    raise ValueError(f"expected {name} {relation} {least}, got {name}={value}; {mend}")


def require_temperature(tau: Scalar) -> None:
    """Raise ValueError for a temperature (a number, not a tensor) that is not positive."""
    require_above("tau", tau, 0, "a temperature is positive, for example 0.5")


@dataclass(frozen=True)
class LogDomain:
    """A pair with psi(x) = exp(x / tau + shift), in terms of u = log(sum psi).

    phi, dphi: u -> phi(exp(u)) and its derivative in u, so that xi phi'(xi) = dphi(log xi).
    """

    tau: Scalar
    shift: Scalar
    phi: Function
    dphi: Function


@dataclass(frozen=True)
class Pair:
    """One row of acl Table 1: phi, psi, their derivatives, and where psi is exponential `log`.

    `log` is None where psi is no exponential; Theorem 2 of acl does not cover those rows.
    """

    name: str
    phi: Function
    psi: Function
    dphi: Function
    dpsi: Function
    log: LogDomain | None = None


def _softplus(u: Tensor) -> Tensor:
    """log(1 + exp(u)) to machine precision; torch's softplus is u itself from u = 20 on."""
    return torch.logaddexp(u, torch.zeros_like(u))


def _exponential(name: str, phi: Function, dphi: Function, log: LogDomain) -> Pair:
    def psi(x: Tensor) -> Tensor:
        return torch.exp(x / log.tau + log.shift)

    return Pair(name, phi, psi, dphi, lambda x: psi(x) / log.tau, log)


def infonce_pair(tau: Scalar = 0.5, eps: Scalar = 1.0) -> Pair:
    """phi = tau log(eps + x), psi = exp(x / tau): acl Eq. 2. Errors: tau <= 0, eps < 0."""
    require_temperature(tau)
    require_above(
        "eps", eps, 0, "1 keeps the positive in the denominator, 0 does not", or_equal=True
    )

    def log_eps(u: Tensor) -> Tensor:
        if not isinstance(eps, Tensor):  # filled there: a copy would make the device wait
            return torch.full((), eps, dtype=u.dtype, device=u.device).log()  # log 0 is meant
        return eps.to(u).log()

    return _exponential(
        "InfoNCE",
        lambda x: tau * torch.log(eps + x),
        lambda x: tau / (eps + x),
        LogDomain(
            tau,
            0.0,
            lambda u: tau * torch.logaddexp(u, log_eps(u)),
            lambda u: tau * torch.sigmoid(u - log_eps(u)),
        ),
    )


def mine_pair() -> Pair:
    """phi = log x, psi = exp(x)."""
    log = LogDomain(1.0, 0.0, lambda u: u, torch.ones_like)
    return _exponential("MINE", torch.log, torch.reciprocal, log)


def triplet_pair(margin: Scalar = 1.0) -> Pair:
    """phi = x, psi = [x + margin]_+; the derivative at the kink x = -margin is taken as 0."""
    return Pair(
        "Triplet",
        lambda x: x,
        lambda x: torch.relu(x + margin),
        torch.ones_like,
        lambda x: (x + margin > 0).to(x.dtype),
    )


def soft_triplet_pair(tau: Scalar = 0.5, margin: Scalar = 1.0) -> Pair:
    """phi = tau log(1 + x), psi = exp(x / tau + margin); the margin is in units of tau."""
    require_temperature(tau)
    return _exponential(
        "Soft Triplet",
        lambda x: tau * torch.log1p(x),
        lambda x: tau / (1 + x),
        LogDomain(tau, margin, lambda u: tau * _softplus(u), lambda u: tau * torch.sigmoid(u)),
    )


def tuplet_pair() -> Pair:
    """phi = log(1 + x), psi = exp(x)."""
    log = LogDomain(1.0, 0.0, _softplus, torch.sigmoid)
    return _exponential("N+1 Tuplet", torch.log1p, lambda x: 1 / (1 + x), log)


def lifted_pair(margin: Scalar = 1.0) -> Pair:
    """phi = [log x]_+^2, psi = exp(x + margin)."""
    return _exponential(
        "Lifted Structured",
        lambda x: torch.relu(torch.log(x)) ** 2,
        lambda x: 2 * torch.relu(torch.log(x)) / x,
        LogDomain(1.0, margin, lambda u: torch.relu(u) ** 2, lambda u: 2 * torch.relu(u)),
    )


def modified_triplet_pair(c: Scalar = 2.0) -> Pair:
    """phi = x, psi = sigmoid(c x)."""

    def dpsi(x: Tensor) -> Tensor:
        return c * torch.sigmoid(c * x) * torch.sigmoid(-c * x)

    return Pair(
        "Modified Triplet", lambda x: x, lambda x: torch.sigmoid(c * x), torch.ones_like, dpsi
    )


def linear_pair(a: Scalar = 1.0, b: Scalar = 1.0) -> Pair:
    """phi = a x, psi = b x."""
    return Pair(
        "Triplet Contrastive",
        lambda x: a * x,
        lambda x: b * x,
        lambda x: torch.full_like(x, 1) * a,
        lambda x: torch.full_like(x, 1) * b,
    )


def table1(
    tau: Scalar = 0.5, eps: Scalar = 1.0, margin: Scalar = 1.0, c: Scalar = 2.0
) -> tuple[Pair, ...]:
    """The eight rows of acl Table 1 in its order; tau, eps, margin, c are left open there."""
    return (
        infonce_pair(tau, eps),
        mine_pair(),
        triplet_pair(margin),
        soft_triplet_pair(tau, margin),
        tuplet_pair(),
        lifted_pair(margin),
        modified_triplet_pair(c),
        linear_pair(),
    )


# --------------------------------------------------------------- as their own sources write them


def negatives(z: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n m d"]:
    """For each anchor i its negatives z[j], j != i, in order of j (m = n - 1)."""
    n = z.shape[-2]
    j = torch.arange(n - 1, device=z.device).expand(n, n - 1)
    return z[..., j + (j >= torch.arange(n, device=z.device)[:, None]), :]


def _halves(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> tuple[Float[Tensor, "*b n 1"], Float[Tensor, "*b n m"]]:
    """Squared half distances to the positive and to the negatives."""
    positive = ((z - z2) ** 2).sum(-1, keepdim=True) / 2
    return positive, ((z[..., :, None, :] - negatives(z)) ** 2).sum(-1) / 2


def source_infonce(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], tau: Scalar = 0.5
) -> Float[Tensor, "*b"]:
    """InfoNCE (Oord et al., 2018): cross entropy of picking the positive among N candidates."""
    require_temperature(tau)
    positive, negative = _halves(z, z2)
    logits = -torch.cat([positive, negative], -1) / tau
    return -F.log_softmax(logits, -1)[..., 0].sum(-1)


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
    """
    require_temperature(tau)
    z, z2 = F.normalize(z, dim=-1), F.normalize(z2, dim=-1)

    def total(anchors: Tensor, positives: Tensor) -> Tensor:
        positive = (anchors * positives).sum(-1, keepdim=True)
        views = (anchors, positives) if second_views else (anchors,)
        others = torch.cat([negatives(v) for v in views], -2)
        negative = (anchors[..., :, None, :] * others).sum(-1)
        logits = torch.cat([positive, negative], -1) / tau
        return -F.log_softmax(logits, -1)[..., 0].sum(-1)

    return (total(z, z2) + total(z2, z)) / 2 if second_views else total(z, z2)


def source_mine(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b"]:
    """MINE (Belghazi et al., 2018): minus the Donsker-Varadhan bound, ONE log for the batch."""
    positive, negative = _halves(z, z2)
    pairs = negative.shape[-1] * negative.shape[-2]
    return positive.mean((-1, -2)) + torch.logsumexp(-negative.flatten(-2), -1) - math.log(pairs)


def source_mine_per_sample(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]
) -> Float[Tensor, "*b"]:
    """The Donsker-Varadhan bound with a log of its own for every anchor, summed over anchors."""
    positive, negative = _halves(z, z2)
    inner = torch.logsumexp(-negative, -1) - math.log(negative.shape[-1])
    return (positive[..., 0] + inner).sum(-1)


def source_triplet(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], margin: Scalar = 2.0
) -> Float[Tensor, "*b"]:
    """Triplet hinge (Schroff et al., 2015) on squared (not halved) distances."""
    positive, negative = _halves(z, z2)
    return torch.relu(2 * positive - 2 * negative + margin).sum((-1, -2))


def source_soft_triplet(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], tau: Scalar = 0.5, margin: Scalar = 0.5
) -> Float[Tensor, "*b"]:
    """Soft triplet of ddn Sec. 4: tau log(1 + exp((r+ - r- + margin) / tau)), over all triplets."""
    require_temperature(tau)
    positive, negative = _halves(z, z2)
    return (tau * _softplus((positive - negative + margin) / tau)).sum((-1, -2))


def source_tuplet(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b"]:
    """(N+1)-tuplet (Sohn, 2016) on inner products: log(1 + sum_j exp(z_i.z_j - z_i.z_i'))."""
    positive = (z * z2).sum(-1, keepdim=True)
    gaps = (z[..., :, None, :] * negatives(z)).sum(-1) - positive
    return _softplus(torch.logsumexp(gaps, -1)).sum(-1)


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
    """

    def distance(square: Tensor) -> Tensor:
        return square / 2 if squared else square.sqrt()

    def to_negatives(anchors: Tensor, *views: Tensor) -> Tensor:
        others = torch.cat([negatives(v) for v in views], -2)
        return distance(((anchors[..., :, None, :] - others) ** 2).sum(-1))

    near = distance(((z - z2) ** 2).sum(-1))
    others = to_negatives(z, z, z2) if second_views else to_negatives(z, z)
    if both:
        second = to_negatives(z2, z, z2) if second_views else to_negatives(z2, z2)
        others = torch.cat([others, second], -1)
    return (torch.relu(torch.logsumexp(margin - others, -1) + near) ** 2).sum(-1)


def source_modified_triplet(
    z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"], c: Scalar = 2.0
) -> Float[Tensor, "*b"]:
    """Sigmoid triplet (Coria et al., 2020, Eq. 10): sigmoid(c (distance to z[i'] - to z[j])).

    On cosine distances, so norms do not matter.
    """
    z, z2 = F.normalize(z, dim=-1), F.normalize(z2, dim=-1)
    positive, negative = _halves(z, z2)  # of unit vectors: 1 - cosine
    return torch.sigmoid(c * (positive - negative)).sum((-1, -2))


def source_linear(z: Float[Tensor, "*b n d"], z2: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b"]:
    """Triplet contrastive loss (Ji et al., 2021, Eq. 2): inner products, no regulariser."""
    positive = (z * z2).sum(-1, keepdim=True)
    negative = (z[..., :, None, :] * negatives(z)).sum(-1)
    return (negative - positive).mean(-1).sum(-1)
