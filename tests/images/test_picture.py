"""One image file: each of Pillow's modes and formats is read right, or refused in words."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from clcore.images import decode, picture
from clcore.images.datasets import DataError

RAMP = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
COLOURS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)


def saved(image, kind="PNG", **options):
    """The bytes of a file; of an array, of an image, or of several."""
    first, *others = image if isinstance(image, list) else [image]
    first = first if isinstance(first, Image.Image) else Image.fromarray(first)
    if others:
        options |= {"save_all": True, "append_images": [Image.fromarray(o) for o in others]}
    out = io.BytesIO()
    first.save(out, kind, **options)
    return out.getvalue()


def tiff(values, bits, photometric=1, order="<", sample_format=1):
    """A plain TIFF of grey values, whose packed rows are given as bytes for 12 bits."""
    data = values if isinstance(values, bytes) else values.astype(f"{order}u{bits // 8}").tobytes()
    tags = [(256, 8), (257, 8), (258, bits), (259, 1), (262, photometric), (273, 8)]
    tags += [(277, 1), (278, 8), (279, len(data)), (339, sample_format)]
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8 + len(data))
    table = b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in tags)
    return head + data + struct.pack(f"{order}H", len(tags)) + table + bytes(4)


def packed_12(values):
    """Two values in three bytes, as TIFF packs 12 bits."""
    a, b = values.reshape(-1, 2).astype(np.uint32).T
    return np.stack([a >> 4, (a & 15) << 4 | b >> 8, b & 255], 1).astype(np.uint8).tobytes()


def read(content, channels=3):
    return picture.image(content, "x", (channels,))


# --------------------------------------------------------------------------------------- 16 bits


@pytest.mark.parametrize(
    "content",
    [
        saved(RAMP),
        saved(RAMP, "TIFF"),
        saved(RAMP, "TIFF", compression="tiff_lzw"),
        saved(RAMP, "PPM"),
        tiff(RAMP, 16),
        tiff(RAMP, 16, order=">"),
        tiff(65535 - RAMP, 16, photometric=0),
        tiff(packed_12(RAMP >> 4), 12),
    ],
    ids=["png", "tiff", "lzw", "pgm", "little", "big", "white is 0", "12 bits"],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_of_16_bits_grey_the_upper_8_are_kept(content, channels):
    pixels = read(content, channels)
    assert pixels.shape == (channels, 8, 8) and pixels.dtype == np.uint8
    assert all(np.array_equal(channel, RAMP >> 8) for channel in pixels)


def test_a_pgm_of_another_maximum_is_scaled_by_it():
    content = b"P5\n8 8\n4095\n" + (RAMP >> 4).astype(">u2").tobytes()
    assert np.abs(read(content, 1)[0].astype(int) - (RAMP >> 8)).max() <= 1


@pytest.mark.parametrize(
    "content",
    [
        saved(RAMP.astype(np.int32), "TIFF"),
        saved(RAMP.astype(np.float32), "TIFF"),
        tiff(RAMP, 16, sample_format=2),
    ],
    ids=["int32", "float32", "int16"],
)
def test_numbers_without_black_and_white_are_refused(content):
    told = r"^x has signed, 32-bit or floating-point pixels \(mode [IF]\).*save 8 or 16 bits$"
    with pytest.raises(DataError, match=told):
        read(content)


# ------------------------------------------------------------------------------- colour, palettes


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_modes_without_loss(mode, kind):
    grey = np.repeat(COLOURS[..., :1], 3, -1)
    black = np.where(grey > 127, np.uint8(255), np.uint8(0))
    expected = {"1": black, "L": grey, "LA": grey}.get(mode, COLOURS)
    image = Image.fromarray(expected)
    if mode == "P":
        image = image.quantize(64)
        assert np.array_equal(np.asarray(image.convert("RGB")), COLOURS)
    else:
        image = image.convert(mode)
    content = saved(image, kind)
    assert np.array_equal(read(content), expected.transpose(2, 0, 1))
    assert np.array_equal(read(content, 1)[0], np.asarray(Image.fromarray(expected).convert("L")))


@pytest.mark.parametrize(("kind", "options"), [("WEBP", {"lossless": True}), ("BMP", {})])
def test_other_formats_whatever_the_name(kind, options):
    content = saved(COLOURS, kind, **options)
    assert np.array_equal(decode.image(content, "0.png"), COLOURS.transpose(2, 0, 1))


def test_cmyk_has_the_colours_that_it_prints():
    """Pure inks, which JPEG keeps: cyan, magenta, yellow, black and paper."""
    inks = np.zeros((5, 16, 16, 4), np.uint8)
    for i in range(4):
        inks[i, ..., i] = 255
    expected = [[0, 255, 255], [255, 0, 255], [255, 255, 0], [0, 0, 0], [255, 255, 255]]
    for ink, colour in zip(inks, expected, strict=True):
        image = Image.fromarray(ink, "CMYK")
        for content in (saved(image, "JPEG", quality=100), saved(image, "TIFF")):
            found = read(content).reshape(3, -1).astype(int)
            assert np.abs(found - np.array(colour)[:, None]).max() <= 3


@pytest.mark.parametrize("kind", ["rgba", "la", "palette", "gif", "grey of 16 bits", "webp"])
def test_transparent_pixels_are_refused(kind):
    """Pillow would show what lies under them, black for most."""
    if kind == "grey of 16 bits":
        content, opaque = (saved(RAMP, transparency=int(v)) for v in (RAMP[3, 3], 5))
    elif kind in ("palette", "gif"):
        image = Image.fromarray(COLOURS).quantize(64)
        form = "GIF" if kind == "gif" else "PNG"
        content, opaque = (
            saved(image, form, transparency=image.getpixel((2, 2))),
            saved(image, form),
        )
    else:
        image = Image.fromarray(COLOURS).convert("LA" if kind == "la" else "RGBA")
        form = "WEBP" if kind == "webp" else "PNG"
        opaque = saved(image, form)
        image.putpixel((2, 2), (9,) * (len(image.getbands()) - 1) + (254,))
        content = saved(image, form, **({"lossless": True} if kind == "webp" else {}))
    assert read(opaque).shape == (3, 8, 8)
    with pytest.raises(DataError, match=r"^x has transparent pixels, .*alpha_composite") as error:
        read(content)
    # What it advises is code that runs, and gives an image that is read.
    ground, put = str(error.value).split("Pillow: ")[1].removesuffix(")").split(", then ")
    names = {"Image": Image, "image": Image.open(io.BytesIO(content))}
    exec(ground, names)
    assert read(saved(eval(put, names))).shape == (3, 8, 8)


# ------------------------------------------------------------------------------------ orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_turns_the_image_upright(orientation, kind):
    """The letter F, stored turned: the inverse turns are written down here once more."""
    upright = np.zeros((24, 16), np.uint8)
    upright[:, :4] = upright[:4] = upright[10:14, :12] = 255
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = read(saved(stored.copy(), kind, exif=exif, quality=95), 1)
    assert found.shape == (1, 24, 16)
    assert np.abs(found[0].astype(int) - upright).max() < 60


def test_16_bits_are_turned_too():
    exif = Image.Exif()
    exif[0x0112] = 6
    found = read(saved(np.rot90(RAMP).copy(), exif=exif), 1)
    assert np.array_equal(found[0], RAMP >> 8)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's
@pytest.mark.parametrize("exif", [b"Exif\0\0II*\0\xff\xff\xff\x7f", b"Exif\0\0junk", b"\xff" * 40])
def test_exif_that_cannot_be_read_turns_nothing(exif):
    plain = read(saved(COLOURS, "JPEG"))
    assert np.array_equal(read(saved(COLOURS, "JPEG", exif=exif)), plain)


# ----------------------------------------------------------------------- several images, and none


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF", "PNG"])
def test_of_several_frames_none_is_chosen(kind):
    assert read(saved(COLOURS, kind)).shape == (3, 8, 8)
    with pytest.raises(DataError, match=r"^x has 3 frames or pages, expected is one; save the one"):
        read(saved([COLOURS, 255 - COLOURS, COLOURS // 2], kind))


def test_a_phones_photograph_with_previews_is_one_image():
    found = read(saved([COLOURS, 255 - COLOURS], "MPO"))
    assert np.array_equal(found, read(saved(COLOURS, "JPEG")))


def test_a_progressive_jpeg_under_another_name():
    content = saved(COLOURS, "JPEG", progressive=True)
    expected = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(decode.image(content, "0.png"), expected)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")  # Pillow's
@pytest.mark.parametrize("kind", picture.FORMATS)
def test_damage_is_read_or_told(kind):
    """Cut anywhere, and with bytes changed: pixels of the size, or a DataError."""
    whole = saved(Image.fromarray(COLOURS), kind)
    draw = np.random.default_rng(1)
    made = [whole[:n] for n in range(1, len(whole), max(1, len(whole) // 60))]
    for _ in range(100):
        bad = np.frombuffer(whole, np.uint8).copy()
        bad[draw.integers(0, len(bad), 3)] = draw.integers(0, 256, 3)
        made.append(bad.tobytes())
    refused = 0
    for content in made:
        try:
            assert picture.image(content, "x", (3, 8, 8)).shape == (3, 8, 8)
        except DataError as error:
            refused += 1
            assert str(error).startswith("x")
    assert refused > 20


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", r"git lfs pull"),
        (b"<html>Not found</html>", r"no readable image \(damaged, or none of JPEG, PNG, WEBP"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", r"no readable image \(damaged, or"),
    ],
)
def test_what_is_no_image(content, told):
    with pytest.raises(DataError, match=told):
        read(content)


def test_too_many_pixels(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 31)  # half of what is refused
    with pytest.raises(DataError, match=r"^x is too large \(.*64 pixels.*\); scale it down first"):
        read(saved(COLOURS))


def test_what_turns_the_image_is_pillows_own(monkeypatch):
    """A fault there is no fault of the pixels."""

    def broken(*_, **__):
        raise KeyError("tag")

    monkeypatch.setattr(ImageOps, "exif_transpose", broken)
    assert np.array_equal(read(saved(COLOURS)), COLOURS.transpose(2, 0, 1))
