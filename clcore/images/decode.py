"""Image files as published, turned into uint8 arrays: IDX, CIFAR-10 and STL-10 binary, folders.

A decoder yields blocks (where in the split, pixels `b c h w`, labels `b`), so that a split of any
size needs little memory. Archives are read as streams: nothing is written to disk from them,
nothing is unpickled, and a member that is no plain file below the archive's root is refused.
"""

import gzip
import io
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from clcore.images import folders
from clcore.images.datasets import DataError
from clcore.images.picture import image

Block = tuple[slice | np.ndarray, np.ndarray, np.ndarray]

BLOCK = 1000
MEMORY = 2**28
"""Bytes of pixels at which a block of images ends, if it has fewer than BLOCK."""
UNLABELLED = -1


# --------------------------------------------------------------------------------------- archives


def members(archive: Path) -> Iterator[tuple[str, io.BufferedReader]]:
    """The plain files of a tar archive in its order: name and content.

    Errors: a member that is a link or device, or whose path is absolute or leads upwards.
    """
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                raise DataError(
                    f"{archive}: expected paths below the archive's root, got {member.name!r}; "
                    "do not unpack it, get it from its publisher"
                )
            if member.isdir():
                continue
            content = tar.extractfile(member) if member.isfile() else None
            if not isinstance(content, io.BufferedReader):
                raise DataError(
                    f"{archive}: expected plain files, got {member.name!r}, a link or device; "
                    "do not unpack it, get it from its publisher"
                )
            yield str(path), content


def _labels(values: np.ndarray, classes: int, where: str) -> np.ndarray:
    """Labels as int64. Errors: one out of range."""
    wrong = np.flatnonzero((values < 0) | (values >= classes))
    if len(wrong):
        raise DataError(
            f"{where}: expected labels from 0 to {classes - 1}, got {values[wrong[0]]} at image "
            f"{wrong[0]}; the file is damaged or of another version"
        )
    return values.astype(np.int64)


# -------------------------------------------------------------------------------------------- IDX


def idx(path: Path, dimensions: int) -> np.ndarray:
    """A gzipped IDX file of bytes (MNIST's format), read-only. Errors: another kind of file, fewer
    or more bytes than in its header."""
    with gzip.open(path) as file:
        raw = file.read()
    head = 4 + 4 * dimensions
    magic = bytes([0, 0, 8, dimensions])
    if len(raw) < head or raw[:4] != magic:
        raise DataError(
            f"{path}: expected an IDX file of bytes in {dimensions} dimensions (first bytes "
            f"{magic.hex()}), got {raw[:4].hex() or 'nothing'}; is it another file under this name?"
        )
    sizes = struct.unpack(f">{dimensions}I", raw[4:head])
    if len(raw) - head != np.prod(sizes, dtype=np.int64):
        raise DataError(
            f"{path}: its header says {' x '.join(map(str, sizes))} bytes, there are "
            f"{len(raw) - head}; fetch it again"
        )
    return np.frombuffer(raw, np.uint8, offset=head).reshape(sizes)


def _idx(folder: Path, split: str, entry: dict[str, Any]) -> Iterator[Block]:
    stem = {"train": "train", "test": "t10k"}[split]
    pixels = idx(folder / f"{stem}-images-idx3-ubyte.gz", 3)
    path = folder / f"{stem}-labels-idx1-ubyte.gz"
    labels = idx(path, 1)
    if len(pixels) != len(labels):
        raise DataError(
            f"{path}: expected a label for each of {len(pixels)} images, got {len(labels)}; the "
            "two files do not belong together"
        )
    yield slice(0, len(labels)), pixels[:, None], _labels(labels, len(entry["classes"]), str(path))


# --------------------------------------------------------------------------- CIFAR-10 and STL-10


def _records(file: io.BufferedReader, size: int, where: str) -> Iterator[np.ndarray]:
    """Blocks of records of `size` bytes. Errors: a last record that is cut."""
    while raw := file.read(size * BLOCK):
        if len(raw) % size:
            raise DataError(
                f"{where}: expected records of {size} bytes, {len(raw) % size} bytes are left "
                "over; the file is cut short or of another version (fetch it again)"
            )
        yield np.frombuffer(raw, np.uint8).reshape(-1, size)


def _cifar10(folder: Path, split: str, entry: dict[str, Any]) -> Iterator[Block]:
    """Records of a label and 3072 bytes, channel by channel, row by row."""
    archive = folder / entry["files"][0]["name"]
    stem, first, shape = {"train": "data_batch", "test": "test_batch"}[split], 0, entry["shape"]
    for name, file in members(archive):
        if not (PurePosixPath(name).name.startswith(stem) and name.endswith(".bin")):
            continue
        where = f"{archive} ({name})"
        for records in _records(file, 1 + int(np.prod(shape)), where):
            labels = _labels(records[:, 0], len(entry["classes"]), where)
            at = slice(first, first + len(records))
            first = at.stop
            yield at, records[:, 1:].reshape(-1, *shape), labels


def _stl10(folder: Path, split: str, entry: dict[str, Any]) -> Iterator[Block]:
    """Images channel by channel, column by column; labels from 1 in a separate file."""
    archive, shape = folder / entry["files"][0]["name"], entry["shape"]
    first, labels = 0, None
    for name, file in members(archive):
        where = f"{archive} ({name})"
        if PurePosixPath(name).name == f"{split}_y.bin":
            found = np.frombuffer(file.read(), np.uint8).astype(np.int64) - 1
            labels = _labels(found, len(entry["classes"]), where)
        elif PurePosixPath(name).name == f"{split}_X.bin":
            for records in _records(file, int(np.prod(shape)), where):
                pixels = records.reshape(-1, *shape).transpose(0, 1, 3, 2)
                at = slice(first, first + len(pixels))
                first = at.stop
                yield at, pixels, np.full(len(pixels), UNLABELLED)
    if split == "unlabeled":
        return
    if labels is None or len(labels) != first:
        raise DataError(
            f"{archive}: expected a label for each of {first} images of {split}, got "
            f"{'none' if labels is None else len(labels)}; fetch it again"
        )
    # The labels may come before or after the images: they are given once more, without pixels.
    yield slice(0, first), np.empty((0, *shape), np.uint8), labels


# ----------------------------------------------------------------------------------- image folders


def _pack(
    files: Iterable[tuple[str, str, bytes]],
    names: list[str],
    classes: list[str],
    shape: Iterable[int],
) -> Iterator[Block]:
    """Decode files (name, where, content) into the places that their names have in the sorted list.

    Errors: DataError for the files that are no images of one size, a line each.
    """
    places, number = {n: i for i, n in enumerate(names)}, {c: i for i, c in enumerate(classes)}
    at, pixels, labels, problems = [], [], [], []
    for name, where, content in files:
        try:
            found = image(content, where, shape)
        except DataError as error:
            problems.append(str(error))
            if len(problems) > folders.MOST:  # all the others may be alike
                break
            continue
        shape = found.shape
        pixels.append(found)
        at.append(places[name])
        labels.append(number[folders.class_of(name)])
        if len(at) == BLOCK or len(at) * found.nbytes >= MEMORY:
            yield np.array(at), np.stack(pixels), np.array(labels)
            at, pixels, labels = [], [], []
    folders.refuse(problems)
    if at:
        yield np.array(at), np.stack(pixels), np.array(labels)


def folder_blocks(
    folder: Path, names: list[str], classes: list[str], gray: bool
) -> Iterator[Block]:
    """The images of a folder, in the order of `names`; grey, or red, green, blue."""
    files = ((n, folders.shown(folder / n), (folder / n).read_bytes()) for n in names)
    return _pack(files, names, classes, (1,) if gray else (3,))


def _folder(folder: Path, split: str, entry: dict[str, Any]) -> Iterator[Block]:
    """An image folder in an archive."""
    archive, classes = folder / entry["files"][0]["name"], entry["classes"]
    names = sorted(name for name, _ in members(archive) if folders.in_class(name, split))
    strange = set(folders.class_names(names)) - set(classes)
    if strange:
        raise DataError(
            f"{archive}: expected the classes {', '.join(classes)}, got "
            f"{', '.join(sorted(strange))}"
        )
    files = (
        (name, f"{archive} ({name})", file.read())
        for name, file in members(archive)
        if folders.in_class(name, split)
    )
    yield from _pack(files, names, classes, entry["shape"])


DECODERS: dict[str, Callable[[Path, str, dict[str, Any]], Iterator[Block]]] = {
    "idx": _idx,
    "cifar10": _cifar10,
    "stl10": _stl10,
    "folder": _folder,
}
"""By the `kind` of a registry's entry."""


def blocks(folder: Path, split: str, entry: dict[str, Any]) -> Iterator[Block]:
    """A split of the data set `entry` of the registry, whose files lie in `folder`.

    Errors: DataError for what is cut short, damaged or of another format, naming file and remedy.
    """
    try:
        yield from DECODERS[entry["kind"]](folder, split, entry)
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        names = " or ".join(file["name"] for file in entry["files"])
        raise DataError(
            f"{folder}: {names} cannot be unpacked to its end ({error}); fetch it again"
        ) from error
