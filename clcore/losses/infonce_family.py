"""InfoNCE: one family, and how each of its versions is normalised.

For an anchor, let s be the similarity to its other view, s_k those to its negatives. All versions
have l = log(eps + sum_k exp((s_k - s) / tau)) in common, which at eps = 1 is the cross entropy of
picking the positive. They differ in what the table lists, by name as in `CONVENTIONS`:

================  ==========  =======  =========  ========  ===================================
name              similarity  anchors  negatives  value     where it stands
================  ==========  =======  =========  ========  ===================================
acl               distance    first    same       tau sum   acl Eq. 2, `contrast.infonce`
acl-mean          distance    first    same       tau mean  `variant_loss`, "nce"
acl-both          distance    both     same       tau mean  `image_losses`, "infonce"
cpc               distance    first    same       sum       Oord et al., `source_infonce`
simclr-first      cosine      first    same       sum       `source_simclr`, one view
simclr            cosine      both     all        sum       `source_simclr`
nt-xent           cosine      both     all        mean      Chen et al., `sparse_models.nt_xent`
ddn               distance    both     all        mean      ddn Eq. 2 on images, `image_losses`
ncl               cosine      first    other      mean      ncl Eq. 8, `sparse_models.contrastive`
nl                distance    first    same       tau sum   nl Eq. 1, `token_sequences`, "raw"
nl-unit           cosine      first    same       tau sum   `token_sequences`, "paper"
nl-released       cosine      first    same       mean      `token_sequences`, "released", "mean"
================  ==========  =======  =========  ========  ===================================

Similarity: "distance" is minus half the squared distance; on rows of norm 1 it is the cosine minus
1, and gives the same loss. Anchors: the n first views, or all 2n views. Negatives are views of the
other n - 1 samples: of the anchor's own side ("same"), of the other side, or of both (2n - 2). The
positive always stands in the denominator, as the 1 that is eps; acl leaves eps open. Sum and mean
are over the n samples; where both views are anchors, a sample's value is the mean of its two.

Three versions take negatives as they are given: `anchors.infonce` (distances, one value per
anchor), `two_view.contrastive` (ncl Eq. 8: inner products that tau multiplies, the mean over
anchors), and `tree_contrast.loss` (ddn Eq. 2 with one negative, distances of unit outputs, the
mean).

Constants: acl = tau cpc = n acl-mean = nl; simclr = n nt-xent; acl-both is the mean of acl-mean and
of the same with the views exchanged. On rows of norm 1 besides: ddn = nt-xent, nl-unit = acl =
tau simclr-first = n tau nl-released. No constant leads from "same" to "all" or to "other".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import forward_ad

from clcore.losses.contrast import (
    inter_distances,
    intra_distances,
    reduced,
    require_views,
    warn_of_underflow,
)
from clcore.losses.floating import at_least_single, known
from clcore.losses.infonce_large import COLDEST, in_tiles
from clcore.losses.pairs import (
    LogDomain,
    Scalar,
    infonce_pair,
    one_temperature,
    require_temperature,
)
from clcore.sweep.optim import directions

# --------------------------------------------------------------------------------- of one anchor


@at_least_single
def log_share(
    positive: Float[Tensor, "*b"], negatives: Float[Tensor, "*b h"], tau: Scalar
) -> Float[Tensor, "*b"]:
    """log of the positive's share of exp(similarity / tau); distances come with -tau."""
    logits = torch.cat([positive[..., None], negatives], -1) / tau
    return logits.log_softmax(-1)[..., 0]


def cross_entropy(
    positive: Float[Tensor, "*b"], negatives: Float[Tensor, "*b h"], tau: Scalar = 1.0
) -> Float[Tensor, "*b"]:
    """-log of the positive's share of exp(similarity / tau), of one anchor with h negatives.

    Exact at any size of the similarities, through log-softmax. Errors: tau <= 0.

    Examples:
        >>> cross_entropy(torch.tensor(2.0), torch.tensor([2.0, 2.0, 2.0])).exp()  # 1 of 4
        tensor(4.)
    """
    return -log_share(positive, negatives, require_temperature(tau))


@at_least_single
def cross_entropy_of_gaps(
    gaps: Float[Tensor, "*b h"], bounded: bool = False
) -> Float[Tensor, "*b"]:
    """The same from (s_k - s) / tau alone: log(1 + sum_k exp(gap_k)). -inf leaves a negative out.

    bounded: the exponentials are summed as they are, a pass over the negatives less; for gaps that
    cannot overflow, as those of unit vectors (at most 2 / tau).
    """
    if bounded:
        return gaps.exp().sum(-1).log1p()
    return F.softplus(gaps.logsumexp(-1))  # which from 20 on is the sum itself: 2e-9 less


# ------------------------------------------------------------------------------------ of a batch

LARGE = 1024  # samples, from which on the matrix of similarities is not kept

_CHOICES = {
    "similarity": ("distance", "inner", "cosine"),
    "anchors": ("first", "both"),
    "negatives": ("same", "other", "all"),
    "reduction": ("sum", "mean", "none"),
}


@dataclass(frozen=True)
class Convention:
    """One row of the table above: the ingredients of an InfoNCE of two views.

    Attributes:
        similarity: "distance" (minus half the squared distance), "inner" or "cosine".
        anchors: "first" for the n first views, "both" for all 2n.
        negatives: views of other samples, of the anchor's side ("same"), the other side ("other")
            or both ("all").
        scaled: whether tau multiplies the value.
        reduction: "sum" or "mean" over the n samples, or "none", a value for each.

    Raises:
        ValueError: a word that is not one of these.

    Examples:
        >>> Convention("cosine", "both", "all", reduction="mean") == CONVENTIONS["nt-xent"]
        True
    """

    similarity: str = "distance"
    anchors: str = "first"
    negatives: str = "same"
    scaled: bool = False
    reduction: str = "sum"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name}: expected one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )


CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "acl": Convention("distance", "first", "same", True, "sum"),
        "acl-mean": Convention("distance", "first", "same", True, "mean"),
        "acl-both": Convention("distance", "both", "same", True, "mean"),
        "cpc": Convention("distance", "first", "same", False, "sum"),
        "simclr-first": Convention("cosine", "first", "same", False, "sum"),
        "simclr": Convention("cosine", "both", "all", False, "sum"),
        "nt-xent": Convention("cosine", "both", "all", False, "mean"),
        "ddn": Convention("distance", "both", "all", False, "mean"),
        "ncl": Convention("cosine", "first", "other", False, "mean"),
        "nl": Convention("distance", "first", "same", True, "sum"),
        "nl-unit": Convention("cosine", "first", "same", True, "sum"),
        "nl-released": Convention("cosine", "first", "same", False, "mean"),
    }
)
"""The versions by name, as in the table above."""


def convention(chosen: str | Convention, reduction: str | None = None) -> Convention:
    """A convention by name or as it is, with another reduction if given. Errors: unknown ones."""
    if not isinstance(chosen, Convention):
        if chosen not in CONVENTIONS:
            raise ValueError(
                f"convention: expected one of {', '.join(CONVENTIONS)} or a Convention, got "
                f"{chosen!r}"
            )
        chosen = CONVENTIONS[chosen]
    return chosen if reduction is None else replace(chosen, reduction=reduction)


def _left_out(n: int, how: Convention, device: torch.device) -> Bool[Tensor, "r c"]:
    """Which views are no negatives of which anchors."""
    eye = torch.eye(n, dtype=torch.bool, device=device)
    if how.anchors == "first" and how.negatives == "same":
        return eye
    none = torch.zeros_like(eye)
    own = eye if how.negatives != "other" else ~none
    other = eye if how.negatives != "same" else ~none
    first = torch.cat([own, other], -1)
    return first if how.anchors == "first" else torch.cat([first, torch.cat([other, own], -1)])


def _log_domain(tau: Scalar, eps: Scalar) -> LogDomain:
    log = infonce_pair(tau, eps).log
    assert log is not None  # InfoNCE's pair has its logarithms
    return log


def _gaps(z: Tensor, z2: Tensor, tau: Scalar, how: Convention) -> Tensor:
    """(s_k - s) / tau, one row per anchor, one column per view; -inf where that is no negative."""
    require_views(z, z2)
    if how.similarity == "cosine":
        z, z2 = directions(z), directions(z2)
    near = -intra_distances(z, z2) if how.similarity == "distance" else (z * z2).sum(-1)
    alone = how.anchors == "first" and how.negatives == "same"
    views = z if alone else torch.cat([z, z2], -2)
    similarity = -inter_distances(views) if how.similarity == "distance" else views @ views.mT
    if how.anchors == "both":
        near = torch.cat([near, near], -1)
    rows = similarity[..., : near.shape[-1], :]
    gaps = (rows - near[..., None]) / require_temperature(tau)
    return gaps.masked_fill(_left_out(z.shape[-2], how, z.device), -torch.inf)


def _anchors(z: Tensor, z2: Tensor, tau: Scalar, eps: Scalar, how: Convention) -> Tensor:
    """tau l of every anchor."""
    require_views(z, z2)
    log = _log_domain(tau, eps)
    if not isinstance(eps, Tensor) and _in_tiles(z, z2, tau, how):
        v = directions(torch.cat([z, z2])) / tau**0.5
        inner = replace(how, similarity="inner")
        return tau * in_tiles(v, eps, lambda v: _anchors(*v.chunk(2), 1.0, eps, inner))
    return log.phi(_gaps(z, z2, tau, how).logsumexp(-1))  # times tau, as the pair has it


def _in_tiles(z: Tensor, z2: Tensor, tau: Scalar, how: Convention) -> bool:
    """Whether a batch is large, and of a kind that `in_tiles` takes."""
    large = z.ndim == 2 and len(z) >= LARGE
    if not large or (how.similarity, how.anchors, how.negatives) != ("cosine", "both", "all"):
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if any(forward_ad.unpack_dual(view).tangent is not None for view in (z, z2)):
        return False
    return known((tau >= COLDEST).all()) if isinstance(tau, Tensor) else tau >= COLDEST


@at_least_single
def infonce(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    tau: Scalar | None = None,
    eps: Scalar = 1.0,
    how: str | Convention = "acl",
    *,
    temperature: Scalar | None = None,
    reduction: str | None = None,
) -> Float[Tensor, "*b"] | Float[Tensor, "*b n"]:
    """InfoNCE of a batch of two views, in any convention of the table above.

    z, z2: outputs for the first and the second views of n samples; leading dimensions are batches.
    tau: the temperature, 0.5 if none is given; `temperature` is another name for it. eps: 1 keeps
    the positive in the denominator, 0 leaves it out. how: a name in `CONVENTIONS`, or a
    `Convention`. reduction: "sum" or "mean" over samples, or "none", a value for each, in place of
    the convention's. Exact at any size of the similarities; a row of zeros has cosine 0 with all.

    Raises:
        ValueError: tau <= 0, eps < 0, n < 2, views of different shapes, an unknown convention or
            reduction.
        TypeError: outputs that are not floating-point; tau or eps that is not a number; tau and
            temperature both.

    Examples:
        >>> z, z2 = torch.eye(3), torch.eye(3)  # three samples, apart at right angles
        >>> infonce(z, z2, tau=1.0, how="nt-xent")  # log(1 + 4 exp(-1))
        tensor(0.9048)
        >>> infonce(z, z2, tau=1.0) / infonce(z, z2, tau=1.0, how="acl-mean")
        tensor(3.)
    """
    how, tau = convention(how, reduction), one_temperature(tau, temperature)
    values = _anchors(z, z2, tau, eps, how)
    if how.reduction == "none" and how.anchors == "both":
        values = values.unflatten(-1, (2, -1)).mean(-2)
    total = reduced(values, how.reduction)
    if how.reduction == "sum" and how.anchors == "both":
        total = total / 2
    return total if how.scaled else total / tau


@at_least_single
def infonce_importance(
    z: Float[Tensor, "*b n d"],
    z2: Float[Tensor, "*b n d"],
    tau: Scalar,
    eps: Scalar,
    how: Convention,
) -> Float[Tensor, "*b anchors views"]:
    """exp(gap_k) / (eps + sum_j exp(gap_j)), the slope of one anchor's tau l in s_k, with gap_k =
    (s_k - s) / tau; 0 where a view is no negative of the anchor. Warns where all of them underflow.
    """
    log, gaps = _log_domain(tau, eps), _gaps(z, z2, tau, how)
    mass = log.dphi(gaps.logsumexp(-1, keepdim=True)) / tau
    alpha = mass * gaps.softmax(-1)
    warn_of_underflow(alpha, tau)
    return alpha
