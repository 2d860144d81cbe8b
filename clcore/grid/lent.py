"""Larger arguments of tasks: arrays and tensors are files named by their content, and the rest, the
objects that hold them, travels with the task."""

import hashlib
import io
import logging
import pickle
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clcore._files import explain_full
from clcore.grid.waiting import patiently

log = logging.getLogger(__name__)

HERE: dict[bytes, dict[str, Any]] = {}
"""Arguments of tasks that the process which has them does itself, by `Task.shared`."""


def write(folder: Path, values: dict[str, Any]) -> bytes:
    """Keep the arrays of `values` in a folder; what `read` makes the same values of.

    Errors: ValueError for what cannot be sent to another process.
    """
    out = io.BytesIO()
    try:
        _Writer(out, folder).dump(values)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "shared: expected arrays, tensors and plain objects that hold them, which can be sent "
            f"to another process; got {error}"
        ) from None
    return out.getvalue()


@cache
def read(folder: Path, shared: bytes) -> dict[str, Any]:
    """The values of `write`, read once by a process. Arrays are mapped into memory, not copied.

    Errors: ValueError for a file whose content does not match its name. No file holds code.
    """
    return _Reader(io.BytesIO(shared), folder).load()


class _Writer(pickle.Pickler):
    def __init__(self, out: io.BytesIO, folder: Path) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.folder = folder

    def persistent_id(self, obj: Any) -> tuple[str, str] | None:
        if type(obj) is Tensor and obj.layout == torch.strided and obj.dtype != torch.bfloat16:
            return "tensor", _kept(self.folder, obj.detach().cpu().numpy())
        if type(obj) in (np.ndarray, np.memmap) and not obj.dtype.hasobject and not obj.dtype.names:
            return "array", _kept(self.folder, obj)
        return None


class _Reader(pickle.Unpickler):
    """Reads what a launcher sent, never a file."""

    def __init__(self, shared: io.BytesIO, folder: Path) -> None:
        super().__init__(shared)
        self.folder = folder

    def persistent_load(self, pid: tuple[str, str]) -> Any:
        kind, name = pid
        path = self.folder / name
        patiently(lambda: path.exists() or None, self.folder)
        array = _whole(path)
        if array is None:
            raise ValueError(
                f"{path} is damaged: its content does not match its name; the same command again "
                "writes it anew"
            )
        if kind == "array":
            return array
        return torch.from_numpy(array.copy())  # a tensor may be written to, a file may not


def _kept(folder: Path, array: np.ndarray) -> str:
    name = f"shared-{_digest(array)}.npy"
    path = folder / name
    if path.exists():
        if _whole(path) is not None:
            return name
        log.warning("%s is damaged, and written anew", path)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}.", delete=False) as out:
            np.save(out, array, allow_pickle=False)
        Path(out.name).chmod(0o644)
        Path(out.name).replace(path)
    except OSError as error:
        raise explain_full(error, path) from error
    return name


def _whole(path: Path) -> np.ndarray | None:
    """The array of a file, None if it is not the one of its name."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if path.name == f"shared-{_digest(array)}.npy" else None


def _digest(array: np.ndarray) -> str:
    total = hashlib.sha256(f"{array.dtype.str}|{array.shape}|".encode())
    if array.size:
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()[:32]
