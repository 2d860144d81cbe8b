"""What the drivers share: float64 in programs written for float32, and losses as they come."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor


@contextlib.contextmanager
def replaced(*changes: tuple[object, str, object]) -> Iterator[None]:
    """Attributes (owner, name, value) exchanged for a while."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Tensors are made in float64, and `.float()`, which the programs call on every batch, gives
    float64. What they ask for as a FloatTensor by name stays float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with replaced((torch.Tensor, "float", torch.Tensor.double)):
            yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def losses() -> Iterator[list[float]]:
    """The value of everything that `backward` is called on, in turn."""
    found: list[float] = []
    backward = torch.Tensor.backward

    def noted(self: Tensor, *args: object, **more: object) -> None:
        found.append(float(self.detach()))
        backward(self, *args, **more)

    with replaced((torch.Tensor, "backward", noted)):
        yield found


def watched_sgd(start: Callable[[], None]) -> type[torch.optim.SGD]:
    """SGD that calls `start` once it has its parameters, before the first step."""

    class Watched(torch.optim.SGD):
        def __init__(self, params: object, **more: object) -> None:
            super().__init__(params, **more)
            start(self.param_groups[0]["params"])

    return Watched


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as they are now, in float64; counters of BatchNorm and the like are left out."""
    return {n: t.detach().double().clone() for n, t in tensors.items() if t.is_floating_point()}
