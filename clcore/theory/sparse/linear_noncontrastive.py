"""Dual linear networks without negatives: exact dynamics, closed forms, what they can reach.

L(W^o, W^t) = 2 - 2 E <W^o D_1 x, W^t D_2 x> with x = M z + noise and independent masks (ncl Eq. 12,
Theorem 2, App. C.1). Expectations are exact: the masks enter by `keep`, ncl's alpha, the data by
E[x x^T], `second_moment`. Weights are m x p, one row per neuron; schedules run over steps 0..T-1
and trajectories over 0..T. Leading dimensions are runs.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.theory.sparse.sparse_coding import summary

Loss = Callable[[Tensor, Tensor], Tensor]

__all__ = [
    "Coefficients",
    "Pair",
    "alternate",
    "best_combination",
    "best_per_neuron",
    "coefficients",
    "coupling",
    "gradient",
    "latent_moment",
    "loss",
    "on_dictionary",
    "reach",
    "second_moment",
    "trajectory",
]


class Pair(NamedTuple):
    """Weights of the online and of the target network, alike in shape."""

    online: Float[Tensor, "*b m p"]
    target: Float[Tensor, "*b m p"]


class Coefficients(NamedTuple):
    """C_1,t and C_2,t of ncl Theorem 2 at t = 0..T: at the start 1 and 0."""

    own: Float[Tensor, "*b T"]
    shared: Float[Tensor, "*b T"]


def _probability(name: str, value: float | Tensor, top: float = 1.0) -> None:
    v = torch.as_tensor(value)
    if bool(((v <= 0) | (v > top)).any()):
        raise ValueError(f"{name}: expected 0 < {name} <= {top:g}, got {value}")


def _schedule(rates: Tensor, decays: Tensor) -> None:
    if rates.shape[-1:] != decays.shape[-1:]:
        raise ValueError(
            "rates, decays: expected one of each a step, got "
            f"{rates.shape[-1]} rates and {decays.shape[-1]} decays"
        )
    if bool((rates <= 0).any()):
        raise ValueError(f"rates: expected positive learning rates, got {float(rates.min()):g}")
    if bool(((decays <= 0) | (decays > 1)).any()):
        raise ValueError(
            "decays: expected factors 0 < lambda <= 1 that multiply the weights (1: no decay), got "
            f"values from {float(decays.min()):g} to {float(decays.max()):g}"
        )


# ---------------------------------------------------------------------------------- data and loss


def latent_moment(
    d: int, beta: float, kind: str = "signed", dtype: torch.dtype = torch.float64
) -> Float[Tensor, "d d"]:
    """E[z z^T] of i.i.d. entries with Pr(z_i != 0) = beta, ncl's 2 p_z.

    kind: "signed" (-1 and 1 equally likely): beta I. "nonzero": the same, given that z is not
    zero: beta / (1 - (1 - beta)^d) I. "binary" (0 or 1): beta (1 - beta) I + beta^2 1 1^T.
    """
    _probability("beta", beta)
    eye = torch.eye(d, dtype=dtype)
    if kind == "signed":
        return beta * eye
    if kind == "nonzero":
        return beta / (1 - (1 - beta) ** d) * eye
    if kind == "binary":
        return beta * (1 - beta) * eye + beta**2
    raise ValueError(f"kind: expected signed, nonzero or binary, got {kind!r}")


def second_moment(
    M: Float[Tensor, "*b p d"], latent: Float[Tensor, "d d"], noise: float | Float[Tensor, "*#b"]
) -> Float[Tensor, "*b p p"]:
    """E[x x^T] = M E[z z^T] M^T + noise^2 I of x = M z + noise * standard normal (ncl Eq. 1).

    Errors: fewer inputs than latents; a dictionary whose columns are not orthonormal.
    """
    p, d = M.shape[-2:]
    if p < d:
        raise ValueError(f"M: expected p >= d, orthonormal columns need it, got p={p}, d={d}")
    gap = float((M.mT @ M - torch.eye(d, dtype=M.dtype, device=M.device)).abs().max())
    if gap > 1e-5:
        raise ValueError(
            f"M: expected orthonormal columns, M^T M is off by {gap:.2g}; see "
            "sparse_coding.dictionary"
        )
    if latent.shape != (d, d):
        raise ValueError(f"latent: expected shape ({d}, {d}) for d={d}, got {tuple(latent.shape)}")
    level = torch.as_tensor(noise, dtype=M.dtype, device=M.device)[..., None, None] ** 2
    return M @ latent @ M.mT + level * torch.eye(p, dtype=M.dtype, device=M.device)


def loss(
    weights: Pair, moment: Float[Tensor, "*#b p p"], keep: float | Float[Tensor, "*#b"]
) -> Float[Tensor, "*b"]:
    """2 - 2 keep^2 tr(W^o E[x x^T] W^t^T): ncl Eq. 12 with its expectation taken."""
    _probability("keep", keep)
    overlap = (weights.online @ moment * weights.target).sum((-1, -2))
    return 2 - 2 * torch.as_tensor(keep, dtype=moment.dtype) ** 2 * overlap


def gradient(
    other: Float[Tensor, "*b m p"],
    moment: Float[Tensor, "*#b p p"],
    keep: float | Float[Tensor, "*#b"],
) -> Float[Tensor, "*b m p"]:
    """The gradient of `loss` for one network: -2 keep^2 W E[x x^T] of the OTHER (ncl App. C.1)."""
    _probability("keep", keep)
    if other.shape[-1] != moment.shape[-1]:
        raise ValueError(
            f"weights: expected {moment.shape[-1]} columns, as many as x has entries, got "
            f"{other.shape[-1]}"
        )
    scale = torch.as_tensor(keep, dtype=moment.dtype, device=moment.device)[..., None, None]
    return -2 * scale**2 * (other @ moment)


# ------------------------------------------------------------------------------------- dynamics


def trajectory(
    start: Pair,
    moment: Float[Tensor, "*#b p p"],
    keep: float | Float[Tensor, "*#b"],
    rates: Float[Tensor, "*#b T"],
    decays: Float[Tensor, "*#b T"],
    alternating: bool = False,
) -> Pair:
    """Gradient descent with weight decay on the exact loss: both networks at t = 0..T, time first.

    Both gradients are taken at step t, as in ncl Theorem 2; with `alternating` the target's is
    taken after the online network has moved, as training does. Errors: rates that are not
    positive, decays outside (0, 1], lengths or shapes that do not fit.
    """
    _schedule(rates, decays)
    if start.online.shape != start.target.shape:
        raise ValueError(
            "start: expected networks of one shape, got "
            f"{tuple(start.online.shape)} and {tuple(start.target.shape)}"
        )
    online, target = start
    path = [start]
    for t in range(rates.shape[-1]):
        rate, decay = rates[..., t, None, None], decays[..., t, None, None]
        moved = decay * online - rate * gradient(target, moment, keep)
        seen = moved if alternating else online
        target = decay * target - rate * gradient(seen, moment, keep)
        online = moved
        path.append(Pair(online, target))
    return Pair(torch.stack([w.online for w in path]), torch.stack([w.target for w in path]))


@torch.enable_grad()
def alternate(loss: Loss, start: Pair, rate: float) -> Pair:
    """One round of ncl's training (Sec. 4.1): loss(online, target) moves the online network only,
    then loss(target, online) the target only. `loss` has a scalar value."""
    first, held = start.online.detach().requires_grad_(), start.target.detach()
    online = (first - rate * torch.autograd.grad(loss(first, held), first)[0]).detach()
    second = held.clone().requires_grad_()
    target = (second - rate * torch.autograd.grad(loss(second, online), second)[0]).detach()
    return Pair(online, target)


def coupling(
    rates: Float[Tensor, "*b T"],
    keep: float | Float[Tensor, "*#b"],
    beta: float | Float[Tensor, "*#b"],
    noise: float | Float[Tensor, "*#b"],
) -> Float[Tensor, "*b T"]:
    """c_t = 2 eta_t keep^2 (beta + noise^2), beta = Pr(z_i != 0) = 2 p_z (ncl App. C.1).

    With beta = 0 it is the coupling off the dictionary's span, where only noise is.
    """
    values = (torch.as_tensor(v, dtype=rates.dtype)[..., None] for v in (keep, beta, noise))
    alpha, share, level = values
    return 2 * rates * alpha**2 * (share + level**2)


def coefficients(c: Float[Tensor, "*b T"], decays: Float[Tensor, "*#b T"]) -> Coefficients:
    """Closed forms of ncl Theorem 2, with W^o M = C_1 W_0^o M + C_2 (W_0^o + W_0^t) M:

    C_1 = prod (lambda - c), C_2 = (prod (lambda + c) - prod (lambda - c)) / 2. The sum of the two
    networks is multiplied by lambda + c at every step, their difference by lambda - c.
    """
    _schedule(c, decays)
    first = torch.ones_like(c[..., :1])
    total = torch.cat([first, (decays + c).cumprod(-1)], -1)
    own = torch.cat([first, (decays - c).cumprod(-1)], -1)
    return Coefficients(own, (total - own) / 2)


# ------------------------------------------------------------------- what combinations can reach


def on_dictionary(
    W: Float[Tensor, "*b m p"], M: Float[Tensor, "*#b p d"]
) -> Float[Tensor, "*b m p"]:
    """W M M^T: the part of every row that lies in the span of an orthonormal dictionary."""
    return W @ M @ M.mT


def _scores(start: Pair, M: Tensor) -> Callable[[Tensor], Tensor]:
    """From angles [*b, k] to minimum, median and maximum max-cosine [*b, k, 3] of
    cos(a) W^o + sin(a) W^t, from inner products of the start: no combination is formed."""
    unit = M / M.norm(dim=-2, keepdim=True)
    along = [(W @ unit)[..., None, :, :] for W in start]
    squares = [(W * V).sum(-1)[..., None, :, None] for W in start for V in start]

    def scores(angles: Tensor) -> Tensor:
        a, b = angles.cos()[..., None, None], angles.sin()[..., None, None]
        size = a * a * squares[0] + 2 * a * b * squares[1] + b * b * squares[3]
        cosine = (a * along[0] + b * along[1]).abs() / size.sqrt()
        return torch.stack(list(summary(cosine.amax(-2)).values()), -1)

    return scores


def best_combination(
    start: Pair, M: Float[Tensor, "*#b p d"], grid: int = 720, rounds: int = 9
) -> dict[str, Float[Tensor, "*b"]]:
    """The largest minimum, median and maximum max-cosine of a W^o + b W^t, each at its own (a, b).

    Only the angle of (a, b) counts. A grid over the half circle, then its five best local maxima
    are each searched on intervals that shrink five times a round: to about 1e-10.
    """
    if grid < 32:
        raise ValueError(f"grid: expected at least 32 angles, got {grid}")
    if start.online.shape[-1] != M.shape[-2]:
        raise ValueError(
            f"start: expected rows of {M.shape[-2]} entries, as M has, got {start.online.shape[-1]}"
        )
    W = start.online
    angles = torch.arange(grid, dtype=W.dtype, device=W.device) * (torch.pi / grid)
    angles = angles.expand(*W.shape[:-2], grid)
    scores = _scores(start, M)
    score = torch.cat([scores(part) for part in angles.split(64, -1)], -2)
    peak = (score >= score.roll(1, -2)) & (score >= score.roll(-1, -2))
    where = torch.where(peak, score, -1.0).topk(5, -2).indices
    width, place = torch.pi / grid, where * (torch.pi / grid)
    offsets = torch.linspace(-1, 1, 11, dtype=W.dtype, device=W.device)
    for _ in range(rounds):
        fine = place[..., None] + width * offsets  # [*b, candidate, score, offset]
        found = scores(fine.flatten(-3)).unflatten(-2, fine.shape[-3:])
        each = torch.stack([found[..., k, :, k] for k in range(3)], -2)
        best = each.max(-1)
        place = torch.gather(fine, -1, best.indices[..., None])[..., 0]
        width /= 5
    top = best.values.amax(-2)
    return dict(zip(("minimum", "median", "maximum"), top.unbind(-1), strict=True))


def reach(start: Pair, M: Float[Tensor, "*#b p d"]) -> Float[Tensor, "*b m d"]:
    """The largest |cos| between column j of M and a_i W^o_i* + b_i W^t_i*, all (a_i, b_i): the
    length of M_*j's projection on the plane of neuron i's two initial rows."""
    plane = torch.linalg.qr(torch.stack([start.online, start.target], -1)).Q
    unit = M / M.norm(dim=-2, keepdim=True)
    return (plane.mT @ unit[..., None, :, :]).norm(dim=-2)


def best_per_neuron(start: Pair, M: Float[Tensor, "*#b p d"]) -> dict[str, Float[Tensor, "*b"]]:
    """A bound on every choice of coefficients (a_i, b_i) neuron by neuron: `reach`, with the best
    neuron and its best coefficients for each column of M anew."""
    return summary(reach(start, M).amax(-2))
