"""Labels as positives (Khosla et al., 2020, arXiv:2004.11362): views of one class attract.

For an anchor, one of the 2n views of n samples, let s_k be the cosines to all others, P those with
its label, and s their mean over P. Its value is log(sum_k exp((s_k - s) / tau)), the mean over P of
minus the log of each positive's share (their Eq. 2, L_out): `infonce` in the convention "nt-xent",
with more than one positive, all of which stand in the denominator. If no two samples share a
label, the two are equal.
"""

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from clcore.losses.contrast import reduced, require_views
from clcore.losses.floating import at_least_single
from clcore.losses.pairs import Scalar, one_temperature, require_temperature
from clcore.sweep.optim import directions

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)


def _require_labels(labels: Tensor, z: Tensor) -> None:
    got = labels.dtype if isinstance(labels, Tensor) else f"a {type(labels).__name__}"
    if not isinstance(labels, Tensor) or labels.dtype not in _INTEGERS:
        raise TypeError(f"labels: expected a tensor of integers, one per sample, got {got}")
    if labels.shape != z.shape[:-1]:
        raise ValueError(
            f"labels: expected one per sample, {list(z.shape[:-1])}, got {list(labels.shape)}; "
            "both views of a sample have its label"
        )


def _logits(z: Tensor, z2: Tensor, labels: Tensor, tau: Scalar) -> tuple[Tensor, Tensor]:
    """s_k / tau, -inf with itself; which views are positives of which."""
    require_views(z, z2)
    _require_labels(labels, z)
    v = directions(torch.cat([z, z2], -2))
    both = torch.cat([labels, labels], -1)
    itself = torch.eye(v.shape[-2], dtype=torch.bool, device=v.device)
    same: Bool[Tensor, "*b m m"] = (both[..., :, None] == both[..., None, :]) & ~itself
    return (v @ v.mT / require_temperature(tau)).masked_fill(itself, -torch.inf), same


@at_least_single
def supcon(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    labels: Shaped[Tensor, "*b n"],
    tau: Scalar | None = None,
    *,
    temperature: Scalar | None = None,
    reduction: str = "mean",
) -> Float[Tensor, "*b"] | Float[Tensor, "*b n"]:
    """The supervised contrastive loss, L_out of Khosla et al. 2020, Eq. 2, over samples.

    z, z2: outputs for the first and the second views of n samples; leading dimensions are batches.
    labels: integers, one per sample. tau: the temperature, 0.5 if none is given; `temperature` is
    another name for it. reduction: "mean" or "sum" over samples, or "none", a value for each, which
    is the mean of its two anchors'. The paper's sum over 2n anchors is twice the sum; its program
    multiplies the mean by tau / 0.07.

    Raises:
        ValueError: tau <= 0, n < 2, views or labels of other shapes, an unknown reduction.
        TypeError: labels that are not integers; tau and temperature both.

    Examples:
        >>> z, labels = torch.eye(3), torch.tensor([0, 0, 1])
        >>> supcon(z, z, torch.arange(3), tau=1.0) == infonce(z, z, tau=1.0, how="nt-xent")
        tensor(True)
        >>> supcon(z, z, labels, tau=1.0, reduction="none")  # log(e + 4), minus the mean cosine
        tensor([1.5715, 1.5715, 0.9048])
    """
    logits, same = _logits(z, z2, labels, one_temperature(tau, temperature))
    shares = logits.log_softmax(-1).masked_fill(~same, 0)
    values = -shares.sum(-1) / same.sum(-1)
    return reduced(values.unflatten(-1, (2, -1)).mean(-2), reduction)


@at_least_single
def supcon_importance(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    labels: Shaped[Tensor, "*b n"],
    tau: Scalar,
) -> Float[Tensor, "*b m m"]:
    """An anchor's tau times the slope of its value in s_k: exp(s_k / tau) over the sum, minus 1/|P|
    for the positives. Rows are anchors, first views and then second; they sum to 0.
    """
    logits, same = _logits(z, z2, labels, tau)
    return logits.softmax(-1) - same / same.sum(-1, keepdim=True)
