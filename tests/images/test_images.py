"""Images, augmentations and the small encoder, against loops and torch's own convolutions."""

import pytest
import torch
from torch.func import vmap
from torch.nn import functional as F

from clcore import random
from clcore.images import digits as images
from clcore.nets import encoders


@pytest.fixture(scope="module")
def digits():
    return images.digits(dtype=torch.float64)


def test_digits(digits):
    pixels, labels = digits
    assert pixels.shape == (1797, 8, 8)
    assert pixels.min() == 0
    assert pixels.max() == 1
    assert labels.bincount().min() > 170


def test_strength_zero_changes_nothing(digits):
    pixels = digits[0][:20]
    assert torch.allclose(images.augment(random.key(1), pixels, 0.0), pixels, atol=1e-12)


def test_every_image_has_its_own_view(digits):
    same = digits[0][:1].expand(50, 8, 8)
    views = images.augment(random.key(1), same)
    assert len(torch.unique(views.flatten(1).round(decimals=9), dim=0)) == 50
    assert torch.equal(views, images.augment(random.key(1), same))
    assert not torch.equal(views, images.augment(random.key(2), same))


def test_augmentation_under_vmap_is_the_loop(digits):
    pixels, keys = digits[0][:10], random.key(torch.arange(4))
    many = vmap(lambda k: images.augment(k, pixels, 0.7))(keys)
    for i in range(4):
        assert torch.equal(many[i], images.augment(keys[i], pixels, 0.7))


def test_shift_moves_by_at_most_an_eighth_of_the_width():
    """A dot in the middle of a large image stays within zoom, rotation and shift of the centre."""
    field = torch.zeros(500, 33, 33, dtype=torch.float64)
    field[:, 16, 16] = 1
    views = images.augment(random.key(3), field) - 0
    place = torch.arange(33, dtype=torch.float64)
    weight = views.clamp(min=0.3)
    weight = torch.where(views > 0.3, weight, 0)
    found = weight.sum((1, 2)) > 0
    row = (weight.sum(2) * place).sum(1)[found] / weight.sum((1, 2))[found]
    # shift 0.25 of the half width [-1, 1], divided by the smallest zoom of 0.8
    assert (row - 16).abs().max() <= 0.25 / 0.8 * 16.5 * 1.5
    assert (row - 16).abs().max() > 2


def test_noise_has_the_stated_spread():
    flat = torch.zeros(400, 8, 8, dtype=torch.float64)
    assert images.augment(random.key(5), flat).std() == pytest.approx(0.05, rel=0.02)


def test_encoder_is_two_convolutions_and_two_layers(digits):
    pixels = digits[0][:7]
    p = encoders.init_small_conv(random.key(0), dtype=torch.float64)
    p = {name: w + 0.01 for name, w in p.items()}  # biases that matter
    first = p["conv1"].T.reshape(8, 1, 3, 3)
    x = F.relu(F.conv2d(pixels[:, None], first, p["conv1_bias"]))
    # The second kernel's rows run over (place in the 2x2 block, channel).
    second = p["conv2"].reshape(2, 2, 8, 16).permute(3, 2, 0, 1)
    x = F.relu(F.conv2d(x, second, p["conv2_bias"], stride=2))
    x = F.relu(x.permute(0, 2, 3, 1).flatten(1) @ p["dense"] + p["dense_bias"])
    assert torch.allclose(encoders.features(p, pixels), x, atol=1e-12)
    out = x @ p["head"] + p["head_bias"]
    out = out / out.norm(dim=-1, keepdim=True)
    assert torch.allclose(encoders.outputs(p, pixels), out, atol=1e-12)
    assert sum(w.numel() for w in p.values()) == 11968
