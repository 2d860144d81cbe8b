"""Data sets of images that are cut short or damaged: what is said, and what is left."""

import functools
import gzip
import os
import tarfile

import numpy as np
import pytest
from image_files import (
    cifar,
    decoded,
    draw,
    folder_members,
    jpeg,
    mnist_files,
    packed_idx,
    tar,
)

from clcore.images import image_sets
from clcore.images.datasets import DataError


def bad_cifar(content, count=4):
    members = [("cifar-10-batches-bin/data_batch_1.bin", content)]
    return "cifar10", {"c.tar.gz": tar(members)}, [3, 32, 32], {"train": count}


def bad_folder(name, content):
    _, _, members = folder_members()
    return "folder", {"f.tar": tar([*members, (name, content)], "w")}, [3, 8, 8], {"train": 7}


def bad_stl(members):
    return "stl10", {"s.tar.gz": tar(members)}, [3, 96, 96], {"train": 2}


def bad_mnist(**files):
    return "idx", mnist_files(**files)[2], [1, 28, 28], {"train": 7}


ONE = draw(4, 3, 32, 32)
PICTURE = jpeg(draw(1, 8, 8, 3)[0][0])
STL = ("b/train_X.bin", bytes(2 * 3 * 96 * 96))
LINK = tarfile.TarInfo("train/a/link.png")
LINK.type, LINK.linkname = tarfile.SYMTYPE, "/etc/hostname"
CASES = {
    "label out of range": (
        lambda: bad_cifar(cifar(ONE[0], [1, 2, 10, 3])),
        r"c\.tar\.gz \(.*data_batch_1\.bin\): expected labels from 0 to 9, got 10 at image 2",
    ),
    "record size": (
        lambda: bad_cifar(cifar(*ONE)[:-5]),
        r"expected records of 3073 bytes, 3068 bytes are left over",
    ),
    "images missing": (lambda: bad_cifar(cifar(*ONE), 5), r"expected 5 images, got 4"),
    "images too many": (lambda: bad_cifar(cifar(*ONE), 3), r"expected 3 images, got at least 4"),
    "empty archive": (
        lambda: ("cifar10", {"c.tar.gz": tar([])}, [3, 32, 32], {"train": 4}),
        r"expected 4 images, got 0",
    ),
    "archive cut": (
        lambda: (
            *("cifar10", {"c.tar.gz": bad_cifar(cifar(*ONE))[1]["c.tar.gz"][:-300]}),
            *([3, 32, 32], {"train": 4}),
        ),
        r"c\.tar\.gz cannot be unpacked to its end",
    ),
    "no archive": (
        lambda: ("cifar10", {"c.tar.gz": b"<html>"}, [3, 32, 32], {"train": 4}),
        r"c\.tar\.gz cannot be unpacked to its end",
    ),
    "path upwards": (
        lambda: bad_folder("train/a/../../../x.png", PICTURE),
        r"expected paths below the archive's root, got 'train/a/\.\./",
    ),
    "absolute path": (
        lambda: bad_folder("/tmp/x.png", PICTURE),
        r"expected paths below the archive's root, got '/tmp/x\.png'",
    ),
    "a link": (
        lambda: bad_folder("", LINK),
        r"expected plain files, got 'train/a/link\.png', a link or device",
    ),
    "strange class": (
        lambda: bad_folder("train/zebra/0.png", PICTURE),
        r"expected the classes a, b, .*, got zebra",
    ),
    "empty image": (
        lambda: bad_folder("train/a/9.png", b""),
        r"train/a/9\.png\) is empty \(0 bytes\)",
    ),
    "cut image": (
        lambda: bad_folder("train/a/9.png", PICTURE[:60]),
        r"train/a/9\.png\) is no readable image",
    ),
    "image of another format": (
        lambda: bad_folder("train/a/9.png", jpeg(draw(1, 8, 8, 3)[0][0], "ICO")),
        r"train/a/9\.png\) is no readable image \(damaged, or none of JPEG, PNG, ",
    ),
    "other size": (
        lambda: bad_folder("train/a/9.png", jpeg(draw(1, 8, 9, 3)[0][0])),
        r"expected 8 x 8 pixels like the others, got 9 x 8",
    ),
    "STL labels missing": (
        lambda: bad_stl([STL]),
        r"expected a label for each of 2 images of train, got none",
    ),
    "STL labels of others": (
        lambda: bad_stl([STL, ("b/train_y.bin", b"\x01\x02\x03")]),
        r"expected a label for each of 2 images of train, got 3",
    ),
    "STL label 0": (
        lambda: bad_stl([STL, ("b/train_y.bin", b"\x01\x00")]),
        r"expected labels from 0 to 9, got -1 at image 1",
    ),
    "IDX of other kind": (
        lambda: bad_mnist(images=packed_idx(draw(7, 28, 28)[0], b"\0\0\x0d")),
        r"expected an IDX file of bytes in 3 dimensions \(first bytes 00000803\), got 00000d03",
    ),
    "IDX cut": (
        lambda: bad_mnist(
            images=gzip.compress(gzip.decompress(packed_idx(draw(7, 28, 28)[0]))[:-1], mtime=0)
        ),
        r"its header says 7 x 28 x 28 bytes, there are 5487",
    ),
    "IDX empty": (
        lambda: bad_mnist(images=gzip.compress(b"", mtime=0)),
        r"first bytes 00000803\), got nothing",
    ),
    "IDX not packed": (lambda: bad_mnist(images=b"plain"), r"train-images.* cannot be unpacked"),
    "IDX label out of range": (
        lambda: bad_mnist(labels=packed_idx(np.array([0, 1, 2, 3, 4, 99, 6], np.uint8))),
        r"expected labels from 0 to 9, got 99 at image 5",
    ),
    "IDX of other images": (
        lambda: bad_mnist(images=packed_idx(draw(7, 1, 28)[0])),
        r"expected images of 1 x 28 x 28 bytes, got 1 x 1 x 28",
    ),
    "IDX of two sets": (
        lambda: bad_mnist(labels=packed_idx(np.zeros(6, np.uint8))),
        r"expected a label for each of 7 images, got 6",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_content_is_told_and_leaves_nothing(case, place, tmp_path):
    """The checksums are right here: it is the content that the decoders refuse."""
    made, told = CASES[case]
    kind, files, shape, splits = made()
    place(kind, files, shape, splits)
    with pytest.raises(DataError, match=told):
        image_sets.load("small")
    assert decoded(tmp_path) == []


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, functools.partial(os.symlink, "/dev/zero")])
def test_what_is_no_file_is_not_read(place, tmp_path, make):
    """Nor waited for: a pipe that nobody writes, a device without an end."""
    place("idx", {}, [1, 1, 1], {"train": 1})
    path = tmp_path / "train" / "a" / "0.png"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(DataError, match=r"0\.png is no file"):
        image_sets.folder(tmp_path)


def test_folder_errors(place, tmp_path):
    place("idx", {}, [1, 1, 1], {})
    with pytest.raises(DataError, match=r"expected images as train/<class>/<name>\.jpg or \.png"):
        image_sets.folder(tmp_path)
    path = tmp_path / "train" / "a" / "0.jpg"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xd8not a picture")
    with pytest.raises(DataError, match=r"0\.jpg is no readable image"):
        image_sets.folder(tmp_path)
