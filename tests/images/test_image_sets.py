"""Data sets of images in their real formats, small: whole, kept, absent; and batches."""

import hashlib

import numpy as np
import pytest
import torch
from image_files import cifar, decoded, draw, folder_members, jpeg, mnist_files, put, tar

from clcore import random
from clcore.images import datasets, decode, image_sets
from clcore.images.datasets import DataError


def test_mnist(place):
    x, y, files = mnist_files()
    place("idx", files, [1, 28, 28], {"train": 7})
    found = image_sets.load("small")
    assert np.array_equal(found.pixels[:, 0], x)
    assert np.array_equal(found.labels, y)
    assert found.official and found.label == "Small"
    assert isinstance(found.pixels, np.memmap) and not found.pixels.flags.writeable


def test_cifar10(place):
    parts = [draw(4, 3, 32, 32) for _ in range(3)]
    members = [
        ("cifar-10-batches-bin/data_batch_1.bin", cifar(*parts[0])),
        ("cifar-10-batches-bin/test_batch.bin", cifar(*parts[1])),
        ("cifar-10-batches-bin/readme.html", b"text"),
        ("cifar-10-batches-bin/data_batch_2.bin", cifar(*parts[2])),
    ]
    place("cifar10", {"c.tar.gz": tar(members)}, [3, 32, 32], {"train": 8, "test": 4})
    train, test = image_sets.load("small"), image_sets.load("small", "test")
    assert np.array_equal(train.pixels, np.concatenate([parts[0][0], parts[2][0]]))
    assert np.array_equal(train.labels, np.concatenate([parts[0][1], parts[2][1]]))
    assert np.array_equal(test.pixels, parts[1][0])


@pytest.mark.parametrize("labels_first", [True, False])
def test_stl10(place, labels_first):
    """On disk an image is stored column by column, and labels start at 1."""
    x, y = draw(5, 3, 96, 96)
    members = [
        ("stl10_binary/train_X.bin", x.transpose(0, 1, 3, 2).tobytes()),
        ("stl10_binary/train_y.bin", bytes((y + 1).tolist())),
        ("stl10_binary/unlabeled_X.bin", x[:3].transpose(0, 1, 3, 2).tobytes()),
    ]
    if labels_first:
        members = members[::-1]
    splits = {"train": 5, "unlabeled": 3}
    place("stl10", {"s.tar.gz": tar(members)}, [3, 96, 96], splits)
    found = image_sets.load("small")
    assert np.array_equal(found.pixels, x)
    assert np.array_equal(found.labels, y)
    without = image_sets.load("small", "unlabeled")
    assert np.array_equal(without.pixels, x[:3])
    assert (without.labels == -1).all()
    both = image_sets.load("small", "train+unlabeled")
    assert np.array_equal(both.pixels, np.concatenate([x, x[:3]]))
    assert both.labels.tolist() == [*y, -1, -1, -1]


def test_folder_in_an_archive_is_an_unofficial_copy(place):
    x, names, members = folder_members()
    made = {"f.tar.xz": tar(members, "w:xz")}
    more = {"copy_of": "real", "label": "Real, our copy"}
    place("folder", made, [3, 8, 8], {"train": 6}, **more)
    found = image_sets.load("small")
    assert (found.label, found.official) == ("Real, our copy", False)
    order = np.argsort(names)  # by class and name, whatever the archive's order
    assert np.array_equal(found.pixels, x[order].transpose(0, 3, 1, 2))
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_original_is_not_replaced_by_a_copy(place, monkeypatch):
    _, _, members = folder_members()
    place("folder", {"f.tar.xz": tar(members, "w:xz")}, [3, 8, 8], {"train": 6}, copy_of="real")
    known = datasets.registry()
    real = known["small"] | {
        "kind": "cifar10",
        "files": [{"name": "r", "size": 9, "md5": "0" * 32}],
        "mirrors": ["https://example.org/"],
    }
    real.pop("copy_of")
    monkeypatch.setattr(datasets, "registry", lambda: known | {"real": real})
    told = (
        r"md5 0{32}, 9 bytes\) is not there; .*data fetch real[\s\S]*unofficial copy is here: small"
    )
    with pytest.raises(DataError, match=told):
        image_sets.load("real")


@pytest.mark.parametrize("gray", [False, True])
def test_any_folder(place, tmp_path, gray):
    place("idx", {}, [1, 1, 1], {})
    x, names, members = folder_members()
    for name, content in members:
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "mine" / "train" / "a" / "notes.txt").write_text("no image")
    found = image_sets.folder(tmp_path / "mine", gray=gray)
    assert found.pixels.shape == (6, 1 if gray else 3, 8, 8)
    assert found.classes == ("a", "b")
    assert found.label == "image folder mine (unofficial)" and not found.official
    if not gray:
        assert np.array_equal(found.pixels[0], x[names.index("train/a/0.png")].transpose(2, 0, 1))
    # Another content under the same names is another set.
    (tmp_path / "mine" / names[0]).write_bytes(jpeg(255 - x[0]))
    again = image_sets.folder(tmp_path / "mine", gray=gray)
    assert not np.array_equal(again.pixels, found.pixels)


def test_classes_of_a_folder_are_those_of_its_training_images(place, tmp_path):
    place("idx", {}, [1, 1, 1], {})
    mine = tmp_path / "mine"
    put(mine, "test/a/0.png", "test/b/0.png", "test/d/0.png")
    assert image_sets.folder(mine, "test").labels.tolist() == [0, 1, 2]
    put(mine, *(f"train/{c}/0.png" for c in "abcd"))
    train, test = (image_sets.folder(mine, split) for split in ("train", "test"))
    assert train.classes == test.classes == ("a", "b", "c", "d")
    assert test.labels.tolist() == [0, 1, 3]  # not as it was decoded before
    put(mine, "test/zebra/0.png")
    told = r"mine/test: expected the classes of train \(a, b, c, d\), got also 'zebra'; rename"
    with pytest.raises(DataError, match=told):
        image_sets.folder(mine, "test")


def test_embedded():
    train, test = image_sets.load("digits"), image_sets.load("digits", "test")
    assert train.pixels.shape == (1438, 1, 8, 8) and len(test) == 359
    assert train.pixels.max() == 255
    patches = image_sets.load("photographs")
    assert patches.pixels.shape == (416, 3, 32, 32)
    assert np.bincount(patches.labels).tolist() == [208, 208]
    from sklearn.datasets import load_sample_images

    assert np.array_equal(
        patches.pixels[1].transpose(1, 2, 0), load_sample_images().images[0][:32, 32:64]
    )


# ------------------------------------------------------------------------------ once, whole, or not


def test_decoded_once_and_kept_without_the_files(place, tmp_path):
    x, _, files = mnist_files()
    folder = place("idx", files, [1, 28, 28], {"train": 7})
    image_sets.load("small")
    (name,) = decoded(tmp_path)
    for file in folder.iterdir():
        file.unlink()
    assert np.array_equal(image_sets.load("small").pixels[:, 0], x)
    # Another checksum is another folder.
    other, _, files = mnist_files()
    place("idx", files, [1, 28, 28], {"train": 7})
    assert np.array_equal(image_sets.load("small").pixels[:, 0], other)
    assert len(decoded(tmp_path)) == 2 and name in decoded(tmp_path)


def test_damaged_cache_says_what_to_do(place, tmp_path):
    _, _, files = mnist_files()
    place("idx", files, [1, 28, 28], {"train": 7})
    image_sets.load("small")
    (name,) = decoded(tmp_path)
    pixels = tmp_path / "build" / "decoded" / name / "pixels.npy"
    pixels.write_bytes(pixels.read_bytes()[:200])
    with pytest.raises(DataError, match=r"is damaged .*delete it, and it will be made again"):
        image_sets.load("small")


@pytest.mark.parametrize("file", ["pixels.npy", "labels.npy"])
def test_a_flipped_byte_of_what_was_decoded_is_found(place, tmp_path, file):
    _, _, files = mnist_files()
    place("idx", files, [1, 28, 28], {"train": 7})
    image_sets.load("small")
    (name,) = decoded(tmp_path)
    path = tmp_path / "build" / "decoded" / name / file
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"its checksums .*delete it, and it will be made again"):
        image_sets.load("small")


def test_splits_one_after_the_other():
    train, test = (image_sets.load("digits", split) for split in ("train", "test"))
    both = image_sets.load("digits", "train+test")
    assert both.split == "train+test" and both.label == train.label and len(both) == 1797
    assert np.array_equal(both.pixels[len(train) :], test.pixels)
    assert np.array_equal(both.labels, [*train.labels, *test.labels])


def test_unknown_split(place):
    place("idx", {}, [1, 1, 1], {"train": 1})
    with pytest.raises(DataError, match=r"expected a split of train; got 'valid'"):
        image_sets.load("small", "valid")


def test_absent_file_names_checksum_and_place(place):
    _, _, files = mnist_files()
    folder = place("idx", files, [1, 28, 28], {"train": 7})
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    md5 = hashlib.md5(files["train-labels-idx1-ubyte.gz"]).hexdigest()
    with pytest.raises(DataError) as error:
        image_sets.load("small")
    for part in (str(folder), "train-labels-idx1-ubyte.gz", md5, "by hand"):
        assert part in str(error.value)


def test_damage_after_the_download_is_noticed(place):
    _, _, files = mnist_files()
    folder = place("idx", files, [1, 28, 28], {"train": 7})
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="is damaged or another version"):
        image_sets.load("small")


# ----------------------------------------------------------------------------------------- batches


@pytest.fixture(scope="module")
def digits():
    return image_sets.load("digits")


def take(count, *args, **options):
    made = image_sets.batches(*args, **options)
    return [next(made) for _ in range(count)]


def test_a_pass_shows_every_image_once_and_passes_differ(digits):
    few = image_sets.ImageSet("d", "train", "D", digits.pixels[:10], np.arange(10), ())
    seen = [y for _, y in take(6, few, 3, random.key(1))]
    first, second = torch.cat(seen[:3]).tolist(), torch.cat(seen[3:]).tolist()
    assert len(set(first)) == len(set(second)) == 9  # the tenth is left out
    assert first != second
    x, y = take(1, few, 3, random.key(1))[0]
    assert np.array_equal(x.numpy(), digits.pixels[y.numpy()])


@pytest.mark.parametrize("start", [1, 3, 7])
def test_batches_depend_on_key_and_number_only(digits, start):
    few = image_sets.ImageSet("d", "train", "D", digits.pixels[:10], np.arange(10), ())
    whole = take(9, few, 3, random.key(1))
    for resident in (0, 2**30):  # cut on the host, and on the device
        later = take(9 - start, few, 3, random.key(1), start=start, resident=resident)
        for (x, y), (u, v) in zip(whole[start:], later, strict=True):
            assert torch.equal(x, u) and torch.equal(y, v)


def test_a_split_too_large_for_the_device_is_cut_on_the_host(digits, monkeypatch, caplog):
    whole = take(3, digits, 64, random.key(1))

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(image_sets, "on_device", full)
    for (x, y), (u, v) in zip(whole, take(3, digits, 64, random.key(1)), strict=True):
        assert torch.equal(x, u) and torch.equal(y, v)
    assert "0.0 GiB are too much for cpu; cut on the host" in caplog.text
    monkeypatch.setattr(image_sets, "on_device", lambda *_: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        take(1, digits, 64, random.key(1))


@pytest.mark.parametrize("size", [0, 1439])
def test_batch_larger_than_the_data(digits, size):
    told = rf"expected a batch of 1 to 1438 images \(Optical.*, train\), got {size}"
    with pytest.raises(ValueError, match=told):
        image_sets.batches(digits, size, random.key(0))


def test_labels_are_checked_from_both_sides():
    with pytest.raises(DataError, match="got -1 at image 1"):
        decode._labels(np.array([3, -1]), 10, "here")
