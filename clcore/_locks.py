"""Locks of files. A disk or system without locks raises NoLocks, not the error of a busy file."""

import errno
import os
import stat
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_WITHOUT = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


class NoLocks(OSError):
    """A disk or a system without file locks."""


def opened(path: Path, mode: int = 0o644) -> IO[str]:
    """A file to lock and to write in, made if it is not there.

    Errors: PermissionError for what is no plain file, such as a pipe, which would wait for ever.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)

    def plain(place: str, _: int) -> int:
        number = os.open(place, flags, mode)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise PermissionError(
                f"expected a plain file at {place}, got something else; remove it"
            )
        return number

    return open(path, "r+", encoding="utf-8", opener=plain)


def take(handle: IO[str]) -> bool:
    """Lock an open file until it is closed; False where another process holds it.

    Raises NoLocks if the disk has no file locks, OSError for its other errors.
    """
    if fcntl is None:
        raise NoLocks("this system has no locks of files; on Windows, use WSL")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        where, what = getattr(handle, "name", "a file"), f"{name}: {error.strerror}"
        if error.errno in _WITHOUT:
            raise NoLocks(error.errno, f"the disk has no file locks ({what}), at {where}") from None
        raise OSError(error.errno, f"locking {where} failed ({what})") from None
    return True
