"""The checks of nl's two-layer theory: what holds, what fails as printed, that controls fail."""

import numpy as np
import pytest
import torch

from clcore.checks.two_layer import sizes
from clcore.checks.two_layer.fields import dynamics, latent, linear, several_features, specialise
from clcore.checks.two_layer.modulation import chances, favoured
from clcore.checks.two_layer.modulation import top as nl_two_top
from clcore.reference import relative, tangent, unit
from clcore.theory.two_layer import field_latent, modulation, two_layer

pytestmark = pytest.mark.usefixtures("one_thread")


def double(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in nl_two_top.thm5(6, seed)] for seed in (0, 0, 1)
    )
    assert first == again != other


def test_two_filters_cannot_be_exchanged_where_the_top_layer_has_not_converged():
    """K = d = 1, w = (3, -4), s = (4, 3)/5, the bottom eigenvector: nl/eq163 as printed."""
    C, s = torch.eye(1, dtype=torch.float64), double(0.8, 0.6)
    for w, b in (((3, -4), 0), ((-4, 3), -7 / 5), ((-0.5, -0.5), -7 / 10)):
        W = double(*w).reshape(1, 2, 1)
        assert two_layer.common_direction(C, s, W).item() == pytest.approx(b)


def test_coupled_fields_keep_the_law_of_each_and_depend_on_one_another():
    """So the control of Assumption 2 changes the independence given z alone."""
    model, W = latent.net_of(np.random.default_rng(0), 5, 3, 2, 1)
    apart, coupled = (latent.enumerated(model, W, "linear", c).given for c in (0.0, 0.4))
    d = latent.INPUTS
    for one, other in zip(apart, coupled, strict=True):
        for k in (slice(0, d), slice(d, 2 * d)):
            np.testing.assert_allclose(one[:, k, k], other[:, k, k], atol=1e-13)
        assert np.abs(one[:, :d, d:]).max() < 1e-13
        assert np.abs(other[:, :d, d:]).max(axis=(1, 2)).min() > 1e-3


def test_the_short_form_of_delta_as_typeset():
    d, b, scale = double(0, 0), double(1, 1), torch.tensor(0.25, dtype=torch.float64)
    top = two_layer.top_of_rank_one(d, b, scale)
    assert top.value.item() == pytest.approx(1 / 2) and top.Z.item() ** 2 == pytest.approx(8)
    assert two_layer.modulation(top, b, scale).tolist() == pytest.approx([1 / 8, 1 / 8])


def test_the_first_to_blow_up_can_lose_on_the_sphere():
    """The counterexample of nl/eq148: the flow with the projection is another one."""
    y, b = double(0.55, 0.835), double(1.7, 1.2)
    assert modulation.critical_time(y, b).tolist() == pytest.approx([0.8287, 0.7423], abs=1e-4)
    assert modulation.first_to_blow_up(y, b) == 1
    end = modulation.simulate(y, b)
    assert end.tolist() == pytest.approx([1, 0], abs=1e-6)


def test_opposite_unit_filters_are_an_isolated_maximum():
    """nl/thm4 (2) with unit filters: C = diag(2, 1), filters e_1 and -e_1, S = s s^T at its
    optimum."""
    C = torch.diag(double(2, 1))

    def value(*angles: float) -> float:
        W = torch.stack([torch.tensor(angles).cos(), torch.tensor(angles).sin()], -1).double()
        return float(torch.linalg.eigvalsh(W @ C @ W.T)[-1])

    assert value(0, torch.pi) == pytest.approx(4)
    for turn in torch.arange(0, 6.3, 0.1).tolist():
        assert value(0.01 * np.cos(turn), torch.pi + 0.01 * np.sin(turn)) < 4 - 1e-5
    s, W = double(1, -1) / 2**0.5, double(1, 0, -1, 0).reshape(1, 2, 2)
    b = two_layer.common_direction(C, s, W)
    move = s[:, None] * b
    assert two_layer.tangent(W, move[None]).abs().max() == 0 < b.abs().max()


def test_velocities_on_the_spheres_are_not_parallel():
    """nl/thm4 (1) with unit filters: by the gradient of the top eigenvalue of normalised ones."""
    C = torch.diag(double(2, 1))
    raw = double(1, 0, 0.5**0.5, 0.5**0.5).reshape(2, 2).requires_grad_()
    W = raw / raw.norm(dim=-1, keepdim=True)
    (slope,) = torch.autograd.grad(torch.linalg.eigvalsh(W @ C @ W.T)[-1] / 2, raw)
    assert slope[0, 0].abs() < 1e-12 and slope[0, 1] > 0.1
    assert slope[1, 0] > 0.1 and slope[1].sum().abs() < 1e-12
    ours = linear._spherical(C.numpy()[None], raw.detach().numpy()[None, None])
    assert np.allclose(ours[0, 0], slope.numpy(), atol=1e-12)


def test_no_way_out_of_the_isolated_maximum():
    """nl/thm4 (2), unit filters: every pair on the circle moves, and so does one that turns."""
    least, turned = linear._crossing(np.random.default_rng(0), 3, linear._spherical)
    assert 0.05 < least < turned < 1


def test_linear_filters_follow_the_covariance_of_the_inputs():
    """nl/rem16: velocities, and where other steps end, from V[x] of all inputs alone."""
    for world, W in specialise._models(np.random.default_rng(4), 2):
        p, filters = world.p.numpy(), W.numpy()
        x = np.broadcast_to(world.x.flatten(-2).numpy(), (len(p), *world.x.flatten(-2).shape[-2:]))
        C = np.stack([np.cov(v.T, bias=True, aweights=q) for v, q in zip(x, p, strict=True)])
        expected = linear._unprojected(C, filters)
        ours = specialise._velocity(world, W, "linear").numpy()
        assert np.abs(relative(ours, expected)).max() < 1e-10
        for _ in range(600):
            move = linear._unprojected(C, filters)
            size = np.linalg.norm(move, axis=-1).max(-1)[..., None, None]
            filters = unit(filters + 0.4 * tangent(filters, move) / size)
        assert linear._second(filters).max() < 1e-3
        ends = specialise._trained(world, W, "linear", specialise.STEPS)
        assert linear._second(ends.numpy()).max() < 1e-6


def test_counterexamples_to_the_chances():
    wide = modulation.win_probabilities(double(2, 0))
    assert wide[0].item() == pytest.approx(1 / 2)
    assert modulation.win_probability(double(1.5), 7).item() == 0.5


def test_no_constant_head_start_serves_on_the_sphere():
    """nl/eq154: b = 1.2, c = 0.3; one start asks for less than 0.1, another for 0.2 or more."""
    y = torch.tensor([[1e-6, 0.1, -(0.99**0.5)], [0.6, 0.8, 0.0]], dtype=torch.float64)
    ends = modulation.simulate(y, double(1.5, 1.2, 1.2).expand(2, 3), True, 1500, 0.4)
    assert modulation.winner(ends).tolist() == [1, 0]
    # for c = 1 and more every start with y_1 > 0 is won, however small y_1 is
    ends = modulation.simulate(y[:1], double(2.7, 1.2, 1.2).expand(1, 3), True, 1500, 0.4)
    assert modulation.winner(ends).tolist() == [0]


def test_a_disadvantage_beyond_one_is_never_made_good():
    """nl/eq154: c = -1.2, d = 2, and a start that epsilon_1 = c gives to u_1: it ends where
    y_1 - y_2 = 1.2 instead, so that only a constant with an empty event serves."""
    y = torch.tensor([[0.97, -((1 - 0.97**2) ** 0.5)]], dtype=torch.float64)
    assert y[0, 0] - 1.2 >= y[0, 1]
    end = modulation.simulate(y, double(2.8, 4.0).expand(1, 2), True, 3000, 0.4)[0]
    assert (end[0] - end[1]).item() == pytest.approx(1.2, abs=1e-6) and end[0] < 0.98
    # at d = 4 u_1 is no end either, from as close as 0.01
    near = torch.tensor([[1.0, -0.01, -0.01, -0.01]], dtype=torch.float64)
    end = modulation.simulate(near, double(2.4, 4.0, 4.0, 4.0).expand(1, 4), True, 3000, 0.4)[0]
    assert end[0].item() < 0.5


def test_a_strength_of_one_feature_can_be_negative():
    """nl/rem15: by hand, z_1 = 3/8, p_0 p_1 = 2/9, b = (1, -1) under phi_1."""
    terms = several_features.by_tables(several_features.named())
    assert terms.weight[0].tolist() == pytest.approx([1 / 4, (3 / 8) ** 2 * 2 / 9])
    assert terms.b[0].tolist() == [pytest.approx([1, 1 / 2]), pytest.approx([1, -1])]
    assert terms.covariance[0, 0, 1] == pytest.approx(1 / 8 - 1 / 32)
    moments, squares = several_features.by_masks(several_features.named())
    assert moments.sum(1) == pytest.approx(terms.covariance)
    assert squares == pytest.approx(terms.b**2)


def test_batchnorm_leaves_any_ratio_of_gaps():
    """nl/rem21: two fields, correlation r_1 r_2; the gaps are as r_1 to r_2."""
    r = np.array([0.9, 0.3])
    top = np.linalg.eigvalsh([[1, r[0] * r[1]], [r[0] * r[1], 1]])[-1]
    assert (top - (1 - r**2)).tolist() == pytest.approx([1.08, 0.36])


def test_batchnorm_can_make_equal_variances_unequal():
    """nl/rem21: two fields with d = (1, 1); what BatchNorm does to lambda - d_k, by numpy."""
    d, b = np.array([1.0, 1.0]), np.array([3.0, 0.3])
    spread = []
    for size in (1.0, (d + b**2 / 4) ** 0.5):
        top = np.linalg.eigvalsh(np.diag(d / size**2) + np.outer(b / size, b / size) / 4)[-1]
        gaps = top - d / size**2
        spread.append(gaps.max() / gaps.min())
    r = (b**2 / (4 + b**2)) ** 0.5
    assert spread == pytest.approx([1, r[0] / r[1]]) and spread[1] > 5.6


def test_a_head_start_depends_on_the_start():
    """nl/eq154, no projection: a small start loses to half of any constant; the corrected one blows
    up as late."""
    times = modulation.critical_time(double(1e-4, 0.2), double(2.2, 1.2))
    assert times.tolist() == pytest.approx([4.54, 1.62], abs=5e-3)
    y = np.array([1e-6, 0.1, 0.8])
    for start, even in zip(y, chances._head_start(y, 1.2, 1.0), strict=True):
        both = modulation.critical_time(double(start, even), double(2.2, 1.2))
        assert both[0].item() == pytest.approx(both[1].item(), rel=1e-12)
    assert 0 < chances._head_start(y, 1.2, 1.0)[0] - 1e-6 < 1e-2


def test_no_chance_beyond_a_gap_of_two():
    """Where an odd power of Eq. 157 would be negative."""
    assert modulation.win_probabilities(double(4, 4, 0))[2].item() == 0.0
    assert modulation.win_probability(double(-3), 3).item() == 0.0


def test_a_kernel_of_the_output_couples_the_fields():
    """The counterexample of nl/rem15: two fields with outputs 0 or 1, all states alike."""
    half = torch.full((1, 2, 2, 2), 0.5, dtype=torch.float64)
    values = double(0, 1).reshape(1, 1, 2, 1).expand(1, 2, 2, 1)
    model = field_latent.Model(half[:, :, 0, 0], half, values)
    W = np.ones((1, 2, 1, 1))
    weight = dynamics.gaussian(model, W, 1.0)[0]
    q = (np.exp(-0.5) + np.exp(-2)) / (1 + 2 * np.exp(-0.5) + np.exp(-2))
    both = np.exp(-2) / (1 + 2 * np.exp(-0.5) + np.exp(-2))
    error, bare, apart = dynamics.carried(model, W, weight)
    assert (q, both) == pytest.approx((0.316, 0.058), abs=5e-4)
    expected = (q**2 - both) / (q - q**2)
    assert apart[0] == pytest.approx(expected) and error[0] == pytest.approx(expected)
    own = dynamics.phi_of_fields(np.random.default_rng(0), model)[0]
    error, bare, apart = dynamics.carried(model, W, own)
    assert error[0] < 1e-14 and apart[0] < 1e-14 < 1e-3 < bare[0]


def test_every_pattern_of_the_race_is_locally_maximal():
    """nl/rem18 (c), unequal: at u_l the eigenvalue 1 + b_l exceeds the b of every other pattern."""
    b = np.array([1.2, 2.0, 1.2, 1.2])
    for pattern in range(4):
        values = b + np.eye(4)[pattern]
        assert values.argmax() == pattern and np.sum(values == values.max()) == 1
    assert np.allclose(favoured.FREQUENT.sum(1), 1)
    rng = np.random.default_rng(0)
    share = favoured._race(rng, 0.3, 0.8, 400)
    assert share[1] > 1.5 * share[0] > 1.5 * share[2:].max()


def test_two_fields_of_one_law_are_modulated_alike():
    """The note of nl/rem20: delta_k Delta_k Delta_k^T is the same at sizes 1 and t."""
    t = 0.1
    d, b, size = double(0.7, 0.7 * t**2), double(0.4, 0.4 * t), double(1, t)
    scale = torch.tensor(0.2, dtype=torch.float64)
    top = two_layer.top_of_rank_one(d, b, scale)
    coefficient = two_layer.modulation(top, b, scale)
    assert np.isclose(*(coefficient * size**2).tolist(), rtol=1e-12)
    assert coefficient[1] > 50 * coefficient[0]


def test_delta_rises_with_d_where_all_b_are_equal():
    """nl/rem20: three fields; of two fields both have the same."""
    d, b, scale = double(0.02, 0.31, 0.6), double(1, 1, 1), torch.tensor(0.25, dtype=torch.float64)
    found = two_layer.modulation(two_layer.top_of_rank_one(d, b, scale), b, scale)
    assert found.tolist() == pytest.approx([0.1195, 0.1451, 0.1708], abs=5e-5)
    found = two_layer.modulation(two_layer.top_of_rank_one(d[:2], b[:2], scale), b[:2], scale)
    assert found[0].item() == pytest.approx(found[1].item(), rel=1e-12)


def test_speed_with_the_factor_is_that_of_theorem_5():
    """nl/rem20: the velocity by enumeration and numpy's top eigenvector; without it, another."""
    model, W = sizes._alike(np.random.default_rng(3), 4, 3)
    model = sizes._stretched(model, np.tile([1, 1 / 3, 0.1], (4, 1)))
    pair, w = nl_two_top.pair_of(model, W, "relu"), torch.from_numpy(W)[:, :, 0]
    s = np.linalg.eigh(nl_two_top.outputs(pair.law, W))[1][..., -1]
    direct = torch.from_numpy(nl_two_top.velocity(pair.law, W, s))
    direct = two_layer.tangent(w, direct).norm(dim=-1).numpy()
    top = two_layer.top_of_rank_one(pair.d, pair.b, pair.scale)
    assert np.allclose(sizes.speed(pair, top.gaps, w), direct, rtol=1e-7, atol=1e-12)
    bare = sizes.speed(pair, torch.ones_like(top.gaps), w)
    assert not np.allclose(bare, direct, rtol=0.01)
