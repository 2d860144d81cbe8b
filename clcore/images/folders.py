"""Image folders, `<split>/<class>/<image>`: which files are images, and of which class.

An image is read, or the folder rejected. Files of systems and editors are skipped; other files are
skipped with a warning.
"""

import logging
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from clcore.images.datasets import DataError
from clcore.images.picture import SUFFIXES

log = logging.getLogger(__name__)

MOST = 10
"""Problems, or names, that one message lists."""
# Of Windows, macOS, Synology and Linux, in small letters; names with a dot in front come on top.
_SYSTEM = {
    *("thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information"),
    *("__macosx", "icon\r", "@eadir", "lost+found"),
}


def shown(path: str | Path) -> str:
    """A path as text that can be printed, also where its bytes are no UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def few(names: Iterable[str]) -> str:
    """Names in a row, the first of them where there are many."""
    names = list(names)
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more


def refuse(problems: list[str]) -> None:
    """Raise a DataError of one line per problem, the first ones of many; none for no problem."""
    if problems:
        more = ["... and more"] if len(problems) > MOST else []
        raise DataError("\n".join(problems[:MOST] + more))


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in _SYSTEM


def _composed(name: str) -> str:
    """One spelling of a name: macOS writes an accent as a separate character."""
    return unicodedata.normalize("NFC", name)


def in_class(name: str, split: str) -> bool:
    """Whether the name of an archive's member is that of an image, `<split>/<class>/<file>`."""
    parts = PurePosixPath(name).parts
    return (
        len(parts) == 3
        and parts[0] == split
        and not any(map(_hidden, parts[1:]))
        and parts[2].lower().endswith(SUFFIXES)
    )


def class_of(name: str) -> str:
    """The class of the image `<split>/<class>/<file>`, in normal form C."""
    return _composed(PurePosixPath(name).parts[-2])


def class_names(names: Iterable[str]) -> list[str]:
    """The classes of names `<split>/<class>/<file>`, sorted."""
    return sorted({class_of(name) for name in names})


def listing(folder: Path, split: str) -> list[str]:
    """Names `<split>/<class>/<file>` of the images of a folder, by class and file.

    A warning lists files that were skipped because their endings are of no image. Errors:
    DataError, one line per problem, for a split that is no folder there, a class without images, an
    image outside of the classes, a folder inside one, a link to nothing, and two classes whose
    names differ in their Unicode form only.
    """
    top = folder / split
    if Path(split).name != split or split in ("", ".."):
        raise DataError(f"split: expected the name of a folder in {shown(folder)}, got {split!r}")
    wanted = f"{shown(folder)}: expected images as {split}/<class>/<name>.jpg or .png, found none; "
    if not top.is_dir():
        there = [shown(p.name) for p in _visible(folder)] if folder.is_dir() else []
        raise DataError(
            f"{wanted}there is {few(there) or 'nothing'}. Put them there, or name the folder and "
            f"the split that hold them (classes right in it: folder({shown(folder.parent)!r}, "
            f"{shown(folder.name)!r}))"
        )
    names: list[str] = []
    problems: list[str] = []
    left_out: Counter[str] = Counter()
    spellings: dict[str, list[str]] = {}
    for place in _visible(top):
        if place.is_dir():
            spellings.setdefault(_composed(place.name), []).append(place.name)
            images, wrong, others = _of_class(place, split)
            names += images
            problems += wrong
            left_out += others
        elif not place.exists():
            problems.append(f"{shown(place)} is a link to nothing; remove or mend it")
        elif place.suffix.lower() in SUFFIXES:
            problems.append(
                f"{shown(place)} has no class: expected images as {split}/<class>/<name>; put it "
                "into the folder of its class, or elsewhere"
            )
        else:
            left_out[place.suffix.lower()] += 1
    for twins in spellings.values():
        if len(twins) > 1:
            problems.append(
                f"{shown(top)}: {' and '.join(map(ascii, twins))} are one class, written in two "
                "Unicode forms (accents composed and decomposed, NFC and NFD); put their images "
                "into one folder"
            )
    refuse(problems)
    if not names:
        raise DataError(f"{wanted}{shown(top)} has no folders of classes. Put them there")
    if left_out:
        log.warning("%s: left out, as no images by their endings: %s", shown(top), _kinds(left_out))
    return sorted(names, key=lambda name: (class_of(name), _composed(name), name))


def _visible(folder: Path) -> list[Path]:
    """What people put into a folder, sorted."""
    return sorted(p for p in folder.iterdir() if not _hidden(p.name))


def _of_class(place: Path, split: str) -> tuple[list[str], list[str], Counter[str]]:
    """Of one class: the names of its images, what is wrong, and the endings of other files."""
    try:
        place.name.encode()
    except UnicodeEncodeError:
        return [], [f"{shown(place)}: expected a name in UTF-8; rename the folder"], Counter()
    names, problems, inner = [], [], []
    others: Counter[str] = Counter()
    for path in _visible(place):
        if path.suffix.lower() not in SUFFIXES:
            if path.is_dir():
                inner.append(shown(path.name))
            else:
                others[path.suffix.lower()] += 1
        elif path.is_file():
            names.append(f"{split}/{place.name}/{path.name}")
        else:  # a pipe or a device might never end
            problems.append(
                f"{shown(path)} is no file (a folder, a pipe, a device, or a link to nothing); "
                "remove it or put the image there again"
            )
    if inner:
        problems.append(
            f"{shown(place)} has folders inside ({few(inner)}): expected images as "
            f"{split}/<class>/<name>; move the images up into the folder of their class, or the "
            "folders elsewhere"
        )
    elif not names and not problems:
        problems.append(
            f"{shown(place)} has no images: expected files of {', '.join(SUFFIXES)}, got "
            f"{_kinds(others) or 'none'}; convert them, or remove the folder"
        )
    return names, problems, others


def _kinds(endings: Counter[str]) -> str:
    """Endings of files, with how many there are of each."""
    return few(f"{count} {end or 'without ending'}" for end, count in endings.most_common())
