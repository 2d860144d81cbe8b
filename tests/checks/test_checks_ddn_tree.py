"""Every check of ddn's latent trees: what holds, what fails as printed, that controls fail."""

import numpy as np
import pytest
import torch

from clcore.checks.hltm.operator import depth as tree_depth
from clcore.checks.hltm.operator import growth
from clcore.checks.hltm.tree import reference as tr
from clcore.ledger import registry
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    run = registry.function("ddn/eq158")
    first, again, other = ([check.measured for check in run(6, seed)] for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize(("polarity", "printed", "true"), [(1.0, 0, 1), (0.5, 3 / 16, 1 / 4)])
def test_counterexample_to_theorem_6(polarity, printed, true):
    """A uniform root, mu below it, and a leaf that copies mu: o_mu printed and o_mu found."""
    rho = torch.tensor([[polarity, 1.0]], dtype=torch.float64)
    model = lt.binary(lt.tree((-1, 0, 1)), rho)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    w = tr.explore(model, {0: one, 1: one})
    square = tree_nets.child_selectivity(model, w.groups, 1).item() ** 2
    assert square == pytest.approx(1 / 4)
    assert tr.over_root(w, w.out[2]).item() == pytest.approx(true * square)
    far = lt.path_polarity(model.tree, rho)[0, 1].item() ** 2
    assert far * (1 - far) == pytest.approx(printed)


def test_counterexample_to_the_sum_of_variances():
    """Two copies of z_nu, weights sigma_w sqrt(3/2): twice the sum of Eq. 155 and the bound."""
    rates = torch.tensor([[0.5, 1.0]], dtype=torch.float64)
    two = torch.ones(1, 2, 1, dtype=torch.float64)
    w = tr.explore(lt.binary(lt.tree((-1, 0, 1)), rates), {0: two.mT * 1.5**0.5, 1: two})
    each = np.diagonal(tr.spread(w, 0, tr.fed(w, 0))[0, 0])
    assert each == pytest.approx(0.25 * (1 - 0.5**2))
    assert tr.spread(w, 1, w.out[1]) == pytest.approx(0)
    exact = tr.spread(w, 0, w.pre[0])[0, 0, 0, 0]
    assert exact == pytest.approx(2 * 1.5 * each.sum()) == pytest.approx(2 * 3 * each[0])


def test_numbers_of_the_counterexample_to_eq163():
    """Polarities 0.3 and 0.29, ten copies each: 0.874 against a bound of 0.827."""
    activation, bound = the_bounds_of_one_unit(10, 0.3, 0.29)
    assert (round(activation, 3), round(bound, 3)) == (0.874, 0.827)


@pytest.mark.parametrize(("copies", "exceeds"), [(2, False), (8, False), (10, True)])
def test_counterexample_to_the_bounds_of_one_unit(copies, exceeds):
    """The mean activation passes its bound from n = 9 on."""
    activation, bound = the_bounds_of_one_unit(copies, 0.01, 0.0)
    assert (activation > bound) == exceeds


def the_bounds_of_one_unit(copies, first, second):
    """Two groups of copies of z_nu, added and subtracted: the variance is n times the bound.

    Returns the mean activation and its bound of Eq. 163.
    """
    rate = torch.tensor([[first, second, 1.0, 1.0]], dtype=torch.float64)
    one = torch.ones(1, copies, 1, dtype=torch.float64)
    top = torch.cat([one.mT, -one.mT], -1) * (3 / (2 * copies)) ** 0.5
    model = lt.binary(lt.tree((-1, 0, 0, 1, 2)), rate)
    w = tr.explore(model, {0: top, 1: one, 2: one})
    s, _, rho = tr.selective(w, 0)
    bound = 3 * (s**2 * (1 - rho**2)).mean()
    variance = tr.spread(w, 0, w.pre[0])[0, 0, 0, 0]
    assert tr.given(w, 0, w.pre[0])[0, 0, 0] < 0
    assert variance == pytest.approx(copies * bound)
    return tr.given(w, 0, w.out[0])[0, 0, 0], np.sqrt(bound)


def test_sizes_of_the_levels_are_those_of_the_enumerated_covariance():
    """The trace of the covariance over z_0 of all joint states, mean over the nodes of a level."""
    key = tr.keys(np.random.default_rng(3), 3)
    ours, theirs = tree_depth.level_sizes(key, 2, 2**0.5)
    tree = lt.complete(3)
    model = lt.binary(tree, tree_depth.polarities(key, tree))
    w = tr.explore(model, tree_nets.net(key, tree, 2, 2**0.5))
    for level, nodes in enumerate([(0,), (1, 2), (3, 4, 5, 6)]):
        traces = [tr.over_root(w, tr.fed(w, mu)).trace(axis1=-2, axis2=-1) for mu in nodes]
        assert ours[level] == pytest.approx(np.mean(traces, 0), rel=1e-9)
        left = [t * (1 - tr.path_rho(w, mu) ** 2) for t, mu in zip(traces, nodes, strict=True)]
        assert theirs[level] == pytest.approx(np.mean(left, 0), rel=1e-9, abs=1e-12)


def test_polarities_below_one_that_leave_half():
    rates = 1 - 1 / (torch.arange(1, 401, dtype=torch.float64) + 1) ** 2
    reach = lt.path_polarity(lt.tree(range(-1, 400)), rates[None])[0, -1].item()
    assert rates.max() < 1 and reach == pytest.approx(402 / 802)


def test_without_their_jacobians_the_operators_are_not_the_largest_at_the_top():
    ours, _ = tree_depth.level_sizes(tr.keys(np.random.default_rng(0), 200), 5, 1.0)
    root, below, _ = np.median(ours, 1)
    assert 1.5 * root < below
    assert (ours.argmax(0) == 0).mean() < 0.2


def test_the_operator_at_the_root_has_the_size_of_theorem_6():
    """J is the identity of n outputs there, so |OP|_F is o_mu |a_mu|^2 times the root of n."""
    key = tr.keys(np.random.default_rng(1), 4)
    ours, _ = tree_depth.level_sizes(key, 3, 1.0)
    whole = tree_depth.operator_sizes(key, 3, 1.0).operator
    assert whole[0] == pytest.approx(3**0.5 * ours[0], rel=1e-9)
    assert np.median(whole[-1]) < np.median(whole[0])


def test_a_step_of_two_groups_of_one_unit():
    """ddn/eq15, all groups of the level: by a complex step; both leaves show the root, z = 0, 1."""
    z, step = np.array([0.0, 1.0]), 1e-20
    apart = ((1 + 1j * step) * z - 3 * z)[:, None] - (z - 3 * z)
    loss = (np.diag(apart**2).mean() - (apart**2).mean()) / 2
    moved, alone = growth._smallest_step()
    assert moved == pytest.approx(-loss.imag / step)
    assert alone == pytest.approx(1 / 4)  # o_mu = 1, a = 1/2


def test_steps_of_groups_are_those_of_the_loss():
    """By autograd of L_simp over all pairs of patterns of the leaves, one branch."""
    key, tree = tr.keys(np.random.default_rng(4), 2), lt.complete(3)
    model = lt.binary(tree, tree_depth.polarities(key, tree))
    net = {k: v.clone().requires_grad_() for k, v in tree_nets.net(key, tree, 2, 1.0).items()}
    x, chance = tree_depth._leaf_patterns(model)
    f = tree_nets.forward(tree, net, torch.from_numpy(x).expand(2, *x.shape))
    out = torch.cat([f[child] for child in lt.children(tree)[0]], -1) @ net[0].mT
    p = torch.from_numpy(chance)
    same = torch.einsum("dzx,dzy->dxy", p, p) / 2
    both = p.sum(1) / 2
    weight = same - both[:, :, None] * both[:, None]
    apart = (out[:, :, None] - out.detach()[:, None]).square().sum(-1) / 2
    (weight * apart).sum().backward()
    found = tree_depth.operator_sizes(key, 2, 1.0)
    for level, nodes in enumerate(lt.levels(tree)[:-1]):
        steps = [net[k].grad.norm(dim=(1, 2)) / net[k].detach().norm(dim=(1, 2)) for k in nodes]
        assert found.step[level] == pytest.approx(torch.stack(steps).mean(0).numpy())
        grown = sum(-(net[k].grad * net[k].detach()).sum((1, 2)) for k in nodes)
        assert found.growth[level] == pytest.approx(grown.numpy())


def test_patterns_of_the_leaves_have_the_chances_of_the_joint_states():
    key, tree = tr.keys(np.random.default_rng(2), 2), lt.complete(2)
    model = lt.binary(tree, lt.polarities(key, tree, 0.2))
    x, chance = tree_depth._leaf_patterns(model)
    z, joint = tr.enumerate_states(model)
    for pattern, given in zip(x, np.moveaxis(chance, -1, 0), strict=True):
        here = (z[:, lt.leaves(tree)] == pattern).all(-1)
        for state in (0, 1):
            both = joint[:, here & (z[:, 0] == state)].sum(-1)
            assert given[:, state] / 2 == pytest.approx(both)


@pytest.mark.parametrize("state", [0, 1])
def test_reference_enumerates_a_tree_written_out(state):
    """Two leaves under the root, by hand."""
    model = lt.binary(lt.tree((-1, 0, 0)), torch.tensor([[0.6, -0.2]], dtype=torch.float64), 0.5)
    net = {0: torch.tensor([[[1.0, -2.0]]], dtype=torch.float64)}
    w = tr.explore(model, net)
    p, q = (0.8, 0.4) if state else (0.2, 0.6)  # P(leaf = 1 | root = state)
    assert w.chance.sum() == pytest.approx(1)
    assert tr.given(w, 0, w.pre[0])[0, state, 0] == pytest.approx(p - 2 * q)
    assert tr.given(w, 0, w.out[0])[0, state, 0] == pytest.approx(p * (1 - q))
    spread = p * (1 - p) + 4 * q * (1 - q)
    assert tr.spread(w, 0, w.pre[0])[0, state, 0, 0] == pytest.approx(spread)
