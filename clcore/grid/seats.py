"""Seats of a machine: a task takes one, a core or a GPU, so that launchers of one machine together
never run more tasks than it has."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

from clcore import _locks, _paths
from clcore._extras import extra
from clcore.grid.waiting import Teller


def cores() -> int:
    """The cores that this process may use, as container limits and affinity have it."""
    with extra("cluster"):
        import joblib

    return joblib.cpu_count()


def private(place: Path) -> Path:
    """A folder that this user alone can write to, made if it is not there.

    Raises PermissionError for one of another user, one that others can write to, and no folder.
    """
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(
            f"expected {place} to be a folder of this user that others cannot write to, got mode "
            f"{stat.filemode(found.st_mode)} of user {found.st_uid}; remove it"
        )
    return place


def folder() -> Path:
    """Where the seats are: $CLCORE_SEATS if set, else a folder of this user on this machine.

    Raises PermissionError where somebody else made the latter.
    """
    if os.environ.get("CLCORE_SEATS"):
        place = _paths.folder("CLCORE_SEATS", "")
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place
    place = Path(tempfile.gettempdir()) / f"clcore-seats-{os.getuid()}"
    try:
        return private(place)
    except PermissionError as error:
        raise PermissionError(f"{error}, or set CLCORE_SEATS to another folder") from None


def _take(kind: str, number: int) -> IO[str] | None:
    """The seat, held until it is closed; None where another holds it."""
    handle = _locks.opened(folder() / f"{kind}-{number}")
    try:
        if _locks.take(handle):
            return handle
    except OSError as error:
        handle.close()
        raise OSError(
            error.errno, f"{error}; set CLCORE_SEATS to a folder on a disk of this machine"
        ) from None
    handle.close()
    return None


def free(kind: str, count: int) -> int:
    """How many of `count` seats of a kind ("cpu", "cuda") are free."""
    found = [handle for number in range(count) if (handle := _take(kind, number))]
    for handle in found:
        handle.close()
    return len(found)


@contextlib.contextmanager
def taken(kind: str, count: int) -> Generator[int, None, None]:
    """Wait for one of `count` seats of a kind ("cpu", "cuda") and hold it: its number.

    The system gives the seat back when the process ends, however it ends.
    """
    pause, teller = 0.01, Teller()
    while True:
        for number in range(count):
            if handle := _take(kind, number):
                with handle:
                    yield number
                return
        teller.tell("process %d waits for one of %d seats in %s", os.getpid(), count, folder())
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
