"""Alternating descent of two symmetric-ReLU layers on sparse codes, exactly (ncl App. C.2, C.3).

Two nets W^o and W^t see one sample through two masks; the loss is Eq. 13 with biases b^o, b^t:
L = 2 - 2 E <SReLU(W^o D_1 x), SReLU(W^t D_2 x)>. In a few dimensions the expectation is a finite
sum over latents and masks, the two masks being independent given x. Beside it stands the paper's
simplified loss, which equals it wherever the biases separate the signal (`separated`).
M = I, so that W = I is the ground truth. Leading dimensions are runs, each with its own
probabilities and biases. Errors are ValueErrors that name the argument.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clcore.sweep.optim import unit_rows
from clcore.theory.sparse.sparse_coding import symmetric_relu

__all__ = [
    "Views",
    "alternate",
    "bias_range",
    "crosstalk",
    "exact_slope",
    "latents",
    "loss",
    "noisy",
    "off_diagonal",
    "outputs",
    "rate",
    "separated",
    "simplified_loss",
    "simplified_slope",
    "summands",
    "views",
]

MOST_TERMS = 2**20
"""More (sample, mask) pairs than this are not enumerated."""

Field = Callable[[Tensor, Tensor], Tensor]  # (W, b) -> dL/dW, the other net held
Slope = Callable[[Tensor, Tensor], Field]  # (other W, other b) -> Field


class Views(NamedTuple):
    """A finite law of samples x, and all their masked views D x."""

    x: Float[Tensor, "k p"]
    masked: Float[Tensor, "k m p"]
    mass: Float[Tensor, "*r k"]  # probability of each sample
    keep: Float[Tensor, "*r m"]  # probability of each mask


def _probability(name: str, value: Tensor) -> None:
    if not bool(((value > 0) & (value <= 1)).all()):
        raise ValueError(
            f"{name}: expected probabilities with 0 < {name} <= 1, got {value.min():g} to "
            f"{value.max():g}; with 0 nothing is ever seen"
        )


def _all(values: list[float], d: int) -> Tensor:
    """Every vector of d entries from `values`, one per row."""
    if d < 2:
        raise ValueError(f"d: expected at least 2 dimensions, got {d}; one has no off-diagonal")
    if len(values) ** d > MOST_TERMS:
        raise ValueError(f"d: expected {len(values)}^d <= {MOST_TERMS}, got d={d}; draw samples")
    return torch.cartesian_prod(*[torch.tensor(values, dtype=torch.float64)] * d)


def latents(
    kappa: Float[Tensor, "*r"], d: int
) -> tuple[Float[Tensor, "k d"], Float[Tensor, "*r k"]]:
    """All k = 3^d latents of ncl Assumption 1, and their probabilities.

    Entries are independent, -1 and 1 with probability kappa / 2 each.
    """
    _probability("kappa", kappa)
    z, kappa = _all([-1.0, 0.0, 1.0], d), kappa[..., None, None]
    return z, torch.where(z != 0, kappa / 2, 1 - kappa).prod(-1)


def noisy(
    z: Float[Tensor, "k d"],
    mass: Float[Tensor, "*r k"],
    values: Float[Tensor, "v"],
    weights: Float[Tensor, "v"],
) -> tuple[Float[Tensor, "k2 d"], Float[Tensor, "*r k2"]]:
    """x = z + noise for independent noise entries that take v values; k2 = k v^d."""
    d = z.shape[-1]
    if len(z) * len(values) ** d > MOST_TERMS:
        raise ValueError(f"values: expected k v^d <= {MOST_TERMS}, got {len(z)} {len(values)}^{d}")
    noise = torch.cartesian_prod(*[values] * d)
    share = torch.cartesian_prod(*[weights] * d).prod(-1)
    x = (z[:, None] + noise).flatten(0, 1)
    return x, (mass[..., None] * share).flatten(-2)


def views(
    x: Float[Tensor, "k p"], mass: Float[Tensor, "*r k"], alpha: Float[Tensor, "*r"]
) -> Views:
    """Samples x of probabilities `mass` under all m = 2^p masks, a coordinate kept with alpha."""
    _probability("alpha", alpha)
    D, alpha = _all([0.0, 1.0], x.shape[-1]), alpha[..., None, None]
    if len(x) * len(D) > MOST_TERMS:
        raise ValueError(f"x: expected k 2^p <= {MOST_TERMS}, got k={len(x)}, p={x.shape[-1]}")
    return Views(x, x[:, None] * D, mass, torch.where(D == 1, alpha, 1 - alpha).prod(-1))


# ---------------------------------------------------------------------------------- exact loss


def outputs(
    W: Float[Tensor, "*r n p"], b: Float[Tensor, "*r n"], seen: Views
) -> Float[Tensor, "*r k n"]:
    """E[SReLU_b(W D x) | x] over the masks D."""
    u = torch.einsum("...np,kmp->...kmn", W, seen.masked)
    return torch.einsum("...kmn,...m->...kn", symmetric_relu(u, b[..., None, None, :]), seen.keep)


def loss(
    online: Float[Tensor, "*r n p"],
    target: Float[Tensor, "*r n p"],
    b_online: Float[Tensor, "*r n"],
    b_target: Float[Tensor, "*r n"],
    seen: Views,
) -> Float[Tensor, "*r"]:
    """ncl Eq. 13, summed over samples and masks."""
    product = outputs(online, b_online, seen) * outputs(target, b_target, seen)
    return 2 - 2 * torch.einsum("...kn,...k->...", product, seen.mass)


def exact_slope(seen: Views) -> Slope:
    """dL/dW of ncl Eq. 13 for one net, the other held; at |u| = b the slope 0 is taken."""

    def of(other: Tensor, b_other: Tensor) -> Field:
        pull = outputs(other, b_other, seen) * seen.mass[..., None]
        return partial(_slope, pull[..., None, :] * seen.keep[..., None, :, None], seen.masked)

    return of


def _slope(pull: Tensor, masked: Tensor, W: Tensor, b: Tensor) -> Tensor:
    u = torch.einsum("...np,kmp->...kmn", W, masked)
    active = (u.abs() > b[..., None, None, :]) * pull
    return -2 * torch.einsum("...kmn,kmp->...np", active, masked)


# ---------------------------------------------------------------------- where the biases separate


def off_diagonal(W: Float[Tensor, "*r d d"]) -> Float[Tensor, "*r d d"]:
    """W with its diagonal set to zero."""
    return W - torch.diag_embed(W.diagonal(dim1=-2, dim2=-1))


def crosstalk(W: Float[Tensor, "*r d d"], noise: float = 0.0) -> Float[Tensor, "*r d"]:
    """The largest |c_b| of ncl Assumption 3 over masks, latents and noise in [-noise, noise]."""
    return off_diagonal(W).abs().sum(-1) + noise * W.abs().sum(-1)


def bias_range(
    W: Float[Tensor, "*r d d"], noise: float = 0.0
) -> tuple[Float[Tensor, "*r d"], Float[Tensor, "*r d"]]:
    """The open interval of biases that ncl Assumption 3 allows, a row. Raises where it is empty."""
    low = crosstalk(W, noise)
    if bool((low >= 0.5).any()):
        raise ValueError(
            f"W: expected every row's crosstalk below 1/2, got {low.max():g}; no bias separates "
            "such a start from its noise, start closer to the identity"
        )
    return low, 1 - low


def separated(
    W: Float[Tensor, "*r d d"], b: Float[Tensor, "*r d"], noise: float = 0.0
) -> Bool[Tensor, "*r d"]:
    """Whether every pre-activation of a row is on the side of +-b stated in App. C.3.

    Needs b above the crosstalk, and b below W_ii minus the crosstalk (with noise: minus that too).
    """
    low = crosstalk(W, noise)
    return (low < b) & (b < W.diagonal(dim1=-2, dim2=-1) - low)


def summands(
    online: Float[Tensor, "*r d d"],
    target: Float[Tensor, "*r d d"],
    b_online: Float[Tensor, "*r d"],
    b_target: Float[Tensor, "*r d"],
    alpha: Float[Tensor, "*r"],
    kappa: Float[Tensor, "*r"],
) -> Float[Tensor, "*r d"]:
    """E[SReLU(.) SReLU(.)] of each row without noise (App. C.3), exact where both `separated`."""
    scale = (alpha**2 * kappa)[..., None]
    own = [W.diagonal(dim1=-2, dim2=-1) - b for W, b in ((online, b_online), (target, b_target))]
    cross = (off_diagonal(online) * off_diagonal(target)).sum(-1)
    return scale * (own[0] * own[1] + scale * cross)


def simplified_loss(
    online: Float[Tensor, "*r d d"],
    target: Float[Tensor, "*r d d"],
    b_online: Float[Tensor, "*r d"],
    b_target: Float[Tensor, "*r d"],
    alpha: Float[Tensor, "*r"],
    kappa: Float[Tensor, "*r"],
) -> Float[Tensor, "*r"]:
    """The simplified loss of App. C.3: 2 - 2 (sum of `summands`). Raises outside their domain."""
    for name, W, b in (("online", online, b_online), ("target", target, b_target)):
        if not bool(separated(W, b).all()):
            raise ValueError(
                f"{name}: expected biases between the crosstalk and the diagonal minus the "
                "crosstalk, where the simplified loss is the loss; use `loss` elsewhere"
            )
    return 2 - 2 * summands(online, target, b_online, b_target, alpha, kappa).sum(-1)


def simplified_slope(alpha: Float[Tensor, "*r"], kappa: Float[Tensor, "*r"]) -> Slope:
    """The gradient of the simplified loss: it depends on the other net only."""
    scale = (alpha**2 * kappa)[..., None, None]

    def of(other: Tensor, b_other: Tensor) -> Field:
        own = torch.diag_embed(other.diagonal(dim1=-2, dim2=-1) - b_other)
        push = -2 * scale * (own + scale * off_diagonal(other))
        return lambda W, b: push

    return of


def rate(
    alpha: Float[Tensor, "*#r"],
    kappa: Float[Tensor, "*#r"],
    b: Float[Tensor, "*#r"],
    variance: float = 0.0,
) -> Float[Tensor, "*r"]:
    """By what a half-round multiplies small off-diagonals: alpha^2 kappa / (1 - b).

    b is the held net's bias. Bounded noise of this variance adds it to kappa and to 1 - b.
    """
    return alpha**2 * (kappa + variance) / (1 - b + variance)


# ---------------------------------------------------------------------------- alternating descent


def alternate(
    online: Float[Tensor, "*r n p"],
    target: Float[Tensor, "*r n p"],
    b_online: Float[Tensor, "*r n"],
    b_target: Float[Tensor, "*r n"],
    slope: Slope,
    eta: Float[Tensor, "*#r"],
    rounds: int,
    steps: int,
    normalise: bool = True,
) -> Float[Tensor, "t two *r n p"]:
    """The scheme of ncl Theorem 3: both nets at the start and after every half-round.

    A half-round is `steps` gradient steps of rate eta on one net, the other held; with `normalise`
    the rows are scaled to norm 1 after each. Odd t: the online net has just moved. Raises when a
    row becomes zero or not finite.
    """
    nets, biases = [online, target], (b_online, b_target)
    path = [torch.stack(nets)]
    for half in range(2 * rounds):
        k = half % 2
        field = slope(nets[1 - k], biases[1 - k])
        W = nets[k]
        for _ in range(steps):
            W = W - eta[..., None, None] * field(W, biases[k])
            if normalise:
                W = unit_rows(W)
        norm = W.norm(dim=-1)
        if not bool((norm.isfinite() & (norm > 0)).all()):
            raise ValueError(
                "W: expected rows with a direction, got zero or infinite ones after half-round "
                f"{half + 1}; change the start, or take fewer or shorter steps"
            )
        nets[k] = W
        path.append(torch.stack(nets))
    return torch.stack(path)
