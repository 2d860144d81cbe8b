"""Update rules and projections, written for one run; `clcore.sweep` maps them over runs.

The rules follow `torch.optim.SGD` (momentum without dampening, weight decay added to the
gradient), `torch.optim.Adam` and `torch.optim.AdamW` (weight decay of the weights themselves).
Hyper-parameters are float64 scalars, one per run: 1 - beta2^t formed in float32 would be wrong in
its fourth digit at the first step.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

Params = dict[str, Tensor]
Hyper = dict[str, Tensor]
Update = Callable[[Params, Params, Params, Hyper, Tensor], tuple[Params, Params]]

# What a configuration may set for each optimiser, with the value it has when it does not.
DEFAULTS: dict[str, dict[str, float | tuple[float, float]]] = {
    "sgd": {"momentum": 0.0, "weight_decay": 0.0},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
}


def slots(optimizer: str, params: Params, hyper: Hyper) -> Params:
    """The optimiser's own tensors at the start, all zero; none for SGD without momentum."""
    if optimizer in ("adam", "adamw"):
        kinds = ("mean", "square")
    else:
        kinds = ("momentum",) if bool((hyper["momentum"] != 0).any()) else ()
    return {f"{kind} {name}": torch.zeros_like(p) for name, p in params.items() for kind in kinds}


def sgd(
    params: Params, grads: Params, slots: Params, hyper: Hyper, step: Int[Tensor, ""]
) -> tuple[Params, Params]:
    """One step of SGD: buffer = momentum * buffer + (g + weight_decay * p); p -= lr * buffer."""
    new, kept = {}, {}
    rate = {dtype: hyper["lr"].to(dtype) for dtype in {p.dtype for p in params.values()}}
    for name, p in params.items():
        direction = _decayed(grads[name], p, hyper)
        if slots:
            momentum = hyper["momentum"].to(p.dtype)
            direction = slots[f"momentum {name}"] * momentum + direction
            kept[f"momentum {name}"] = direction
        new[name] = p - rate[p.dtype] * direction
    return new, kept


def adam(
    params: Params, grads: Params, slots: Params, hyper: Hyper, step: Int[Tensor, ""]
) -> tuple[Params, Params]:
    """One step of Adam; `step` counts from 0."""
    beta1, beta2 = hyper["beta1"], hyper["beta2"]
    count = (step + 1).to(torch.float64)
    size = hyper["lr"] / (1 - beta1**count)
    root = (1 - beta2**count).sqrt()
    new, kept = {}, {}
    for name, p in params.items():
        g = _decayed(grads[name], p, hyper)
        mean, square = slots[f"mean {name}"], slots[f"square {name}"]
        mean = mean + (g - mean) * (1 - beta1).to(p.dtype)
        square = square * beta2.to(p.dtype) + g * g * (1 - beta2).to(p.dtype)
        below = square.sqrt() / root.to(p.dtype) + hyper["eps"].to(p.dtype)
        new[name] = p - size.to(p.dtype) * (mean / below)
        kept[f"mean {name}"], kept[f"square {name}"] = mean, square
    return new, kept


def adamw(
    params: Params, grads: Params, slots: Params, hyper: Hyper, step: Int[Tensor, ""]
) -> tuple[Params, Params]:
    """One step of AdamW: p *= 1 - lr * weight_decay, then Adam's on the gradient alone."""
    if "weight_decay" in hyper:
        kept = 1 - hyper["lr"] * hyper["weight_decay"]
        params = {name: p * kept.to(p.dtype) for name, p in params.items()}
        hyper = {name: value for name, value in hyper.items() if name != "weight_decay"}
    return adam(params, grads, slots, hyper, step)


def _decayed(g: Tensor, p: Tensor, hyper: Hyper) -> Tensor:
    """The gradient with weight decay; no run decays when the entry is absent."""
    return g + hyper["weight_decay"].to(p.dtype) * p if "weight_decay" in hyper else g


UPDATES: dict[str, Update] = {"sgd": sgd, "adam": adam, "adamw": adamw}


def unit_norm(
    w: Float[Tensor, "..."], dim: int | tuple[int, ...] | None = None
) -> Float[Tensor, "..."]:
    """`w` scaled to l2 norm 1 over `dim` (None: all dimensions).

    A vector whose norm is zero has no direction: it is returned as it is, zero.

    Examples:
        >>> unit_norm(torch.tensor([3.0, 4.0]))
        tensor([0.6000, 0.8000])
    """
    norm = torch.linalg.vector_norm(w, dim=dim, keepdim=True)
    return w / torch.where(norm > 0, norm, 1.0)


def directions(z: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Outputs scaled to norm 1, of a size that is safe to differentiate.

    As `torch.nn.functional.normalize`, but at the floor of that one, a norm of 1e-12, where its
    slope is 1e12: an output of no greater norm has no direction, and is returned as it is.

    Examples:
        >>> directions(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / torch.where(norm > 1e-12, norm, 1.0)


def unit_rows(w: Float[Tensor, "... rows d"]) -> Float[Tensor, "... rows d"]:
    """Every row to norm 1; for weights `K M d` of receptive fields that is every filter.

    Examples:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    return unit_norm(w, dim=-1)


def unit_columns(w: Float[Tensor, "... d columns"]) -> Float[Tensor, "... d columns"]:
    """Every column to norm 1.

    Examples:
        >>> unit_columns(torch.tensor([[3.0, 0.0], [4.0, 2.0]]))
        tensor([[0.6000, 0.0000],
                [0.8000, 1.0000]])
    """
    return unit_norm(w, dim=-2)


def unit_filters(w: Float[Tensor, "... c h w"]) -> Float[Tensor, "... c h w"]:
    """Every convolution filter (over input channels, height and width) to norm 1.

    Examples:
        >>> unit_filters(torch.ones(2, 1, 2, 2))[0]
        tensor([[[0.5000, 0.5000],
                 [0.5000, 0.5000]]])
    """
    return unit_norm(w, dim=(-3, -2, -1))


def unit_frobenius(w: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The whole tensor to Frobenius norm 1.

    Examples:
        >>> unit_frobenius(torch.ones(2, 2))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    return unit_norm(w, dim=tuple(range(w.ndim)))


def hyper_parameters(
    optimizer: str, configs: Sequence[dict[str, Any]], device: torch.device
) -> Hyper:
    """Per-run float64 vectors of the optimiser's hyper-parameters, defaults filled in.

    Raises ValueError for values that `torch.optim` refuses as well.
    """
    rows: list[dict[str, Any]] = [{**DEFAULTS[optimizer], **config} for config in configs]
    values = {name: [row[name] for row in rows] for name in ("lr", *DEFAULTS[optimizer])}
    if "betas" in values:
        values["beta1"], values["beta2"] = map(list, zip(*values.pop("betas"), strict=True))
    for name, column in values.items():
        below_one = name in ("momentum", "beta1", "beta2")
        for value in column:
            if not (0 <= value < (1 if below_one else math.inf)):
                limit = "0 <= value < 1" if below_one else "a finite value >= 0"
                raise ValueError(f"{name}: expected {limit}, got {value!r}")
    if not any(values["weight_decay"]):
        del values["weight_decay"]
    return {n: torch.tensor(c, dtype=torch.float64, device=device) for n, c in values.items()}
