"""What is done to the pixels of a view (ddn Sec. 7): colours, greys, blur, one after another, pixel
by pixel in Python."""

import colorsys
from itertools import permutations

import numpy as np
import torch

from clcore.images import augmentations as aug
from clcore.ledger import Trial, pooled
from clcore.reference import Array, absolute

SIDE = 6


def by_hand(t: Trial) -> None:
    """Jitter in every order, grey, blur, and a whole view. Controls: another order, the hue turned
    the other way, the mean of the channels for grey, a wider Gaussian, views of other images."""
    _jitter(t)
    _grey(t)
    _blurred(t)
    _whole(t)


def _grey_of(x: Array) -> Array:
    """Of one image [c, h, w], weights as in torchvision, of sum 0.9999."""
    return x[0] if len(x) == 1 else 0.2989 * x[0] + 0.587 * x[1] + 0.114 * x[2]


def _turned(x: Array, by: float) -> Array:
    """The hue of one image [3, h, w] turned by a part of the circle."""
    out = np.empty_like(x)
    for y, at in np.ndindex(x.shape[1:]):
        hue, saturation, value = colorsys.rgb_to_hsv(*x[:, y, at])
        out[:, y, at] = colorsys.hsv_to_rgb((hue + by) % 1.0, saturation, value)
    return out


def _one(x: Array, kind: int, factor: float) -> Array:
    """Brightness (0), contrast (1), saturation (2) or hue (3) of one image."""
    if kind == 3:
        return _turned(x, factor) if len(x) == 3 else x
    grey = _grey_of(x)
    other = (0.0, grey.mean(), grey)[kind]
    return np.clip(factor * x + (1 - factor) * other, 0, 1)


def _jittered(x: Array, factors: Array, order: Array) -> Array:
    for kind in order:
        x = _one(x, int(kind), factors[kind])
    return x


def _images(t: Trial, what: str, count: int, channels: int = 3) -> Array:
    x = t.stream(what).random((count, channels, SIDE, SIDE))
    x[:, :, 0, 0] = 0.5  # no colour
    x[:, :, 0, 1] = x[:, :1, 0, 1]
    return x


def _jitter(t: Trial) -> None:
    part = t.defines("direct test: jitter by hand", 1e-10, controls=pooled)
    rng, orders = t.stream("jitter"), np.array(list(permutations(range(4))))
    count = len(orders)
    factors = rng.uniform(0.3, 1.7, (4, count))
    factors[3] = rng.uniform(-0.5, 0.5, count)
    for channels in (3, 1):
        x = _images(t, f"jitter {channels}", count, channels)
        ours = aug.colour_jitter(*map(torch.from_numpy, (x, factors, orders))).numpy()

        def hand(factors: Array, orders: Array, x: Array = x) -> Array:
            cases = zip(x, factors.T, orders, strict=True)
            return np.array([_jittered(image, by, order) for image, by, order in cases])

        part.add(absolute(ours, hand(factors, orders)))
        part.breaks(
            "factors of another image", absolute(ours, hand(np.roll(factors, 1, 1), orders))
        )
        if channels == 3:
            part.breaks("the other order", absolute(ours, hand(factors, orders[:, ::-1])))
            back = np.array([1.0, 1.0, 1.0, -1.0])[:, None] * factors
            part.breaks("hue turned back", absolute(ours, hand(back, orders)))


def _grey(t: Trial) -> None:
    part = t.defines("direct test: grey and mirrored by hand", 1e-12, controls=pooled)
    x, chosen = _images(t, "grey", 8), np.arange(8) % 2 == 0
    which = torch.from_numpy(chosen)
    grey = np.array([[_grey_of(v)] * 3 for v in x])
    ours = aug.grayscale(torch.from_numpy(x), which).numpy()
    part.add(absolute(ours, np.where(chosen[:, None, None, None], grey, x)))
    flat = x.mean(1, keepdims=True) + 0 * x
    part.breaks("the mean of channels", absolute(ours, flat)[chosen])
    mirrored = np.array([[row[::-1] for row in v.reshape(-1, SIDE)] for v in x]).reshape(x.shape)
    ours = aug.flip(torch.from_numpy(x), which).numpy()
    part.add(absolute(ours, np.where(chosen[:, None, None, None], mirrored, x)))
    part.breaks("upside down", absolute(ours, x[:, :, ::-1])[chosen])


def _soft(x: Array, sigma: float, kernel: int) -> Array:
    """A Gaussian over `kernel` pixels each way, the image mirrored at its outermost pixels."""
    reach = kernel // 2
    wide = np.pad(x, ((0, 0), (reach, reach), (reach, reach)), mode="reflect")
    out, whole = np.zeros_like(x), 0.0
    for u in range(-reach, reach + 1):
        for v in range(-reach, reach + 1):
            weight = np.exp(-(u**2 + v**2) / (2 * sigma**2))
            shifted = wide[:, reach + u : reach + u + SIDE, reach + v : reach + v + SIDE]
            out, whole = out + weight * shifted, whole + weight
    return out / whole


def _blurred(t: Trial) -> None:
    part = t.defines("direct test: blur by hand", 1e-10, controls=pooled)
    x, sigma = _images(t, "blur", 9), t.stream("sigma").uniform(0.3, 2.0, 9)
    chosen = np.arange(9) % 3 > 0
    for kernel in (3, 5, 9):
        ours = aug.blur(*map(torch.from_numpy, (x, sigma, chosen)), kernel).numpy()

        def hand(wider: float, kernel: int = kernel) -> Array:
            cases = zip(x, sigma, chosen, strict=True)
            return np.array([_soft(v, wider * s, kernel) if c else v for v, s, c in cases])

        part.add(absolute(ours, hand(1.0)))
        part.breaks("1.5 sigma", absolute(ours, hand(1.5))[chosen])
        every = np.array([_soft(v, 1.0, kernel) for v in x])
        part.breaks("all of them", absolute(ours, every)[~chosen])


def _whole(t: Trial) -> None:
    """All of a recipe's steps, cut, mirrored, jittered, greyed and blurred in this order."""
    part = t.defines("direct test: a view by hand", 1e-10, controls=pooled)
    x = _images(t, "view", 12)
    recipe = aug.Recipe(SIDE, jitter_chance=0.6, gray=0.4, blur=3, blur_chance=0.6)
    key = t.keys(1, "view")[0]
    ours = aug.view(key, torch.from_numpy(x), recipe).numpy()
    of = {name: value.numpy() for name, value in aug.draw(key, 12, SIDE, SIDE, recipe).items()}
    cut = aug.crop_resize(torch.from_numpy(x), torch.from_numpy(of["box"]), SIDE).numpy()
    hand = []
    for k, image in enumerate(cut):
        image = image[:, :, ::-1] if of["flip"][k] else image
        if of["jitter"][k]:
            image = _jittered(image, of["factors"][:, k].astype(float), of["order"][k])
        if of["gray"][k]:
            image = np.array([_grey_of(image)] * 3)
        hand.append(_soft(image, float(of["sigma"][k]), 3) if of["blurred"][k] else image)
    part.add(absolute(ours, np.array(hand)))
    part.breaks("of the next image", absolute(ours, np.roll(hand, 1, 0)))
    part.breaks("cut alone", absolute(ours, cut)[of["jitter"] | of["gray"] | of["blurred"]])
