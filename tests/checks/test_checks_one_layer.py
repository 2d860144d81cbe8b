"""The checks of nl Sec. 2 and of its one-layer section: what holds, what fails as printed."""

import numpy as np
import pytest
import torch

from clcore import reference as ref
from clcore.checks.one_layer import unit_ball
from clcore.checks.one_layer.importance import limits
from clcore.checks.one_layer.node import gate_slope
from clcore.reference import plane
from clcore.theory.one_layer import one_layer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    first, again, other = ([check.measured for check in limits.eq32(6, seed)] for seed in (0, 0, 1))
    assert first == again != other


def test_a_lone_sample_shows_what_i_equal_to_j_adds_to_eq25():
    """N = 1, alpha_11 = 1: Eq. 3 gives -(a - a')^2 / 2, Eqs. 23 and 24 empty sums."""
    a, a2, ones = (torch.full((1, 1), v, dtype=torch.float64) for v in (3.0, 1.0, 1.0))
    world = one_layer.of_views(ones, a, a2)
    assert one_layer.covariance(world, torch.cat([a, a2])).item() == -2


def test_eq48_drops_an_x():
    """d = 1, h'(u) = u, alpha = 1, data -2, -1, 1, 2: A(w) = w^2 V[x^2], not w^2 V[x]."""
    x, ones = np.array([-2.0, -1, 1, 2])[None, :, None], np.ones((1, 4, 4))
    gate = x * (1 + 1j * ref.STEP)  # at w = 1, dw = 1
    assert gate_slope.differential(ones, gate * x, gate * x)[0] == pytest.approx(2 * 2.25)
    number = gate_slope.differential(ones, gate, gate)[:, 0, 0]
    assert number == pytest.approx(2 * 2.5)
    assert gate_slope.misread(number, np.array([[[4.5]]])) == pytest.approx(0.5 / 4.5)
    # A unit matrix has the trace d: each reading counts, and the nearer one is taken.
    assert gate_slope.misread(np.ones(1), np.eye(3)[None]) == pytest.approx(0)
    assert gate_slope.misread(np.full(1, 3.0), np.eye(3)[None]) == pytest.approx(0)


def test_the_energy_has_A_at_w_and_not_at_a_datum():
    """ReLU, d = 1, data 1 and -2: the energy at w = 1 is 1/4 = A(1), but A(-2) = 1."""
    world = one_layer.samples(torch.tensor([[1.0], [-2.0]], dtype=torch.float64))
    at, datum = torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
    assert 2 * one_layer.energy(world, at).item() == one_layer.operator(world, at).item() == 0.25
    assert one_layer.operator(world, datum).item() == 1


def test_quadrature_in_the_plane():
    law = plane.draw(np.random.default_rng(0))
    x, p = plane.grid(law, 0.3)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p @ x == pytest.approx(law.share @ law.mean, abs=1e-12)
    w = plane.direction(0.3)
    on = (x @ w > 0) + 0.2 * (x @ w <= 0)
    gated = on[:, None] * x
    centred = gated - p @ gated
    direct = (p[:, None] * centred).T @ centred
    assert np.allclose(plane.operator(law, 0.3, 0.2), direct, atol=1e-12)


@pytest.mark.parametrize("d, radius", [(2, 0.5), (3, 2.0)])
def test_the_unit_ball_has_the_integrals_of_a_uniform_law(d, radius):
    """E[h] is 2/(3 pi) or 3/16, the second moment of the plane 2/3 or pi/4 of the density."""
    law = unit_ball.scaled(
        lambda x: torch.full_like(x[..., 0], 1 / (unit_ball.ball(d) * radius**d)), radius, d
    )
    axes = unit_ball.axes_of(*np.eye(d)[:2])
    mean, flat = ((2 / (3 * np.pi), 2 / 3), (3 / 16, np.pi / 4))[d - 2]
    rho = mean * flat / unit_ball.ball(d)
    assert unit_ball.half(law, axes).z == pytest.approx(1, abs=1e-12)
    assert unit_ball.over_bound(law, axes, axes[1:]) == pytest.approx(np.pi * rho, rel=1e-3)
    assert unit_ball.over_wedges(law, axes, 0.1, axes[1:])[0] == pytest.approx(0, abs=1e-12)


def test_a_largest_density_that_points_miss_is_told():
    """Spots where the law is half as large as elsewhere."""
    spots = np.eye(2)
    assert unit_ball.most(lambda y: 1 + y[:, 0], spots, spots) == 2
    with pytest.raises(ArithmeticError, match=r"largest density near 2, found 1"):
        unit_ball.most(lambda y: 1 + y[:, 0], spots[1:], spots)


def test_the_tilted_law_of_eq84_is_that_of_the_wedges():
    for d, angle in ((2, 0.3), (3, 0.1)):
        axes = unit_ball.axes_of(*np.eye(d)[:2])
        again, _ = unit_ball.over_wedges(
            lambda y: (1 + y[:, 1]) / unit_ball.ball(y.shape[1]), axes, angle, axes[1:2]
        )
        far = 2 * np.sin(angle / 2)
        ours = unit_ball.tilted_wedges(d, angle) * far / np.cos(angle) / angle
        assert ours == pytest.approx(again, rel=1e-6)
