"""Patches of photographs: cutting and colours."""

import torch

from clcore import random
from clcore.images import photographs

KEY = random.key(1)


def test_crops_are_slices():
    images = torch.arange(2 * 3 * 8 * 9.0).reshape(2, 3, 8, 9)
    which, top, left = (torch.tensor(v) for v in ([0, 1], [2, 4], [5, 0]))
    found = photographs.crops(images, which, top, left, 4)
    assert found[0].equal(images[0, :, 2:6, 5:9])
    assert found[1].equal(images[1, :, 4:8, 0:4])


def test_photographs_are_there():
    images = photographs.load()
    assert images.shape == (2, 3, 427, 640)
    assert images.min() >= -1 and images.max() <= 1 and images.std() > 0.3


def test_no_strength_changes_nothing_and_grey_is_grey():
    x = random.normal(KEY, (50, 3, 4, 4))
    assert photographs.recolour(KEY, x, 0.0, 0.0).equal(x)
    grey = photographs.recolour(KEY, x, 0.0, 1.0)
    assert torch.allclose(grey, x.mean(1, keepdim=True).expand_as(x))
    some = photographs.recolour(KEY, x, 0.0, 0.3)
    share = (some[:, 0] == some[:, 1]).all((-1, -2)).double().mean()
    assert 0.1 < share < 0.5
    bright = photographs.recolour(KEY, torch.ones_like(x), 1.0, 0.0)
    assert bright.std((0, 2, 3)).min() > 0.2
    assert (bright[:, 0, 0, 0] != bright[:, 1, 0, 0]).all()


def test_views_are_two_of_each_patch():
    images = photographs.load()
    both = photographs.views(KEY, images, 40, 8, 0.0, 0.0, shift=0)
    assert both.shape == (80, 3, 8, 8) and both[:40].equal(both[40:])
    moved = photographs.views(KEY, images, 40, 8, 0.0, 0.0)
    assert not moved[:40].equal(moved[40:])
