"""Integrals over discs and balls against closed forms and differences."""

import math

import pytest
import torch

from clcore.theory.one_layer import roughness as ro

F = torch.float64


def unit(*values: float) -> torch.Tensor:
    v = torch.tensor(values, dtype=F)
    return v / v.norm()


@pytest.mark.parametrize("d", [2, 3])
def test_uniform_ball(d):
    """e = k w with k = C v_(d-1) / ((d+1) v_d), E E^T = C^2 I / (2 (d+2)), rho = k^2."""
    radius = 0.7
    w = unit(0.6, -0.7, 0.2)[:d] if d == 3 else unit(0.6, -0.7)
    parts = ro.uniform(lambda x: torch.full_like(x[..., 0], 1 / ro.volume(d, radius)))
    k = radius * ro.volume(d - 1, 1) / ((d + 1) * ro.volume(d, 1))
    eye = torch.eye(d, dtype=F)
    expected = radius**2 / (2 * (d + 2)) * eye - k**2 * torch.outer(w, w)
    assert torch.allclose(ro.covariance(parts, w, radius, 24), expected, atol=1e-9)
    assert float(ro.roughness(parts, w, radius, 24)) == pytest.approx(k**2)
    assert float(ro.peak(parts, w, radius, 24)) == pytest.approx(1 / ro.volume(d, radius))


@pytest.mark.parametrize("d", [2, 3])
def test_jacobian_is_the_derivative_and_negative(d):
    torch.manual_seed(0)
    p = ro.mixture(0.5 * torch.randn(3, d, dtype=F), 0.5, 1.2, 24)
    w = unit(*torch.randn(d).tolist())
    axes = ro.frame(w)
    assert torch.allclose(axes @ axes.mT, torch.eye(d, dtype=F)) and torch.allclose(axes[0], w)
    for parts in (ro.uniform(p), ro.gaussian(p, w, 0.2, 12)):
        M = ro.jacobian(parts, w, 1.2, 24)
        assert torch.linalg.eigvalsh(M).max() < 1e-12
        u, e = axes[1], 1e-4
        plus, minus = (
            ro.covariance(parts, math.cos(e) * w + s * math.sin(e) * u, 1.2, 24) for s in (1, -1)
        )
        assert torch.allclose((plus - minus) @ w / (2 * e), M @ u, atol=1e-4)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_a_frame_begins_with_w_on_an_axis_near_one_and_anywhere(d):
    near = torch.tensor([0.0, 1e-9, 1e-3, 1.0], dtype=F)[:, None] * torch.randn(4, d, dtype=F)
    eye = torch.eye(d, dtype=F)
    w = torch.cat([sign * eye[k] + near for k in (0, d - 1) for sign in (1, -1)])
    w = w / w.norm(dim=-1, keepdim=True)
    axes = ro.frame(w)
    assert torch.allclose(axes @ axes.mT, eye.expand(len(w), d, d), atol=1e-13)
    assert torch.allclose(axes[:, 0], w, atol=1e-13)


def test_volume_bound_and_refusal():
    assert [ro.volume(d, 2.0) for d in (1, 2, 3)] == pytest.approx(
        [4, 4 * math.pi, 32 * math.pi / 3]
    )
    r = torch.tensor(0.5, dtype=F)
    assert float(ro.bound(r, 2, 3.0)) == pytest.approx(9 * 9 * 0.5)
    assert float(ro.bound(r, 2, 3.0, 3)) == pytest.approx(27 * 9 * 0.5)
    with pytest.raises(ValueError, match="axes: expected 2 or 3 dimensions, got 4"):
        ro.sector(torch.eye(4, dtype=F), 0.0, 1.0, 1.0)
