"""Checks on pairs of towers, losses of distances and one neuron: verdicts, failing controls."""

import math

import numpy as np
import pytest
import torch

from clcore.checks.dual_networks import worlds
from clcore.checks.dual_networks.augmentation import invariance
from clcore.ledger import registry
from clcore.theory.operator import connection as cn
from clcore.theory.operator import translation as tr

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    run = registry.function("ddn/eq41")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other


def scalar_net(psi, *weights):
    def towers(x):
        layers = [torch.full((1, 1), float(w), dtype=torch.float64) for w in weights]
        return cn.trace(layers, torch.full((1, 1), float(x), dtype=torch.float64), psi)

    return towers


def test_theorem_1_as_printed_misses_powers():
    net = scalar_net(cn.power(2), 1, 1)
    one, two = net(1), net(0)
    K1, K2 = cn.connection(one, 1), cn.connection(two, 1)
    printed = K1 * (K1 - K2)
    w = torch.ones(1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(((w**2) ** 2 / 2).sum(), w)
    assert (cn.jacobian(one, 1).item(), printed.item(), slope.item()) == (2, 4, 2)
    # V^f f = 1 in the bracket, V^b = 2 in front.
    V = [v[0, 0, 0].item() for v in cn.transitions(one, 1)]
    assert V == [1, 2] and V[1] * V[0] * 1 == slope.item()


def test_definition_2_as_typeset():
    """G of squares (Eq. 18) misses the forward formula, another G and Q meet both; Q = I of ReLU
    (Eq. 17) misses the backward one where a gate of the layer is closed."""
    net = scalar_net(cn.power(2), 1, 1)(2)
    G = cn.reversible(net, 2)[0].item()
    below, above = net.post[1].item(), net.pre[1].item()
    assert (below, above, G * below) == (4, 4, 8)
    g = 3.0  # dr/df_2; of a layer with a square above it dr/dpre_2 is 2 pre_2 g
    pre_slope = 2 * net.pre[0].item() * (2 * above * g)
    assert (1 * below, 1 * 32 * g) == (above, pre_slope)  # G = 1, Q = 32

    f = torch.ones(1, dtype=torch.float64, requires_grad=True)  # pre_1, open
    (slope,) = torch.autograd.grad(torch.relu(-torch.relu(f)).sum(), f)
    assert slope.item() == 0  # where G_l^T Q_l^T g_l is -g_l: G = W = -1, Q = 1


@pytest.mark.parametrize(("steps", "trace"), [((1, -1), 0.75), (range(8), 0.0)])
def test_the_operator_of_a_ring_whose_views_shift_a_little(steps, trace):
    """A linear unit sees the ring of Eq. 11; views are at z' + steps. Left side of the display."""
    x = tr.images(8)
    means = torch.stack([x.roll(step, 1) for step in steps]).mean(0).flatten(0, 1)
    left = torch.cov(means.T, correction=0).diagonal().sum()
    over_objects = torch.cov(x.mean(1).T, correction=0)
    assert over_objects.abs().max() < 1e-15 and left.item() == pytest.approx(trace, abs=1e-12)


def test_tied_weights_have_a_second_term():
    """Autograd of r through both towers, which share their weights, against K_l of both."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((6, 4), (5, 6), (2, 5))
    weights = [
        torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes
    ]
    x = torch.randn(2, 1, 4, dtype=torch.float64, generator=generator)
    nets = [cn.trace(weights, v) for v in x]
    slopes = torch.autograd.grad(cn.distance(*nets).sum(), weights)
    for layer, (w, slope) in enumerate(zip(weights, slopes, strict=True), 1):
        K1, K2 = (cn.connection(net, layer)[0].detach() for net in nets)
        column, gap = cn.vec(w.detach()), K1 - K2
        torch.testing.assert_close(gap @ gap.T @ column, cn.vec(slope))
        assert ((K1 @ gap.T @ column - cn.vec(slope)).abs().max() / slope.abs().max()) > 0.05


def test_distance_from_the_nearest_multiple():
    a, b = np.array([[3.0, 4.0], [1.0, 1.0]]), np.array([[2.0, 0.0], [-2.0, -2.0]])
    assert worlds.off_line(a, b) == pytest.approx([0.8, 0.0])
    a, b = np.random.default_rng(0).standard_normal((2, 5, 4))
    u, v = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (a, b))
    half = np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1))
    assert worlds.off_line(a, b) == pytest.approx(np.sin(2 * half))


def test_the_definition_of_reversible_as_typeset():
    net = scalar_net(cn.power(2), 1, 1)(2)
    G, _ = cn.reversible(net, 2)
    assert [p.item() for p in net.pre] == [2, 4] and net.post[1].item() == 4
    assert G.item() * net.pre[0] == net.pre[1] and G.item() * net.post[1] == 8
    net = scalar_net(cn.RELU, 1, -1, 1)(1)
    G, _ = cn.reversible(net, 2)
    assert cn.jacobian(net, 1).item() == 0 and G.item() == -1
    # dr/df_2 = f_3 - target = 1, so G_2 g_2 = -1, but nothing passes the shut layer 2.
    assert net.output.item() - (-1) == 1


def test_the_remark_on_relu_nets_as_typeset():
    net = scalar_net(cn.RELU, -1, 1)(1)
    assert cn.jacobian(net, 1).item() == 0 == cn.reversible(net, 2)[0].item()
    # D_2 W_2 = W_2 = 1, for the top is linear: df_2/df_1.
    assert net.output.item() == net.post[1].item()


def test_counterexamples_to_growth_with_several_patterns():
    x, x_p = tr.window(tr.images(6)), tr.patterns()
    w = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    assert tr.selected(w).tolist() == [False, True, False, True]
    change = x_p @ (tr.step(w, x, 1.0) - w)
    assert change[3] < 0 and change[1] == 0 and math.isclose(change[3], -1 / 144)
    w = torch.ones(2, dtype=torch.float64)
    assert tr.selected(w).sum() == 3 and tr.operator(w, x).abs().max() == 0


def test_growth_stops_once_11_opens_too():
    """w = (1, -1.01), d = 4: 10 is open and w_1 grows by 1/64; beyond 1.01 only w_2 moves."""
    path = tr.path(torch.tensor([1.0, -1.01]).double(), tr.window(tr.images(4)), 1.0, 2)
    assert path[:, 0].tolist() == [1, 1 + 1 / 64, 1 + 1 / 64]
    assert path[:, 1].tolist() == pytest.approx([-1.01, -1.01, -1.01 * (1 + 1 / 64)])
    count, share = invariance.stopped(np.random.default_rng(0), 4)
    assert (count, share) == (24, 1.0)


def test_several_patterns_grow_only_with_a_bias():
    """Signs of the change of every open drive, over a grid of starts."""
    grid = torch.linspace(-2, 2, 40, dtype=torch.float64)  # never 0
    for bias in (False, True):
        w = torch.cartesian_prod(*[grid] * (2 + bias))
        x = tr.window(tr.images(6))
        x, x_p = (tr.with_bias(x) if bias else x), tr.patterns(bias)
        change, open_ = (tr.step(w, x, 1.0) - w) @ x_p.T, tr.selected(w)
        rises, falls = (open_ & (s * change > 1e-9) for s in (1, -1))
        rises, falls, count = rises.any(-1), falls.any(-1), open_.sum(-1)
        assert rises[count == 1].all() and not falls[count == 1].any()
        pairs = (rises & ~falls)[count == 2]
        assert (rises[count >= 2].any(), pairs.any(), pairs.all()) == (bias, bias, False)


def test_margins_of_patterns_that_are_alone():
    """(w, b) = (-1, -1, 1/2) for 00, (-1, 1, -1/2) for 01; for 11 b = -1, w_1 = w_2, w_1 - 1 = -m
    and 2 w_1 - 1 = m, so m = 1/3. Without a bias 00 has no drive."""
    assert invariance._margins(True) == pytest.approx([1 / 2, 1 / 2, 1 / 2, 1 / 3])
    assert invariance._margins(False) == pytest.approx([0, 0, 0, 0])
    assert (invariance._margins(False, 0) > 0.5).tolist() == [False, True, True, False]
