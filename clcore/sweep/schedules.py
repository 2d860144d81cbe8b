"""Learning-rate schedules: factors of a step, for `train(..., schedule=...)`."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cosine(
    step: Int[Tensor, ""] | int, steps: int, warmup: int = 0, last: float = 0.0
) -> Float[Tensor, ""]:
    """The factor of a linear warm-up and a cosine decay, as contrastive nets are often trained.

    step: counted from 0. It is (step + 1) / warmup in the first `warmup` steps; then it falls along
    half a cosine from 1 to `last`, which it has from step `steps` on. float64.

    Errors: ValueError unless 0 <= warmup < steps.

    Examples:
        >>> [round(cosine(step, steps=6, warmup=2).item(), 2) for step in range(7)]
        [0.5, 1.0, 1.0, 0.85, 0.5, 0.15, 0.0]
        >>> found = train(
        ...     [{"seed": 0, "lr": 0.1}],
        ...     init=lambda key, config: {"w": torch.ones(1)},
        ...     data=lambda key, step, config: step,
        ...     loss=lambda params, batch, config: params["w"].sum(),
        ...     steps=6,
        ...     schedule=lambda step, config: cosine(step, steps=6, warmup=2),
        ...     progress=False,
        ... )
        >>> found.params(0)["w"]  # 1 - 0.1 (0.5 + 1 + 1 + 0.85 + 0.5 + 0.15)
        tensor([0.6000])
    """
    if not 0 <= warmup < steps:
        raise ValueError(f"expected 0 <= warmup < steps, got warmup={warmup} and steps={steps}")
    t = torch.as_tensor(step).to(torch.float64)
    rising = (t + 1) / max(warmup, 1)
    share = ((t - warmup) / (steps - warmup)).clamp(max=1)
    falling = last + (1 - last) * (1 + torch.cos(torch.pi * share)) / 2
    return torch.where(t < warmup, rising, falling)
