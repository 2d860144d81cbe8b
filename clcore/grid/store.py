"""The folder of a grid: one file per run, written whole or not at all; one launcher at a time."""

import contextlib
import errno
import hashlib
import io
import json
import logging
import os
import platform
import uuid
import zipfile
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from clcore import _locks
from clcore._files import explain_full, write_atomic, write_json
from clcore.grid.waiting import patiently

log = logging.getLogger(__name__)


class GridBusy(RuntimeError):
    """Another launcher computes in this folder.

    Examples:
        >>> try:
        ...     raise GridBusy("process 41 computes here")
        ... except GridBusy as busy:
        ...     print(busy)
        process 41 computes here
    """


class _Damaged(ValueError):
    """A file that is no result, or not the one of its name."""


@dataclass
class Stored:
    """The result of one run.

    table: a row a recorded step, without the settings; columns: names of the whole table in order,
    settings among them; tensors: "params" and "setup", where they were asked for; diverged: the
    step at which it was frozen, or None; seconds: of its stack, divided by the runs of it.
    """

    table: pd.DataFrame
    columns: list[str]
    diverged: int | None = None
    seconds: float = 0.0
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)


class Store:
    """Results under their addresses.

    Examples:
        >>> import tempfile
        >>> store = Store(Path(tempfile.mkdtemp()))
        >>> store.write({"a1": Stored(pd.DataFrame({"loss": [0.5]}), ["loss"])})
        >>> store.read("a1").table.loss.tolist(), store.read("b2")
        ([0.5], None)
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).resolve()

    def file(self, key: str) -> Path:
        """Where the result of an address is or belongs."""
        return self.folder / f"{key}.npz"

    def has(self, key: str) -> bool:
        """Whether there is a file; `read` determines whether it is whole."""
        return self.file(key).exists()

    def write(self, found: dict[str, Stored]) -> None:
        """Keep the results of a stack, all or none but for an instant. Raises DiskFull."""
        ready = {self.file(key): _packed(key, one) for key, one in found.items()}
        beside = {path.with_suffix(".part"): path for path in ready}
        try:
            for part, path in beside.items():
                write_atomic(part, ready[path])
            for part, path in beside.items():
                part.replace(path)
        finally:
            for part in beside:
                part.unlink(missing_ok=True)

    def read(self, key: str, tell: bool = True) -> Stored | None:
        """The result of an address; None, with a warning that names the file if `tell`, if what is
        there is cut short, damaged or of another address, and None if nothing is there."""
        path = self.file(key)
        try:
            return _unpacked(path, key)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a damaged file raises, the answer is the same
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            if tell:
                log.warning("%s is damaged (%.120s); its run is computed again", path, reason)
            return None

    def late(self, keys: Iterable[str]) -> dict[str, Stored | None]:
        """The results of addresses whose runs are done: a shared disk may show them late. None for
        those that a minute did not show."""
        found: dict[str, Stored | None] = {}
        asked = [*keys]

        def all_of_them() -> bool | None:
            for key in asked:
                if key not in found:
                    with contextlib.suppress(Exception):  # whatever half a file raises
                        found[key] = _unpacked(self.file(key), key)
            return len(found) == len(asked) or None

        patiently(all_of_them, self.folder)
        return {key: found[key] if key in found else self.read(key) for key in asked}

    def mark(self, make: bool = False) -> str | None:
        """A token by which a worker recognises this folder, not another one of that name.

        Written once: a disk that shows old contents for a while then shows the same.
        """
        path = self.folder / "grid.json"
        try:
            return str(json.loads(path.read_bytes())["mark"])
        except (OSError, ValueError, KeyError, TypeError):
            if not make:
                return None
        made = uuid.uuid4().hex
        write_json(path, {"mark": made})
        return self.mark() or made

    @contextlib.contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Two launchers would compute the same: the second raises GridBusy.

        On a disk without file locks it warns. Errors: PermissionError for a folder
        that cannot be written.
        """
        path = self.folder / "lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = _locks.opened(path)
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise PermissionError(
                    f"expected results in {self.folder} or a folder to write them to, got neither "
                    f"({error.strerror}); take another folder, or the same requests"
                ) from error
            raise explain_full(error, path) from error
        with handle:
            try:
                free = _locks.take(handle)
            except _locks.NoLocks as error:
                log.warning("%s; start one launcher at a time in %s", error, self.folder)
                free = True
            if not free:
                raise GridBusy(
                    f"another launcher works in {self.folder} ({handle.read().strip()}); wait for "
                    "it, or stop it and run the same command again: its finished runs are kept"
                )
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {platform.node()}")
            handle.flush()
            yield


def _packed(key: str, found: Stored) -> bytes:
    """A result as an npz file, with a digest of all of it. (The checksums of the zip format cover a
    member's content, not its name.)"""
    arrays: dict[str, Any] = {}
    texts: dict[str, list] = {}
    for name in found.table:
        column = found.table[name]
        if getattr(column.dtype, "kind", "O") in "biuf":
            arrays[f"column {name}"] = column.to_numpy()
        else:
            texts[name] = column.tolist()
    for part, tensors in found.tensors.items():
        for name, tensor in tensors.items():
            arrays[f"{part} {name}"] = tensor.detach().cpu().numpy()
    order = {"columns": found.columns, "own": list(found.table)}
    head = {"key": key, "diverged": found.diverged, "seconds": found.seconds, "texts": texts}
    arrays["head"] = np.frombuffer(json.dumps(head | order).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, digest=_digest(arrays), **arrays)  # plain arrays: no pickles to forbid
    return buffer.getvalue()


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    total = hashlib.sha256()
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name])
        total.update(f"{name}|{a.dtype}|{a.shape}|".encode())
        total.update(a.tobytes())
    return np.frombuffer(total.digest(), np.uint8)


def _unpacked(path: Path, key: str) -> Stored:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except zipfile.BadZipFile as error:
        raise _Damaged(f"cut short or no result: {error}") from None
    if not np.array_equal(arrays.pop("digest"), _digest(arrays)):
        raise _Damaged("its content does not fit its digest")
    head: dict[str, Any] = json.loads(arrays.pop("head").tobytes())
    if head["key"] != key:
        raise _Damaged(f"it is the result of {head['key']}")
    texts = head["texts"]
    own = {n: texts[n] if n in texts else arrays.pop(f"column {n}") for n in head["own"]}
    tensors: dict[str, dict[str, Tensor]] = {}
    for place, array in arrays.items():
        part, _, name = place.partition(" ")
        tensors.setdefault(part, {})[name] = torch.from_numpy(array)
    table = pd.DataFrame(own)
    return Stored(table, head["columns"], head["diverged"], head["seconds"], tensors)
