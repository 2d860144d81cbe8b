"""Assumption 1: what the generators give, and what the validator refuses."""

import pytest
import torch

from clcore import random
from clcore.theory.relu import orthogonal_mixture as om

KEY = random.key(3)


def test_a_field_shows_every_mode_scaled_by_one_positive_factor():
    x, x2 = om.draw(KEY, 40, 5)
    assert x.shape == (40, 5) and x.dtype == torch.float64
    assert (x >= 0).all() and ((x > 0).sum(-1) <= 1).all()
    assert (x > 0).any(0).all()
    assert (x[:5] > 0).equal(torch.eye(5, dtype=torch.bool))
    active = x > 0
    ratio = x2[active] / x[active]
    assert (ratio >= 0.6).all() and (ratio <= 1.4).all() and ratio.std() > 0.1
    assert (x[active] >= 0.5).all() and (x[active] <= 1.5).all()


def test_a_field_alone_is_what_it_is_in_a_batch():
    keys = random.fold_in(KEY, torch.arange(4))
    together = om.draw(keys, 10, 3)[0]
    assert together[2].equal(om.draw(keys[2], 10, 3)[0])
    assert not together[2].equal(together[3])


def test_share_of_empty_samples():
    x, _ = om.draw(KEY, 20_000, 3, empty=0.25, cover=False)
    assert abs(float((x == 0).all(-1).double().mean()) - 0.25) < 0.01


def test_whether_a_sample_is_empty_says_nothing_of_its_mode():
    x, _ = om.draw(KEY, 20_000, 2, empty=0.5, cover=False)
    shares = (x > 0).double().mean(0)
    assert ((shares - 0.25).abs() < 0.02).all()


def test_too_few_samples_to_cover_the_modes(unchecked_shapes):
    with pytest.raises(ValueError, match="expected n >= 6 samples to cover 6 modes, got 4"):
        om.draw(KEY, 4, 6)


@pytest.mark.parametrize("shared", [True, False])
def test_fields_share_their_factor_or_do_not(shared):
    x, x2 = om.draw_fields(KEY, 200, 2, 3, shared=shared)
    assert om.violations(x, x2) == []
    both = (x > 0).any(-1).all(-1)
    factor = (x2.sum(-1) / x.sum(-1))[both]
    assert bool(torch.allclose(factor[:, 0], factor[:, 1])) is shared


def test_windows_overlap_and_obey_the_assumption():
    x, x2 = om.draw_line(KEY, 50, 9, 3)
    fields, fields2 = om.windows(x, 3, 2), om.windows(x2, 3, 2)
    assert fields.shape == (50, 4, 3)
    assert fields[:, 0, 2].equal(fields[:, 1, 0])
    assert om.violations(fields, fields2) == []
    assert ((x > 0).sum(-1) >= 2).all()
    size = x[x > 0]
    assert 0.5 <= size.min() < 0.55 and 1.45 < size.max() <= 1.5


def test_violations_are_named():
    x, x2 = om.draw_fields(KEY, 30, 2, 3)
    assert om.violations(-x, -x2) == ["nonnegative"]
    assert om.violations(x, -x2) == ["augmentation"]
    assert om.violations(x, x2.roll(1, -1)) == ["augmentation"]
    both = x + x.roll(1, -1)
    assert om.violations(both, 2 * both) == ["one-hot"]
    tilted = both * torch.tensor([1.0, 1.1, 1.0], dtype=torch.float64)
    assert om.violations(both, tilted) == ["one-hot", "augmentation"]


BROKEN = {
    "nothing": ((0.0, 0.0), (0.0, 0.0), []),
    "a negative leak": ((0.0, -0.1), (0.0, -0.1), ["nonnegative"]),
    "a second mode": ((0.0, 0.1), (0.0, 0.1), ["one-hot"]),
    "a second mode, by a factor of its own": ((0, 0.1), (0, 0.2), ["one-hot", "augmentation"]),
    "a view erased": ((0.0, 0.0), (-1.0, 0.0), ["augmentation"]),
    "a view turned": ((0.0, 0.0), (-2.0, 0.0), ["augmentation"]),
    "a leak in one view": ((0.0, 0.0), (0.0, 0.1), ["augmentation"]),
    "a negative leak in one view": ((0.0, 0.0), (0.0, -0.1), ["augmentation"]),
    "a view of nothing": ((-1.0, 0.0), (0.0, 0.0), ["augmentation"]),
}
"""What is added, of its own size, to modes 0 and 1 of a field that shows mode 0, in each view."""


@pytest.mark.parametrize("how", BROKEN)
def test_one_field_of_one_sample_that_is_broken(how):
    *changes, broken = BROKEN[how]
    views = []
    for view, (own, other) in zip(om.draw_fields(KEY, 30, 3, 4), changes, strict=True):
        changed, size = view.clone(), view[0, 0, 0]
        changed[0, 0, 0] += own * size
        changed[0, 0, 1] += other * size
        views.append(changed)
    assert om.violations(*views) == broken


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_how_far_a_second_view_may_be_off(size, sign):
    """1e-9 (1 + the first's size)."""
    x = sign * size * torch.eye(3, dtype=torch.float64)[:, None]
    for off in (0.8, 1.25):
        leak = torch.eye(3, dtype=torch.float64)[[1, 2, 0]][:, None]
        x2 = 0.7 * x + 1e-9 * (1 + size) * off * leak
        expected = ["nonnegative"] * (sign < 0) + ["augmentation"] * (off > 1)
        assert om.violations(x, x2) == expected
