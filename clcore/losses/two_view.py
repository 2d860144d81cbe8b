"""The two-view losses of ncl Sec. 4.1 on batches: Eqs. 4 to 8, as printed.

Representations are [*b, n, m], one row per sample; losses are means over the n samples, [*b]. The
second argument of a non-contrastive loss is the target, which receives no gradient. A view that a
mask emptied has the representation zero and no direction: in Eqs. 4 and 5 it counts as cosine 0
with everything, that is 2.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random as cr
from clcore.losses.floating import at_least_single
from clcore.losses.infonce_family import cross_entropy
from clcore.losses.pairs import Scalar, require_temperature
from clcore.sweep.optim import directions


def encode(
    W: Float[Tensor, "*b m p"],
    x: Float[Tensor, "*b n p"],
    bias: Float[Tensor, "*b m"] | None = None,
) -> Float[Tensor, "*b n m"]:
    """h(x) = ReLU(W x + b)."""
    u = x @ W.mT
    return torch.relu(u if bias is None else u + bias[..., None, :])


def predict(
    W_p: Float[Tensor, "*b k m"],
    h: Float[Tensor, "*b n m"],
    bias: Float[Tensor, "*b k"] | None = None,
) -> Float[Tensor, "*b n k"]:
    """g = W_p h + b_p: the linear prediction head."""
    u = h @ W_p.mT
    return u if bias is None else u + bias[..., None, :]


def _same(u: Tensor, target: Tensor) -> None:
    if u.shape != target.shape:
        raise ValueError(
            f"target: expected the shape of the online output, {list(u.shape)}, got "
            f"{list(target.shape)}; both views need the same samples and the same m"
        )


@at_least_single
def normalised_distance(
    u: Float[Tensor, "*b n m"], target: Float[Tensor, "..."]
) -> Float[Tensor, "*b"]:
    """E |u / |u| - SG(t / |t|)|^2 = 2 - 2 E cosine (ncl Eq. 4; Eq. 5 with u = `predict`)."""
    _same(u, target)
    return inner_product(directions(u), directions(target))


@at_least_single
def inner_product(u: Float[Tensor, "*b n m"], target: Float[Tensor, "..."]) -> Float[Tensor, "*b"]:
    """2 - 2 E <u, SG(t)> without normalisation (ncl Eq. 6; Eq. 7 with u = `predict`)."""
    _same(u, target)
    return 2 - 2 * (u * target.detach()).sum(-1).mean(-1)


def other_samples(key: Int[Tensor, ""], n: int, size: int) -> Int[Tensor, "n size"]:
    """For each of n anchors `size` different samples that are not the anchor: x' != x by index.

    Errors: a batch of negatives larger than the data.
    """
    if not 1 <= size <= n - 1:
        raise ValueError(
            f"size: expected 1 <= size <= {n - 1} negatives from {n} samples without the anchor, "
            f"got {size}; draw more data or take a smaller batch"
        )
    drawn = cr.choice(key, n - 1, size, n)
    return drawn + (drawn >= torch.arange(n, device=drawn.device)[:, None])


@at_least_single
def contrastive(
    anchor: Float[Tensor, "*b n m"],
    positive: Float[Tensor, "*b n m"],
    negatives: Float[Tensor, "*b n k m"],
    tau: Scalar,
) -> Float[Tensor, "*b"]:
    """-E log exp(tau S+) / (exp(tau S+) + sum over the k negatives of exp(tau S-)) (ncl Eq. 8).

    Similarities are inner products of the representations as given; tau multiplies them.
    Errors: tau <= 0, no negatives.
    """
    tau = require_temperature(tau)
    _same(anchor, positive)
    if negatives.shape[-2] == 0:
        raise ValueError("negatives: expected at least one per sample, got none")
    near = tau * (anchor * positive).sum(-1)
    far = tau * torch.einsum("...nm,...nkm->...nk", anchor, negatives)
    return cross_entropy(near, far).mean(-1)
