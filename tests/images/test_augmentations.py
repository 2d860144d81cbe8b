"""Augmentations against plain code for one image: torch's resize, colorsys, Pillow, convolution."""

import colorsys
import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch.func import vmap
from torch.nn import functional as F

from clcore import random
from clcore.images import augmentations as aug
from clcore.images import digits, image_sets
from clcore.images.augmentations import RECIPES, Recipe

pytestmark = pytest.mark.usefixtures("one_thread")
NEUTRAL = {"flip": 0.0, "jitter": (0.0,) * 4, "jitter_chance": 1.0, "gray": 0.0}
WHOLE = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0)}


@pytest.fixture(scope="module")
def photos():
    """Patches of photographs, `n c h w` in [0, 1], float64."""
    pixels, _ = image_sets.on_device(image_sets.load("photographs"))
    return pixels[::20].double() / 255


# -------------------------------------------------------------------------------- whole recipes


def test_zero_strength_changes_nothing(photos):
    """Every operation runs, each with parameters that mean no change."""
    settings = Recipe(32, **WHOLE, **NEUTRAL, blur=3, sigma=(1e-3, 1e-3), blur_chance=1.0)
    assert torch.allclose(aug.view(random.key(0), photos, settings), photos, atol=1e-6)


def test_view_is_its_operations_one_image_at_a_time(photos):
    settings = RECIPES["stl10"]
    params = aug.draw(random.key(3), len(photos), 32, 32, settings)
    found = aug.apply(photos, params, settings)
    assert found.equal(aug.view(random.key(3), photos, settings))
    for i, image in enumerate(photos):
        top, left, h, w = params["box"][i].tolist()
        x = resize(image[:, top : top + h, left : left + w], 96)
        x = x.flip(-1) if params["flip"][i] else x
        if params["jitter"][i]:
            x = jitter(x, params["factors"][:, i].tolist(), params["order"][i].tolist())
        x = gray(x).expand(3, -1, -1) if params["gray"][i] else x
        x = blurred(x, float(params["sigma"][i]), 9) if params["blurred"][i] else x
        assert torch.allclose(found[i], x, atol=1e-6), i


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_view_is_a_function_of_its_key(photos, recipe):
    settings = RECIPES[recipe]
    x = photos.mean(1, keepdim=True) if recipe == "mnist" else photos
    one = aug.view(random.key(1), x, settings)
    assert torch.equal(one, aug.view(random.key(1), x, settings))
    assert not torch.equal(one, aug.view(random.key(2), x, settings))
    assert one.shape[-1] == settings.size
    assert one.min() >= -1e-9 and one.max() <= 1 + 1e-9


def test_runs_do_not_touch_each_other(photos):
    """Under vmap a run's views are those it has alone."""
    keys, x = random.key(torch.arange(3)), photos[:6]
    many = vmap(lambda k: aug.view(k, x, RECIPES["stl10"]))(keys)
    for key, found in zip(keys, many, strict=True):
        assert torch.allclose(found, aug.view(key, x, RECIPES["stl10"]), atol=1e-12)


def test_images_have_parameters_of_their_own(photos):
    same = photos[:1].expand(200, -1, -1, -1)
    found = aug.view(random.key(5), same, RECIPES["cifar10"]).flatten(1)
    assert len(torch.unique(found.round(decimals=9), dim=0)) == 200


def test_chances_and_ranges():
    n, s = 20000, RECIPES["stl10"]
    p = aug.draw(random.key(8), n, 96, 96, s)
    for name, chance in (("flip", 0.5), ("jitter", 0.8), ("gray", 0.2), ("blurred", 0.5)):
        assert float(p[name].double().mean()) == pytest.approx(chance, abs=4 * 0.5 / n**0.5)
    low, high = p["factors"].amin(1), p["factors"].amax(1)
    assert low == pytest.approx([0.2, 0.2, 0.2, -0.2], abs=1e-3)
    assert high == pytest.approx([1.8, 1.8, 1.8, 0.2], abs=1e-3)
    assert p["sigma"].min() >= 0.1 and p["sigma"].max() < 2.0
    codes = (p["order"] * torch.tensor([64, 16, 4, 1])).sum(1)
    orders, counts = codes.unique(return_counts=True)
    assert len(orders) == 24
    assert (counts - n / 24).abs().max() < 5 * (n / 24) ** 0.5
    strong = aug.draw(random.key(8), 50, 8, 8, Recipe(8, jitter=(1.5, 0.0, 0.0, 0.0)))
    assert strong["factors"][0].min() >= 0  # a factor is never negative


# -------------------------------------------------------------------------------------- the crops


def resize(image, size):
    return F.interpolate(image[None], (size, size), mode="bilinear", antialias=True)[0]


@pytest.mark.parametrize("size", [32, 20, 7, 50])
def test_crop_is_torch_s_resize_of_the_box(photos, size):
    boxes = aug.crop_boxes(random.key(2), len(photos), 32, 32, (0.08, 1.0), (3 / 4, 4 / 3))
    found = aug.crop_resize(photos, boxes, size)
    for image, crop, (top, left, h, w) in zip(photos, found, boxes.tolist(), strict=True):
        expected = resize(image[:, top : top + h, left : left + w], size)
        assert torch.allclose(crop, expected, atol=1e-9)


def test_a_crop_of_an_image_that_is_not_square(photos):
    wide = photos[:, :, 4:20]  # 16 x 32
    boxes = aug.crop_boxes(random.key(2), len(wide), 16, 32, (0.08, 1.0), (3 / 4, 4 / 3))
    for image, crop, (top, left, h, w) in zip(
        wide, aug.crop_resize(wide, boxes, 9), boxes.tolist(), strict=True
    ):
        expected = resize(image[:, top : top + h, left : left + w], 9)
        assert torch.allclose(crop, expected, atol=1e-9)


def one_box(areas, aspects, place, height, width, scale, ratio):
    """The rule for one image: ten attempts, then the largest box in the middle."""
    for area, aspect in zip(areas, aspects, strict=True):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + (high - low) * aspect)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return [int(place[0] * (height - h + 1)), int(place[1] * (width - w + 1)), h, w]
    if width / height < ratio[0]:
        h, w = round(width / ratio[0]), width
    elif width / height > ratio[1]:
        h, w = height, round(height * ratio[1])
    else:
        h, w = height, width
    return [(height - h) // 2, (width - w) // 2, h, w]


@pytest.mark.parametrize(
    ("height", "width", "scale", "ratio"),
    [
        (28, 28, (0.5, 1.0), (0.5, 1.5)),
        (32, 32, (0.08, 1.0), (3 / 4, 4 / 3)),
        (10, 40, (0.9, 1.0), (3 / 4, 4 / 3)),  # never fits: the fall-back
        (40, 10, (0.9, 1.0), (3 / 4, 4 / 3)),
        (20, 20, (0.9, 1.0), (0.3, 3.0)),
    ],
)
def test_boxes_are_the_rule_image_by_image(height, width, scale, ratio):
    n, key = 300, random.key(4)
    found = aug.crop_boxes(key, n, height, width, scale, ratio)
    shape, place = random.split(key)
    draw = random.uniform(shape, (2, n, aug.ATTEMPTS)).tolist()
    at = random.uniform(place, (2, n), dtype=torch.float64).tolist()
    for i in range(n):
        corner = (at[0][i], at[1][i])
        expected = one_box(draw[0][i], draw[1][i], corner, height, width, scale, ratio)
        assert found[i].tolist() == expected
    top, left, h, w = found.unbind(-1)
    assert (top >= 0).all() and (left >= 0).all()
    assert (top + h <= height).all() and (left + w <= width).all()


def test_boxes_reach_every_corner():
    top, left, h, w = aug.crop_boxes(random.key(6), 4000, 28, 28, (0.5, 1.0), (0.5, 1.5)).unbind(-1)
    for first, side in ((top, h), (left, w)):
        assert (first == 0).any() and (first + side == 28).any()
    share = (h * w).double() / 28**2
    assert share.min() > 0.47 and share.max() == 1
    assert (w.double() / h).min() < 0.6 and (w.double() / h).max() > 1.4


# ---------------------------------------------------------------------------------------- colours


def gray(x):
    return (0.2989 * x[0] + 0.587 * x[1] + 0.114 * x[2])[None]


def hue(x, by):
    out = x.clone()
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            h, s, v = colorsys.rgb_to_hsv(*x[:, i, j].tolist())
            out[:, i, j] = torch.tensor(colorsys.hsv_to_rgb((h + by) % 1.0, s, v))
    return out


def jitter(x, factors, order):
    """torchvision's rule for one image."""
    for kind in order:
        f = factors[kind]
        if kind == aug.BRIGHTNESS:
            x = (f * x).clamp(0, 1)
        elif kind == aug.CONTRAST:
            x = (f * x + (1 - f) * gray(x).mean()).clamp(0, 1)
        elif kind == aug.SATURATION:
            x = (f * x + (1 - f) * gray(x)).clamp(0, 1)
        else:
            x = hue(x, f)
    return x


def test_hue_is_colorsys(photos):
    x = photos[:4, :, :6, :6].clone()
    x[0, :, 0] = 0.3  # grey
    x[1, :, 0] = torch.tensor([0.9, 0.9, 0.1])[:, None]  # two channels share the maximum
    by = torch.tensor([0.1, -0.2, 0.5, 0.0], dtype=torch.float64)
    found = aug.shift_hue(x, by)
    for i in range(4):
        assert torch.allclose(found[i], hue(x[i], float(by[i])), atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "pillow"),
    [
        (aug.BRIGHTNESS, ImageEnhance.Brightness),
        (aug.CONTRAST, ImageEnhance.Contrast),
        (aug.SATURATION, ImageEnhance.Color),
    ],
)
@pytest.mark.parametrize("factor", [0.3, 1.7])
def test_factors_are_pillow_s(photos, kind, pillow, factor):
    """Pillow rounds to bytes: within two of 255 steps."""
    x = photos[:3]
    factors = torch.ones(4, 3, dtype=torch.float64)
    factors[aug.HUE] = 0
    factors[kind] = factor
    found = aug.colour_jitter(x, factors, random.permutation(random.key(0), 4, (3,)))
    for image, mine in zip(x, found, strict=True):
        bytes_ = (image.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
        theirs = np.asarray(pillow(Image.fromarray(bytes_)).enhance(factor)) / 255
        assert np.abs(mine.permute(1, 2, 0).numpy() - theirs).max() < 2.5 / 255


def test_order_matters_and_is_each_image_s_own(photos):
    # Where brightness is clipped; elsewhere it commutes with contrast.
    x = photos[photos.flatten(1).std(1).argmax()].expand(2, -1, -1, -1)
    factors = torch.tensor([[1.8], [0.4], [1.0], [0.0]], dtype=torch.float64).expand(4, 2)
    order = torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]])
    one, other = aug.colour_jitter(x, factors, order)
    assert (one - other).abs().max() > 0.05
    assert torch.allclose(other, jitter(x[0], [1.8, 0.4, 1.0, 0.0], [1, 0, 2, 3]), atol=1e-9)


def test_every_order_is_done_one_after_another(photos):
    """Hue turned first, between the others, and last, on an image that all four change."""
    orders = torch.tensor(list(itertools.permutations(range(4))))
    x = photos[photos.flatten(1).std(1).argmax()].expand(len(orders), -1, -1, -1)
    factors = [1.6, 0.5, 1.7, 0.15]
    each = torch.tensor(factors, dtype=torch.float64)[:, None].expand(4, len(orders))
    found = aug.colour_jitter(x, each, orders)
    for order, mine in zip(orders.tolist(), found, strict=True):
        assert torch.allclose(mine, jitter(x[0], factors, order), atol=1e-9)


def test_jitter_of_grey_images(photos):
    """No hue to turn; every other factor counts, in its order."""
    x = photos[:4, :1]
    factors = torch.tensor([[1.6, 0.5], [0.4, 1.8], [0.3, 1.7], [0.2, -0.4]], dtype=torch.float64)
    orders = torch.tensor([[0, 1, 2, 3], [1, 3, 0, 2]])
    found = aug.colour_jitter(x, factors.repeat(1, 2), orders.repeat(2, 1))
    for i, mine in enumerate(found):
        expected = x[i]
        for kind in orders[i % 2].tolist():
            f = float(factors[kind, i % 2])
            other = {aug.BRIGHTNESS: 0 * expected, aug.CONTRAST: expected.mean()}
            if kind in other:  # saturation mixes a grey image with itself
                expected = (f * expected + (1 - f) * other[kind]).clamp(0, 1)
        assert torch.allclose(mine, expected, atol=1e-12)


def test_gray_and_flip_choose_images(photos):
    which = torch.tensor([True, False])
    x = photos[:2]
    grey = aug.grayscale(x, which)
    assert torch.allclose(grey[0], gray(x[0]).expand(3, -1, -1))
    assert torch.equal(grey[1], x[1])
    turned = aug.flip(x, which)
    assert torch.equal(turned[0], x[0].flip(-1)) and torch.equal(turned[1], x[1])
    single = x[:, :1]
    assert torch.equal(aug.grayscale(single, which), single)


# ------------------------------------------------------------------------------------------- blur


def blurred(image, sigma, kernel):
    offset = torch.arange(kernel, dtype=torch.float64) - kernel // 2
    line = torch.exp(-(offset**2) / (2 * sigma**2))
    line = line / line.sum()
    square = (line[:, None] * line)[None, None]
    reach = kernel // 2
    padded = F.pad(image[:, None], (reach,) * 4, mode="reflect")
    return F.conv2d(padded, square.to(image.dtype))[:, 0]


@pytest.mark.parametrize("kernel", [3, 9])
def test_blur_is_a_convolution_with_mirrored_border(photos, kernel):
    x, sigma = photos[:5], torch.tensor([0.1, 0.5, 1.0, 1.5, 2.0], dtype=torch.float64)
    which = torch.tensor([True, True, False, True, True])
    found = aug.blur(x, sigma, which, kernel)
    for i in range(5):
        expected = blurred(x[i], float(sigma[i]), kernel) if which[i] else x[i]
        assert torch.allclose(found[i], expected, atol=1e-9)


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scale": (0.0, 1.0)}, r"scale: expected 0 < low <= high <= 1, got \(0\.0, 1\.0\)"),
        ({"scale": (0.5, 1.2)}, "scale: expected"),
        ({"ratio": (2.0, 1.0)}, "ratio: expected 0 < low <= high"),
        ({"size": 0}, "size: expected at least 1 pixel, got 0"),
        ({"blur": 4}, "blur: expected an odd kernel, or 0 for none, got 4"),
        ({"jitter": (0.4, 0.4, 0.4, 0.6)}, "hue at most 0.5"),
        ({"jitter": (-0.1, 0.4, 0.4, 0.1)}, "jitter: expected strengths >= 0"),
        ({"flip": 1.5}, r"flip: expected a chance in \[0, 1\], got 1.5"),
    ],
)
def test_settings_that_make_no_sense(change, told):
    with pytest.raises(ValueError, match=told):
        Recipe(**{"size": 32} | change)


def test_what_is_no_batch_of_images_is_refused(unchecked_shapes):
    x, recipe = torch.rand(2, 3, 8, 8), Recipe(8)
    for bad, error, told in (
        ((255 * x).to(torch.uint8), TypeError, r"values in \[0, 1\], got torch.uint8; .* / 255"),
        (x.numpy(), TypeError, "a tensor of values .* got a ndarray"),
        (x[0], ValueError, r"\[n, c, h, w\], got \[3, 8, 8\]; one image is x\[None\]"),
        (
            x.permute(0, 2, 3, 1),
            ValueError,
            r"1 or 3 channels, got shape \[2, 8, 8, 3\]; .*permute",
        ),
    ):
        with pytest.raises(error, match=f"x: expected .*{told}"):
            aug.view(random.key(0), bad, recipe)
    with pytest.raises(TypeError, match=r"expected a Recipe, got 'mnist'; .*'mnist'\]"):
        aug.view(random.key(0), x, "mnist")
    plain = Recipe(8, jitter_chance=0.0, gray=0.0)
    assert aug.view(random.key(0), torch.rand(2, 5, 8, 8), plain).shape == (2, 5, 8, 8)
    with pytest.raises(ValueError, match=r"images: expected shape \[n, h, w\], got \[2, 64\]"):
        digits.augment(random.key(0), torch.rand(2, 64))


@pytest.mark.parametrize("kernel", [4, 65])
def test_kernel_that_does_not_fit(photos, kernel):
    yes = torch.ones(len(photos), dtype=torch.bool)
    with pytest.raises(ValueError, match=rf"expected an odd side .* got {kernel} for 32 x 32"):
        aug.blur(photos, torch.ones(len(photos), dtype=torch.float64), yes, kernel)
