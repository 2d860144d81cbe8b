"""The losses of the image experiments: acl Sec. 6.1 (Table 2) and ddn Sec. 7 (Tables 2 and 3).

z, z2: outputs for two views of n images, of norm 1 there. All values are means over anchors, to be
descended.

acl takes one view as anchors and negatives. Both views play this part in turn and the mean is
taken: the expectation is the paper's, since the views are exchangeable. ddn's are SimCLR's: every
one of the 2n views is an anchor with H = 2n - 2 negatives, all views of the other images.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clcore.losses import anchors
from clcore.losses.contrast import energy, inter_distances, intra_distances, off_diagonal
from clcore.losses.minplayer import VARIANTS, variant_loss
from clcore.losses.pairs import Scalar, require_above, require_temperature

# ------------------------------------------------------------------------------------------- ddn


def _same_image(n: int, device: torch.device) -> Bool[Tensor, "m m"]:
    """Of 2n views, which pairs are of one image."""
    return torch.eye(n, dtype=torch.bool, device=device).tile(2, 2)


def _nce(
    z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], tau: Scalar = 0.5, beta: Scalar = 0.0
) -> Float[Tensor, ""]:
    """InfoNCE of ddn Eq. 2, plus beta r_+: then dL/dr_+ + sum_k dL/dr_k- = beta (ddn Sec. 4.2)."""
    positive = intra_distances(z, z2).tile(2)
    negatives = inter_distances(torch.cat([z, z2]))
    negatives = negatives.masked_fill(_same_image(z.shape[0], z.device), torch.inf)
    return (anchors.infonce(positive, negatives, tau) + beta * positive).mean()


def _nce_pairwise(
    z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], tau: Scalar = 0.5
) -> Float[Tensor, ""]:
    """InfoNCE with one negative, the loss of ddn Theorem 4, on average over all H of them."""
    positive = intra_distances(z, z2).tile(2)[:, None]
    negatives = inter_distances(torch.cat([z, z2]))
    values = anchors.infonce(positive.expand_as(negatives), negatives[..., None], tau)
    values = values.masked_fill(_same_image(z.shape[0], z.device), 0.0)
    return values.sum(-1).mean() / (values.shape[-1] - 2)


def exact_weights(x: Float[Tensor, "n d"], tau: Scalar = 0.5) -> Float[Tensor, "n n"]:
    """xi(r) = exp(-r / tau) / (1 + exp(-r / tau)) / tau of the distances r between outputs, in the
    paper those of un-augmented images (ddn Eqs. 6 and 7), without gradient. Errors: tau <= 0,
    n < 2."""
    require_temperature(tau)
    return torch.sigmoid(-inter_distances(x.detach()) / tau) / tau


def shared_weights(x: Float[Tensor, "n d"], tau: Scalar = 0.5) -> Float[Tensor, "n n"]:
    """xi_k = exp(-r_k / tau) / Z / tau with Z = 1 + 2 sum_j exp(-r_j / tau), which is -dL/dr_k- of
    InfoNCE with all its H = 2n - 2 negatives (every other image has two views) at the distances r
    between outputs of un-augmented images; without gradient. Not symmetric: Z is the anchor's.

    ddn Eq. 80, printed with the other sign, without 1 / tau, and with the squared distance of
    images in place of r. Errors: tau <= 0, n < 2.
    """
    require_temperature(tau)
    logits = off_diagonal(-inter_distances(x.detach()) / tau, -torch.inf)
    both = torch.cat([logits.new_zeros(len(x), 1), logits, logits], -1).softmax(-1)
    return both[:, 1 : 1 + len(x)] / tau


def _weighted(
    z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], weights: Float[Tensor, "m m"]
) -> Float[Tensor, ""]:
    """sum_k xi_k (r_+ - r_k-), weights of pairs of the m = 2n views given (ddn Eq. 7)."""
    weights = weights.masked_fill(_same_image(z.shape[0], z.device), 0.0)
    gaps = intra_distances(z, z2).tile(2)[:, None] - inter_distances(torch.cat([z, z2]))
    return (weights * gaps).sum(-1).mean()


def _exact(
    z: Float[Tensor, "n d"],
    z2: Float[Tensor, "n d"],
    x: Float[Tensor, "n d"],
    tau: Scalar = 0.5,
) -> Float[Tensor, ""]:
    """ddn Eq. 7, sum_k xi(r_k) (r_+ - r_k-), divided by the number H of negatives: the scale of
    Theorem 4, whatever the batch, and the released program's."""
    return _weighted(z, z2, exact_weights(x, tau).tile(2, 2)) / (2 * len(z) - 2)


def _exact_views(
    z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], tau: Scalar = 0.5
) -> Float[Tensor, ""]:
    """`_exact` with the weights of the views' own distances r_k-, as the released program takes
    them unless told otherwise."""
    return _weighted(z, z2, exact_weights(torch.cat([z, z2]), tau)) / (2 * len(z) - 2)


def _exact_shared(
    z: Float[Tensor, "n d"],
    z2: Float[Tensor, "n d"],
    x: Float[Tensor, "n d"],
    tau: Scalar = 0.5,
) -> Float[Tensor, ""]:
    """ddn Eq. 7 with the weights of Eq. 80: without augmentation its gradient is InfoNCE's."""
    return _weighted(z, z2, shared_weights(x, tau).tile(2, 2))


# ------------------------------------------------------------------------------------------- acl


def _both(one_way: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A loss with either view as the anchors in turn, and the mean of both."""

    def value(z: Tensor, z2: Tensor, **settings: Scalar) -> Tensor:
        return (one_way(z, z2, **settings) + one_way(z2, z, **settings)) / 2

    return value


def near_weights(
    inter: Float[Tensor, "n n"], tau: Scalar = 0.5, gamma: Scalar = 2.0
) -> Float[Tensor, "n n"]:
    """alpha_ij = (d_ij + tau)^-gamma, the inverse weights of acl's released program: rows of any
    sum, not the minimiser for r_gamma. d is half the squared distance, as in acl Eq. 1: the
    program's one minus the cosine. Errors: tau <= 0, gamma <= 0."""
    require_temperature(tau)
    require_above("gamma", gamma, 0, "a pair that is near weighs more")
    return off_diagonal((inter + tau) ** -gamma, 0.0)


def _released_inverse(
    z: Float[Tensor, "n d"],
    z2: Float[Tensor, "n d"],
    tau: Scalar = 0.5,
    gamma: Scalar = 2.0,
) -> Float[Tensor, ""]:
    """-E_alpha / (2 n) with `near_weights` held fixed, on the scale of `variant_loss`."""
    alpha = near_weights(inter_distances(z), tau, gamma).detach()
    return -energy(alpha, z, z2) / (2 * len(z))


# --------------------------------------------------------------------------------------- by name


@dataclass(frozen=True)
class Loss:
    """title: its row in the paper's table; unaugmented: whether it reads x; eta: size of the
    gradient noise that belongs to it."""

    title: str
    value: Callable[..., Tensor]
    settings: Mapping[str, float] = field(default_factory=dict)
    unaugmented: bool = False
    eta: float = 0.0


def _acl(title: str, variant: str, **changed: float) -> Loss:
    value = _both(partial(variant_loss, variant=variant))
    return Loss(title, value, MappingProxyType({**VARIANTS[variant], **changed}))


def _ddn(title: str, **settings: float) -> Loss:
    return Loss(title, _nce, MappingProxyType({"tau": 0.5, **settings}))


def _nce_released(
    z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], tau: Scalar = 0.5, beta: Scalar = 0.0
) -> Float[Tensor, ""]:
    """`_nce` with beta r_+ / tau added, as ddn's released program has it."""
    return _nce(z, z2, tau, beta / tau)


def _beta_released(title: str, beta: float) -> Loss:
    return Loss(title, _nce_released, MappingProxyType({"tau": 0.5, "beta": beta}))


_TAU = MappingProxyType({"tau": 0.5})

LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "infonce": _acl("L_nce", "nce"),
        "backprop": _acl("backprop alpha(theta)", "backprop-alpha"),
        "entropy": _acl("P_g + r_H", "entropy"),
        "inverse": _acl("P_g + r_gamma", "inverse"),
        "square": _acl("P_g + r_s", "square"),
        "direct": _acl("P_g + direct-alpha", "direct"),
        "direct-4": _acl("P_g + direct-alpha, p = 4", "direct", p=4.0),
        "inverse-released": Loss(
            "P_g + r_gamma, as released", _both(_released_inverse), VARIANTS["inverse"]
        ),
        "nce": _ddn("L_nce"),
        "exact": Loss("L_nce,exact", _exact, _TAU, unaugmented=True),
        "exact-noise": Loss("L_nce,exact, eta 0.01", _exact, _TAU, unaugmented=True, eta=0.01),
        "beta-0.5": _ddn("beta -0.5", beta=-0.5),
        "beta+0.2": _ddn("beta +0.2", beta=0.2),
        "nce-pairwise": Loss("L_nce of one negative", _nce_pairwise, _TAU),
        "exact-shared": Loss("L_nce,exact, Eq. 80", _exact_shared, _TAU, unaugmented=True),
        "exact-views": Loss("L_nce,exact, as released", _exact_views, _TAU),
        "beta-0.5-released": _beta_released("beta -0.5, as released", -0.5),
        "beta+0.2-released": _beta_released("beta +0.2, as released", 0.2),
    }
)
"""Six rows of acl Table 2, then ddn's, with the papers' settings.

"as released": where the authors' program differs from the paper. Its inverse weights are
`near_weights`; its beta multiplies r_+ / tau; its exact loss takes the weights at the views
("exact-views"). Its direct weights are the paper's: exponent 2 of one minus the cosine, which is
half the squared distance. Its README calls that p = 4; "direct-4" is p = 4 in the paper's formula.

"nce" and "exact" differ in two things: where the weights are taken (at the views, or at the
un-augmented images) and whether the negatives of an anchor share its weight. "exact-shared" differs
from "nce", and "exact" from "nce-pairwise", in the first alone. The pairwise ones also have
gradients several times shorter, which Adam takes out."""


def require_loss(name: str) -> Loss:
    """The entry of a loss. Errors: unknown name."""
    if name not in LOSSES:
        raise ValueError(f"loss: expected one of {', '.join(LOSSES)}, got {name!r}")
    return LOSSES[name]


def loss(
    name: str,
    z: Float[Tensor, "n d"],
    z2: Float[Tensor, "n d"],
    x: Float[Tensor, "n d"] | None = None,
    **settings: Scalar,
) -> Float[Tensor, ""]:
    """A loss of LOSSES, with `settings` in place of its defaults.

    x: outputs for the images themselves, without augmentation, which the "exact" ones read.
    Errors: unknown name or setting, n < 2, shapes that differ, no x where it is needed.
    """
    entry = require_loss(name)
    for given in settings:
        if given not in entry.settings:
            raise ValueError(f"expected settings of {name!r} in {[*entry.settings]}, got {given!r}")
    chosen = {**entry.settings, **settings}
    if not entry.unaugmented:
        return entry.value(z, z2, **chosen)
    if x is None:
        raise ValueError(f"x: {name!r} needs the outputs of the un-augmented images, got None")
    return entry.value(z, z2, x, **chosen)
