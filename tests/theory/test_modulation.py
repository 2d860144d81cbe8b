"""Critical times, flows and chances to win against quadrature, symmetry and exact cases."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad, solve_ivp

from clcore.theory.two_layer import modulation

pytestmark = pytest.mark.usefixtures("one_thread")


def double(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_critical_time_is_the_time_to_infinity():
    for y0, b in ((0.3, 1.0), (0.05, 4.0), (2.0, 0.1)):
        time, _ = quad(lambda y, b=b: 1 / ((y + b) * y), y0, float("inf"), epsabs=1e-12)
        found = modulation.critical_time(double(y0), double(b)).item()
        assert found == pytest.approx(time, rel=1e-8)
    assert modulation.critical_time(double(-0.3, 0.0), double(1, 1)).tolist() == [float("inf")] * 2


def test_critical_slope_is_a_derivative():
    b = double(0.4, 1.0, 3.0).requires_grad_()
    y0 = double(0.2, 0.2, 0.9)
    (slope,) = torch.autograd.grad(modulation.critical_time(y0, b).sum(), b)
    assert torch.allclose(modulation.critical_slope(y0, b.detach()), slope, rtol=1e-9)
    assert (slope < 0).all()


def test_solution_against_integration():
    for y0, b, t in ((0.3, 1.0, 1.2), (-0.5, 2.0, 1.0)):
        path = solve_ivp(lambda _, y, b=b: (y + b) * y, (0, t), [y0], rtol=1e-11, atol=1e-13)
        found = modulation.solution(double(y0), double(b), t).item()
        assert found == pytest.approx(path.y[0, -1], rel=1e-8)


def starts(d: int, count: int = 300, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(count, d, dtype=torch.float64, generator=generator)
    return y / y.norm(dim=-1, keepdim=True)


def rates(y: torch.Tensor, c: float) -> torch.Tensor:
    b = torch.full_like(y, 1.2)
    b[:, 0] += c
    return b


def test_without_modulation_the_largest_positive_start_wins():
    y = starts(3)
    b = rates(y, 0.0)
    top = torch.where((y > 0).any(-1), y.argmax(-1), -1)
    assert torch.equal(modulation.first_to_blow_up(y, b), top)
    ends = modulation.simulate(y, b, True, 400, 0.4)
    assert torch.equal(modulation.winner(ends), top)
    assert torch.allclose(ends.norm(dim=-1), torch.ones(len(y), dtype=torch.float64))


def test_where_no_component_is_positive_all_end_equal():
    """At u = -1 / sqrt(d) the flow along the sphere rests; across it, off the sphere, it does not:
    the length has to be kept."""
    y = -starts(4, 20).abs()
    ends = modulation.simulate(y, torch.full_like(y, 0.3))
    assert torch.allclose(ends, torch.full_like(ends, -0.5), atol=1e-6)


def test_in_the_plane_the_head_start_is_c():
    """On the circle y_1 + c = y_2 is a rest point between the two basins."""
    y = starts(2)
    c = 0.4
    won = modulation.winner(modulation.simulate(y, rates(y, c), True, 400, 0.4)) == 0
    assert torch.equal(won, (y[:, 0] > 0) & (y[:, 0] + c >= y[:, 1]))
    slow = modulation.first_to_blow_up(y, rates(y, c)) == 0
    assert (slow <= won).all() and slow.sum() < won.sum()


@pytest.mark.parametrize(("d", "steps"), [(2, 1), (3, 10), (5, 30)])
def test_positions_on_the_way_on_the_sphere(d, steps):
    """Steps of pace / 2, as the largest rate is 2 and |z| = 1, against adaptive integration."""
    rng, count, pace = np.random.default_rng(d), 20, 0.1
    z, b = rng.standard_normal((count, d)), rng.uniform(0.3, 2, (count, d))
    z, b = z / np.linalg.norm(z, axis=-1, keepdims=True), 2 * b / b.max(-1, keepdims=True)

    def move(_, flat):
        at = flat.reshape(z.shape)
        push = b * at + at**2
        return (push - at * (at * push).sum(-1, keepdims=True)).ravel()

    path = solve_ivp(move, (0, steps * pace / 2), z.ravel(), "DOP853", rtol=1e-10, atol=1e-10)
    ours = modulation.simulate(*map(torch.from_numpy, (3 * z, b)), True, steps, pace)
    assert ours.numpy() == pytest.approx(path.y[:, -1].reshape(z.shape), abs=1e-5)


@pytest.mark.parametrize("d", [2, 4])
def test_position_after_a_step_without_the_projection(d):
    rng, pace = np.random.default_rng(d), 0.1
    y, b = (
        torch.from_numpy(rng.uniform(low, high, (20, d))) for low, high in ((-0.5, 1), (0.3, 2))
    )
    step = pace / (y.abs().amax(-1) + b.amax(-1))
    there = modulation.solution(y, b, step[:, None].expand_as(y))
    ours = modulation.simulate(y, b, False, 1, pace)
    assert torch.allclose(ours, there / there.norm(dim=-1, keepdim=True), atol=1e-6)


def test_off_the_sphere_a_run_ends_at_its_winner():
    y = double([0.5, -0.3, -0.1], [-0.2, 0.4, -0.6])
    ends = modulation.simulate(y, torch.full_like(y, 0.8), False, 800, 2.0)
    assert torch.allclose(ends, torch.eye(3, dtype=torch.float64)[:2], atol=1e-6)


@pytest.mark.parametrize("purity", [0.79, 0.81, 1.0])
@pytest.mark.parametrize("share", [1.0, 0.8, -1.0])
def test_who_has_won_is_read_up_to_a_purity(share, purity):
    eye = torch.eye(4, dtype=torch.float64)
    y = share * eye + (1 - share**2) ** 0.5 * eye.roll(1, 1)
    won = torch.arange(4) if share >= purity else torch.full((4,), -1)
    assert torch.equal(modulation.winner(y, purity), won)


def test_components_alone_agree_with_critical_times():
    y = starts(4)
    b = rates(y, 0.7)
    ends = modulation.winner(modulation.simulate(y, b, False, 500, 0.2), 0.9)
    assert torch.equal(ends, modulation.first_to_blow_up(y, b))


def test_force_stays_on_the_sphere():
    y = starts(4, 10)
    b = rates(y, 0.3)
    assert ((modulation.force(y, b, True) * y).sum(-1).abs() < 1e-12).all()
    assert torch.equal(modulation.force(y, b), (y + b) * y)


@pytest.mark.parametrize("d", [2, 5, 9])
def test_chances_of_one_head_start(d):
    e = double(-2.5, -2, -1.4, -1, -0.6, 0, 0.2, 0.9, 1, 1.7)
    ours = modulation.win_probability(e, d)
    for value, found in zip(e.tolist(), ours.tolist(), strict=True):
        cuts = sorted({0.0, 1.0, *(min(max(v - value, 0), 1) for v in (-1, 1))})

        def below(y, value=value):
            return min(max((y + value + 1) / 2, 0), 1) ** (d - 1) / 2

        pieces = [quad(below, a, b)[0] for a, b in pairwise(cuts)]
        assert found == pytest.approx(sum(pieces), abs=1e-12)
    several = torch.zeros(len(e), d, dtype=torch.float64)
    several[:, 1] = e
    assert torch.allclose(modulation.win_probabilities(several)[:, 1], ours, atol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_chances_of_several_head_starts(d):
    """P[E_l] = E_y prod_j P[y_j < y + e_l - e_j] over y in [0, 1], by the midpoint rule."""
    rng, count = np.random.default_rng(d), 4000
    y = (np.arange(count) + 0.5) / count
    for e in (1.3 * np.arange(d), 2.4 * np.arange(d), *rng.standard_normal((4, d))):
        right = []
        for i in range(d):
            below = [np.clip((y + e[i] - e[j] + 1) / 2, 0, 1) for j in range(d) if j != i]
            right.append(np.prod(below, 0).mean() / 2)
        assert modulation.win_probabilities(double(*e)).tolist() == pytest.approx(right, abs=1e-6)


def test_somebody_wins_unless_the_best_start_is_negative():
    e = double(0, 0, 0, 0, 0)
    chances = modulation.win_probabilities(e)
    assert chances.sum().item() == pytest.approx(1 - 2**-5)
    shifted = modulation.win_probabilities(double(0.3, -0.2, 0.1) + 7.0)
    assert torch.allclose(shifted, modulation.win_probabilities(double(0.3, -0.2, 0.1)))


def test_errors():
    with pytest.raises(ValueError, match=r"expected b > 0, so that g\(0\)"):
        modulation.critical_time(double(0.1), double(0.0))
    with pytest.raises(ValueError, match="expected y0 > 0"):
        modulation.critical_slope(double(-0.1), double(1.0))
    with pytest.raises(ValueError, match="d >= 2 patterns, got 1"):
        modulation.win_probability(double(0.1), 1)
