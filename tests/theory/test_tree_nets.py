"""Nets on latent trees: exact laws and moments against enumeration, samples and hand-made cases."""

from itertools import product

import pytest
import torch

from clcore import random
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

pytestmark = pytest.mark.usefixtures("one_thread")
ODD = (-1, 0, 0, 1, 1, 2, 3, 3, 5)
STATES = (3, 2, 2, 3, 2, 2, 2, 2, 3)


def keys(count, seed=0):
    return random.key(torch.arange(count) + 1000 * seed)


def world(states, units=2, kind="relu"):
    tree = lt.tree(ODD, states)
    model = lt.draw(keys(3), tree)
    weights = tree_nets.net(keys(3, 1), tree, units)
    return model, weights, tree_nets.laws(model, weights, kind=kind)


def moments(model, weights, kind, node, of, b):
    """Mean and covariance of group `of` given z_node, model b, by a loop over all joint states."""
    tree = model.tree
    total, first, second = {}, {}, {}
    for z in product(*(range(m) for m in tree.states)):
        chance = float(model.prior[b, z[0]])
        for i, parent in enumerate(tree.parents[1:], 1):
            chance *= float(model.table[b, i - 1, z[parent], z[i]])
        out = {i: torch.tensor([float(z[i])], dtype=torch.float64) for i in lt.leaves(tree)}
        for i in reversed(range(len(z))):
            if i not in out:
                fed = torch.cat([out[c] for c, p in enumerate(tree.parents) if p == i])
                out[i] = weights[i][b] @ fed
                if kind == "relu":
                    out[i] = out[i].clamp(min=0)
        key, f = z[node], out[of]
        total[key] = total.get(key, 0) + chance
        first[key] = first.get(key, 0) + chance * f
        second[key] = second.get(key, 0) + chance * torch.outer(f, f)
    mean = torch.stack([first[c] / total[c] for c in sorted(total)])
    raw = torch.stack([second[c] / total[c] for c in sorted(total)])
    return mean, raw - mean[:, :, None] * mean[:, None, :]


@pytest.mark.parametrize(("states", "node"), [(2, 0), (2, 1), (STATES, 2)])
def test_laws_have_the_moments_of_the_loop(states, node):
    model, weights, groups = world(states)
    law = groups[node]
    mean, spread = moments(model, weights, "relu", node, node, 1)
    torch.testing.assert_close(tree_nets.mean(law.chance, law.out)[1], mean)
    torch.testing.assert_close(tree_nets.covariance(law.chance, law.out)[1], spread)


def test_children_given_their_parent():
    model, weights, groups = world(2)
    means, spread = tree_nets.children_moments(model, groups, 0)
    for child, at in ((1, slice(0, 2)), (2, slice(2, 4))):
        mean, own = moments(model, weights, "relu", 0, child, 2)
        torch.testing.assert_close(means[2][:, at], mean)
        torch.testing.assert_close(spread[2][:, at, at], own)
    assert (spread[:, :, :2, 2:] == 0).all()


def test_linear_nets_by_messages_alone():
    model, weights, groups = world(STATES, kind="linear")
    for law, (mean, spread) in zip(groups, tree_nets.linear_moments(model, weights), strict=True):
        torch.testing.assert_close(tree_nets.mean(law.chance, law.out), mean)
        torch.testing.assert_close(tree_nets.covariance(law.chance, law.pre), spread)


def test_linear_moments_reach_deep_trees():
    tree = lt.tree(range(-1, 60))
    model = lt.binary(tree, torch.full((1, 60), 0.9, dtype=torch.float64))
    weights = {i: torch.ones(1, 1, 1, dtype=torch.float64) for i in range(60)}
    mean, spread = tree_nets.linear_moments(model, weights)[0]
    torch.testing.assert_close(mean[0, :, 0], (1 + 0.9**60 * torch.tensor([-1.0, 1]).double()) / 2)
    assert spread[0, 0, 0, 0] == pytest.approx(0.25 - 0.25 * 0.9**120)


def test_values_of_the_leaves():
    model, weights, _ = world(2)
    plus = tree_nets.laws(model, weights, torch.tensor([-1.0, 1.0], dtype=torch.float64))
    leaf = lt.leaves(model.tree)[0]
    assert plus[leaf].out[0].flatten().tolist() == [-1, 1]
    mean = tree_nets.mean(plus[leaf].chance, plus[leaf].out)
    assert tree_nets.selectivity(mean).flatten().tolist() == [1, 1, 1]


def test_forward_agrees_with_the_laws():
    model, weights, groups = world(2)
    tree = model.tree
    inputs = list(product((0.0, 1.0), repeat=len(lt.leaves(tree))))
    x = torch.tensor(inputs, dtype=torch.float64).expand(3, -1, -1)
    out = tree_nets.forward(tree, weights, x)
    assert [o.shape[-1] for o in out] == list(tree_nets.group_sizes(tree, 2))
    # Laws number the inputs by subtree, leaves 6, 7 before 4; x has them in order 4, 6, 7, 8.
    order = [inputs.index((c, a, b, d)) for a, b, c, d in product((0.0, 1.0), repeat=4)]
    torch.testing.assert_close(out[0][:, order], groups[0].out)


def test_samples_have_the_exact_means():
    model, weights, groups = world(2)
    z = lt.sample(keys(3, 2), model, 50_000)
    x = z[..., list(lt.leaves(model.tree))].double()
    out = tree_nets.forward(model.tree, weights, x)[0]
    for state in (0, 1):
        here = (z[..., 0] == state).double()[..., None]
        found = (out * here).sum(1) / here.sum(1)
        law = groups[0]
        exact = tree_nets.mean(law.chance, law.out)[:, state]
        assert (found - exact).abs().max() < 0.03


def test_selectivity_of_children_and_covariance_over_the_root():
    model, _, groups = world(2)
    a = tree_nets.child_selectivity(model, groups, 1)
    V = tree_nets.root_means(model, groups, 1)
    rho = lt.path_polarity(model.tree, 2 * model.table[..., 1, 1] - 1)[:, 1]
    torch.testing.assert_close((V[:, 1] - V[:, 0]) / 2, rho[:, None] * a)
    found = tree_nets.root_covariance(model.prior, V)
    p = model.prior[:, 0] * model.prior[:, 1]
    scale = (4 * p * rho**2)[:, None, None]
    torch.testing.assert_close(found, scale * a[:, :, None] * a[:, None, :])


def test_weights_have_the_variance_and_the_bound():
    tree = lt.complete(2, 3)
    weights = tree_nets.net(keys(200), tree, 4, scale=2.0)
    assert weights[0].shape == (200, 4, 12) and weights[1].shape == (200, 4, 3)
    for w in weights.values():
        fan_in = w.shape[-1]
        assert w.abs().max() <= 2 * (3 / fan_in) ** 0.5
        assert float(w.var()) == pytest.approx(4 / fan_in, rel=0.1)
    assert not torch.equal(weights[1], weights[2])


def test_errors():
    tree = lt.complete(5)
    model = lt.binary(tree, torch.zeros(1, len(tree.parents) - 1, dtype=torch.float64))
    weights = tree_nets.net(keys(1), tree, 2)
    with pytest.raises(
        ValueError, match=r"at most 2\^20 joint states of the leaves, got 4294967296"
    ):
        tree_nets.laws(model, weights)
    _, _, groups = world(2)
    with pytest.raises(ValueError, match="expected a node with children, got the leaf 8"):
        tree_nets.children_moments(world(2)[0], groups, 8)
