"""Latent trees: structure, transitions and samples against hand-made cases and enumeration."""

from itertools import product

import numpy as np
import pytest
import torch

from clcore import random
from clcore.reference import kolmogorov
from clcore.theory.trees import latent_tree as lt

pytestmark = pytest.mark.usefixtures("one_thread")
ODD = (-1, 0, 0, 1, 1, 2, 3, 3, 5)
STATES = (2, 3, 2, 4, 2, 2, 3, 2, 2)


def keys(count, seed=0):
    return random.key(torch.arange(count) + 1000 * seed)


def joint(model):
    """{state of all nodes: probability} of one model, from the definition."""
    out = {}
    for z in product(*(range(m) for m in model.tree.states)):
        chance = float(model.prior[z[0]])
        for node, parent in enumerate(model.tree.parents[1:], 1):
            chance *= float(model.table[node - 1, z[parent], z[node]])
        out[z] = chance
    return out


def test_structure():
    tree = lt.tree(ODD)
    assert lt.children(tree)[0] == (1, 2) and lt.children(tree)[3] == (6, 7)
    assert lt.leaves(tree) == (4, 6, 7, 8)
    assert lt.levels(tree) == ((0,), (1, 2), (3, 4, 5), (6, 7, 8))
    assert lt.path(tree, 7) == (0, 1, 3, 7) and lt.path(tree, 7, 3) == (3, 7)
    assert lt.complete(2).parents == (-1, 0, 0, 1, 1, 2, 2)
    assert lt.complete(1, 3).parents == (-1, 0, 0, 0)
    assert len(lt.leaves(lt.complete(3, 2))) == 8


def test_positions_do_not_collide_and_parents_are_above_the_middle():
    place = lt.positions(lt.tree(ODD))
    assert len({tuple(p.tolist()) for p in place}) == len(ODD)
    assert place[3].tolist() == [float(place[[6, 7], 0].mean()), -2.0]
    assert place[[6, 7, 4, 8], 0].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("polarity", [1.0, -1.0, 0.4, -0.3])
def test_transition(polarity):
    P = lt.transition(torch.tensor(polarity))
    assert P[1, 1] == P[0, 0] == pytest.approx((1 + polarity) / 2)
    assert P.sum(-1).tolist() == pytest.approx([1, 1])


def test_binary_model():
    model = lt.binary(lt.tree((-1, 0)), torch.tensor([[0.5]]), torch.tensor([-0.4]))
    assert model.prior[0].tolist() == pytest.approx([0.7, 0.3])
    assert lt.deviation(model.table)[0, 0].flatten().tolist() == [0.25, -0.25, -0.25, 0.25]


def test_regular_transitions_and_their_paths():
    tree = lt.tree(ODD, STATES)
    model = lt.draw(keys(7), tree)
    for node, parent in enumerate(ODD[1:], 1):
        P = lt.edge(model, node)
        assert P.shape == (7, STATES[parent], STATES[node])
        assert P.min() >= -1e-12
        torch.testing.assert_close(P.sum(-1), torch.ones_like(P[..., 0]))
        level = STATES[parent] / STATES[node]
        torch.testing.assert_close(P.sum(-2), torch.full_like(P[..., 0, :], level))
    deep = lt.edge(model, 1) @ lt.edge(model, 3) @ lt.edge(model, 6)
    torch.testing.assert_close(lt.path_transition(model, 6), deep)
    torch.testing.assert_close(
        lt.path_transition(model, 6, 1), lt.edge(model, 3) @ lt.edge(model, 6)
    )
    full = lt.regular_transition(keys(50), 3, 4)
    torch.testing.assert_close(full.amin((1, 2)), torch.zeros(50, dtype=torch.float64))


@pytest.mark.parametrize("strength", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 2), (3, 3), (2, 5)])
def test_least_entry_of_a_weaker_transition(strength, rows, columns):
    P = lt.regular_transition(keys(20), rows, columns, strength)
    least = torch.full((20,), (1 - strength) / columns, dtype=torch.float64)
    torch.testing.assert_close(P.amin((1, 2)), least, rtol=0, atol=1e-12)
    level = torch.full((20, columns), rows / columns, dtype=torch.float64)
    torch.testing.assert_close(P.sum(1), level, rtol=0, atol=1e-12)


def test_the_root_knows_nothing_of_the_transitions_and_its_law_is_uniform():
    """On the simplex of three states: then P(p > s) = (1 - s)^2."""
    model = lt.draw(keys(2000), lt.tree((-1, 0), (3, 3)))
    prior, table = model.prior.numpy(), lt.edge(model, 1).numpy()
    for a, b, c in product(range(3), repeat=3):
        assert 2000**0.5 * abs(np.corrcoef(prior[:, a], table[:, b, c])[0, 1]) < 5
    for state in prior.T:
        assert kolmogorov((1 - state) ** 2, 0, 1) < 3


def test_polarities_and_their_products():
    tree = lt.tree(ODD)
    rho = lt.polarities(keys(5), tree, -0.5)
    assert rho.shape == (5, 8) and rho.min() >= -0.5 and rho.max() < 1
    far = lt.path_polarity(tree, rho)
    assert (far[:, 0] == 1).all()
    torch.testing.assert_close(far[:, 7], rho[:, 0] * rho[:, 2] * rho[:, 6])


@pytest.mark.parametrize("edges", [1, 2, 3])
def test_polarities_along_short_paths(edges):
    rho = lt.polarities(keys(8), lt.tree(range(-1, edges)), -0.9)
    far = lt.path_polarity(lt.tree(range(-1, edges)), rho)
    expected = torch.cat([torch.ones_like(rho[:, :1]), rho.cumprod(1)], 1)
    torch.testing.assert_close(far, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("parents", "states"), [(ODD, 2), (ODD, STATES), ((-1, 0, 1, 0, 3, 1), (2, 3, 2, 2, 3, 2))]
)
def test_samples_follow_the_joint(parents, states):
    """The last tree is not numbered level by level."""
    tree = lt.tree(parents, states)
    model = lt.draw(keys(1), tree)
    n = 40_000
    z = lt.sample(keys(1), model, n)[0].numpy()
    one = lt.Model(tree, model.prior[0], model.table[0])
    counts: dict = {}
    for row in map(tuple, z):
        counts[row] = counts.get(row, 0) + 1
    expected = joint(one)
    assert set(counts) <= {s for s, p in expected.items() if p > 0}
    chi = sum((counts.get(s, 0) - n * p) ** 2 / (n * p) for s, p in expected.items() if p > 1e-12)
    freedom = sum(p > 1e-12 for p in expected.values()) - 1
    assert abs(chi - freedom) < 6 * (2 * freedom) ** 0.5


def test_given_the_root_and_augmentation():
    model = lt.binary(lt.tree(ODD), 0.9 * torch.ones(3, 8, dtype=torch.float64), 0.2)
    root = torch.arange(50).remainder(2).expand(3, 50)
    z = lt.sample(keys(3), model, 50, root)
    assert (z[..., 0] == root).all()
    again = lt.augment(keys(3, 1), model, z)
    assert (again[..., 0] == root).all() and (again != z).any()
    # Without chance in the transitions every view is the same.
    sure = lt.binary(lt.tree(ODD), -torch.ones(3, 8, dtype=torch.float64))
    z = lt.sample(keys(3), sure, 50)
    assert (lt.augment(keys(3, 1), sure, z) == z).all()
    assert (z[..., 1] == 1 - z[..., 0]).all() and (z[..., 3] == z[..., 0]).all()


def test_views_of_a_tree_share_the_root_alone():
    """How often two nodes, one of each view, are both 1, for all pairs and both signs of rho."""
    tree, n = lt.tree((-1, 0, 0, 1, 1)), 20_000
    rho = torch.tensor([[0.8, -0.6, -0.9, 0.5]], dtype=torch.float64)
    model = lt.binary(tree, rho, 0.3)
    z = lt.sample(keys(1), model, n)
    seen = lt.augment(keys(1, 1), model, z)
    far = lt.path_polarity(tree, rho)[0]
    ones = (1 + torch.stack([-far, far])) / 2  # P(z_k = 1 | root)
    ones[:, 0] = torch.tensor([0.0, 1.0])
    expected = torch.einsum("r,ra,rb->ab", model.prior[0], ones, ones)
    found = torch.einsum("na,nb->ab", z[0].double(), seen[0].double()) / n
    error = (expected * (1 - expected) / n).sqrt()
    assert ((found - expected).abs() < 6 * error).all()


def test_views_are_independent_given_the_root():
    model = lt.binary(lt.complete(1, 1), torch.full((1, 1), 0.5, dtype=torch.float64))
    z = lt.sample(keys(1), model, 100_000)
    again = lt.augment(keys(1, 1), model, z)
    both = float(((z[..., 1] == 1) & (again[..., 1] == 1)).double().mean())
    assert both == pytest.approx((0.75**2 + 0.25**2) / 2, abs=0.01)


def test_a_model_alone_and_in_a_batch_give_the_same_samples():
    tree = lt.tree(ODD, STATES)
    model = lt.draw(keys(4), tree)
    z = lt.sample(keys(4), model, 20)
    alone = lt.sample(keys(4)[2], lt.Model(tree, model.prior[2], model.table[2]), 20)
    assert (z[2] == alone).all()


def test_rounding_gives_no_state_too_many():
    """Probabilities that sum to a little less than 1, padded: the last state takes the rest."""
    third = 1 / 3 - 1e-10
    table = torch.tensor([[[third, third, third, 0.0]]] * 2, dtype=torch.float64)
    reached = lt._states(torch.tensor([[1 - 1e-12]] * 2, dtype=torch.float64), table, 2)
    assert reached.tolist() == [[2], [2]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: lt.complete(0), "expected depth and branching >= 1, got 0 and 2"),
        (lambda: lt.tree([-1]), "expected a tree of depth 1 at least, got 1 nodes"),
        (lambda: lt.tree([-1, 1]), r"0 <= parents\[i\] < i, got parents\[1\] = 1"),
        (lambda: lt.tree([0, 0]), r"expected parents\[0\] = -1"),
        (lambda: lt.tree([-1, 0], [2, 1]), "at least two states for each of 2 nodes"),
        (lambda: lt.transition(torch.tensor(1.2)), r"polarity: expected values in \[-1, 1\]"),
        (
            lambda: lt.binary(lt.complete(1), torch.tensor([0.5, -1.01])),
            r"expected values in \[-1, 1\], got -1.01 to 0.5",
        ),
        (lambda: lt.binary(lt.complete(1), torch.zeros(3)), "one polarity for each of 2 edges"),
        (lambda: lt.binary(lt.complete(1), torch.zeros(2), 2.0), "root polarity"),
        (lambda: lt.binary(lt.complete(1, 2, 3), torch.zeros(2)), "use `categorical`"),
        (lambda: lt.polarities(random.key(0), lt.complete(1), 1.5), "low: expected values"),
        (lambda: lt.regular_transition(random.key(0), 2, 2, 1.5), "strength: expected values"),
        (lambda: lt.path(lt.complete(2), 3, 2), "expected an ancestor of node 3, got 2"),
        (
            lambda: lt.edge(lt.binary(lt.complete(1), torch.zeros(2)), 0),
            "expected a node from 1 to 2, got 0",
        ),
    ],
)
def test_bad_trees_and_polarities(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize(
    ("prior", "table", "text"),
    [
        (
            [0.5, 0.5],
            [[0.5, 0.4], [0.5, 0.5]],
            "rows that sum to 1 .C 1 = 0.; it is not stochastic",
        ),
        (
            [0.5, 0.5],
            [[1.1, -0.1], [-0.1, 1.1]],
            r"transition to node 1: expected values in \[0, 1\]",
        ),
        ([0.5, 0.5], [[0.9, 0.1], [0.4, 0.6]], "sum to 2/2 .C.T 1 = 0.; it is not regular"),
        ([0.5, 0.6], [[0.5, 0.5], [0.5, 0.5]], "prior: expected probabilities that sum to 1"),
        ([1.5, -0.5], [[0.5, 0.5], [0.5, 0.5]], r"prior: expected values in \[0, 1\]"),
        ([0.5, 0.5], [[0.5, 0.5]], r"expected shape \(2, 2\), got \(1, 2\)"),
        ([1.0], [[0.5, 0.5]], "a prior over 2 states, got 1 and 1"),
    ],
)
def test_bad_transitions(prior, table, text):
    with pytest.raises(ValueError, match=text):
        lt.categorical(lt.tree([-1, 0]), torch.tensor(prior), [torch.tensor(table)])


def test_irregular_transitions_are_let_in_when_asked_for():
    table = torch.tensor([[0.9, 0.1], [0.4, 0.6]])
    tree = lt.tree([-1, 0])
    model = lt.categorical(tree, torch.tensor([0.5, 0.5]), [table], regular=False)
    assert torch.equal(lt.edge(model, 1), table)
    assert np.isclose(float(lt.path_transition(model, 1)[0, 0]), 0.9)
