"""One build at a time in a folder, and nothing left of one that was killed."""

import contextlib
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path

from clcore import _locks, _paths
from clcore._files import explain_full
from clcore.book.build.planning import BuildError


@contextlib.contextmanager
def lock() -> Generator[None, None, None]:
    """Two builds in one folder would overwrite one another: the second is told so."""
    folder = _paths.build_dir()
    _not_a_folder(folder / "lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
    was half decoded a day ago; checkpoints that nothing has touched for a month, which is told."""
    shutil.rmtree(_paths.build_dir() / "work", ignore_errors=True)
    for path in (_paths.build_dir() / "cache").glob(".*-*"):
        shutil.rmtree(path, ignore_errors=True)
    for name in ("ledger.json", "site.log"):
        _not_a_folder(_paths.build_dir() / name)
    for path in _paths.build_dir().glob(".*.json.*"):
        path.unlink(missing_ok=True)
    for path in (_paths.build_dir() / "decoded").glob(".*"):  # younger: another process's
        if _older(path, days=1):
            shutil.rmtree(path, ignore_errors=True)
    for path in (_paths.build_dir() / "checkpoints").glob("*"):
        if _older(path, days=30):
            shutil.rmtree(path, ignore_errors=True)
            print(f"checkpoints/{path.name}: removed, nothing has touched it for 30 days")


def _not_a_folder(file: Path) -> None:
    """A folder in the place of a file of ours cannot be written over."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)


def _older(path: Path, days: float) -> bool:
    """Whether neither a folder nor anything in it was written for so long."""
    times = [one.lstat().st_mtime for one in (path, *path.rglob("*"))]
    return max(times) < time.time() - days * 86400
