"""The two parts of InfoNCE's gradient, against the operators of covariance_operator."""

from functools import partial
from itertools import pairwise

import pytest
import torch

from clcore import random
from clcore.experiments import residue_share as rs
from clcore.images import augmentations as aug
from clcore.images import image_sets
from clcore.losses import anchors
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co

pytestmark = pytest.mark.usefixtures("one_thread")
RUNS, TAU = 2, 0.5
KEYS = random.fold_in(random.key(3), torch.arange(RUNS))
CROP = aug.Recipe(8, (0.5, 1.0), flip=0.0, jitter_chance=0.0, gray=0.0)


@pytest.fixture(scope="module")
def images():
    return torch.from_numpy(image_sets.load("digits").pixels[:50].copy()).float() / 255


def small(strength=0.4):
    world = co.random_world(KEYS, 4, 3, 5, "scale", strength)
    widths = (5, 7, 4, 3)
    weights = [
        random.normal(random.fold_in(KEYS, layer), (b, a), torch.float64) * (2 / a) ** 0.5
        for layer, (a, b) in enumerate(pairwise(widths))
    ]
    return world, weights


def by_operators(weights, world, layer, normalised, tied):
    """Both parts as the operators of Theorem 4, applied to vec(W_l)."""
    seen, plain = net.trace(weights, world.points), net.trace(weights, world.samples).output
    f, far = (net.unit(v) if normalised else v for v in (seen.output, plain))
    xi = co.infonce_weight(co.half_distances(far, far), TAU)
    pull = co.pulls(partial(anchors.infonce, tau=TAU), world.shaped(f, 1), world)
    if normalised:
        right = net.normalised_connection(seen, layer)
        left = right @ net.projector(seen.output)
    else:
        left = right = net.connection(seen, layer)
    main = co.operator(left, right, co.weighted_pulls(xi, world), tied)
    theta = co.operator(left, right, pull, tied) - main
    w = net.vec(weights[layer - 1])[..., None]
    rows = weights[layer - 1].shape[-2]
    return [net.unvec((op @ w)[..., 0], rows) for op in (main, theta)]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_parts_are_those_of_theorem_4(normalised, tied):
    world, weights = small()
    main, theta = rs.split_gradient(weights, world, TAU, normalised, tied)
    for layer in range(1, 4):
        a, b = by_operators(weights, world, layer, normalised, tied)
        torch.testing.assert_close(main[layer - 1], a, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(theta[layer - 1], b, rtol=1e-9, atol=1e-12)


def test_without_augmentation_there_is_no_residue():
    world, weights = small(0.0)
    main, theta = rs.split_gradient(weights, world, TAU)
    assert max(float(t.abs().max()) for t in theta) < 1e-12
    assert min(float(m.abs().max()) for m in main) > 1e-4


def test_shares_at_the_start_and_their_angles():
    world, weights = small()
    found = rs.along(weights, world, TAU, 0.1, 5, 2)
    assert found.steps == [0, 2, 4, 5]
    assert found.ratio.shape == found.overlap.shape == (4, RUNS, 3)
    main, theta = rs.split_gradient(weights, world, TAU)
    m, t = main[1].flatten(1), theta[1].flatten(1)
    torch.testing.assert_close(found.ratio[0, :, 1], t.norm(dim=1) / m.norm(dim=1))
    cosine = torch.cosine_similarity(m + t, m, dim=1)
    torch.testing.assert_close(found.cosine[0, :, 1], cosine)
    turned = (t + 2 * m).norm(dim=1) / m.norm(dim=1)
    torch.testing.assert_close(found.reversed[0, :, 1], turned)
    assert (found.loss[-1] < found.loss[0]).all()


@pytest.mark.parametrize("tied", [False, True])
def test_a_step_is_the_sum_of_both_parts(tied):
    world, weights = small()
    main, theta = rs.split_gradient(weights, world, TAU, tied=tied)
    moved = [w + 0.1 * (m + t) for w, m, t in zip(weights, main, theta, strict=True)]
    ahead = rs.along(moved, world, TAU, 0.1, 0, 1, tied=tied)
    found = rs.along(weights, world, TAU, 0.1, 1, 1, tied=tied)
    torch.testing.assert_close(found.ratio[1], ahead.ratio[0])
    torch.testing.assert_close(found.loss[1], ahead.loss[0])


def test_another_weight_splits_off_another_operator():
    world, weights = small()
    half = rs.split_gradient(weights, world, TAU, weight=lambda r, tau: torch.full_like(r, 0.5))
    main = rs.split_gradient(weights, world, TAU)
    for k in range(3):  # the sum is the gradient, whatever is split off
        torch.testing.assert_close(half[0][k] + half[1][k], main[0][k] + main[1][k])
        assert not torch.allclose(half[0][k], main[0][k])


def test_spread_against_loops():
    world, weights = small()
    f = world.shaped(rs.outputs(weights, world.points, True), 1)
    found = rs.along(weights, world, TAU, 0.1, 0, 1).spread[0]
    for run in range(RUNS):
        p, q = world.chances[run], world.view_chances[run]
        means = torch.stack([(q[s, :, None] * f[run, s]).sum(0) for s in range(4)])
        inner = sum(p[s] * (q[s] * ((f[run, s] - means[s]) ** 2).sum(-1)).sum() for s in range(4))
        centre = (p[:, None] * means).sum(0)
        outer = sum(p[s] * ((means[s] - centre) ** 2).sum() for s in range(4))
        assert float(found[run]) == pytest.approx(float(inner / outer))


def test_a_world_of_images(images):
    world = rs.image_world(KEYS, images, 6, 3, CROP)
    assert world.samples.shape == (RUNS, 6, 64) and world.views.shape == (RUNS, 6, 3, 64)
    assert world.samples.dtype == torch.float64
    again = rs.image_world(KEYS[1:], images, 6, 3, CROP)
    torch.testing.assert_close(world.views[1], again.views[0])
    flat = images.flatten(1).double()
    scaled = (flat - flat.mean(0)) / (flat - flat.mean(0)).square().mean().sqrt()
    gaps = torch.cdist(world.samples[0], scaled).min(1)
    assert float(gaps.values.max()) < 1e-6 and len(set(gaps.indices.tolist())) == 6
    near = (world.views[0] - world.samples[0][:, None]).norm(dim=-1).mean()
    far = torch.pdist(world.samples[0]).mean()
    assert 0 < near < far


def test_a_world_of_single_pixels(images):
    world = rs.image_world(KEYS, images[:, :, :1, :1], 6, 3, aug.Recipe(1))
    assert world.samples.shape == (RUNS, 6, 1) and world.views.shape == (RUNS, 6, 3, 1)


def test_a_world_of_colour_images_is_scaled_channel_by_channel_at_once(images):
    colours = torch.cat([images, images.flip(-1), 1 - images], 1)
    world = rs.image_world(KEYS, colours, 4, 2, CROP)
    assert world.views.shape == (RUNS, 4, 2, 3 * 64)
    flat = colours.flatten(1).double()
    scaled = (flat - flat.mean(0)) / (flat - flat.mean(0)).square().mean().sqrt()
    assert float(torch.cdist(world.samples[0], scaled).min(1).values.max()) < 1e-6


def test_bad_input(images):
    with pytest.raises(
        ValueError, match="expected at most 50 samples, as there are images, got 51"
    ):
        rs.image_world(KEYS, images, 51, 2, CROP)
    with pytest.raises(ValueError, match=r"expected a recipe for images of .8, 8. pixels"):
        rs.image_world(KEYS, images, 5, 2, aug.Recipe(7))
    world, weights = small()
    with pytest.raises(ValueError, match="tau"):
        rs.split_gradient(weights, world, 0.0)
