"""Image folders as people have them: what is read, what is passed over, what is refused."""

import os
import unicodedata

import numpy as np
import pytest
from image_files import decoded, draw, jpeg, put, tar

from clcore._files import DiskFull
from clcore.images import decode, folders, image_sets
from clcore.images.datasets import DataError
from clcore.images.picture import image

CLASSES = ("train/cats/0.png", "train/dogs/0.png")
NFC, NFD = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A folder with a class of cats and one of dogs."""
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "build"))
    put(tmp_path / "mine", *CLASSES)
    return tmp_path / "mine"


def told(top, match, split="train", **options):
    with pytest.raises(DataError, match=match) as error:
        image_sets.folder(top, split, **options)
    return str(error.value)


# ------------------------------------------------------------------------------------ passed over


@pytest.mark.parametrize(
    "name",
    [
        "train/.ipynb_checkpoints/0-checkpoint.png",
        "train/cats/.ipynb_checkpoints/0-checkpoint.png",
        "train/cats/._0.png",
        "train/__MACOSX/cats/._0.png",
        "train/@eaDir/cats/0.png",
        "train/cats/@eaDir/0.png/SYNOPHOTO_THUMB_XL.jpg",
        "train/$RECYCLE.BIN/0.png",
        ".thumbnails/0.png",
        "train/.DS_Store",
        "train/cats/Thumbs.db",
        "train/cats/desktop.ini",
        "train/cats/Icon\r",
    ],
)
def test_what_systems_leave_is_passed_over_in_silence(top, name, caplog):
    put(top, name, content=b"Mac OS X")
    found = image_sets.folder(top)
    assert (found.classes, found.labels.tolist()) == (("cats", "dogs"), [0, 1])
    assert caplog.text == ""


def test_hidden_members_of_an_archive_are_passed_over(place):
    pixels = jpeg(draw(1, 8, 8, 3)[0][0])
    hidden = ("train/a/._0.png", "train/.b/0.png", "train/__MACOSX/0.png")
    members = [("train/a/0.png", pixels), *((name, b"Mac OS X") for name in hidden)]
    place("folder", {"f.tar": tar(members, "w")}, [3, 8, 8], {"train": 1})
    assert len(image_sets.load("small")) == 1


def test_other_files_are_told(top, caplog):
    put(top, "train/cats/a.txt", "train/dogs/B.TXT", "train/dogs/README", "train/labels.csv")
    assert len(image_sets.folder(top)) == 2
    said = "mine/train: left out, as no images by their endings: 2 .txt, 1 without ending, 1 .csv"
    assert said in caplog.text and caplog.text.count("left out") == 1


# ------------------------------------------------------------------------------------------- read


def test_endings_of_either_case_and_names_with_blanks(top):
    put(
        top,
        "train/cats/1.JPG",
        "train/cats/2.JpEg",
        "train/dogs/a b (1).PNG",
        "train/sea lion/0.png",
        "train/sea/0.png",
    )
    found = image_sets.folder(top)
    assert found.classes == ("cats", "dogs", "sea", "sea lion")
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("kind", ["webp", "tiff", "tif", "bmp", "gif", "ppm", "jfif"])
def test_formats_that_pillow_reads(top, kind):
    form = {"tif": "TIFF", "jfif": "JPEG"}.get(kind, kind.upper())
    put(top, f"train/owls/0.{kind}", content=jpeg(draw(1, 8, 8, 3)[0][0], form))
    assert image_sets.folder(top).classes == ("cats", "dogs", "owls")


def test_images_and_classes_that_are_links(top, tmp_path):
    put(tmp_path, "elsewhere/owls/0.png", "elsewhere/1.png")
    (top / "train" / "owls").symlink_to(tmp_path / "elsewhere" / "owls")
    (top / "train" / "cats" / "1.png").symlink_to(tmp_path / "elsewhere" / "1.png")
    found = image_sets.folder(top)
    assert found.classes == ("cats", "dogs", "owls")
    assert found.labels.tolist() == [0, 0, 1, 2]


def put_bytes(top, name):
    try:
        put(top, os.fsdecode(name))
    except OSError:
        pytest.skip("this file system has names of UTF-8 only")


def test_a_file_name_that_is_no_utf8(top):
    name = b"train/cats/caf\xe9.png"
    put_bytes(top, name)
    assert image_sets.folder(top).labels.tolist() == [0, 0, 1]
    put(top, os.fsdecode(name), content=b"x")
    said = told(top, r"train/cats/caf\\xe9\.png is no readable image")
    said.encode()  # can be printed


def test_a_long_name_of_the_folder(top):
    longest = top.rename(top.with_name("é" * 127))
    assert len(image_sets.folder(longest)) == 2


def test_home(top, monkeypatch):
    monkeypatch.setenv("HOME", str(top.parent))
    assert len(image_sets.folder("~/mine")) == 2


def test_blocks_end_at_their_memory(top, monkeypatch):
    put(top, *(f"train/cats/{i}.png" for i in range(5)))
    whole = image_sets.folder(top)
    monkeypatch.setattr(decode, "MEMORY", 2 * 8 * 8 * 3)
    names = folders.listing(top, "train")
    blocks = list(decode.folder_blocks(top, names, ["cats", "dogs"], gray=False))
    assert [len(labels) for _, _, labels in blocks] == [2, 2, 2]
    assert np.array_equal(np.concatenate([pixels for _, pixels, _ in blocks]), whole.pixels)


# ------------------------------------------------------------------------------- names of classes


def test_composed_and_decomposed_accents_are_one_class(top):
    put(top, f"train/{NFC}/0.png", f"test/{NFD}/0.png")
    train, test = image_sets.folder(top), image_sets.folder(top, "test")
    assert train.classes == test.classes == (NFC, "cats", "dogs") != (NFD, "cats", "dogs")
    assert test.labels.tolist() == [0]


def test_the_order_does_not_depend_on_the_form(top):
    """Decomposed, é comes before f, and composed after z: in folders and in files."""
    for form, place in (("NFC", "a"), ("NFD", "b")):
        names = [unicodedata.normalize(form, name) for name in ("é", "f", "z")]
        for i, name in enumerate(names):
            pixels = np.full((8, 8, 3), 100 + i, np.uint8)
            put(top / place, f"train/{name}/{name}.png", content=jpeg(pixels))
            put(top / place, f"train/f/{name}0.png", content=jpeg(pixels + 50))
    a, b = (image_sets.folder(top / place) for place in "ab")
    assert a.classes == b.classes == ("f", "z", "é")
    assert np.array_equal(a.pixels, b.pixels) and np.array_equal(a.labels, b.labels)


def test_two_folders_of_one_class(top):
    put(top, f"train/{NFC}/0.png", f"train/{NFD}/0.png")
    if len(list((top / "train").iterdir())) == 3:
        pytest.skip("this file system keeps one of the two names")
    told(top, r"train: 'cafe\\u0301' and 'caf\\xe9' are one class, .*NFC and NFD\); put their")


def test_a_class_that_differs_by_a_blank_can_be_told_apart(top):
    put(top, "test/cats /0.png")
    told(top, r"expected the classes of train \(cats, dogs\), got also 'cats '; rename", "test")


def test_a_class_whose_name_is_no_utf8(top):
    put_bytes(top, b"train/caf\xe9/0.png")
    told(top, r"train/caf\\xe9: expected a name in UTF-8; rename the folder$").encode()


# ---------------------------------------------------------------------------------------- refused


def test_a_class_without_images(top):
    (top / "train" / "mice").mkdir()
    told(top, r"train/mice has no images: expected files of \.jpg, .*, got none; convert them, or")
    put(top, "test/cats/0.png")
    told(top, r"train/mice has no images", "test")
    put(top, "train/mice/0.heic", "train/mice/1.HEIC", "train/mice/0.txt", content=b"x")
    told(top, r"train/mice has no images: .* got 2 \.heic, 1 \.txt; convert them")


def test_images_outside_of_the_classes(top):
    put(top, "train/0.JPG", "train/1.png")
    said = told(top, r"train/0\.JPG has no class: expected images as train/<class>/<name>; put it")
    assert len(said.splitlines()) == 2


def test_folders_inside_a_class(top):
    put(top, "train/cats/indoors/0.png", "train/cats/outdoors/0.png", "train/owls/images/0.png")
    said = told(top, r"train/cats has folders inside \(indoors, outdoors\): expected images as")
    assert "train/owls has folders inside (images)" in said


def test_links_to_nothing(top):
    (top / "train" / "owls").symlink_to(top / "unmounted")
    (top / "train" / "cats" / "1.png").symlink_to(top / "gone.png")
    (top / "train" / "cats" / "2.png").symlink_to("2.png")
    (top / "train" / "mice").mkdir()
    (top / "train" / "mice" / "0.png").symlink_to(top / "gone.png")
    said = told(top, r"train/owls is a link to nothing; remove or mend it")
    assert len(said.splitlines()) == 4
    assert "1.png is no file (a folder, a pipe, a device, or a link to nothing)" in said
    assert "cats/2.png is no file" in said and "mice/0.png is no file" in said


@pytest.mark.parametrize("split", ["", ".", "..", "train/", "train/cats", "/"])
def test_a_split_is_one_folder(top, split):
    told(top, r"split: expected the name of a folder in .*mine, got '", split)


def test_what_is_there_instead(top):
    told(top, r"valid/<class>/<name>\.jpg or \.png, found none; there is train\. Put them", "valid")
    told(top / "train", r"there is cats, dogs\. .*\(classes right in it: folder\('.*', 'train'\)\)")
    assert len(image_sets.folder(top, "train")) == 2  # as it advises for any folder
    told(top / "nowhere", r"found none; there is nothing\.")
    (top / "empty").mkdir()
    told(top, r"mine/empty has no folders of classes", "empty")


def test_all_that_is_wrong_is_told_at_once_up_to_ten(top):
    put(top, "train/cats/1.png", "train/cats/2.png", content=b"x")
    put(top, "train/dogs/3.png", content=jpeg(draw(1, 8, 9, 3)[0][0]))
    lines = told(top, r"\.png").splitlines()
    assert [line.split(".png")[0].split("/")[-1] for line in lines] == ["1", "2", "3"]
    assert "expected 8 x 8 pixels like the others, got 9 x 8; scale all images" in lines[2]
    put(top, *(f"train/dogs/x{i}.png" for i in range(30)), content=b"x")
    lines = told(top, r"\.png").splitlines()
    assert len(lines) == 11 and lines[-1] == "... and more"
    assert decoded(top.parent) == []


def test_after_more_than_ten_problems_no_more_files_are_read(top, monkeypatch):
    put(top, *(f"train/dogs/x{i}.png" for i in range(30)), content=b"x")
    asked = []
    monkeypatch.setattr(decode, "image", lambda *given: asked.append(1) or image(*given))
    told(top, "no readable image")
    assert len(asked) == 2 + 11


def test_no_image_is_readable(top):
    put(top, *CLASSES, content=b"x")
    assert len(told(top, "no readable image").splitlines()) == 2
    assert len(told(top, "no readable image", gray=True).splitlines()) == 2


def test_pixels_that_the_disk_cannot_hold(top, monkeypatch):
    full = type("Usage", (), {"free": 2 * 3 * 8 * 8 - 1})
    monkeypatch.setattr(image_sets.shutil, "disk_usage", lambda _: full)
    with pytest.raises(DiskFull, match=r"pixels take 0\.0 GB, and .* free; scale the images down"):
        image_sets.folder(top)
    assert decoded(top.parent) == []
    full.free += 1
    assert len(image_sets.folder(top)) == 2


@pytest.mark.parametrize("brightest", [15, 16])
def test_images_that_are_all_but_black_are_told(top, caplog, brightest):
    """Such as 12 bits in files of 16: the values end at 4095 of 65535."""
    pixels = np.full((8, 8), 16 * brightest << 4 | 255, np.uint16)
    put(top, *CLASSES, content=jpeg(pixels))
    assert image_sets.folder(top, gray=True).pixels.max() == brightest
    said = f"train: the brightest of all pixels is {brightest} of 255; if they are masks, or 12"
    assert (said in caplog.text) == (brightest < 16)
