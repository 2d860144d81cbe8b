"""One build at a time in a folder, and nothing left of one that was killed."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Generator

from clcore import _paths
from clcore._files import explain_full
from clcore.book.build.planning import BuildError


@contextlib.contextmanager
def lock() -> Generator[None, None, None]:
    """Two builds in one folder would overwrite one another: the second is told so."""
    folder = _paths.build_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("a+")  # closed below, with the lock
    except OSError as error:
        raise explain_full(error, folder) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            raise BuildError(
                f"another build is running in {folder} (process {handle.read().strip()}); wait for "
                "it, or stop it and run the same command again"
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def tidy() -> None:
    """Remove what a build that was killed has left: unfinished work and cache entries."""
    shutil.rmtree(_paths.build_dir() / "work", ignore_errors=True)
    for path in (_paths.build_dir() / "cache").glob(".*-*"):
        shutil.rmtree(path, ignore_errors=True)
    month = time.time() - 30 * 86400
    for path in (_paths.build_dir() / "checkpoints").glob("*"):
        if path.stat().st_mtime < month:
            shutil.rmtree(path, ignore_errors=True)
