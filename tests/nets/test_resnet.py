"""The residual network: shapes, sizes, initialisation, and the filters that are looked at."""

import math

import pytest
import torch
import torch.nn.functional as F

from clcore import random
from clcore.nets.resnet import Block, Projector, ResNet, first_convolutions

X = random.normal(random.key(3), (4, 3, 32, 32))


def test_it_is_resnet_18():
    # 11 689 512 parameters are published, of them 513 000 in the classifier.
    assert sum(p.numel() for p in ResNet().parameters()) == 11_689_512 - 513_000
    assert sum(isinstance(m, torch.nn.Conv2d) for m in ResNet().modules()) == 17 + 3


@pytest.mark.parametrize(("stem", "sides"), [("standard", (8, 4, 2, 1)), ("small", (32, 16, 8, 4))])
def test_resolutions(stem, sides):
    net, found = ResNet(stem, 4).eval(), []
    for stage in range(1, 5):
        layer = getattr(net, f"layer{stage}")
        layer.register_forward_hook(lambda _, __, y: found.append(tuple(y.shape[1:])))
    assert net.features(X).shape == (4, 32)
    assert found == [(4 * 2**k, side, side) for k, side in enumerate(sides)]


def test_a_block_by_hand():
    block = Block(3, 8, 2).eval()
    for bn in (block.bn1, block.bn2, block.shortcut[1]):
        torch.nn.init.normal_(bn.weight)
        torch.nn.init.normal_(bn.bias)

    def norm(x, bn):
        scale = bn.weight / (bn.running_var + bn.eps).sqrt()
        return x * scale[:, None, None] + bn.bias[:, None, None]

    y = norm(F.conv2d(X, block.conv1.weight, stride=2, padding=1), block.bn1).clamp(min=0)
    y = norm(F.conv2d(y, block.conv2.weight, padding=1), block.bn2)
    y = y + norm(F.conv2d(X, block.shortcut[0].weight, stride=2), block.shortcut[1])
    assert torch.allclose(block(X), y.clamp(min=0), atol=1e-5)
    assert not list(Block(8, 8, 1).shortcut)


def test_weights_at_the_start():
    net = ResNet()
    for w in first_convolutions(net).values():
        expected = math.sqrt(2 / (w.shape[0] * w.shape[-1] ** 2))
        assert abs(float(w.std()) / expected - 1) < 0.05


def test_first_convolutions():
    net = ResNet("small", 4)
    found = first_convolutions(net)
    names = [f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)]
    assert list(found) == ["conv1", *names]
    assert found["conv1"].shape == (4, 3, 3, 3)
    assert found["layer3.0"] is not None and found["layer3.0"].shape == (16, 8, 3, 3)
    assert found["layer3.0"].data_ptr() == net.layer3[0].conv1.weight.data_ptr()
    assert not any(w.requires_grad for w in found.values())


def test_projector():
    head = Projector(6, 5, 3)
    x = random.normal(random.key(1), (20, 6))
    kinds = [type(m).__name__ for m in head]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    hidden = F.linear(x, head[0].weight, head[0].bias)
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()
    z = F.linear(hidden.clamp(min=0), head[3].weight, head[3].bias)
    assert torch.allclose(head(x), z / z.norm(dim=1, keepdim=True), atol=1e-5)


def test_errors(unchecked_shapes):
    with pytest.raises(ValueError, match="stem: expected one of standard, small, got 'tiny'"):
        ResNet("tiny")
    with pytest.raises(ValueError, match="width: expected at least 1 channel, got 0"):
        ResNet(width=0)
