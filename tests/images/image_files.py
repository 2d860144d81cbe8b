"""Small data sets of images in their real formats, as bytes."""

import gzip
import io
import struct
import tarfile

import numpy as np
from PIL import Image

RNG = np.random.default_rng(0)
CLASSES = list("abcdefghij")


def packed_idx(array, magic=b"\0\0\x08"):
    head = magic + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


def tar(members, mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def cifar(pixels, labels):
    return b"".join(bytes([y]) + x.tobytes() for x, y in zip(pixels, labels, strict=True))


def jpeg(pixels, kind="PNG"):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def draw(n, *shape):
    return RNG.integers(0, 256, (n, *shape), dtype=np.uint8), RNG.integers(0, 10, n)


def mnist_files(n=7, labels=None, images=None):
    x, y = draw(n, 28, 28)
    return (
        x,
        y,
        {
            "train-images-idx3-ubyte.gz": images or packed_idx(x),
            "train-labels-idx1-ubyte.gz": labels or packed_idx(y.astype(np.uint8)),
        },
    )


def folder_members(n=3):
    x, _ = draw(2 * n, 8, 8, 3)
    names = [f"train/{c}/{i}.png" for c in "ba" for i in range(n)]
    return x, names, [(name, jpeg(image)) for name, image in zip(names, x, strict=True)]


def decoded(tmp_path):
    found = tmp_path / "build" / "decoded"
    return sorted(p.name for p in found.glob("*-*"))


def put(top, *names, content=None):
    """Files below a folder, of eight pixels a side where nothing else is given."""
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(draw(1, 8, 8, 3)[0][0]) if content is None else content)
