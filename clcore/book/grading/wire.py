"""Values between two processes that do not trust each other: lines of JSON, never pickles."""

import base64
import json
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

LONGEST = 2**28
"""Bytes of the longest message: 256 MiB."""
_DEEPEST = 20


class WireError(ValueError):
    """A value that cannot be sent, or a message that is none."""


def send(to: BinaryIO, message: dict[str, Any]) -> None:
    """Write one message. Raises OSError when nobody reads any more."""
    to.write(json.dumps(message).encode() + b"\n")
    to.flush()


def receive(of: BinaryIO) -> dict[str, Any]:
    """Read one message. Raises EOFError when the other side has ended, WireError for a message that
    is too long or no JSON object."""
    line = of.readline(LONGEST)
    if not line:
        raise EOFError("the other process has ended")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError(f"expected a line of JSON below {LONGEST >> 20} MiB") from None
    if not isinstance(message, dict):
        raise WireError(f"expected an object, got {type(message).__name__}")
    return message


def pack(value: Any, functions: list[Callable] | None = None, deep: int = 0) -> Any:
    """A value as JSON: None, truth values, numbers, texts, tensors and arrays, lists and tuples of
    them, and any other number. A function becomes its place in `functions`, to be called by the
    other side. Raises WireError for anything else.
    """
    if deep > _DEEPEST:
        raise WireError(f"expected lists at most {_DEEPEST} deep")
    if value is None or isinstance(value, bool | str):
        return value
    if value is ...:
        return {"empty": True}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [pack(part, functions, deep + 1) for part in value]}
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if callable(value) and functions is not None:
        functions.append(value)
        return {"function": len(functions) - 1}
    return _numbers(value)


def _numbers(value: Any) -> dict[str, Any]:
    """Numbers of any library, as a tensor."""
    import torch  # which a build that grades nothing does without

    if not isinstance(value, torch.Tensor):
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "biufc":
                array = array.astype(float)
            value = torch.from_numpy(np.array(array))
        except (TypeError, ValueError, RuntimeError):
            raise WireError(
                f"expected numbers, text, a list or a function, got {type(value).__name__}"
            ) from None
    there = value.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    data = there.reshape(-1).view(torch.uint8).numpy().tobytes() if there.numel() else b""
    if len(data) > LONGEST // 2:
        raise WireError(f"expected at most {LONGEST >> 21} MiB, got {len(data) >> 20} MiB")
    kind = str(there.dtype).removeprefix("torch.")
    return {"tensor": base64.b64encode(data).decode(), "dtype": kind, "shape": list(there.shape)}


def unpack(given: Any, call: Callable[[int], Callable] | None = None) -> Any:
    """What `pack` made. call: the place of a function -> what stands for it. Raises WireError for
    anything that `pack` does not make."""
    try:
        return _unpack(given, call)
    except (TypeError, ValueError, RuntimeError, KeyError, AttributeError, RecursionError) as error:
        raise WireError(f"not a value: {type(error).__name__}") from None


def _unpack(given: Any, call: Callable[[int], Callable] | None) -> Any:
    match given:
        case None | bool() | str():
            return given
        case {"empty": True}:
            return ...
        case {"list": list(parts)}:
            return [_unpack(part, call) for part in parts]
        case {"tuple": list(parts)}:
            return tuple(_unpack(part, call) for part in parts)
        case {"int": str(digits)}:
            return int(digits)
        case {"float": str(hexed)}:
            return float.fromhex(hexed)
        case {"function": int(place)} if call:
            return call(place)
        case {"tensor": str(data), "dtype": str(kind), "shape": list(shape)}:
            import torch

            dtype = getattr(torch, kind)
            if not isinstance(dtype, torch.dtype):
                raise TypeError(kind)
            flat = torch.frombuffer(
                bytearray(base64.b64decode(data)) or bytearray(1), dtype=torch.uint8
            )
            flat = flat[:0] if 0 in shape else flat
            return flat.view(dtype).reshape(shape).clone()
    raise TypeError(type(given).__name__)
