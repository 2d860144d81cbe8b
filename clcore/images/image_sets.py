"""Data sets of images as memory-mapped uint8 arrays, and batches of them on the device.

A split is decoded once, into _build/decoded/, under a name that contains the checksums of its
files; the folder appears there whole or not at all. Afterwards the published files are not read
again.
"""

import errno
import hashlib
import logging
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from clcore import _folders, random
from clcore._extras import extra
from clcore._files import DiskFull, explain_full, sha256
from clcore.images import datasets, decode, folders
from clcore.images.datasets import DataError, here
from clcore.sweep.configs import out_of_memory

log = logging.getLogger(__name__)

VERSION = b"2"  # of what lies in _build/decoded: to be raised when a decoder changes
FOLDERS = b"2"  # the same, of image folders alone
RESIDENT = 4 * 2**30
DARK = 16  # greys that 12 bits of 16, or the labels of a mask, do not reach


@dataclass(frozen=True)
class ImageSet:
    """One split. pixels: `n c h w` uint8; labels: int64, -1 where there is none; label: what to
    call results on it; official: whether these are the published images.

    Examples:
        >>> images = load("digits")
        >>> len(images), images.pixels.shape, images.label
        (1438, (1438, 1, 8, 8), 'Optical recognition of handwritten digits')
    """

    name: str
    split: str
    label: str
    pixels: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    official: bool = True

    def __len__(self) -> int:
        return len(self.labels)


def load(name: str, split: str = "train") -> ImageSet:
    """A split of a data set of the registry, or several, such as "train+unlabeled", one after the
    other in memory.

    Raises DataError for an unknown name or split, and for files that are absent, damaged or not
    what they should contain, with their checksums and where to put them. An unofficial copy is
    never used in place of the original: ask for it by its own name.

    Examples:
        >>> images = load("digits", "test")
        >>> images.pixels.dtype, images.classes[:3]
        (dtype('uint8'), ('0', '1', '2'))
    """
    if "+" in split:
        return _joined([load(name, part) for part in split.split("+")], split)
    where = datasets.folder(name)
    entry = datasets.registry()[name]
    splits = entry.get("splits", {"train": 0, "test": 0})
    if split not in splits:
        raise DataError(f"{name}: expected a split of {', '.join(splits)}; got {split!r}")
    if entry["kind"] == "embedded":
        return _embedded(name, split)
    checksums = [file["md5"].encode() for file in entry["files"]]
    place = _place(name, split, checksums)
    if not place.exists():
        _require(name)
        blocks = decode.blocks(where, split, entry)
        _store(place, blocks, splits[split], entry["shape"], f"{name} ({split})")
    label = entry.get("label", entry["title"].split(" (")[0])
    official = "copy_of" not in entry
    return _opened(place, name, split, label, entry["classes"], official)


def folder(path: Path | str, split: str = "train", gray: bool = False) -> ImageSet:
    """A folder of images of one size, `<split>/<class>/<name>.jpg`, `.png` or another of
    `picture.SUFFIXES`; in colour (c = 3), or in grey (c = 1).

    The classes of every split are those of `train`, so that a label means the same in all; where
    there is no `train`, the split's own. Their names are compared and given in Unicode's normal
    form C. Photographs are rotated by their EXIF orientation, unlike in torchvision; of 16 bits
    the upper 8 are kept. Hidden files are skipped, and so are, with a warning, other files that are
    not images. Nothing vouches for the content: results carry the folder's name as their label.

    Raises DataError, one line per problem, when there are no images; for an image that is empty,
    unreadable or of another size, that has no class or a class that `train` does not have, or whose
    pixels are ambiguous (`picture.image`); for a class that is empty, has folders inside, or is
    there in two Unicode forms. Raises DiskFull when the disk cannot hold the pixels.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as top:
        ...     place = Path(top, "train", "cats")
        ...     place.mkdir(parents=True)
        ...     Image.new("RGB", (8, 8)).save(place / "0.png")
        ...     images = folder(top)
        >>> images.pixels.shape, images.classes
        ((1, 3, 8, 8), ('cats',))
    """
    path = Path(path).expanduser().resolve()
    names = folders.listing(path, split)
    own = folders.class_names(names)
    classes = own
    if split != "train" and (path / "train").is_dir():
        classes = folders.class_names(folders.listing(path, "train"))
    if strange := sorted(set(own) - set(classes)):
        raise DataError(
            f"{folders.shown(path / split)}: expected the classes of train "
            f"({folders.few(classes)}), got also {folders.few(map(repr, strange))}; rename them, "
            "or put images of them into train, too"
        )
    content = (p for n in names for p in (os.fsencode(n), sha256((path / n).read_bytes()).encode()))
    # The classes count too: they decide the labels.
    place = _place(
        path.name, split, [FOLDERS, str(gray).encode(), repr(classes).encode(), *content]
    )
    if not place.exists():
        blocks = decode.folder_blocks(path, names, classes, gray)
        first = next(blocks)  # all are of the shape of its images
        _store(place, chain([first], blocks), len(names), first[1].shape[1:], folders.shown(path))
    label = f"image folder {folders.shown(path.name)} (unofficial)"
    found = _opened(place, path.name, split, label, classes, False)
    if (brightest := found.pixels.max()) < DARK:
        log.warning(
            "%s, %s: the brightest of all pixels is %d of 255; if they are masks, or 12 bits in "
            "files of 16, scale them first",
            *(label, split, brightest),
        )
    return found


def _joined(parts: list[ImageSet], split: str) -> ImageSet:
    pixels = np.concatenate([part.pixels for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    return replace(parts[0], split=split, pixels=pixels, labels=labels)


def _require(name: str) -> None:
    problems = datasets.verify(name)
    if not problems:
        return
    copies = [
        other
        for other, entry in datasets.registry().items()
        if entry.get("copy_of") == name and here(other)
    ]
    if copies:
        problems.append(
            f"an unofficial copy is here: {', '.join(copies)}; ask for it by this name if it will "
            "do, and results will be labelled so"
        )
    raise DataError("\n".join(problems))


# ------------------------------------------------------------------------------- decoded on disk


def _place(name: str, split: str, parts: Iterable[bytes]) -> Path:
    key = sha256(VERSION, os.fsencode(split), *parts)[:16]
    # A folder's name may be as long as a file system lets it be.
    return _folders.room("decoded") / f"{name[:30]}-{split[:30]}-{key}"


def _store(
    place: Path, blocks: Iterator[decode.Block], count: int, shape: Iterable[int], what: str
) -> None:
    """Write pixels.npy and labels.npy into a folder that then takes its name in one step."""
    shape = tuple(shape)
    place.parent.mkdir(parents=True, exist_ok=True)
    size, free = count * math.prod(shape), shutil.disk_usage(place.parent).free
    if size > free:  # a map of a file that the disk does not hold ends the process
        raise DiskFull(
            errno.ENOSPC,
            f"{what}: its pixels take {size / 1e9:.1f} GB, and {place.parent} has {free / 1e9:.1f} "
            "free; scale the images down, free some space, or set CLCORE_BUILD to another disk",
        )
    temporary = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        pixels = np.lib.format.open_memmap(
            temporary / "pixels.npy", "w+", np.uint8, (count, *shape)
        )
        labels = np.full(count, decode.UNLABELLED, np.int64)
        seen = 0
        for at, some, of_them in blocks:
            seen += len(some)
            if seen > count:
                break
            if some.shape[1:] != shape:
                raise DataError(
                    f"{what}: expected images of {' x '.join(map(str, shape))} bytes, got "
                    f"{' x '.join(map(str, some.shape[1:]))}; the files are of another version"
                )
            if len(some):
                pixels[at] = some
            labels[at] = of_them
        if seen != count:
            more = "at least " if seen > count else ""
            raise DataError(
                f"{what}: expected {count} images, got {more}{seen}; the files are of another "
                "version or damaged"
            )
        pixels.flush()
        np.save(temporary / "labels.npy", labels)
        (temporary / "sha256").write_text(_checksums(temporary), encoding="utf-8")
        try:
            temporary.replace(place)
        except OSError:
            if not place.exists():  # else another process was first: its folder is as good
                raise
    except OSError as error:
        raise explain_full(error, place) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _checksums(place: Path) -> str:
    """A line a file, as `sha256sum` writes and checks them."""
    lines = []
    for name in ("pixels.npy", "labels.npy"):
        with (place / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def _opened(
    place: Path, name: str, split: str, label: str, classes: Iterable[str], official: bool
) -> ImageSet:
    try:
        pixels = np.load(place / "pixels.npy", mmap_mode="r", allow_pickle=False)
        labels = np.load(place / "labels.npy", allow_pickle=False)
        if _checksums(place) != (place / "sha256").read_text(encoding="utf-8"):
            raise ValueError("its checksums do not match the decoded images")
    except (OSError, ValueError) as error:
        raise DataError(
            f"{place} is damaged ({error}); delete it, and it will be made again"
        ) from error
    return ImageSet(name, split, label, pixels, labels, tuple(classes), official)


def _embedded(name: str, split: str) -> ImageSet:
    """Every fifth image is for testing."""
    if name == "digits":
        from clcore.images import digits as images

        found, labels = images.digits()
        pixels = (found * 255).round().to(torch.uint8)[:, None].numpy()
        labels, classes = labels.numpy(), tuple("0123456789")
    else:
        with extra("images"):
            from sklearn.datasets import load_sample_images

        tiles = [
            photo[: 13 * 32].reshape(13, 32, 20, 32, 3).transpose(0, 2, 4, 1, 3)
            for photo in load_sample_images().images
        ]
        pixels = np.concatenate([t.reshape(-1, 3, 32, 32) for t in tiles])
        labels, classes = np.repeat([0, 1], 260), ("temple", "flower")
    test = np.arange(len(labels)) % 5 == 4
    kept = test if split == "test" else ~test
    label = datasets.registry()[name]["title"].split(" (")[0]
    return ImageSet(name, split, label, pixels[kept], labels[kept].astype(np.int64), classes)


# ---------------------------------------------------------------------------------------- batches


def on_device(
    images: ImageSet, device: torch.device | str = "cpu"
) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, "n"]]:
    """All pixels and labels of a split, on the device.

    Examples:
        >>> pixels, labels = on_device(load("digits"))
        >>> pixels.dtype, labels[:4]
        (torch.uint8, tensor([0, 1, 2, 3]))
    """
    pixels = torch.from_numpy(np.array(images.pixels))  # a copy: the map is read-only
    return pixels.to(device), torch.tensor(images.labels, device=device)


def batches(
    images: ImageSet,
    size: int,
    key: Int[Tensor, ""],
    device: torch.device | str = "cpu",
    start: int = 0,
    resident: int = RESIDENT,
) -> Iterator[tuple[UInt8[Tensor, "b c h w"], Int[Tensor, "b"]]]:
    """Batches without end, from batch number `start` on: a new order every pass, its incomplete
    last batch left out.

    Batch number t depends on the key and t only, so that training resumes where it stopped. A
    split of at most `resident` bytes stays on the device and is cut there; a larger one, or one
    that the device has no memory for, is cut on the host. Errors: a batch larger than the split.

    Examples:
        >>> pixels, labels = next(batches(load("digits"), 32, random.key(0)))
        >>> pixels.shape, labels.shape
        (torch.Size([32, 1, 8, 8]), torch.Size([32]))
    """
    if not 1 <= size <= len(images):
        raise ValueError(
            f"size: expected a batch of 1 to {len(images)} images ({images.label}, "
            f"{images.split}), got {size}"
        )
    return _cut(images, size, key.to(device), torch.device(device), start, resident)


def resident(
    images: ImageSet, device: torch.device, most: int = RESIDENT
) -> UInt8[Tensor, "n c h w"] | None:
    """All pixels on the device; None where they are more than `most` bytes and, with a warning,
    where its memory does not hold them."""
    if images.pixels.nbytes > most:
        return None
    try:
        return on_device(images, device)[0]
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
    size = images.pixels.nbytes / 2**30
    log.warning("%s: %.1f GiB are too much for %s; cut on the host", images.label, size, device)
    return None


def order_of(key: Int[Tensor, ""], number: int, n: int) -> Int[Tensor, "{n}"]:
    """The order of n images in a pass, of which the first is number 0."""
    return random.permutation(random.fold_in(key, number), n)


def _cut(
    images: ImageSet, size: int, key: Tensor, device: torch.device, start: int, most: int
) -> Iterator[Any]:
    pixels = resident(images, device, most)
    labels = torch.tensor(images.labels, device=device)
    each = len(images) // size
    for t in range(start, 2**62):
        if t == start or t % each == 0:
            order = order_of(key, t // each, len(images))
        at = order[t % each * size :][:size]
        if pixels is not None:
            yield pixels[at], labels[at]
            continue
        rows = torch.from_numpy(images.pixels[at.cpu().numpy()])
        if device.type == "cuda":
            rows = rows.pin_memory()
        yield rows.to(device, non_blocking=True), labels[at]
