"""Total variation of filters against loops over pixels."""

import pytest
import torch

from clcore import random
from clcore.filter_variation import total_variation

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


def test_errors(unchecked_shapes):
    with pytest.raises(ValueError, match="scheme: expected one of forward, central, got 'sobel'"):
        total_variation(W, "sobel")
    with pytest.raises(ValueError, match="at least 2 x 2 pixels, got 1 x 1; scheme='forward'"):
        total_variation(torch.ones(4, 4, 1, 1), "central")
