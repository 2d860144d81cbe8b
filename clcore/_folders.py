"""Which folders are ours: those that hold our mark. We delete and write over nothing else.

The mark is a file, put into every folder that we make before anything else is. A folder in its
place that is not empty and has none is somebody's, and refused in words.
"""

import contextlib
import errno
import re
import shutil
from pathlib import Path

from clcore import _paths

MARK = ".clcore"
_SAYS = "Made by clcore, which deletes and makes again what is in this folder. Keep nothing here.\n"
_KEYED = r".+-(smoke|book|paper)-[0-9a-f]{20}"
ROOMS = {
    "cache": rf"{_KEYED}|\.(new|old)-\w{{8}}",
    "checkpoints": _KEYED,
    "decoded": r"\.?.+-[0-9a-f]{16}(\.\w{8})?",
    "executed": r"\.?[\w-]+\.(ipynb|md)(\.\w{8})?",
    "course": r"student|instructor|otter|slides|plans\.md|notation\.pdf",
}
"""Folders of a build in which things are deleted by name, and the names (a regular expression) of
what lies there: by them a room is known that has lost its mark, or is older than the marks."""
_FILES = ("ledger.json", "lock", "seal.json", "site.log", "book.pdf")
LEFT = re.compile(rf"\.({'|'.join(map(re.escape, _FILES))})\.\w{{8}}")
"""Files of a build that were half written when it was killed."""


class NotOurs(ValueError):
    """The folder was not made by us, so nothing is deleted or written there."""


def own(folder: Path, names: str = MARK) -> Path:
    """Make a folder, or take one that is ours, that is empty, or that holds nothing but folders of
    ours and entries called `names` (a regular expression); it then has the mark.

    Raises NotOurs for any other folder, and for a file in its place.
    """
    if folder.exists() and not folder.is_dir():
        raise NotOurs(f"expected a folder at {folder}, there is a file; move it away")
    folder.mkdir(parents=True, exist_ok=True)
    strange = _strange(folder, names)
    if strange and not marked(folder):  # looked for last: another may have begun it meanwhile
        raise NotOurs(
            f"expected a folder that clcore made, or an empty one, at {folder}: it holds "
            f"{_told(strange)}, and no {MARK}, the mark of ours. Nothing was touched; name another "
            f"folder, or, if all that is in this one may be deleted, `touch {folder / MARK}`"
        )
    return mark(folder)


def begin(folder: Path) -> Path:
    """Make a folder with the mark. An existing one is used unchanged: only entries with their own
    mark are deleted in it."""
    if not folder.is_dir() or not any(folder.iterdir()):
        folder.mkdir(parents=True, exist_ok=True)
        mark(folder)
    return folder


def build() -> Path:
    """The build folder, made or known as ours. Raises NotOurs for a folder of somebody's."""
    return build_of(_paths.build_dir())


def build_of(folder: Path) -> Path:
    """A folder as one of a build. _build below `_paths.base()` is the project's own; elsewhere one
    that is older than the marks is known by the lock, in which every build leaves its process's
    number."""
    if folder == (_paths.base() / "_build").resolve() or _locked_before(folder / "lock"):
        return own(folder, ".*")
    return own(folder)


def room(name: str) -> Path:
    """One of `ROOMS` in the build folder, made or known as ours; an empty file in its place goes.
    Raises NotOurs."""
    folder = build() / name
    if folder.is_file() and folder.stat().st_size == 0:
        folder.unlink()
    return own(folder, ROOMS[name])


def known(name: str) -> list[Path]:
    """What lies in one of `ROOMS` under a name that only we give."""
    return [path for path in room(name).iterdir() if re.fullmatch(ROOMS[name], path.name)]


def marked(folder: Path) -> bool:
    """Whether a folder holds the mark."""
    return (folder / MARK).exists()


def mark(folder: Path) -> Path:
    """Put the mark into a folder; nothing happens where it is, or on a disk that is only read."""
    try:
        with (folder / MARK).open("x", encoding="utf-8") as file:
            file.write(_SAYS)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    return folder


def remove(folder: Path) -> bool:
    """Delete a folder with the mark, or an empty one; any other stays. Whether it is gone.

    The mark goes last: whoever is killed over it, or cannot delete all, leaves a folder of ours.
    """
    if folder.is_dir() and not folder.is_symlink():
        if marked(folder):
            for entry in folder.iterdir():
                if entry.name != MARK:
                    _delete(entry)
            if [entry.name for entry in folder.iterdir()] == [MARK]:
                _delete(folder / MARK)
        with contextlib.suppress(OSError):
            folder.rmdir()
    return not folder.exists()


def readable(folder: Path) -> None:
    """Let everybody read a folder and all in it, as a web server must: whatever the umask was."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def clean(folder: Path | None = None) -> list[Path]:
    """Delete what is ours in the build folder, and in builds below it; what it left, which is not.

    Raises NotOurs where the folder is not.
    """
    folder = folder or _paths.build_dir()
    if not folder.exists():
        return []
    build_of(folder)
    left = []
    for entry in sorted(folder.iterdir()):
        if entry.name == MARK:
            continue
        if entry.is_file() and (entry.name in _FILES or LEFT.fullmatch(entry.name)):
            entry.unlink()
        elif entry.is_dir() and not entry.is_symlink() and _locked_before(entry / "lock"):
            left += clean(entry)
        else:
            if entry.is_dir() and not _strange(entry, ROOMS.get(entry.name, MARK)):
                mark(entry)
            left += [] if remove(entry) else [entry]
    if not left:
        remove(folder)
    return left


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _strange(folder: Path, names: str) -> list[str]:
    """Names of what nothing of ours has put into a folder."""
    entries = sorted(folder.iterdir())
    return [e.name for e in entries if not (re.fullmatch(names, e.name) or _of_ours(e))]


def _of_ours(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and (marked(path) or not any(path.iterdir()))


def _locked_before(lock: Path) -> bool:
    return lock.is_file() and lock.stat().st_size < 20 and lock.read_bytes().isdigit()


def _told(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
