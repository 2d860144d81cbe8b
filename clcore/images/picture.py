"""One image file as 8-bit pixels, upright; or words on why it has no such pixels.

Images that Pillow's `convert` would change silently are converted here (16 bits a pixel), or
rejected: numbers without a range, transparency, several images in one file.
"""

import contextlib
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from clcore._extras import extra
from clcore.images.datasets import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM")  # others need programs of their own
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif"),
    *(".pbm", ".pgm", ".ppm", ".pnm"),
)
_BITS, _PHOTOMETRIC = 258, 262  # tags of TIFF


def image(content: bytes, where: str, shape: Iterable[int] | None = None) -> np.ndarray:
    """One image file as `c h w` uint8: grey for a shape of one channel, else red, green, blue.

    `shape` is that of the other images, (c, h, w), or (c,) where h and w are not known. The format
    is determined by the content, not the name; the image is rotated by its EXIF orientation;
    of 16 bits the upper 8 are kept. Colour profiles are not applied.

    Errors: DataError naming `where` for a file that is empty, damaged or of a format not in
    FORMATS, has another size than `shape`, more pixels than Pillow allows, several frames,
    transparent pixels, or numbers that have no black and white (32 bits, signed, floating).
    """
    with extra("images"):
        from PIL import Image, UnidentifiedImageError

    again = "remove it or put the image there again"
    if not content:
        raise DataError(f"{where} is empty (0 bytes); {again}")
    if content.startswith(b"version https://git-lfs"):
        raise DataError(f"{where} is a pointer of Git LFS, no image; fetch it with `git lfs pull`")
    expected = None if shape is None else tuple(shape)
    gray = expected is not None and expected[0] == 1
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as found:
            found.load()
            if unclear := _unclear(found):
                raise DataError(f"{where} {unclear}")
            pixels = _pixels(found, gray)
    except (DataError, MemoryError):  # the machine's memory, not the file
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"{where} is too large ({error}); scale it down first") from error
    except UnidentifiedImageError as error:
        raise DataError(
            f"{where} is no readable image (damaged, or none of {', '.join(FORMATS)}); {again}, as "
            "JPEG or PNG"
        ) from error
    except Exception as error:  # Pillow has no class for damage: of every kind, by format
        raise DataError(f"{where} is no readable image ({error}); {again}") from error
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if expected is not None and pixels.shape[: len(expected)] != expected:
        raise DataError(
            f"{where}: expected {expected[2]} x {expected[1]} pixels like the others, got "
            f"{pixels.shape[2]} x {pixels.shape[1]}; scale all images to one size first"
        )
    return pixels


def _unclear(found: Any) -> str:
    """What a file leaves open, and what to do; "" where its pixels have one meaning."""
    frames = getattr(found, "n_frames", 1)
    if frames > 1 and found.format != "MPO":  # a phone's JPEG, whose other images are previews
        return f"has {frames} frames or pages, expected is one; save the one that counts"
    # PNG and PPM have no more than 16 bits, whatever the mode.
    if found.mode == "F" or (found.mode == "I" and found.format not in ("PNG", "PPM")):
        return (
            f"has signed, 32-bit or floating-point pixels (mode {found.mode}), and nothing says "
            "which numbers are black and white; scale them and save 8 or 16 bits"
        )
    if _transparent(found):
        return (
            "has transparent pixels, and nothing says on which ground they are seen; put it on one "
            'first (in Pillow: ground = Image.new("RGBA", image.size, "white"), then '
            'Image.alpha_composite(ground, image.convert("RGBA")).convert("RGB"))'
        )
    return ""


def _transparent(found: Any) -> bool:
    if not found.has_transparency_data:
        return False
    if found.mode.startswith("I"):  # convert() forgets which grey is transparent
        return bool((np.asarray(found) == found.info["transparency"]).any())
    return found.convert("RGBA").getchannel("A").getextrema()[0] < 255


def _pixels(found: Any, gray: bool) -> np.ndarray:
    """Pixels `h w` or `h w 3`, uint8, of an image whose pixels are clear."""
    from PIL import Image, ImageOps

    # As every viewer shows it. EXIF that cannot be read turns nothing, there as here.
    with contextlib.suppress(Exception):
        ImageOps.exif_transpose(found, in_place=True)
    if found.mode.startswith("I"):  # 16 bits: convert() would cut at 255
        tags = getattr(found, "tag_v2", {})
        bits = tags.get(_BITS, (16,))[0]
        values = np.asarray(found).astype(np.int64) >> (bits - 8)
        negative = tags.get(_PHOTOMETRIC) == 0  # Pillow inverts 8 bits only
        found = Image.fromarray((255 - values if negative else values).astype(np.uint8))
    return np.asarray(found.convert("L" if gray else "RGB"))
