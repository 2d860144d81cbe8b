"""Seats of a machine: a task takes one, a core or a GPU, so that launchers of one machine together
never run more tasks than it has."""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path


def _folder() -> Path:
    place = Path(tempfile.gettempdir()) / f"clcore-seats-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


@contextlib.contextmanager
def taken(kind: str, count: int) -> Generator[int, None, None]:
    """Wait for one of `count` seats of a kind ("cpu", "cuda") and hold it: its number.

    The system gives the seat back when the process ends, however it ends.
    """
    pause = 0.01
    while True:
        for number in range(count):
            handle = (_folder() / f"{kind}-{number}").open("a")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.close()
                continue
            with handle:
                yield number
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
