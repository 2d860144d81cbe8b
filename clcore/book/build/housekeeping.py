"""One build at a time in a folder, and nothing left of one that was killed."""

import contextlib
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path

from clcore import _folders, _locks, _paths
from clcore._files import explain_full
from clcore.book.build.planning import BuildError
from clcore.book.site import stage


@contextlib.contextmanager
def lock() -> Generator[None, None, None]:
    """Two builds in one folder would overwrite one another: the second is refused."""
    folder = _paths.build_dir()
    try:
        _folders.build()
        _not_a_folder(folder / "lock")
        handle = _locks.opened(folder / "lock")  # closed below, with the lock
    except OSError as error:
        raise explain_full(error, folder) from error
    with handle:
        try:
            free = _locks.take(handle)
        except OSError as error:
            raise BuildError(
                f"{error}; a build needs a lock, so that no second one overwrites it: set "
                "CLCORE_BUILD to a folder on another disk"
            ) from None
        if not free:
            raise BuildError(
                f"another build is running in {folder} (process {handle.read().strip()}); wait for "
                "it, or stop it and run the same command again"
            )
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def tidy() -> None:
    """Remove what a build that was killed has left: unfinished work, cache entries and files; what
    was half decoded a day ago; checkpoints that nothing has touched for a month, which is told.

    Raises NotOurs where a folder of somebody's stands in the place of one of ours.
    """
    base = _folders.build()
    rooms = {name: _folders.room(name) for name in ("cache", "checkpoints", "decoded")}
    for path in (*_folders.begin(base / "work").iterdir(), *rooms["cache"].glob(".*-*")):
        _folders.remove(path)
    for name in ("ledger.json", "seal.json", "site.log"):
        _not_a_folder(base / name)
    for path in base.glob(".*"):
        if _folders.LEFT.fullmatch(path.name):
            path.unlink(missing_ok=True)
    for path in _folders.known("decoded"):
        if path.name.startswith(".") and _older(path, days=1):  # younger: another process's
            shutil.rmtree(path, ignore_errors=True)
    for path in _folders.known("checkpoints"):
        if _older(path, days=30):
            shutil.rmtree(path, ignore_errors=True)
            print(f"checkpoints/{path.name}: removed, nothing has touched it for 30 days")
    stage.check(base)


def _not_a_folder(file: Path) -> None:
    """A folder in the place of a file of ours cannot be written over; it goes if it is empty."""
    if file.is_dir() and not file.is_symlink() and not _folders.remove(file):
        raise _folders.NotOurs(f"expected a file at {file}, there is a folder; move it away")


def _older(path: Path, days: float) -> bool:
    """Whether neither a folder nor anything in it was written for so long."""
    times = [one.lstat().st_mtime for one in (path, *path.rglob("*"))]
    return max(times) < time.time() - days * 86400
