"""Losses of masked sparse-coding views as exact sums over latents and masks (ncl Sec. 4.1, 5.1).

One data law has finitely many points x = M z, one mask finitely many patterns, so every
expectation of Eqs. 6, 7 and 8 is a sum: nothing is sampled. Encoders are h(x) = ReLU(W x) with W
[*b, m, p]; masks keep each coordinate with probability `keep`, independently in the two views
(Eq. 3). tau multiplies the similarity.

For one-hot latents and M = I (Theorem 1) the same losses depend on W only through the Gram matrix
of its rectified columns; the `one_hot_*` functions use that, and work at any d.

The negatives' two readings are in NEGATIVES.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses.pairs import require_temperature
from clcore.sweep import optim

NEGATIVES = {
    "others": "never the anchor's own point (ncl Eq. 8: x' is not x)",
    "data": "i.i.d. from the data law, so that they may repeat the anchor",
}
"""Who may be a negative: "others", never the anchor's own point; "data", any point."""
MOST = 2**12  # latents times masks: the Gram matrix of all views has this many rows

__all__ = [
    "NEGATIVES",
    "Law",
    "best_length",
    "contrastive",
    "descend",
    "masks",
    "non_contrastive",
    "one_hot",
    "one_hot_contrastive",
    "one_hot_non_contrastive",
    "one_hot_surrogate",
    "permutation_gap",
    "positive_columns",
    "proof_bound",
    "rectified_gram",
    "repeats_threshold",
    "represent",
    "sparse",
    "unit_columns",
]


class Law(NamedTuple):
    """A law on finitely many points: `point` [k, d], `probability` [k]."""

    point: Float[Tensor, "k d"]
    probability: Float[Tensor, " k"]

    def through(self, M: Float[Tensor, "p d"]) -> "Law":
        """The law of M z. Raises ValueError unless M has d columns and at least as many rows."""
        d = self.point.shape[-1]
        if M.shape[-1] != d or M.shape[-2] < d:
            raise ValueError(
                f"M: expected [p, {d}] with p >= {d}, got {list(M.shape)}; d orthonormal columns "
                "need at least d rows"
            )
        return Law(self.point @ M.mT, self.probability)


# ----------------------------------------------------------------------------- laws and weights


def _require_keep(keep: float) -> None:
    if not 0 < keep <= 1:
        raise ValueError(
            f"expected 0 < keep <= 1, got keep={keep}; it is the probability that a mask keeps a "
            "coordinate, and at 0 every view is zero"
        )


def _require_negatives(negatives: str) -> None:
    if negatives not in NEGATIVES:
        raise ValueError(f"expected negatives in {tuple(NEGATIVES)}, got {negatives!r}")


def one_hot(d: int, signed: bool = False) -> Law:
    """Uniform over 1-sparse latents: the d unit vectors, with `signed` the 2d signed ones."""
    points = torch.eye(d, dtype=torch.float64)
    points = torch.cat([points, -points]) if signed else points
    return Law(points, torch.full((len(points),), 1 / len(points), dtype=torch.float64))


def sparse(d: int, beta: float, signed: bool = False, nonzero: bool = False) -> Law:
    """z_i i.i.d. with Pr(z_i != 0) = beta, all of them enumerated (ncl Eq. 1).

    `signed`: -1 and +1 with beta / 2 each. `nonzero`: conditioned on z != 0.
    Errors: beta outside (0, 1].
    """
    if not 0 < beta <= 1:
        raise ValueError(f"expected 0 < beta <= 1, got beta={beta}; it is Pr(z_i != 0)")
    values = [0.0, 1.0, -1.0] if signed else [0.0, 1.0]
    each = [1 - beta] + [beta / (len(values) - 1)] * (len(values) - 1)
    grid = [torch.tensor(values, dtype=torch.float64)] * d
    odds = [torch.tensor(each, dtype=torch.float64)] * d
    points = torch.cartesian_prod(*grid).reshape(-1, d)
    probability = torch.cartesian_prod(*odds).reshape(-1, d).prod(-1)
    if nonzero:
        points, probability = points[1:], probability[1:] / probability[1:].sum()
    return Law(points, probability)


def masks(p: int, keep: float) -> Law:
    """All 2^p diagonals of a mask with their probabilities. Errors: keep outside (0, 1]."""
    _require_keep(keep)
    if 2**p > MOST:
        raise ValueError(
            f"expected 2^p <= {MOST}, got p={p}; for one-hot latents the one_hot_* functions do "
            "without enumeration"
        )
    bits = torch.arange(2**p)[:, None] >> torch.arange(p) & 1
    kept = bits.sum(-1)
    probability = keep ** kept.double() * (1 - keep) ** (p - kept).double()
    return Law(bits.double(), probability)


def unit_columns(W: Float[Tensor, "*b m p"]) -> Float[Tensor, "*b m p"]:
    """W with columns of norm 1: a member of U. Raises ValueError for a column that is zero."""
    zero = (W == 0).all(-2)
    if bool(zero.any()):
        where = zero.nonzero()[0].tolist()
        raise ValueError(
            f"W: expected no zero column, got one at index {where}; it has no direction to keep"
        )
    return optim.unit_columns(W)


def positive_columns(W: Float[Tensor, "*b m p"]) -> Float[Tensor, "*b m p"]:
    """|W| with columns of norm 1: a member of U_>= (of U_> if W has no zero)."""
    return unit_columns(W.abs())


# --------------------------------------------------------------------------- losses by enumeration


def represent(
    W: Float[Tensor, "*b m p"], x: Float[Tensor, "k n"], diagonals: Float[Tensor, "q n"]
) -> Float[Tensor, "*b k q m"]:
    """ReLU(W D x) of every point under every mask."""
    if W.shape[-1] != x.shape[-1]:
        raise ValueError(
            f"W: expected {x.shape[-1]} columns, one per coordinate of x, got {list(W.shape)}"
        )
    views = x[:, None, :] * diagonals
    return torch.relu(views @ W[..., None, :, :].mT)


def _mean_view(W: Tensor, law: Law, mask: Law) -> Tensor:
    """E_D ReLU(W D x) of every point, [*b, k, m]."""
    return torch.einsum("...kqm,q->...km", represent(W, law.point, mask.point), mask.probability)


def non_contrastive(
    W_o: Float[Tensor, "*b m p"],
    W_t: Float[Tensor, "*b m p"],
    law: Law,
    keep: float,
    W_p: Float[Tensor, "*b m m"] | None = None,
) -> Float[Tensor, "*b"]:
    """2 - 2 E<W_p h_o(D_1 x), h_t(D_2 x)> without normalisation (ncl Eq. 6; Eq. 7 with W_p)."""
    mask = masks(law.point.shape[-1], keep)
    online, target = _mean_view(W_o, law, mask), _mean_view(W_t, law, mask)
    if W_p is not None:
        online = online @ W_p.mT
    return 2 - 2 * torch.einsum("...km,...km,k->...", online, target, law.probability)


def contrastive(
    W: Float[Tensor, "*b m p"], law: Law, keep: float, tau: float, negatives: str = "others"
) -> Float[Tensor, "*b"]:
    """The limit of Eq. 8 minus log B as the number of negatives B grows: the mean over anchors of

    -tau S+ + log E[exp(tau S-) | anchor], with the expectation over (x', D_3') inside.

    Errors: tau <= 0, keep outside (0, 1], an unknown reading, "others" with a single point.
    """
    require_temperature(tau)
    _require_negatives(negatives)
    k, p = law.point.shape
    mask = masks(p, keep)
    if k * len(mask.probability) > MOST:
        raise ValueError(
            f"expected at most {MOST} views, got {k} points under {len(mask.probability)} masks; "
            "take a smaller d, or the one_hot_* functions"
        )
    h = represent(W, law.point, mask.point)
    flat = h.flatten(-3, -2)
    chosen = law.probability.expand(k, k)
    if negatives == "others":
        if k < 2:
            raise ValueError("negatives='others': expected at least two points, got 1")
        chosen = chosen * (1 - torch.eye(k, dtype=chosen.dtype))
        chosen = chosen / chosen.sum(-1, keepdim=True)
    weight = (chosen[:, None, :, None] * mask.probability).expand(
        k, len(mask.probability), k, len(mask.probability)
    )
    logits = tau * flat @ flat.mT + weight.reshape(flat.shape[-2], -1).log()
    partition = torch.logsumexp(logits, -1).unflatten(-1, h.shape[-3:-1])
    mean = torch.einsum("...kqm,q->...km", h, mask.probability)
    positive = (mean * mean).sum(-1)
    spread = torch.einsum("...kq,q->...k", partition, mask.probability)
    return ((spread - tau * positive) * law.probability).sum(-1)


# ----------------------------------------------------------- one-hot latents, M = I, closed form


def rectified_gram(W: Float[Tensor, "*b m p"]) -> Float[Tensor, "*b p p"]:
    """<ReLU(W_i), ReLU(W_j)> of the columns: all that Theorem 1's losses see of W."""
    R = torch.relu(W)
    return R.mT @ R


def one_hot_non_contrastive(W: Float[Tensor, "*b m d"], keep: float) -> Float[Tensor, "*b"]:
    """Eq. 6 at W_o = W_t = W: 2 - 2 keep^2 times the mean of |ReLU(W_i)|^2."""
    _require_keep(keep)
    lengths = rectified_gram(W).diagonal(dim1=-2, dim2=-1)
    return 2 - 2 * keep**2 * lengths.mean(-1)


def one_hot_contrastive(
    W: Float[Tensor, "*b m d"], keep: float, tau: float, negatives: str = "others"
) -> Float[Tensor, "*b"]:
    """`contrastive` for one-hot latents and M = I. Same errors."""
    require_temperature(tau)
    _require_keep(keep)
    _require_negatives(negatives)
    d, gram = W.shape[-1], rectified_gram(W)
    if negatives == "others" and d < 2:
        raise ValueError("negatives='others': expected at least two points, got 1")
    odds = torch.ones(d, d, dtype=W.dtype) / d
    if negatives == "others":
        odds = (1 - torch.eye(d, dtype=W.dtype)) / (d - 1)
    # keep * mean exp(tau G) + (1 - keep), in logs, so that a large tau does not overflow
    seen = torch.logsumexp(tau * gram + (keep * odds).log(), -1)
    dropped = torch.full_like(seen, 1 - keep).log()
    lengths = gram.diagonal(dim1=-2, dim2=-1)
    return (keep * torch.logaddexp(seen, dropped) - tau * keep**2 * lengths).mean(-1)


def one_hot_surrogate(W: Float[Tensor, "*b m d"], keep: float, tau: float) -> Float[Tensor, "*b"]:
    """Eq. 16: the softmax loss over all d one-hots, each under its own mask, masks outside the
    logarithm; the sum over anchors, as printed. Errors: tau <= 0, keep, d > 12."""
    require_temperature(tau)
    d, gram = W.shape[-1], rectified_gram(W)
    kept = masks(d, keep)  # of each second view only its own coordinate matters
    logits = tau * gram[..., None, :, :] * kept.point[:, None, :]
    own = logits.diagonal(dim1=-2, dim2=-1)
    terms = (torch.logsumexp(logits, -1) - own).sum(-1)  # anchors whose first mask keeps them
    return keep * (terms * kept.probability).sum(-1) + (1 - keep) * d * math.log(d)


def proof_bound(d: int, keep: float, tau: float, g: str = "own") -> float:
    """The right side of Eq. 20 with g = exp(tau D_1,ii D_2,ii) ("own"), or as typeset with the
    product of the two traces in the exponent ("traces")."""
    require_temperature(tau)
    _require_keep(keep)
    if g not in ("own", "traces"):
        raise ValueError(f"expected g in ('own', 'traces'), got {g!r}")
    n = 1 if g == "own" else d
    count = torch.arange(n + 1, dtype=torch.float64)
    ways = torch.tensor([math.comb(n, k) for k in range(n + 1)], dtype=torch.float64)
    chance = ways * keep**count * (1 - keep) ** (n - count)
    terms = torch.log1p((d - 1) * torch.exp(-tau * count[:, None] * count))
    return float(d * chance @ terms @ chance)


def repeats_threshold(d: int, keep: float) -> float:
    """The largest tau at which permutations minimise the loss if negatives may repeat the anchor.

    log((d - keep) / (1 - keep)): infinite without masks.
    """
    _require_keep(keep)
    return math.inf if keep == 1 else math.log((d - keep) / (1 - keep))


def best_length(d: int, keep: float, tau: float) -> float:
    """|ReLU(W_i)|^2 of the minimisers under negatives="data": 1 up to the threshold."""
    require_temperature(tau)
    return min(1.0, repeats_threshold(d, keep) / tau)


# ----------------------------------------------------------------------------------------- search


def permutation_gap(W: Float[Tensor, "*b d d"]) -> Float[Tensor, "*b"]:
    """How far W is from the nearest permutation matrix, by its largest entry of each column.

    The largest absolute difference; 1 if two columns choose the same row.
    """
    top = W.argmax(-2)
    nearest = torch.zeros_like(W).scatter_(-2, top[..., None, :], 1.0)
    gap = (W - nearest).abs().amax((-2, -1))
    return torch.where((nearest.sum(-1) == 1).all(-1), gap, torch.ones_like(gap))


def descend(
    loss: Callable[[Tensor], Tensor], W: Float[Tensor, "r m p"], steps: int, rate: float = 1.0
) -> Float[Tensor, "r m p"]:
    """Projected gradient descent over U, every run with its own step size.

    `loss` maps [r, m, p] to [r]. A step that does not lower a run's loss is undone and its rate
    halved, otherwise the rate grows by a fifth; so a run's loss never rises.
    """
    W = unit_columns(W)
    rates = torch.full((len(W), 1, 1), rate, dtype=W.dtype)

    @torch.enable_grad()
    def value_and_slope(W: Tensor) -> tuple[Tensor, Tensor]:
        free = W.detach().requires_grad_()
        value = loss(free)
        (slope,) = torch.autograd.grad(value.sum(), free)
        return value.detach(), slope

    value, slope = value_and_slope(W)
    for _ in range(steps):
        along = slope - (slope * W).sum(-2, keepdim=True) * W
        tried = optim.unit_columns(W - rates * along)
        new_value, new_slope = value_and_slope(tried)
        better = (new_value <= value)[:, None, None]
        W, slope = torch.where(better, tried, W), torch.where(better, new_slope, slope)
        value = torch.minimum(new_value, value)
        rates = torch.where(better, 1.2 * rates, 0.5 * rates)
    return W
