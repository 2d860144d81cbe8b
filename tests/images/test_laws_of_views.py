"""The laws of what a recipe draws, one parameter apart from another, over thousands of views.

Distribution functions in the scale of Kolmogorov's law (`kolmogorov`: above 3 with a chance of
3e-8), frequencies and correlations in standard errors.
"""

from itertools import combinations

import numpy as np
import pytest

from clcore import random
from clcore.images.augmentations import RECIPES, Recipe, crop_boxes, draw
from clcore.reference import kolmogorov

pytestmark = pytest.mark.usefixtures("one_thread")
N, STANDARD_ERRORS = 4000, 5.0


@pytest.fixture(params=["cifar10", "stl10"])
def drawn(request):
    """(a recipe, its parameters for N images of 96 x 96 pixels)."""
    recipe = RECIPES[request.param]
    params = draw(random.key(7), N, 96, 96, recipe)
    return recipe, {name: value.double().numpy() for name, value in params.items()}


def strengths(params):
    return [*params["factors"], params["sigma"]]


def test_factors_hue_and_blur_are_uniform(drawn):
    recipe, params = drawn
    *factors, hue = recipe.jitter
    ranges = [*((1 - s, 1 + s) for s in factors), (-hue, hue), recipe.sigma]
    for x, (low, high) in zip(strengths(params), ranges, strict=True):
        assert low <= x.min() + 1e-7 and x.max() <= high + 1e-7
        assert kolmogorov(x, low, high) < 3


def test_a_strength_above_1_stops_at_0():
    strong = draw(random.key(8), N, 8, 8, Recipe(8, jitter=(1.5, 0.0, 0.0, 0.0)))["factors"]
    assert kolmogorov(strong[0].double().numpy(), 0.0, 2.5) < 3
    assert (strong[1:3] == 1).all() and (strong[3] == 0).all()


def test_how_often_and_in_which_order(drawn):
    recipe, params = drawn
    chances = {
        "flip": recipe.flip,
        "jitter": recipe.jitter_chance,
        "gray": recipe.gray,
        "blurred": recipe.blur_chance,
    }
    for name, chance in chances.items():
        error = np.sqrt(chance * (1 - chance) / N)
        assert abs(params[name].mean() - chance) < STANDARD_ERRORS * error
    orders, often = np.unique(params["order"], axis=0, return_counts=True)
    assert len(orders) == 24
    assert (np.abs(often - N / 24) < STANDARD_ERRORS * np.sqrt(N / 24)).all()


def test_one_is_drawn_apart_from_another(drawn):
    """All pairs but those of a box, whose place depends on its size."""
    _, params = drawn
    chosen = [params[name] for name in ("flip", "jitter", "gray", "blurred")]
    others = [*strengths(params), *chosen, params["order"][:, 0]]
    pairs = [*combinations(others, 2), *((a, b) for a in params["box"].T for b in others)]
    for a, b in pairs:
        assert np.sqrt(N) * abs(np.corrcoef(a, b)[0, 1]) < STANDARD_ERRORS


def test_area_ratio_and_place_of_a_box_are_uniform():
    """In an image that nearly every box fits into."""
    (height, width), scale, ratio = (900, 1200), (0.2, 0.4), (0.6, 1.5)
    boxes = crop_boxes(random.key(2), N, height, width, scale, ratio).double().numpy()
    top, left, h, w = boxes.T
    assert kolmogorov(h * w / (height * width), *scale) < 3
    assert kolmogorov(np.log(w / h), *np.log(ratio)) < 3
    assert kolmogorov((top + 0.5) / (height - h + 1), 0, 1) < 3
    assert kolmogorov((left + 0.5) / (width - w + 1), 0, 1) < 3


@pytest.mark.parametrize(
    ("height", "width", "ratio", "box"),
    [
        (20, 30, (3.0, 4.0), [5, 0, 10, 30]),
        (30, 20, (0.25, 0.4), [0, 4, 30, 12]),
        (20, 20, (0.01, 100.0), [0, 0, 20, 20]),
    ],
)
def test_where_no_box_fits_the_largest_in_the_middle(height, width, ratio, box):
    found = crop_boxes(random.key(1), 50, height, width, (1.0, 1.0), ratio)
    assert (found.numpy() == box).all()


def test_the_first_of_ten_boxes_that_fits():
    """Of a square image, shares a of its area above 1/2 and ratios between 1/2 and 2: a draw fits
    with chance -log2 a, so that the first that fits has density proportional to it, and a ratio
    between a and 1/a; where none of ten fits, the whole image."""
    side, log2 = 9000, np.log(2)
    boxes = crop_boxes(random.key(3), N, side, side, (0.5, 1.0), (0.5, 2.0)).double().numpy()
    h, w = boxes[:, 2:].T
    whole = (h == side) & (w == side)
    h, w = h[~whole] / side, w[~whole] / side
    a, low = h * w, 0.5 + 0.5 * log2
    assert kolmogorov((a - a * np.log(a) - low) / (1 - low), 0.0, 1.0) < 3
    assert kolmogorov(np.log(w / h) / -np.log(a), -1.0, 1.0) < 3
    chance = (1 - (1 - log2) / log2) ** 10
    error = np.sqrt(chance * (1 - chance) / N)
    assert abs(whole.mean() - chance) < STANDARD_ERRORS * error
