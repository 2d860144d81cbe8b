"""Where random starts of one node end, and how often (nl Sec. 3.3, end)."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore.theory.one_layer import one_layer

__all__ = ["Ends", "climb", "ends"]


class Ends(NamedTuple):
    """Different optima w `k d` by falling count, and how many starts ended at each, `k`."""

    w: Float[Tensor, "k d"]
    count: Int[Tensor, " k"]


def climb(
    world: one_layer.World,
    w: Float[Tensor, "*b d"],
    kind: str = "relu",
    steps: int = 2000,
    first: float = 0.02,
    last: float = 1e-4,
) -> Float[Tensor, "*b d"]:
    """Ascent on the sphere that also settles at kinks, where the gradient does not vanish.

    Steps along nl Eq. 7 whose length falls from `first` to `last` radians, whatever the gradient:
    the end is within about `last` of an optimum, smooth or not. A fixed importance alpha only.
    Along a ridge of kinks the path zigzags, so that few steps leave it half-way: 400 are enough
    in the plane, four dimensions take 2000.
    """
    if not 0 < last < first:
        raise ValueError(f"steps: expected 0 < last < first, got last={last}, first={first}")
    decay = (last / first) ** (1 / max(steps - 1, 1))
    length = first
    for _ in range(steps):
        push = one_layer.flow(world, w, kind)
        w = w + length * push / push.norm(dim=-1, keepdim=True).clamp(min=1e-300)
        w = w / w.norm(dim=-1, keepdim=True)
        length *= decay
    return w


def ends(w: Float[Tensor, "s d"], angle: float = 0.01) -> Ends:
    """Groups end points that lie within `angle` radians of the first of their group."""
    if not len(w):
        return Ends(w, torch.zeros(0, dtype=torch.int64))
    left, found, counts = w, [], []
    while len(left):
        near = left @ left[0] >= math.cos(angle)
        near[0] = True
        found.append(left[0])
        counts.append(int(near.sum()))
        left = left[~near]
    order = sorted(range(len(found)), key=lambda k: -counts[k])
    return Ends(torch.stack([found[k] for k in order]), torch.tensor([counts[k] for k in order]))
