"""Lucky nodes against enumeration, volumes in closed form and large samples."""

import math

import numpy as np
import pytest
import torch

from clcore import random
from clcore.checks.hltm.lucky import event
from clcore.reference import kolmogorov, tensors
from clcore.theory.trees import gaussian_tail, lucky_nodes

KEY = random.key(7)


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_correlation_is_the_cosine_of_the_two_means():
    h, a = f64(0.5, 0.7, 0.9), f64(0.2, -0.6, 0.1)
    plus, minus = (h + a).numpy(), (h - a).numpy()
    cosine = plus @ minus / np.linalg.norm(plus) / np.linalg.norm(minus)
    assert lucky_nodes.correlation(h, a).item() == pytest.approx(cosine)
    assert lucky_nodes.correlation(h, 0.3 * h).item() == pytest.approx(1)


def test_weights_have_the_variance_and_range_of_the_theorem():
    w = lucky_nodes.weights(KEY, 50_000, 4, sigma=2.0)
    assert w.shape == (50_000, 4) and w.dtype == torch.float64
    assert w.var().item() == pytest.approx(1.0, rel=0.02)
    assert w.abs().max().item() == pytest.approx(2 * math.sqrt(3 / 4), rel=1e-3)
    alone = lucky_nodes.weights(random.fold_in(KEY, torch.arange(3)), 10, 4)[1]
    assert alone.equal(lucky_nodes.weights(random.fold_in(KEY, 1), 10, 4))


@pytest.mark.parametrize(("sigma", "n"), [(1.0, 5), (0.5, 12)])
def test_weights_are_uniform(sigma, n):
    edge = sigma * math.sqrt(3 / n)
    assert kolmogorov(lucky_nodes.weights(KEY, 500, n, sigma).flatten().numpy(), -edge, edge) < 3


@pytest.mark.parametrize("gamma", [0.2, 0.6, 0.95])
def test_number_of_nodes_by_its_formula(gamma):
    """ddn Eq. 128, as printed and with the exponent of the bound that holds."""
    c = f64(1.0, 9.0, 40.0)
    for printed, square in ((True, c), (False, c / (1 - gamma**2))):
        bound = (1 - gamma**2) ** 0.5 * gaussian_tail.r_hat(c, f64(gamma)) * (-square / 2).exp()
        expected = math.log(1 / 0.3) * 2 * math.pi / bound
        found = lucky_nodes.nodes_asked(c, f64(gamma), 0.3, printed)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


def test_number_of_nodes():
    c, gamma = f64(4.0), f64(0.0)
    r = gaussian_tail.mills(f64(2.0)) * gaussian_tail.mills(f64(0.0))
    asked = 2 * math.pi * math.exp(2) * math.log(20) / r.item()
    assert lucky_nodes.nodes_asked(c, gamma, 0.05).item() == pytest.approx(asked)
    gamma = f64(0.6)
    ratio = lucky_nodes.nodes_asked(c, gamma, 0.5, False) / lucky_nodes.nodes_asked(c, gamma, 0.5)
    assert ratio.item() == pytest.approx(math.exp(2 / 0.64 - 2))


def test_event_by_hand():
    h, a = f64(0.5, 0.5), f64(0.5, -0.5)
    w = f64(1.0, -0.1), f64(1.0, 0.1), f64(0.69, -0.1)
    lucky = lucky_nodes.lucky(torch.stack(w), h, a, c=1.0)  # level sqrt(1/2)
    assert lucky.tolist() == [True, False, False]
    assert not lucky_nodes.lucky(torch.stack(w), h, a, c=1.0, sigma=2.0).any()


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("c", [0.25, 1.0])
def test_event_node_by_node(c, sigma):
    rng, n = np.random.default_rng(2), 6
    kids = event.leaves(rng.choice([-1, 1], (3, n)) * rng.uniform(0.7, 1, (3, n)))
    plus, minus = event.means(kids)
    w = lucky_nodes.weights(random.fold_in(KEY, torch.arange(3)), 500, n, sigma).numpy()
    level = math.sqrt(c / n) * sigma * np.linalg.norm(plus, axis=1)
    above = np.einsum("bjn,bn->bj", w, plus) >= level[:, None]
    expected = above & (np.einsum("bjn,bn->bj", w, minus) < 0)
    found = lucky_nodes.lucky(torch.from_numpy(w), *tensors(kids.h, kids.a), c, sigma).numpy()
    assert 0 < expected.mean() < 0.5 and (found == expected).all()


def volume(plus, minus, c, points):
    """The chance of the event, by the midpoint rule over all weights but the last, which is between
    two bounds."""
    n, b = len(plus), np.sqrt(3 / len(plus))
    axis = b * (2 * (np.arange(points) + 0.5) / points - 1)
    grid = np.stack(np.meshgrid(*[axis] * (n - 1)), -1).reshape(-1, n - 1)
    least = np.sqrt(c / n) * np.linalg.norm(plus) - grid @ plus[:-1]
    most = -grid @ minus[:-1] / minus[-1]
    length = np.minimum(most, b) - np.maximum(least / plus[-1], -b)
    return np.maximum(length, 0).mean() / (2 * b)


@pytest.mark.parametrize(("n", "points"), [(2, 20_000), (3, 400)])
@pytest.mark.parametrize("seed", range(3))
def test_chance_of_the_event_by_its_volume(n, points, seed):
    rng, c = np.random.default_rng(seed), 0.4
    low, high = 0.2 * rng.random((1, n)), 0.5 + rng.random((1, n))
    rho = 0.9 * np.where(np.arange(n) % 2, -1, 1) * rng.uniform(0.5, 1, (1, n))
    kids = event.Children(low, high, rho)
    found = lucky_nodes.lucky_probability(*tensors(kids.h, kids.a), c).item()
    plus, minus = (kids.h + kids.a)[0], (kids.h - kids.a)[0]
    assert found == pytest.approx(volume(plus, minus, c, points), abs=1e-5)


@pytest.mark.parametrize(("nodes", "n"), [(1, 2), (9, 2), (12, 3)])
def test_few_children_of_as_many_nodes_as_there_are(nodes, n):
    h, a = torch.ones(nodes, n).double(), torch.linspace(-0.5, 0.5, n).double().expand(nodes, n)
    found = lucky_nodes.lucky_probability(h, a, 0.4)
    assert found.shape == (nodes,) and ((found > 0) & (found < 1)).all()


@pytest.mark.parametrize("n, c", [(2, 0.5), (3, 0.5), (5, 2.0), (8, 2.0)])
def test_exact_probability_by_sampling(n, c):
    rho = random.uniform(random.fold_in(KEY, n), (3, n), -0.95, 0.95, dtype=torch.float64)
    h, a = torch.full_like(rho, 0.5), rho / 2
    exact = lucky_nodes.lucky_probability(h, a, c)
    w = lucky_nodes.weights(random.fold_in(KEY, torch.arange(3)), 100_000, n)
    found = lucky_nodes.lucky(w, h, a, c).double().mean(-1)
    error = (exact * (1 - exact) / 100_000).sqrt() + 1e-9
    assert ((found - exact).abs() < 5 * error).all()


def test_exact_probability_of_a_triangle():
    # Nearly w_1 >= sqrt(c/2), w_2 < 0 on a square of half side sqrt(3/2).
    h, a = f64(0.5, 0.5), f64(0.5, -0.5) * (1 - 1e-6)
    level, edge = math.sqrt(0.5), math.sqrt(1.5)
    exact = (edge - level) / (2 * edge) / 2
    assert lucky_nodes.lucky_probability(h, a, 1.0).item() == pytest.approx(exact, rel=1e-4)
    assert lucky_nodes.lucky_probability(h, a, 3.1).item() == pytest.approx(0, abs=1e-8)


def test_many_children_come_near_the_gaussian_pair():
    rho = torch.linspace(-0.9, 0.9, 60, dtype=torch.float64)
    h, a = torch.full_like(rho, 0.5), rho / 2
    gamma = lucky_nodes.correlation(h, a)
    chance = gaussian_tail.log_tail(f64(1.0), gamma[None]).exp().item()
    w = lucky_nodes.weights(KEY, 40_000, 60)
    found = lucky_nodes.lucky(w, h, a, 1.0).double().mean().item()
    assert found == pytest.approx(chance, rel=0.1)


def test_activations_by_enumeration():
    rho = f64(0.8, -0.4, 0.1)
    states, chance = lucky_nodes.leaf_states(rho)
    assert states.shape == (8, 3) and chance.shape == (2, 8)
    assert chance.sum(-1).tolist() == pytest.approx([1, 1])
    assert (chance[1] @ states).tolist() == pytest.approx([0.9, 0.3, 0.55])
    assert (chance[0] @ states).tolist() == pytest.approx([0.1, 0.7, 0.45])
    w = f64(1.0, -2.0, 0.5)[None]
    v = lucky_nodes.activations(w, states, chance)[0, 1].item()
    # Given z_mu = 1, only f_1 = 1, f_2 = 0 and f_3 alone leave the ReLU positive.
    by_hand = 0.9 * 0.7 * (1 + 0.5 * 0.55) + 0.1 * 0.7 * 0.55 * 0.5
    assert v == pytest.approx(by_hand)


def test_drawn_states_approach_the_enumerated_ones():
    rho = f64(0.8, -0.4, 0.1)
    w = f64(1.0, -2.0, 0.5)[None]
    states, chance = lucky_nodes.drawn_leaf_states(KEY, rho, 40_000)
    assert states.shape == (80_000, 3) and chance.shape == (2, 80_000)
    assert states.unique().tolist() == [0, 1]
    exact = lucky_nodes.activations(w, *lucky_nodes.leaf_states(rho))
    assert torch.allclose(lucky_nodes.activations(w, states, chance), exact, rtol=0.03)


def test_activations_of_drawn_states_are_means_over_them():
    """And within 6 standard errors of those by a loop over all states."""
    kids = event.leaves(np.random.default_rng(4).uniform(-0.6, 0.6, (3, 4)))
    w, drawn = event.draw(np.random.default_rng(5), 3, 7, 4), 4000
    exact = event.node_means(w.numpy(), kids)
    states = lucky_nodes.leaf_states(torch.from_numpy(kids.rho))
    np.testing.assert_allclose(lucky_nodes.activations(w, *states), exact, atol=1e-12)
    for b in range(3):
        rho = torch.from_numpy(kids.rho[b])
        seen, chance = lucky_nodes.drawn_leaf_states(random.fold_in(KEY, b), rho, drawn)
        v = lucky_nodes.activations(w[b], seen, chance).numpy()
        each = np.maximum(w[b].numpy() @ seen.numpy().T, 0).reshape(7, 2, drawn)
        np.testing.assert_allclose(v, each.mean(-1), atol=1e-12)
        assert (np.abs(v - exact[b]) < 6 * (each.std(-1) / drawn**0.5 + 1e-9)).all()


def test_bound_on_the_squares():
    s, rho = f64(1.0, 0.5), f64(0.9, -0.6)
    by_hand = 3 * 4 * ((2.5 * 0.81 - 1 + 0.25 * (2.5 * 0.36 - 1)) / 2 - 0.1)
    assert lucky_nodes.square_gap_bound(s, rho, 9.0, 0.1, 2.0).item() == pytest.approx(by_hand)
    of_three = 3 * 4 * ((1.5 * 0.81 - 3 * 0.19 + 0.25 * (1.5 * 0.36 - 3 * 0.64)) / 2 - 3 * 0.1)
    ours = lucky_nodes.square_gap_bound(s, rho, 9.0, 0.1, 2.0, 3).item()
    assert ours == pytest.approx(of_three)


def test_refusals(unchecked_shapes):
    half = f64(0.5, 0.5)
    with pytest.raises(ValueError, match=r"expected \|a\| <= h.*coded 0 and 1"):
        lucky_nodes.correlation(half, f64(0.6, 0.1))
    with pytest.raises(ValueError, match="chance of failure 0 < eta < 1, got 1"):
        lucky_nodes.nodes_asked(f64(1.0), f64(0.1), 1.0)
    with pytest.raises(ValueError, match="expected 2 to 8 children, got 9; draw weights"):
        lucky_nodes.lucky_probability(torch.ones(9).double(), torch.zeros(9).double(), 1.0)
    with pytest.raises(ValueError, match="move polarities off"):
        lucky_nodes.lucky_probability(half, f64(0.5, 0.1), 1.0)
    with pytest.raises(ValueError, match="nearly the same ratio"):
        lucky_nodes.lucky_probability(half, f64(0.1, 0.1), 1.0)
    with pytest.raises(ValueError, match="at most 14 leaves to enumerate, got 15"):
        lucky_nodes.leaf_states(torch.zeros(15).double())
