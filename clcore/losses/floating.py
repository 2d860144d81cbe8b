"""What keeps the losses right at the edges of floating point."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

HALF = (torch.float16, torch.bfloat16)


def _widened(given: Any) -> Any:
    return given.float() if isinstance(given, Tensor) and given.dtype in HALF else given


def at_least_single(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with half-precision tensors as float32 and without autocast, as torch runs its own
    losses under autocast: squared norms overflow in float16, and in bfloat16 a value moves in steps
    of 1/128 of itself. It returns float32; gradients have the type of what was given.
    """

    @wraps(function)
    def single(*args: P.args, **kwargs: P.kwargs) -> R:
        every: list[Any] = [_widened(given) for given in args]
        named: dict[str, Any] = {name: _widened(given) for name, given in kwargs.items()}
        kinds = {x.device.type for x in (*every, *named.values()) if isinstance(x, Tensor)}
        # To leave autocast takes as long as several operations; no loss pays that without need.
        for kind in kinds:
            if torch.is_autocast_enabled(kind):
                with torch.autocast(kind, enabled=False):
                    return function(*every, **named)
        return function(*every, **named)

    return single


def require_floating(name: str, given: Any) -> None:
    """Raise TypeError unless this is a tensor of floating-point outputs."""
    if isinstance(given, Tensor) and given.is_floating_point():
        return
    got = given.dtype if isinstance(given, Tensor) else f"a {type(given).__name__}"
    raise TypeError(
        f"{name}: expected a tensor of floating-point outputs, got {got}; pass the net's outputs, "
        "or convert with .float()"
    )


def known(condition: Tensor) -> bool:
    """Whether a condition holds, where its value can be read; else False: inside vmap, while a
    function is traced or compiled, and on an accelerator, which would have to be waited for."""
    if condition.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    try:
        return bool(condition)
    except RuntimeError:  # vmap and tracers refuse
        return False
