"""Total variation of filters against loops over pixels."""

import pytest
import torch

from clcore import random
from clcore.images.filter_variation import colour_parts, total_variation

W = random.normal(random.key(1), (5, 2, 4, 3), torch.float64)


def slope(line, at, scheme):
    """The difference at a place of a row or column of pixels."""
    last = len(line) - 1
    if scheme == "forward":
        return line[at + 1] - line[at] if at < last else 0.0
    before, after = max(at - 1, 0), min(at + 1, last)
    return (line[after] - line[before]) / (after - before)


@pytest.mark.parametrize("scheme", ["forward", "central"])
def test_by_loops(scheme):
    found = total_variation(W, scheme)
    for f, filt in enumerate(W.tolist()):
        total = 0.0
        for channel in filt:
            for i, row in enumerate(channel):
                for j in range(len(row)):
                    down = slope([r[j] for r in channel], i, scheme)
                    total += (down**2 + slope(row, j, scheme) ** 2) ** 0.5
        assert abs(total - float(found[f])) < 1e-12


def test_flat_filters_have_none_and_it_scales():
    assert total_variation(torch.ones(2, 3, 7, 7)).sum() == 0
    assert torch.allclose(total_variation(-3 * W), 3 * total_variation(W))


@pytest.mark.parametrize("scheme", ["forward", "central"])
def test_one_filter_and_several_nets_filters(scheme):
    expected = total_variation(W, scheme)
    assert torch.equal(total_variation(W[3], scheme), expected[3])
    nets = torch.stack([W, 2 * W])
    assert torch.allclose(total_variation(nets, scheme), torch.stack([expected, 2 * expected]))


def test_errors(unchecked_shapes):
    with pytest.raises(ValueError, match="scheme: expected one of forward, central, got 'sobel'"):
        total_variation(W, "sobel")
    with pytest.raises(ValueError, match="at least 2 x 2 pixels, got 1 x 1; scheme='forward'"):
        total_variation(torch.ones(4, 4, 1, 1), "central")


def test_colour_is_what_differs_between_channels():
    one = W[:, :1]
    alike = colour_parts(3.0 * one.expand(-1, 3, -1, -1))
    alone = float((total_variation(one) / one.flatten(1).norm(dim=1)).mean())
    assert float(alike["colour"]) == pytest.approx(0, abs=1e-12)
    assert float(alike["grey"]) == pytest.approx(alone)
    assert float(alike["whole"]) == pytest.approx(3**0.5 * alone)
    # One channel of three: a ninth of its square in each channel of the mean, the rest is colour.
    single = colour_parts(torch.nn.functional.pad(one, (0, 0, 0, 0, 0, 2)))
    assert float(single["colour"]) == pytest.approx(2 / 3)
    assert float(single["grey"]) == pytest.approx(alone)
    assert float(single["whole"]) == pytest.approx(alone)
    mixed, loops = colour_parts(W), 0.0
    for filt in W:
        mean = sum(filt) / len(filt)
        loops += float(sum((c - mean).square().sum() for c in filt) / filt.square().sum())
    assert float(mixed["colour"]) == pytest.approx(loops / len(W))
    mean = W.mean(1, keepdim=True)
    whole = (total_variation(W) / W.flatten(1).norm(dim=1)).mean()
    grey = (total_variation(mean) / mean.flatten(1).norm(dim=1)).mean()
    assert float(mixed["whole"]) == pytest.approx(float(whole))
    assert float(mixed["grey"]) == pytest.approx(float(grey))
