"""Where A jumps at an LME: the counterexamples to nl Theorem 1, and the worlds of its check."""

import math

import numpy as np
import pytest
import torch

from clcore.checks.one_layer.eigenvectors import gate_jumps as jumps
from clcore.checks.one_layer.eigenvectors import stability
from clcore.checks.one_layer.landscape import gate_views
from clcore.reference import tangent, unit
from clcore.theory.one_layer import one_layer

pytestmark = pytest.mark.usefixtures("one_thread")
POINTS = np.array([[1.0, 0], [-1, 0], [0, 2], [0, -2]])
FEATURES = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])


@pytest.fixture(scope="module")
def groups():
    return jumps.two_groups(np.random.default_rng(5), 4)


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_four_points_refute_theorem_1():
    """A(e_1) = diag(1/16, 0) and diag(1/16, 1/4) beside it: rho = 0, pushed away by 3/16."""
    world = one_layer.samples(torch.tensor(POINTS), torch.tensor(FEATURES @ FEATURES.T))
    w = t(1, 0)
    assert bool(one_layer.locally_maximal(world, w))
    here = one_layer.operator(world, w)
    assert torch.equal(here, torch.diag(t(1 / 16, 0)))
    for e in (1e-2, -1e-2, 1e-5):
        v = t(math.sqrt(1 - e**2), e)
        there = one_layer.operator(world, v)
        assert there.numpy() == pytest.approx(np.diag([1 / 16, 1 / 4]), abs=1e-15)
        assert float(((there - here) @ w).norm()) == 0
        push = float(one_layer.flow(world, v)[1]) / e
        assert push == pytest.approx(3 / 16, abs=1e-4)
        end = one_layer.ascend(world, v, rate=1.0, steps=1000)
        assert end.tolist() == pytest.approx([0, math.copysign(1, e)], abs=1e-9)


def test_a_leaky_gate_refutes_it_under_uniform_weights():
    x, p = t([1, 0], [-10, 0], [0, 1], [0, -1]), t(0.1, 0.1, 0.4, 0.4)
    world, w = one_layer.World(x, p), t(1, 0)
    here = one_layer.operator(world, w, "leaky_relu", 0.1)
    assert bool(one_layer.locally_maximal(world, w, "leaky_relu", slope=0.1))
    for e in (1e-3, -1e-3):
        v = t(math.sqrt(1 - e**2), e)
        there = one_layer.operator(world, v, "leaky_relu", 0.1)
        assert float(((there - here) @ w).norm()) < 1e-15
        assert float(one_layer.flow(world, v, "leaky_relu", 0.1)[1]) / e > 0.07
        end = one_layer.ascend(world, v, "leaky_relu", 1.0, 4000, 0.1)
        assert abs(float(end[1])) > 0.99


def test_augmented_views_refute_it_for_the_relu_under_uniform_weights():
    """Three samples, alpha = 1: the third one's mean output is that of all, half of its views lie
    in the plane. A(e_1) = diag(1/6, 0) and diag(1/6, 8/9) beside it: rho = 0, pushed away."""
    x = t([1, 0], [-1, 0], [1, 0], [0, 8], [0, -8])
    p = t(1, 1, 1 / 2, 1 / 4, 1 / 4) / 3
    own = torch.block_diag(torch.ones(1, 1), torch.ones(1, 1), torch.ones(3, 3))
    world, w = one_layer.World(x, p, (1 - 3 * own).double()), t(1, 0)
    here = one_layer.operator(world, w)
    assert here.numpy() == pytest.approx(np.diag([1 / 6, 0]), abs=1e-15)
    for e in (1e-3, -1e-3):
        v = t(math.sqrt(1 - e**2), e)
        there = one_layer.operator(world, v)
        assert there.numpy() == pytest.approx(np.diag([1 / 6, 8 / 9]), abs=1e-15)
        assert float(one_layer.flow(world, v)[1]) / e == pytest.approx(8 / 9 - 1 / 6, abs=1e-4)


def test_laws_at_the_gate_have_one_gap_and_its_closed_form():
    """The rate at e_1 is rho - gap at any density; by numpy it is the library's."""
    g = gate_views.gate(np.random.default_rng(3))
    for density in (0.1, 0.5, 1.0):
        gap, rho = gate_views.closed(g, density)
        rate = gate_views.rate(g, density)
        assert rate == pytest.approx(gate_views.rate_again(g, density), abs=1e-12)
        assert rate == pytest.approx(rho - gap, abs=0.01 * gap)
    assert gap == g.first * (1 - g.first) * ((1 - g.near) * g.a + g.near * g.eta / 4) ** 2
    assert 1.5 <= rho / gap <= 4


def test_speeds_of_three_samples_are_those_of_the_library():
    """By pairs of views: between samples alpha, within one what takes its own spread away."""
    for law in gate_views.three(np.random.default_rng(4)):
        x, chance = gate_views.views(law.gate, 1.0)
        points = np.vstack([x, [[-1.0, 0.0], [law.outputs[2], 0.0]]])
        of = np.append(np.zeros(len(x), int), [1, 2])
        between = law.alpha * (1 - np.eye(3))
        own = np.diag(-(between @ law.chance) / law.chance)
        mass = law.chance[of] * np.append(chance, [1, 1])
        world = one_layer.World(*map(torch.tensor, (points, mass, (between + own)[of][:, of])))
        angle = np.array([-0.5, 0.01, 0.3, 2.0])
        w = torch.tensor(np.stack([np.cos(angle), np.sin(angle)], -1))
        push = one_layer.flow(world, w).numpy()
        speed = -push[:, 0] * np.sin(angle) + push[:, 1] * np.cos(angle)
        assert law.speed(angle) == pytest.approx(speed, abs=1e-12)
        here = one_layer.operator(world, t(1, 0)).numpy()
        assert here == pytest.approx(np.diag([law.gap, 0]), abs=1e-12)


def test_a_gate_open_at_zero_refutes_it_too():
    """h'(0) = 1, alpha = 1: A(e_1) = diag(.5, .461), towards e_2 diag(.5, .522), both diagonal."""
    x = np.array([[[1, -1.2], [-10, -12], [0, 0.45], [0, -0.45]]])
    at, side = np.array([[1.0, 0]]), np.array([[0.0, 1]])
    assert jumps.leaky_operator(x, at)[0] == pytest.approx(np.diag([0.5, 0.46125]), abs=1e-12)
    v = np.array([[math.sqrt(1 - 1e-6), 1e-3]])
    beside = jumps.leaky_operator(x, v)
    assert beside[0] == pytest.approx(np.diag([0.5, np.var([-1.2, -1.2, 0.45, -0.045])]), abs=1e-6)
    world = one_layer.samples(torch.tensor(x[0]))
    ours = one_layer.operator(world, torch.tensor(v[0]), "leaky_relu", jumps.SLOPE)
    assert beside[0] == pytest.approx(ours.numpy(), abs=1e-12)
    growth, rough = jumps.leaky_growth(x, at, side)
    assert growth[0] > 0 == rough[0]
    end = one_layer.ascend(world, torch.tensor(v[0]), "leaky_relu", 20.0, 3000, jumps.SLOPE)
    gated = np.array([[0.1, -0.12], [-1, -1.2], [0, 0.45], [0, -0.045]])  # where the flow ends
    top = np.abs(np.linalg.eigh(np.cov(gated.T, bias=True))[1][:, -1])
    assert end.tolist() == pytest.approx(top.tolist(), abs=1e-6)
    assert top.tolist() == pytest.approx([0.587, 0.810], abs=1e-3)


def test_points_off_the_plane_leave_the_operator_as_it_is():
    rng = np.random.default_rng(2)
    x, w, u = jumps.leaky_points(rng, 5, off=0.05)
    A = jumps.leaky_operator(x, w)
    assert np.einsum("bi,bij,bj->b", w, A, w) == pytest.approx(0.5)
    assert np.einsum("bi,bij,bj->b", u, A, w) == pytest.approx(0, abs=1e-12)
    assert jumps.leaky_growth(x, w, u)[0].max() < 0


def test_the_sum_of_variances_is_the_contrastive_covariance(groups):
    v = jumps.turned(groups, 0.3)[:, 1]
    x, phi, w = (torch.tensor(a) for a in (groups.x, groups.phi, v))
    ours = one_layer.operator(one_layer.samples(x, phi @ phi.mT), w).numpy()
    assert jumps.operator(groups.x, groups.phi, v) == pytest.approx(ours, abs=1e-12)
    four = jumps.operator(POINTS[None], FEATURES[None], np.array([[0.8, 0.6]]))
    assert four[0] == pytest.approx(np.diag([1 / 16, 1 / 4]), abs=1e-15)


def test_the_second_group_hides_and_repels(groups):
    """The first group alone has the same A(w_*): eigenvector, gap. Off the plane it is harmless."""
    A = jumps.operator(groups.x, groups.phi, groups.w)
    assert jumps.operator(groups.x, groups.phi[..., :1], groups.w) == pytest.approx(A, abs=1e-14)
    values = np.linalg.eigvalsh(A)
    assert groups.gap == pytest.approx(values[:, -1] - values[:, -2])
    image = np.einsum("bij,bj->bi", A, groups.w)
    assert image == pytest.approx(values[:, -1:] * groups.w, abs=1e-12)
    over, rough = jumps.excess(groups, 1e-3)
    assert rough.max() < 1e-6 and over.min() > 1e3  # outward: above the gap itself
    off = jumps.beside(groups)
    assert jumps.operator(off.x, off.phi, off.w) == pytest.approx(A, abs=1e-14)
    over, rough = jumps.excess(off, 1e-3)
    assert rough.max() == 0 and over.max() < 1
    assert jumps.growth(groups).min() > 0 > jumps.growth(off).max()


def test_growth_along_the_flow_by_the_sum_of_variances(groups):
    x, phi, w = (np.repeat(a, groups.u.shape[1], 0) for a in (groups.x, groups.phi, groups.w))
    each = (phi * (x**2).sum(-1, keepdims=True)).mean(1) * phi.mean(1)
    means = (np.einsum("bnl,bni->bli", phi, x) / x.shape[1]) ** 2
    pace = 2 / (each.sum(-1) - means.sum((1, 2)))[:, None]
    start = jumps.turned(groups, jumps.START).reshape(w.shape)
    end = jumps.euler(lambda v: jumps.operator(x, phi, v), start, pace)
    far = np.linalg.norm(end - w, axis=-1).reshape(groups.u.shape[:2])
    again = (far / jumps.START) ** (1 / jumps.STEPS) - 1
    found = jumps.growth(groups)  # not draw by draw, for w may hover at a kink
    assert np.median(found) == pytest.approx(np.median(again), abs=1e-4)
    assert np.mean(found > 0) == np.mean(again > 0) > 0.9


@pytest.mark.parametrize(("share", "power"), [(0.98, 0), (1.1, None)])
def test_growth_of_families_in_their_eigenbasis(share, power):
    """Families that jump, and such as are too rough, without matrices."""
    A, w, second, gap = stability.tight(np.random.default_rng(3), 6, np.full(6, share), power)
    v, turn, jump = math.sqrt(1 - 1e-8) * w + 1e-4 * second, share * gap, gap * (power == 0)
    values, Q = np.linalg.eigh(A(w))
    Q[..., -1], Q[..., -2] = w, second
    y, far = np.einsum("bij,bi->bj", Q, v), []
    for _ in range(401):
        far.append(np.hypot(1 - y[:, -1], np.linalg.norm(y[:, :-1], axis=-1)))
        push = values * y
        push[:, -1] += turn * y[:, -2] ** 2
        push[:, -2] += (turn * y[:, -1] + jump) * y[:, -2]
        y = unit(y + 0.5 * tangent(y, push))
    again = (far[-1] / far[0]) ** (1 / (len(far) - 1)) - 1
    assert stability._growth(A, w, v) == pytest.approx(again, rel=1e-6)


def test_the_excess_of_four_points():
    """1/4 of epsilon, four times the gap."""
    groups = jumps.Groups(
        POINTS[None],
        FEATURES[None],
        np.array([[1.0, 0]]),
        np.array([1 / 16]),
        np.array([[[0.0, 1], [0, -1]]]),
    )
    over, rough = jumps.excess(groups, 1e-3)
    assert rough.max() == 0
    assert over == pytest.approx(4 / 1e-3, rel=1e-5)


def test_under_uniform_weights_a_relu_group_in_the_plane_has_no_roughness(groups):
    """Theorem 1 is safe there: the quotient grows like 1 / epsilon."""
    together = groups._replace(phi=np.ones_like(groups.phi[..., :1]))
    far, near = (jumps.excess(together, e)[1].max(1) for e in (1e-3, 1e-4))
    assert near / far == pytest.approx(10, rel=0.05)


def test_the_categorical_model_has_no_roughness():
    for e in (1e-2, 1e-4):
        quotient = jumps.categorical_quotient(e)
        assert quotient == pytest.approx(0.2 * math.hypot(0.3, 0.5) / e, rel=1e-3)


@pytest.mark.parametrize(("power", "size"), [(0, 1.0), (0.5, 0.1)])
def test_families_with_a_term_that_the_roughness_does_not_see(power, size):
    share = np.full(3, 0.5)
    plain, w, second, gap = stability.tight(np.random.default_rng(1), 3, share)
    A, *_ = stability.tight(np.random.default_rng(1), 3, share, power)
    v = math.sqrt(1 - 1e-4) * w + 1e-2 * second
    more = size * gap[:, None, None] * second[:, :, None] * second[:, None]
    assert A(v) - plain(v) == pytest.approx(more, abs=1e-12)
    assert np.array_equal(A(w), plain(w))
    assert np.einsum("bij,bj->bi", A(v) - plain(v), w) == pytest.approx(0, abs=1e-12)
