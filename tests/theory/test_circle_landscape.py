"""The circle landscape against a fine grid, by symmetry, and where it must refuse."""

import math

import pytest
import torch

from clcore.theory.one_layer import basins, one_layer
from clcore.theory.one_layer import circle_landscape as circle

F = torch.float64


def listed(extrema: circle.Extrema) -> list[float]:
    angle = extrema.angle[~extrema.angle.isnan()]
    return sorted((angle / math.pi).tolist())


def test_figure_8_has_nine_kinks_and_no_smooth_maximum():
    x = circle.on_circle(torch.tensor(circle.FIGURE8, dtype=F))
    found = circle.extrema(x)
    expected = [-0.9, -0.5, -0.3, -0.1, 0.1, 0.3, 1 / 3, 0.7, 0.9]
    assert listed(found) == pytest.approx(expected)
    assert found.smooth.isnan().all() and int(found.count()) == 9
    assert int(circle.extrema(x, 1.0).count()) == 2
    angle = torch.linspace(-math.pi, math.pi, 100_001, dtype=F)[:-1]
    E = (circle.on_circle(angle) @ x.mT).relu().var(-1)
    top = angle[(E.roll(1) < E) & (E.roll(-1) <= E)]
    assert listed(found) == pytest.approx((top / math.pi).tolist(), abs=2e-5)


def test_where_the_energy_is_constant_there_is_no_maximum():
    """A triangle of equal sides, far away: with all gates open its covariance is that of a ball."""
    for turn in torch.linspace(0, 2, 20, dtype=F):
        corner = turn + 2 * math.pi / 3 * torch.arange(3, dtype=F)
        x = circle.on_circle(corner) + torch.tensor([0.0, 4.0], dtype=F)
        peaks = circle.extrema(x).smooth
        peaks = peaks[~peaks.isnan()]
        assert ((peaks - math.pi / 2).cos() < 0.5).all()


def test_a_maximum_on_an_axis_is_found():
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.2], [-1.0, -0.3]], dtype=F)
    assert (circle.extrema(x).smooth.abs() < 1e-12).any()


def test_against_a_grid_and_in_batches():
    torch.manual_seed(1)
    x = torch.randn(6, 5, 2, dtype=F)
    angle = torch.linspace(-math.pi, math.pi, 40_001, dtype=F)[:-1]
    alpha = torch.rand(6, 5, 5, dtype=F)
    for slope, weights in ((0.0, None), (0.3, None), (0.0, alpha)):
        batch = circle.extrema(x, slope, weights)
        for k in range(6):
            one = None if weights is None else weights[k]
            E = circle.energy(x[k], angle, slope, one)
            top = angle[(E.roll(1) < E) & (E.roll(-1) < E)]
            alone = listed(circle.extrema(x[k], slope, one))
            assert listed(circle.Extrema(batch.angle[k])) == alone
            assert alone == pytest.approx((top / math.pi).tolist(), abs=1e-4)


def test_energy_is_the_sinusoid_of_its_cell():
    torch.manual_seed(2)
    x = torch.randn(4, 2, dtype=F)
    begin, length, A = circle.cells(x, 0.2)
    angle = begin + 0.3 * length
    w = circle.on_circle(angle)
    assert torch.allclose(
        (w[:, None] @ A @ w[..., None])[:, 0, 0] / 2, circle.energy(x, angle, 0.2)
    )
    assert float(length.sum()) == pytest.approx(2 * math.pi)


def test_rotating_the_data_rotates_the_maxima():
    torch.manual_seed(3)
    x = torch.randn(5, 2, dtype=F)
    turn = 0.4
    R = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]], dtype=F)
    before, after = (torch.tensor(listed(circle.extrema(v))) for v in (x, x @ R))
    moved = torch.remainder(before * math.pi + turn + math.pi, 2 * math.pi) - math.pi
    assert (moved / math.pi).sort().values.tolist() == pytest.approx(after.tolist(), abs=1e-6)


def test_basins_share_the_circle_and_the_flow_agrees():
    x = circle.on_circle(torch.tensor(circle.FIGURE8, dtype=F))
    angle, kink, share = circle.basins(x)
    assert kink.all() and float(share.sum()) == pytest.approx(1)
    start = torch.linspace(-math.pi, math.pi, 1001, dtype=F)[:-1] + 1e-3
    w = basins.climb(one_layer.samples(x), circle.on_circle(start))
    t = torch.atan2(w[:, 1], w[:, 0])
    ended = torch.sin((t[:, None] - angle) / 2).abs().argmin(1)
    counts = torch.bincount(ended, minlength=9) / 1000
    assert (counts - share).abs().max() < 0.04
    assert len(circle.stable_angles(x, grid=3600)) == 9


def test_a_stable_angle_that_is_one_of_the_grid_is_found():
    """At 0, the middle of an odd grid, the flow of a linear node is exactly 0."""
    x = torch.tensor([[2.0, 0], [-2, 0], [0, 1], [0, -1]], dtype=F)
    middle = circle.tangent(x, torch.zeros(1, dtype=F), 1.0)
    assert middle.item() == 0
    found = circle.stable_angles(x, 1.0, grid=21)
    assert len(found) == 2 and (2 * found).sin().abs().max() < 2 * math.pi / 20


def test_climbing_on_leads_no_further():
    """In four dimensions ridges of kinks are long: too few steps end half-way along them."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, 4, dtype=F, generator=generator) for n in (16, 60))
    world = one_layer.samples(x)

    def moved(steps):
        end = basins.climb(world, w / w.norm(dim=-1, keepdim=True), steps=steps)
        on = basins.climb(world, end, steps=2000, first=2e-3, last=1e-5)
        return (on - end).norm(dim=-1)

    assert (moved(2000) < 0.01).double().mean() > 0.95
    assert (moved(300) < 0.01).double().mean() < 0.7


def test_refusals():
    with pytest.raises(ValueError, match=r"points: expected \[\*b, n, 2\], got \[4, 3\]"):
        circle.extrema(torch.zeros(4, 3))
    lopsided = circle.on_circle(torch.tensor([-0.2, 0.1, 0.3], dtype=F))
    with pytest.raises(ValueError, match="the energy is constant on an arc"):
        circle.basins(lopsided)
    world = one_layer.samples(lopsided)
    with pytest.raises(ValueError, match="expected 0 < last < first"):
        basins.climb(world, lopsided, first=1e-5)


def test_ends():
    w = circle.on_circle(torch.tensor([0.0, 1.0, 0.001, 1.001, 0.999], dtype=F))
    found = basins.ends(w)
    assert found.count.tolist() == [3, 2] and torch.allclose(found.w[0], w[1])
    assert basins.ends(w[:0]).count.tolist() == []


def test_moving_importance_reduces_to_the_fixed_one():
    torch.manual_seed(4)
    x = torch.randn(8, 2, dtype=F)
    angle = torch.linspace(-3, 3, 50, dtype=F)
    wide = circle.tangent(x, angle, importance=circle.gaussian_importance(1e9))
    assert torch.allclose(wide, circle.tangent(x, angle), atol=1e-6)
    E = circle.energy(x, torch.stack([angle + 1e-6, angle - 1e-6]).flatten()).reshape(2, -1)
    assert torch.allclose((E[0] - E[1]) / 2e-6, circle.tangent(x, angle), atol=1e-7)
