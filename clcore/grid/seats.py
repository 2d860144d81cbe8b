"""Seats of a machine: a task takes one, a core or a GPU, so that launchers of one machine together
never run more tasks than it has."""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

from clcore import _paths


def folder() -> Path:
    """Where the seats are: $CLCORE_SEATS if set, else a folder of this user on this machine."""
    default = Path(tempfile.gettempdir()) / f"clcore-seats-{os.getuid()}"
    place = _paths.folder("CLCORE_SEATS", str(default))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def _take(kind: str, number: int) -> IO[str] | None:
    """The seat, held until it is closed; None where another holds it."""
    handle = (folder() / f"{kind}-{number}").open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle


def free(kind: str, count: int) -> int:
    """How many of `count` seats of a kind ("cpu", "cuda") nobody holds."""
    found = [handle for number in range(count) if (handle := _take(kind, number))]
    for handle in found:
        handle.close()
    return len(found)


@contextlib.contextmanager
def taken(kind: str, count: int) -> Generator[int, None, None]:
    """Wait for one of `count` seats of a kind ("cpu", "cuda") and hold it: its number.

    The system gives the seat back when the process ends, however it ends.
    """
    pause = 0.01
    while True:
        for number in range(count):
            if handle := _take(kind, number):
                with handle:
                    yield number
                return
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
