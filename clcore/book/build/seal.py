"""The seal of a whole build: a digest of all that it was made from, and of all that it made.

While both are unchanged there is nothing to do, and finding that out takes reading the files, not
parsing, judging and laying out their content. If the seal is broken, the build looks closer:
each chapter has its own key, and so has the site.
"""

import contextlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import sha256, write_json
from clcore.book import keys, surroundings
from clcore.book.programs import pyodide
from clcore.book.provenance import commit, repository


def inputs(profile: str, device: str) -> str:
    """Digest of the project's files, of what is installed, and of what the build was asked for.

    Data sets are apart, but for which are here: they have checksums, and are looked at when they
    are used. device: one that is there, `parameters.check_device`.
    """
    asked = [profile, device, commit(), repository() or "", platform.python_version()]
    asked.append(str(pyodide.here()))
    installed = [f"{name} {version}" for name, version in sorted(keys.versions().items())]
    data = _paths.data_dir()
    sets = sorted(str(path.relative_to(data)) for path in data.glob("*/*") if path.is_file())
    first = surroundings.startup()
    asked.append(sha256(first.read_bytes()) if first else "")
    told = (*asked, *installed, json.dumps(sets))
    return sha256(*(text.encode() for text in told), *_contents(sources()))


def unbroken(made_from: str) -> dict[str, Any] | None:
    """What is in ledger.json when the last build was whole, made from the same, and everything is
    as it was made; else None."""
    try:
        sealed = json.loads(_file().read_bytes())
        entries = [_paths.build_dir() / "cache" / name for name in sealed["entries"]]
        if [sealed["inputs"], sealed["outputs"]] != [made_from, _outputs(entries)]:
            return None
        found = json.loads((_paths.build_dir() / "ledger.json").read_bytes())
    except (OSError, ValueError, LookupError, TypeError):
        return None
    for entry in entries:  # the oldest go first
        os.utime(entry)
    return found


def put(made_from: str, entries: Iterable[Path]) -> None:
    """Seal a build that is whole: every chapter is in the cache, at `entries`, and the site is
    made."""
    entries = sorted(entries)
    said = {"inputs": made_from, "outputs": _outputs(entries)}
    write_json(_file(), said | {"entries": [entry.name for entry in entries]})


def sources() -> Iterator[Path]:
    """The files of the project that count."""
    root, made, data = _paths.root(), _paths.build_dir(), _paths.data_dir()
    yield from (path for path in root.iterdir() if path.is_file())
    for room in _paths.ROOMS:
        for folder, inner, names in os.walk(root / room):
            at = Path(folder)
            inner[:] = [n for n in inner if n != "__pycache__" and at / n not in (made, data)]
            yield from (at / name for name in names)
    yield from surroundings.packages()


def _file() -> Path:
    return _paths.build_dir() / "seal.json"


def _outputs(entries: Iterable[Path]) -> str:
    base = _paths.build_dir()
    folders = [base / "html", *entries]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sha256(*_contents([base / "ledger.json", *files]))


def _contents(files: Iterable[Path]) -> Iterator[bytes]:
    for path in sorted(files):
        with contextlib.suppress(FileNotFoundError):  # an editor's, gone since it was listed
            yield from (str(path).encode(), path.read_bytes())
