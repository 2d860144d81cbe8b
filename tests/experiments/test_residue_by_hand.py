"""Shares of the residue along descent by loops over samples and views, worlds of images by hand.

Gradients by complex steps through numpy nets (`checks.dual_networks.worlds`).
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from clcore import random
from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.experiments import residue_share
from clcore.images.augmentations import Recipe

pytestmark = pytest.mark.usefixtures("one_thread")
TAU, RATE, DRAWS = 0.5, 0.3, 4
STILL = Recipe(4, (1.0, 1.0), (1.0, 1.0), 0.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0)


@pytest.fixture
def small():
    """(a world of 3 samples with 2 views, layers of a net)."""
    rng = np.random.default_rng(0)
    world = dw.world(rng, DRAWS, 4, "additive", 0.4, samples=3, views=2)
    return world, dw.weights(rng, DRAWS, (4, 6, 5, 3))


def weighted(near, far, world, xi):
    """E[xi(x, x'') (r_+ - r_-)] by loops, [..., draws]."""
    _, p, _, q = dw.parts(world)
    samples, views = q.shape[1:]
    total = 0.0
    for s, i, u, j in np.ndindex(samples, views, samples, views):
        r = dw.half(near[..., s, i, :], far[..., u, j, :])
        chance = p[:, s] * q[:, s, i] * q[:, u, j]
        # as the positive of its own sample, and as a negative of any
        own = (p * xi[:, s]).sum(1) if s == u else 0.0
        total = total + chance * r * (own - p[:, u] * xi[:, s, u])
    return total


def parts(layers, world, tied):
    """(the whole gradient, the operator's part of it) by layers."""
    x0, _, x, _ = dw.parts(world)
    plain = dw.output(layers, x0, True)[:, :, 0]
    xi = dw.infonce(TAU).weight(dw.half(plain[:, :, None], plain[:, None]))
    losses = (
        partial(dw.mean_loss, dw.infonce(TAU).page, w=world),
        partial(weighted, world=world, xi=xi),
    )
    return [
        [dw.gradient(loss, layers, k + 1, x, tied, True) for k in range(len(layers))]
        for loss in losses
    ]


def spread(out, world):
    """Of views around their sample's mean, over that of the means."""
    _, p, _, q = dw.parts(world)
    mean = (q[..., None] * out).sum(2)
    centre = (p[..., None] * mean).sum(1)
    within = (p * (q * ((out - mean[:, :, None]) ** 2).sum(-1)).sum(2)).sum(1)
    return within / (p * ((mean - centre[:, None]) ** 2).sum(-1)).sum(1)


@pytest.mark.parametrize("tied", [False, True])
def test_shares_along_three_steps(small, tied):
    world, layers = small
    found = residue_share.along(ref.tensors(*layers), world, TAU, RATE, 3, 2, tied=tied)
    assert found.steps == [0, 2, 3]
    close = partial(np.testing.assert_allclose, rtol=1e-7, atol=1e-9)
    for step in range(4):
        whole, main = parts(layers, world, tied)
        if step in found.steps:
            at = found.steps.index(step)
            out = dw.output(layers, dw.parts(world)[2], True)
            close(found.loss[at], dw.mean_loss(dw.infonce(TAU).page, out, out, world))
            close(found.spread[at], spread(out, world))
            for layer, (g, m) in enumerate(zip(whole, main, strict=True)):
                size = np.sqrt((m**2).sum((1, 2)))
                length = np.sqrt((g**2).sum((1, 2)))
                close(found.ratio[at][:, layer], np.sqrt(((g - m) ** 2).sum((1, 2))) / size)
                close(found.overlap[at][:, layer], ((g - m) * m).sum((1, 2)) / size**2)
                close(found.cosine[at][:, layer], (g * m).sum((1, 2)) / size / length)
                turned = np.sqrt(((g + m) ** 2).sum((1, 2)))
                close(found.reversed[at][:, layer], turned / size)
        layers = [w - RATE * g for w, g in zip(layers, whole, strict=True)]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_the_first_step_and_the_last_are_recorded(small, every):
    world, layers = small
    found = residue_share.along(ref.tensors(*layers), world, TAU, RATE, 1, every)
    assert found.steps == [0, 1] and len(found.loss) == len(found.ratio) == 2


def test_weights_given_are_left_alone(small):
    world, layers = small
    tensors, before = ref.tensors(*layers), [w.copy() for w in layers]  # one memory
    residue_share.along(tensors, world, TAU, RATE, 2, 1)
    residue_share.split_gradient(tensors, world, TAU)
    for w, v in zip(tensors, before, strict=True):
        assert not w.requires_grad and np.array_equal(w, v)


@pytest.mark.parametrize("flip", [0.0, 1.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_worlds_of_images(channels, flip):
    """All channels of an image are one sample, scaled by one number; views are of whole images."""
    x = np.random.default_rng(channels).random((6, channels, 4, 4)) * 2 + 1
    x = x + np.arange(channels)[:, None, None]
    keys = random.split(random.key(1), 5)
    world = residue_share.image_world(keys, torch.from_numpy(x), 3, 2, replace(STILL, flip=flip))
    mean = x.mean(0)
    size = np.sqrt(((x - mean) ** 2).mean())
    every = ((x - mean) / size).reshape(6, -1)
    seen = (((x[..., ::-1] if flip else x) - mean) / size).reshape(6, -1)
    points = world.samples.numpy()
    which = ((points[:, :, None] - every) ** 2).sum(-1).argmin(-1)
    assert all(len(set(row)) == 3 for row in which.tolist())
    np.testing.assert_allclose(points, every[which], atol=1e-6)
    np.testing.assert_allclose(world.views, seen[which][:, :, None].repeat(2, 2), atol=1e-6)
    assert (world.chances == 1 / 3).all() and (world.view_chances == 1 / 2).all()
