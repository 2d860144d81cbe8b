"""Checkpoints of a sweep: one file, written atomically, read only when it belongs to the sweep."""

import hashlib
import io
import json
import logging
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clcore._files import write_atomic
from clcore.sweep.configs import out_of_memory
from clcore.sweep.step import Chunk

log = logging.getLogger(__name__)


def fingerprint(settings: list) -> str:
    """A hash of everything that decides a sweep's numbers, except its code."""
    text = json.dumps(settings, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


class Unreadable(ValueError):
    """A file that is no checkpoint, or damaged."""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write nested dicts and lists of tensors, numbers and texts, whole or not at all."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomic(path, buffer.getvalue())


def read(path: Path, names: Sequence[str], device: torch.device | str = "cpu") -> dict[str, Any]:
    """The values that `write` stored under these names; nothing of a file is ever executed.

    Raises FileNotFoundError; Unreadable for anything else than such a file; and if the device
    has no memory for it, PyTorch's error.
    """
    try:
        # PyTorch writes a checksum of each tensor into the archive, and does not look at it again.
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"checksum of {damaged}")
        saved = torch.load(path, map_location=device, weights_only=True)
        return {name: saved[name] for name in names}
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged archive raises, the answer is the same
        if out_of_memory(error):
            raise
        reason = str(error).splitlines()[0] if str(error) else ""
        raise Unreadable(f"{type(error).__name__}: {reason:.80s}") from error


def save(path: Path, mark: str, chunks: dict[int, dict]) -> None:
    """Write the state of every chunk of runs that was begun (nested dicts of tensors)."""
    write(path, {"fingerprint": mark, "chunks": chunks})


def load(path: Path, mark: str, device: torch.device) -> dict[int, dict]:
    """The chunks saved under this fingerprint; empty, with one warning line, when the file
    cannot be read or was written by another sweep. Such a file is kept under another name."""
    try:
        saved = read(path, ("fingerprint", "chunks"), device)
    except FileNotFoundError:
        return {}
    except Unreadable as error:
        why = f"cannot be read ({error})"
    else:
        if saved["fingerprint"] == mark:
            return saved["chunks"]
        why = "belongs to another sweep"
    kept = path.with_name(f"{path.name}.old")
    path.replace(kept)
    log.warning("checkpoint %s %s; training starts over, the file is now %s", path, why, kept.name)
    return {}


class Stopped(Exception):
    """The time given by `stop_after` is over; with a checkpoint, repeat the call to resume from it.

    Examples:
        >>> try:
        ...     raise Stopped("after 60 seconds")
        ... except Stopped as stopped:
        ...     print(stopped)
        after 60 seconds
    """


class Keeper:
    """Keeps the checkpoint up to date and watches the time."""

    def __init__(
        self,
        path: Path | str | None,
        settings: list,
        every: float,
        stop_after: float | None,
        device: torch.device,
    ) -> None:
        self.path = None if path is None else Path(path)
        if self.path and self.path.is_dir():
            raise ValueError(
                f"checkpoint: expected the path of a file, got the folder {path}; name a file in it"
            )
        self.mark = fingerprint(settings)
        self.saved = {} if self.path is None else load(self.path, self.mark, device)
        self.parts: dict[int, Chunk] = {}
        self.every, self.stop_after = every, stop_after
        self.began = self.last = time.monotonic()

    def restore(self, number: int, part: Chunk) -> None:
        """Bring a chunk to where the checkpoint left it, and watch it from now on."""
        self.parts[number] = part
        if number in self.saved:
            part.state, part.records = self.saved[number]["state"], self.saved[number]["records"]

    def save(self) -> None:
        """Write the chunks begun so far, and those of the file that were not come to yet."""
        if self.path is None or not self.parts:
            return
        begun = {n: {"state": p.state, "records": p.records} for n, p in self.parts.items()}
        save(self.path, self.mark, self.saved | begun)
        self.last = time.monotonic()

    def tick(self) -> None:
        """After every step: save when it is time to, raise Stopped when the time is over."""
        now = time.monotonic()
        if self.stop_after is not None and now - self.began >= self.stop_after:
            raise Stopped(
                f"after {now - self.began:.1f} s; with a checkpoint, call again to resume"
            )
        if now - self.last >= self.every:
            self.save()
