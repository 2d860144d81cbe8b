"""What the views of ddn Sec. 7 are drawn from: strengths, chances and boxes of a recipe.

Of many draws at once: distribution functions against those that the recipe means, in the scale of
Kolmogorov's law, and frequencies in standard errors.
"""

from itertools import combinations

import numpy as np
import torch

from clcore.images.augmentations import RECIPES, Recipe, crop_boxes, crop_resize, draw
from clcore.ledger import Trial
from clcore.reference import Array, absolute, kolmogorov

N = 4000
FIRMLY = 5.0  # standard errors
EVEN = 3.0  # of `kolmogorov`


def drawn(t: Trial) -> None:
    """Views do as much and as often what their recipe says, one thing apart from another.
    Controls: half the range, a change as often as not a change, two from one key."""
    strengths = t.defines("direct test: strengths of views", EVEN)
    chances = t.defines("direct test: chances of views", FIRMLY)
    apart = t.defines("direct test: drawn apart", FIRMLY)
    for key, recipe in zip(
        t.keys(2, "recipes"), (RECIPES["cifar10"], RECIPES["stl10"]), strict=True
    ):
        of = {k: v.double().numpy() for k, v in draw(key, N, 96, 96, recipe).items()}
        s = recipe.jitter
        ranges = [(max(0.0, 1 - k), 1 + k) for k in s[:3]] + [(-s[3], s[3]), recipe.sigma]
        values = [*of["factors"], of["sigma"]]
        for x, (low, high) in zip(values, ranges, strict=True):
            strengths.add(kolmogorov(x, low, high), max(0.0, low - x.min(), x.max() - high) * N)
            strengths.breaks("half the range", kolmogorov(x, low, (low + high) / 2))
        wanted = {
            "flip": recipe.flip,
            "jitter": recipe.jitter_chance,
            "gray": recipe.gray,
            "blurred": recipe.blur_chance,
        }
        for name, chance in wanted.items():
            error = np.sqrt(chance * (1 - chance) / N)
            chances.add(abs(of[name].mean() - chance) / error)
            if chance != 0.5:
                chances.breaks("as often as not", abs(of[name].mean() - 0.5) / error)
        orders, often = np.unique(of["order"], axis=0, return_counts=True)
        chances.add(len(orders) - 24.0, np.abs(often - N / 24) / np.sqrt(N / 24))
        every = [*values, *(of[name] for name in wanted), *of["order"].T[:1], *of["box"].T]
        for a, b in combinations(range(len(every) - 4), 2):
            apart.add(np.sqrt(N) * abs(np.corrcoef(every[a], every[b])[0, 1]))
        for place, other in ((box, k) for box in every[-4:] for k in every[:-4]):
            apart.add(np.sqrt(N) * abs(np.corrcoef(place, other)[0, 1]))
        apart.breaks("one key", np.sqrt(N) * np.corrcoef(values[0], values[0] > 1)[0, 1])
    strong = draw(t.keys(1, "strong")[0], N, 8, 8, Recipe(8, jitter=(1.5, 0.0, 0.0, 0.0)))
    strengths.add(kolmogorov(strong["factors"][0].double().numpy(), 0.0, 2.5))
    _boxes(t)


def _boxes(t: Trial) -> None:
    """Boxes: area, the logarithm of width over height and place uniform; where none fits, the
    largest in the middle of an allowed ratio. Of images that are not square, too, cut by hand."""
    even = t.defines("direct test: boxes of views", EVEN)
    middle = t.defines("direct test: the largest box", 0.0)
    cut = t.defines("direct test: a box of a wide image", 1e-5)
    (H, W), scale, ratio = (900, 1200), (0.2, 0.4), (0.6, 1.5)
    top, left, h, w = (
        v.double().numpy() for v in crop_boxes(t.keys(1, "boxes")[0], N, H, W, scale, ratio).T
    )
    for x, low, high in (
        (h * w / (H * W), *scale),
        (np.log(w / h), *np.log(ratio)),
        ((top + 0.5) / (H - h + 1), 0.0, 1.0),
        ((left + 0.5) / (W - w + 1), 0.0, 1.0),
    ):
        even.add(kolmogorov(x, low, high))
        even.breaks("half the range", kolmogorov(x, low, (low + high) / 2))
    even.breaks("height over width", kolmogorov(np.log(h / w), *np.log(ratio)))
    for (H, W), ratio, box in (
        ((20, 30), (3.0, 4.0), (5, 0, 10, 30)),
        ((30, 20), (0.25, 0.4), (0, 4, 30, 12)),
        ((20, 20), (0.01, 100.0), (0, 0, 20, 20)),
    ):
        key = t.keys(1, "none fits")[0]
        found = crop_boxes(key, 50, H, W, (1.0, 1.0), ratio).numpy()
        middle.add(np.abs(found - box).max(-1))
        if H != W:
            middle.breaks("the whole image", np.abs(found - [0, 0, H, W]).max(-1))
    x = t.stream("a wide image").random((5, 2, 6, 9))
    boxes = crop_boxes(t.keys(1, "a wide image")[0], 5, 6, 9, (0.2, 0.8), (0.5, 2.0))
    ours = crop_resize(torch.from_numpy(x), boxes, 4)
    by_hand = [_cut(v, b) for v, b in zip(x, boxes.numpy(), strict=True)]
    cut.add(absolute(ours, np.array(by_hand)))
    cut.breaks("the next image's", absolute(ours, np.roll(by_hand, 1, 0)))
    _that_fits(t)


def _that_fits(t: Trial) -> None:
    """Of a square image, shares a of its area above 1/2 and ratios between 1/2 and 2: a draw fits
    with chance -log2 a, so that the first of ten that fits has density proportional to it, and a
    ratio between a and 1/a; where none of ten fits, the whole image. Controls: the law of a draw
    that need not fit, one attempt."""
    part = t.defines("direct test: the first box that fits", EVEN)
    side, log2 = 9000, np.log(2)
    key = t.keys(1, "the first that fits")[0]
    boxes = crop_boxes(key, N, side, side, (0.5, 1.0), (0.5, 2.0)).double().numpy()
    h, w = boxes[:, 2:].T
    whole = (h == side) & (w == side)
    h, w = h[~whole] / side, w[~whole] / side
    a, low = h * w, 0.5 + 0.5 * log2
    part.add(kolmogorov((a - a * np.log(a) - low) / (1 - low), 0.0, 1.0))
    part.breaks("area uniform", kolmogorov(a, 0.5, 1.0))
    part.add(kolmogorov(np.log(w / h) / -np.log(a), -1.0, 1.0))
    part.breaks("ratio uniform", kolmogorov(np.log(w / h), -log2, log2))
    misses = 1 - (1 - log2) / log2
    for name, attempts in (("", 10), ("one attempt", 1)):
        chance = misses**attempts
        off = abs(whole.mean() - chance) / np.sqrt(chance * (1 - chance) / N) * EVEN / FIRMLY
        part.breaks(name, off) if name else part.add(off)


def _cut(x: Array, box: Array, size: int = 4) -> Array:
    """A box (top, left, height, width) of [c, h, w], each new pixel a mean of those below it with
    weights that fall linearly, over a pixel or over a new pixel's width."""
    for axis, (start, length) in ((1, box[[0, 2]]), (2, box[[1, 3]])):
        kept = np.moveaxis(x, axis, 0)[start : start + length]
        step, rows = length / size, []
        for k in range(size):
            away = np.abs(np.arange(length) + 0.5 - (k + 0.5) * step)
            weight = np.maximum(0, 1 - away / max(step, 1.0))
            rows.append(np.tensordot(weight / weight.sum(), kept, 1))
        x = np.moveaxis(np.array(rows), 0, axis)
    return x
