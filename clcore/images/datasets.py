"""The registry of real data sets: where they come from, whether they are here and whole.

Files live in $CLCORE_DATA (data/cache by default), one folder a data set; a file put there by hand
is found like a downloaded one. Nothing is unpickled, and nothing is used unverified.
"""

import functools
import gzip
import hashlib
import time
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._extras import extra
from clcore._files import explain_full, read_yaml

PATIENCE, LEAST = 20.0, 5_000
"""A mirror that sends less than LEAST bytes a second, a modem's rate, for PATIENCE seconds is left
for the next."""


class DataError(ValueError):
    """A data set that is unknown, absent or not as published."""


_TEXT = {"type": "string"}
_MD5 = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_FILE = {
    "type": "object",
    "required": ["name", "size", "md5"],
    "additionalProperties": False,
    "properties": {
        "name": _TEXT,
        "size": {"type": "integer", "minimum": 1},
        "md5": _MD5,
        "content_md5": _MD5,
    },
}
_SIZE = {"type": "integer", "minimum": 1}
_SET = {
    "type": "object",
    "required": ["title", "source", "licence", "kind", "files"],
    "additionalProperties": False,
    "properties": {
        **{name: _TEXT for name in ("title", "source", "licence", "kind", "copy_of", "label")},
        "shape": {"type": "array", "items": _SIZE, "minItems": 3, "maxItems": 3},
        "classes": {"type": "array", "items": _TEXT},
        "splits": {"type": "object", "additionalProperties": _SIZE},
        "mirrors": {"type": "array", "items": _TEXT},
        "files": {"type": "array", "items": _FILE},
    },
    # What has files has to be decoded.
    "if": {"properties": {"files": {"minItems": 1}}},
    "then": {"required": ["shape", "classes", "splits", "mirrors"]},
}
_SCHEMA = {"type": "object", "additionalProperties": _SET}


@cache
def registry() -> dict[str, dict]:
    """data/datasets.yaml, whose head describes an entry; without a clone, the copy of it that
    is installed with the package. Raises DataError where it is damaged, naming the place."""
    try:
        place = _paths.root() / "data"
    except FileNotFoundError:
        place = Path(__file__).parent
    with extra("images"):
        return read_yaml(place / "datasets.yaml", _SCHEMA, DataError)


def called(dataset: str) -> str:
    """The label of results on a data set; an unofficial copy is named as one."""
    entry = registry()[dataset]
    return entry.get("label", entry["title"].split(" (")[0])


def folder(name: str) -> Path:
    """Where the files of a data set are, or belong. Raises DataError for an unknown name."""
    if name not in registry():
        raise DataError(f"expected a data set of {', '.join(registry())}; got {name!r}")
    return _base() / name


def _base() -> Path:
    return _paths.data_dir()


def _problem(name: str, entry: dict) -> str:
    """ "" when a file is as published, else what is the matter with it and what to do."""
    path, whole = folder(name) / entry["name"], registry()[name]
    where = f"{name}: {path}"
    expected = f"md5 {entry['md5']}, {entry['size']} bytes"
    fetch = f"`python -m clcore data fetch {name}`"
    alone = f"{whole['title']} ({whole['source']}): no mirror has it"
    if path.exists() and not path.is_file():  # a pipe or a device might never end
        kind = "folder" if path.is_dir() else "pipe or device"
        return f"{where} is a {kind}, expected is a file ({expected}); move the {kind} away"
    raw = path.with_suffix("")
    if not path.exists() and "content_md5" in entry and raw.is_file():
        return f"{where} is not there, but {raw.name} is: `gzip {raw}` packs it again"
    if not path.exists() and not whole["mirrors"]:
        return f"{where} ({expected}) is not there. It is {alone}; put it there by hand"
    if not path.exists():
        return f"{where} ({expected}) is not there; {fetch}, or put it there by hand"
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() == entry["md5"]:
        return ""
    # A file that was packed again holds the same bytes under another checksum.
    if "content_md5" in entry and _content_md5(path) == entry["content_md5"]:
        return ""
    found = f"{where} is damaged or another version: its md5 is {digest.hexdigest()} "
    found += f"({path.stat().st_size} bytes), expected is {expected}"
    if not whole["mirrors"]:
        return f"{found}. The file is {alone}; put one with that md5 in its place"
    return f"{found}; delete it and run {fetch}"


def _content_md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with gzip.open(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (OSError, EOFError, zlib.error):
        return ""
    return digest.hexdigest()


def verify(name: str) -> list[str]:
    """Problems with the files of a data set: one line per file, empty when all is well."""
    folder(name)
    return [p for entry in registry()[name]["files"] if (p := _problem(name, entry))]


def present() -> list[str]:
    """Names of the data sets of which at least one file is here."""
    return [
        name
        for name, entry in registry().items()
        if any((folder(name) / file["name"]).is_file() for file in entry["files"])
    ]


def here(name: str) -> bool:
    """Whether a data set can be loaded without a download: all its files lie in their folder."""
    return all((folder(name) / file["name"]).is_file() for file in registry()[name]["files"])


def overview() -> str:
    """A table of all data sets."""
    with extra("images"):
        from tabulate import tabulate

    rows = []
    for name, entry in registry().items():
        size = sum(file["size"] for file in entry["files"])
        if not entry["files"]:
            state = "embedded"
        elif name not in present():
            state = "not here"
        else:
            state = "damaged" if verify(name) else "here"
        rows.append([name, entry["title"], f"{size / 1e6:.1f} MB", state, entry["licence"]])
    table = tabulate(rows, ["name", "what", "download", "state", "licence"])
    return f"{table}\n\nFiles belong in {_base()}/<name>/ ($CLCORE_DATA changes that)."


def where(name: str) -> str:
    """Which files a data set has, where they are or belong, and their checksums."""
    files = registry()[name]["files"] if folder(name) else []
    if not files:
        return f"{name} {registry()[name]['source']}: it has no files of its own"
    lines = []
    for file in files:
        path = folder(name) / file["name"]
        state = "here" if path.is_file() else "not here"
        lines.append(f"{path} ({state}; {file['size']} bytes, md5 {file['md5']})")
    return "\n".join(lines)


def fetch(name: str) -> Path:
    """Download what is missing or damaged from the first mirror that answers; return the folder.

    A download that broke off is carried on, by the next mirror where one is too slow. Raises
    DataError naming file, checksum, place and every mirror's answer when none has it.
    """
    with extra("images"):
        import pooch

    where, entry = folder(name), registry()[name]
    todo = [file for file in entry["files"] if _problem(name, file)]
    if todo:
        size = sum(file["size"] for file in todo) / 1e6
        print(
            f"{name}: {len(todo)} file(s), {size:.1f} MB, into {where} "
            f"(licence: {entry['licence']})"
        )
    for file in todo:
        if (where / file["name"]).exists() and not (where / file["name"]).is_file():
            raise DataError(_problem(name, file))
        answers = []
        download = functools.partial(_download, where / f"{file['name']}.part", file)
        for mirror in entry["mirrors"]:
            if answers:
                print(f"{answers[-1].strip()}\ntrying {mirror}")
            try:
                pooch.retrieve(
                    mirror + file["name"],
                    known_hash=f"md5:{file['md5']}",
                    fname=file["name"],
                    path=where,
                    # pooch's type has other names for what it passes by place.
                    downloader=download,  # ty: ignore[invalid-argument-type]
                )
                break
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error is not explain_full(error, where):
                    raise explain_full(error, where) from error
                answers.append(f"  {mirror}: {error}")
        else:
            asked = "\n".join(answers) or "  it has none: it is no published file"
            raise DataError(
                f"{name}: no mirror gave {file['name']} "
                f"(md5 {file['md5']}, {file['size']} bytes):\n{asked}"
                f"\nDownload it yourself and put it into {where}; it is verified there."
            )
    return where


def _arriving(body: Any) -> Iterator[bytes]:
    """Blocks of a download as they come. Raises OSError for a mirror that is too slow, or silent
    for longer than its socket waits."""
    import urllib3

    since, sent = time.monotonic(), 0
    try:
        while block := body.read1(1 << 16, decode_content=True):
            yield block
            sent += len(block)
            waited = time.monotonic() - since
            if waited > PATIENCE:
                if sent < LEAST * waited:
                    raise OSError(
                        f"too slow: {sent} bytes in {waited:.0f} s, expected at least {LEAST} a "
                        "second; the same command later carries on where it stopped"
                    )
                since, sent = time.monotonic(), 0
    except urllib3.exceptions.HTTPError as error:
        raise OSError(f"the connection failed ({error})") from error


def _download(part: Path, file: dict, url: str, output: str, _: object) -> None:
    """Download `url` for pooch, which verifies it; received data are kept in `part` until complete.

    A server that answers with the rest only is asked for the rest only.
    """
    with extra("images"):
        import requests
        from tqdm import tqdm

    have = part.stat().st_size if part.exists() else 0
    if have >= file["size"]:  # whole and refused, or of another file: begin again
        part.unlink()
        have = 0
    # The bytes as they are: packed once more on the way, they would have another length.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=30) as answer:
        if answer.status_code == 416:  # not the file that was begun
            part.unlink()
        answer.raise_for_status()
        resumed = answer.status_code == 206
        first = have if resumed else 0
        coming = first + int(answer.headers.get("Content-Length", file["size"] - first))
        if coming != file["size"]:
            raise OSError(f"its file has {coming} bytes, expected {file['size']}")
        bar = tqdm(
            total=file["size"],
            initial=first,
            desc=file["name"],
            unit="B",
            unit_scale=True,
        )
        with bar, part.open("ab" if resumed else "wb") as out:
            have = first
            for block in _arriving(answer.raw):
                have += len(block)
                if have > file["size"]:  # it announced less, or nothing
                    break
                out.write(block)
                bar.update(len(block))
    if have > file["size"]:
        part.unlink()
        raise OSError(f"it sent more than the expected {file['size']} bytes")
    if part.stat().st_size < file["size"]:
        raise OSError(
            f"the connection ended after {part.stat().st_size} of {file['size']} bytes; run the "
            "same command again to resume"
        )
    part.replace(output)
