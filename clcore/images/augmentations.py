"""Augmentations on the device: a batch at a time, with separate parameters for every image.

Images are `n c h w` with values in [0, 1]. Each operation takes explicit parameters (one per image)
and draws nothing; `draw` makes all parameters of a batch from one key, `apply` uses them. So a view
is a function of its image and its key: on any device, alone, under `vmap`, before and after a
resume. Definitions are those of torchvision's transforms, which the papers use.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore import random

Params = dict[str, Tensor]

GRAY = (0.2989, 0.587, 0.114)
ATTEMPTS = 10
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


@dataclass(frozen=True)
class Recipe:
    """What a recipe does. scale, ratio: area and width/height of the crop; jitter: strengths of
    brightness, contrast, saturation and hue; blur: side of the kernel (odd, 0 for none).

    Examples:
        >>> Recipe(size=32, blur=9).scale
        (0.08, 1.0)
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_chance: float = 0.8
    gray: float = 0.2
    blur: int = 0
    sigma: tuple[float, float] = (0.1, 2.0)
    blur_chance: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale: expected 0 < low <= high <= 1, got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio: expected 0 < low <= high, got {self.ratio}")
        if self.size < 1:
            raise ValueError(f"size: expected at least 1 pixel, got {self.size}")
        if self.blur and self.blur % 2 == 0:
            raise ValueError(f"blur: expected an odd kernel, or 0 for none, got {self.blur}")
        if min(self.jitter) < 0 or self.jitter[HUE] > 0.5:
            raise ValueError(f"jitter: expected strengths >= 0, hue at most 0.5, got {self.jitter}")
        for name in ("flip", "jitter_chance", "gray", "blur_chance"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected a chance in [0, 1], got {getattr(self, name)}")


RECIPES = {
    "cifar10": Recipe(32),
    "stl10": Recipe(96, jitter=(0.8, 0.8, 0.8, 0.2), blur=9),
    "mnist": Recipe(28, (0.5, 1.0), (0.5, 1.5), 0.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0),
}
"""Recipes of the papers' released programs (acl, ddn) and of nl App. E.3."""


# ------------------------------------------------------------------------------------ parameters


def crop_boxes(
    key: Int[Tensor, ""],
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> Int[Tensor, "n four"]:
    """Boxes (top, left, height, width) in whole pixels, one per image.

    Area uniform in `scale` of the image, the logarithm of width/height uniform in `ratio`, the
    place uniform; the first of ten draws that fits, else the largest box in the middle whose ratio
    is allowed.
    """
    shape, place = random.split(key)
    draw = random.uniform(shape, (2, n, ATTEMPTS))
    area = height * width * (scale[0] + (scale[1] - scale[0]) * draw[0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = torch.exp(low + (high - low) * draw[1])
    w, h = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.to(torch.int8).argmax(-1, keepdim=True)
    w, h = (side.gather(-1, first)[:, 0].long() for side in (w, h))
    whole = (height, width)
    if width / height < ratio[0]:
        whole = (round(width / ratio[0]), width)
    elif width / height > ratio[1]:
        whole = (height, round(height * ratio[1]))
    any_fits = fits.any(-1)
    h, w = torch.where(any_fits, h, whole[0]), torch.where(any_fits, w, whole[1])
    free = torch.stack([height - h, width - w])
    at = random.uniform(place, (2, n), dtype=torch.float64)
    corner = (at * (free + 1)).long()
    top, left = torch.where(any_fits, corner, free // 2)
    return torch.stack([top, left, h, w], -1)


def draw(key: Int[Tensor, ""], n: int, height: int, width: int, settings: Recipe) -> Params:
    """Parameters of n views of `height` x `width` images."""
    keys = random.split(key, 8)
    s = settings
    # Filled on the device: a copy from the host would make it wait.
    strength = torch.stack([torch.full((1,), value, device=key.device) for value in s.jitter])
    low = (1 - strength).clamp(min=0)
    factors = low + (1 + strength - low) * random.uniform(keys[1], (4, n))
    hue = strength[HUE] * (2 * random.uniform(keys[7], (n,)) - 1)
    return {
        "box": crop_boxes(keys[0], n, height, width, s.scale, s.ratio),
        "flip": random.bernoulli(keys[2], s.flip, (n,)),
        "jitter": random.bernoulli(keys[3], s.jitter_chance, (n,)),
        "factors": torch.cat([factors[:HUE], hue[None]]),
        "order": random.permutation(keys[4], 4, (n,)),
        "gray": random.bernoulli(keys[5], s.gray, (n,)),
        "blurred": random.bernoulli(random.fold_in(keys[6], 1), s.blur_chance, (n,)),
        "sigma": random.uniform(keys[6], (n,), *s.sigma),
    }


# ------------------------------------------------------------------------------------ operations


def _resampling(
    start: Float[Tensor, "n"], length: Float[Tensor, "n"], side: int, size: int
) -> Float[Tensor, "n {size} {side}"]:
    """Rows of weights that stretch [start, start + length) of `side` pixels to `size` pixels.

    Bilinear, confined to the interval; where it shrinks, the triangle widens (antialiasing).
    """
    step = (length / size)[:, None, None]
    out = torch.arange(size, device=start.device, dtype=start.dtype)[None, :, None]
    pixel = torch.arange(side, device=start.device, dtype=start.dtype)[None, None, :]
    first, last = start[:, None, None], (start + length)[:, None, None]
    centre = first + (out + 0.5) * step
    weight = (1 - (pixel + 0.5 - centre).abs() / step.clamp(min=1)).clamp(min=0)
    weight = torch.where((pixel >= first) & (pixel < last), weight, 0)
    return weight / weight.sum(-1, keepdim=True)


def _separable(
    x: Float[Tensor, "n c h w"], rows: Float[Tensor, "n a h"], columns: Float[Tensor, "n b w"]
) -> Float[Tensor, "n c a b"]:
    return rows[:, None] @ x @ columns[:, None].transpose(-1, -2)


def crop_resize(
    x: Float[Tensor, "n c h w"], box: Int[Tensor, "n four"], size: int
) -> Float[Tensor, "n c {size} {size}"]:
    """Cut a box (top, left, height, width) out of each image and scale it to size x size."""
    top, left, height, width = box.to(x.dtype).unbind(-1)
    rows = _resampling(top, height, x.shape[-2], size)
    return _separable(x, rows, _resampling(left, width, x.shape[-1], size))


def flip(x: Float[Tensor, "n c h w"], which: Bool[Tensor, "n"]) -> Float[Tensor, "n c h w"]:
    """Mirror the chosen images, left to right."""
    return torch.where(which[:, None, None, None], x.flip(-1), x)


def luminance(x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n one h w"]:
    """Grey values; an image of one channel is grey already."""
    if x.shape[1] == 1:
        return x
    red, green, blue = (weight * x[:, c : c + 1] for c, weight in enumerate(GRAY))
    return red + green + blue


def grayscale(x: Float[Tensor, "n c h w"], which: Bool[Tensor, "n"]) -> Float[Tensor, "n c h w"]:
    """The chosen images without their colours."""
    return torch.where(which[:, None, None, None], luminance(x).expand_as(x), x)


def shift_hue(x: Float[Tensor, "n three h w"], by: Float[Tensor, "n"]) -> Float[Tensor, "n 3 h w"]:
    """Turn the hue by a part of the colour circle, in (-0.5, 0.5); 0 changes nothing."""
    high, low = x.amax(1), x.amin(1)
    chroma = high - low
    safe = torch.where(chroma > 0, chroma, 1.0)
    r, g, b = ((high - x[:, c]) / safe for c in range(3))
    hue = torch.where(x[:, 0] == high, b - g, torch.where(x[:, 1] == high, 2 + r - b, 4 + g - r))
    hue = hue / 6 + by.to(x.dtype)[:, None, None]
    hue = hue - hue.floor()
    # Channel values from the hue: low + chroma times a trapezium, shifted by 5, 3, 1 sixths.
    turns = [torch.where(k < 6, k, k - 6) for k in (start + 6 * hue for start in (5, 3, 1))]
    parts = [torch.minimum(k, 4 - k).clamp(0, 1) for k in turns]
    return torch.stack([high - chroma * part for part in parts], 1)


def _blend(
    x: Float[Tensor, "n c h w"], factors: Float[Tensor, "four n"], kind: Int[Tensor, "n"]
) -> Float[Tensor, "n c h w"]:
    """Brightness, contrast or saturation, by each image's kind; HUE leaves the image unchanged."""
    factor = torch.where(kind == HUE, 1, factors.gather(0, kind[None])[0])
    rest = 1 - factor
    gray = luminance(x)
    mean = gray.mean((-1, -2), keepdim=True)
    # Sums, not torch.where, which is slow over broadcast tensors on a CPU: what is 0 adds nothing.
    own, flat, level = (
        weight[:, None, None, None]
        for weight in (factor, rest * (kind == SATURATION), rest * (kind == CONTRAST))
    )
    return (own * x + (flat * gray + level * mean)).clamp(0, 1)


def colour_jitter(
    x: Float[Tensor, "n c h w"], factors: Float[Tensor, "four n"], order: Int[Tensor, "n four"]
) -> Float[Tensor, "n c h w"]:
    """Brightness, contrast, saturation (factors; 1 changes nothing) and hue (a shift), each image
    in its own order: order[i, 0] is done first."""
    factors = factors.to(x.dtype)
    if x.shape[1] != 3:  # no hue to turn
        for slot in range(4):
            x = _blend(x, factors, order[:, slot])
        return x
    # Hue is dear and each image's is turned once: all blends before it, hue, all blends after it.
    hue_slot = (order == HUE).int().argmax(-1)
    for slot in range(3):
        x = _blend(x, factors, torch.where(hue_slot > slot, order[:, slot], HUE))
    x = shift_hue(x, factors[HUE])
    for slot in range(1, 4):
        x = _blend(x, factors, torch.where(hue_slot < slot, order[:, slot], HUE))
    return x


def _blurring(
    sigma: Float[Tensor, "n"], kernel: int, side: int
) -> Float[Tensor, "n {side} {side}"]:
    """Gaussian weights of each row's neighbours, mirrored at the border."""
    reach = kernel // 2
    offset = torch.arange(-reach, reach + 1, device=sigma.device)
    weight = torch.exp(-((offset / sigma[:, None]) ** 2) / 2)
    weight = weight / weight.sum(-1, keepdim=True)
    at = (torch.arange(side, device=sigma.device)[:, None] + offset).abs()
    at = torch.where(at >= side, 2 * (side - 1) - at, at)
    places = torch.nn.functional.one_hot(at, side).to(sigma.dtype)  # row, offset, column
    return torch.einsum("nk,rkc->nrc", weight, places)


def blur(
    x: Float[Tensor, "n c h w"],
    sigma: Float[Tensor, "n"],
    which: Bool[Tensor, "n"],
    kernel: int,
) -> Float[Tensor, "n c h w"]:
    """The chosen images under a Gaussian of width sigma, cut to `kernel` pixels. Errors: a kernel
    that is even, or reaches across the image."""
    if kernel % 2 == 0 or kernel // 2 >= min(x.shape[-2:]):
        raise ValueError(
            f"kernel: expected an odd side below twice the image's, got {kernel} for "
            f"{x.shape[-2]} x {x.shape[-1]} pixels"
        )
    sigma = sigma.to(x.dtype)
    soft = _separable(
        x, _blurring(sigma, kernel, x.shape[-2]), _blurring(sigma, kernel, x.shape[-1])
    )
    return torch.where(which[:, None, None, None], soft, x)


# ------------------------------------------------------------------------------------------ views


def apply(
    x: Float[Tensor, "n c h w"], params: Params, settings: Recipe
) -> Float[Tensor, "n c {settings.size} {settings.size}"]:
    """Crop, flip, jitter, grey, blur, in this order; what a recipe never does costs nothing."""
    s = settings
    x = crop_resize(x, params["box"], s.size)
    if s.flip:
        x = flip(x, params["flip"])
    if s.jitter_chance and any(s.jitter):
        changed = colour_jitter(x, params["factors"], params["order"])
        x = torch.where(params["jitter"][:, None, None, None], changed, x)
    if s.gray:
        x = grayscale(x, params["gray"])
    if s.blur:
        x = blur(x, params["sigma"], params["blurred"], s.blur)
    return x


def _require_images(x: Any, settings: Any) -> None:
    if not isinstance(settings, Recipe):
        raise TypeError(
            f"settings: expected a Recipe, got {settings!r}; RECIPES has those of {list(RECIPES)}"
        )
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = x.dtype if isinstance(x, Tensor) else f"a {type(x).__name__}"
        raise TypeError(
            f"x: expected a tensor of values in [0, 1], got {got}; of pixels take .float() / 255"
        )
    if x.ndim != 4:
        raise ValueError(
            f"x: expected images of shape [n, c, h, w], got {list(x.shape)}; one image is x[None]"
        )
    colours = settings.gray or (settings.jitter_chance and any(settings.jitter))
    if colours and x.shape[1] not in (1, 3):
        raise ValueError(
            f"x: expected 1 or 3 channels, got shape {list(x.shape)}; if they come last, take "
            "x.permute(0, 3, 1, 2), or a Recipe without jitter and gray"
        )


def view(
    key: Int[Tensor, ""], x: Float[Tensor, "n c h w"], settings: Recipe
) -> Float[Tensor, "n c {settings.size} {settings.size}"]:
    """One random view of every image; two keys make a positive pair.

    x: values in [0, 1], as `pixels.float() / 255` has them. Errors: images that are not `[n, c, h,
    w]` or no floating-point numbers, other channels than 1 or 3 where colours change, no Recipe.

    Examples:
        >>> x = torch.rand(4, 3, 40, 40)
        >>> view(random.key(0), x, RECIPES["cifar10"]).shape
        torch.Size([4, 3, 32, 32])
    """
    _require_images(x, settings)
    return apply(x, draw(key, x.shape[0], x.shape[-2], x.shape[-1], settings), settings)
