"""Every check of the lucky nodes: what holds, what fails as printed, that controls fail."""

import math

import numpy as np
import pytest
import torch

from clcore import ledger
from clcore.checks.hltm.lucky import gap as lucky_gap
from clcore.checks.hltm.lucky import nodes as node_checks
from clcore.checks.hltm.lucky.event import leaves, node_means
from clcore.checks.hltm.tail import node_range
from clcore.checks.hltm.tail.gaussian_tail import log_orthant, page_bound
from clcore.ledger import registry
from clcore.theory.trees import gaussian_tail, lucky_nodes

pytestmark = pytest.mark.usefixtures("one_thread")


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_the_printed_range_of_nodes_differs():
    book = ledger.Ledger("any")
    record, *others = book.run([registry.function("ddn/num2")], 6, 11)
    assert not record.passed and ledger.verdict(book.records) == "differs"
    assert "2352 to 2697" in record.note and "first product 1.334" in record.note
    assert any("a ratio of 1.254; the paper prints 1.335" in other.note for other in others)


def test_the_band_of_the_printed_range_is_the_library_s():
    for gamma in (0.04, 0.2, 0.9):
        low, high = gaussian_tail.r_hat_bounds(f64(9.0), f64(gamma))
        band = node_range._band(gamma, node_range.READINGS[""])
        assert band == pytest.approx((low.item(), high.item()), rel=1e-12)


def test_other_draws_are_other_numbers():
    run = registry.function("ddn/eq149")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other


def test_counterexample_to_the_tail_bound():
    c, gamma = f64(9.0), f64(0.5)
    assert gaussian_tail.log_tail(c, gamma).exp().item() == pytest.approx(4.1e-5, rel=0.01)
    bound = gaussian_tail.log_bound(c, gamma, printed=True).exp().item()
    assert bound == pytest.approx(1.8e-4, rel=0.02)
    nodes = math.ceil(lucky_nodes.nodes_asked(c, gamma, 0.5).item())
    assert nodes == 3784
    assert 1 - (1 - 4.0945e-5) ** nodes == pytest.approx(0.14, abs=0.005)


def test_the_mills_ratio_is_not_the_distribution_function():
    mills = gaussian_tail.mills(f64(0.0)).item()
    assert mills == pytest.approx(math.sqrt(math.pi / 2), abs=1e-12)
    assert math.sqrt(2 * math.pi) * (1 - mills) == pytest.approx(-0.635, abs=5e-4)
    assert math.sqrt(2 * math.pi) * (1 - 0.5) == pytest.approx(mills, abs=1e-12)


def test_where_the_printed_tail_bound_fails():
    def over(c, *gammas):
        pair = f64(*[c] * len(gammas)), f64(*gammas)
        return gaussian_tail.log_bound(*pair, printed=True) - gaussian_tail.log_tail(*pair)

    assert over(9.0, 0.2).exp().item() == pytest.approx(1.205, abs=5e-4)
    for c in (1.0, 2.0, 9.0, 100.0):
        assert over(c, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.99).min() > 1e-10
        assert over(c, 0.0).abs().item() < 1e-12
    for c, last in ((0.1, 0.57), (0.01, 0.95)):
        assert over(c, 0.01, 0.1, 0.3, 0.5, last).max() < 0 < over(c, last + 0.03).item()


def test_the_papers_own_example_falls_short():
    notes = [
        check.note for check in registry.function("ddn/eq149")(6, 0) if check.form == "printed"
    ]
    for short in ("0.437 in place of 0.5 ", "0.917 in place of 0.95 "):
        assert short in notes[0] and short in notes[1]
    c, gamma = f64(9.0, 9.0), f64(0.2, 0.2)
    p = gaussian_tail.log_tail(c, gamma).exp()[0].item()
    for eta, success in ((0.5, 0.437), (0.05, 0.917)):
        nodes = math.ceil(lucky_nodes.nodes_asked(c, gamma, eta)[0].item())
        assert 1 - (1 - p) ** nodes == pytest.approx(success, abs=1e-3)


def test_numbers_of_the_papers_own_example():
    """ddn/eq149: by quadrature and numpy's R-hat."""
    c, gamma = np.full(3, 9.0), np.array([0.2, 0.2, 0.5])
    asked = -np.log(node_checks.OWN_ETAS) * np.exp(-page_bound(c, gamma))
    chance = 1 - (1 - np.exp(log_orthant(np.sqrt(c), 0 * c, gamma))) ** asked
    expected = dict(zip(node_checks.OWN_NAMES, [*chance, asked[2]], strict=True))
    assert node_checks._own_example() == pytest.approx(expected, rel=1e-9)


def test_counterexample_of_negative_polarities():
    rho = f64(*[-1.0] * 4, *[-0.8] * 4)
    kids = leaves(rho.numpy()[None])
    states, chance = lucky_nodes.leaf_states(rho)
    edge = math.sqrt(3 / 8)
    bound = lucky_nodes.square_gap_bound(f64(*kids.s[0]), rho, 9.0).item()
    assert bound == pytest.approx(0.887**2, rel=1e-3)
    # v_1 <= 0.245 and so, with a gap above 0, the mean of the other is at most that.
    highest = lucky_nodes.activations(torch.full((1, 8), edge).double(), states, chance)[0, 1]
    assert highest.item() == pytest.approx(0.245, abs=1e-3)
    spread = math.sqrt(4 * edge**2 * 0.09)
    assert highest + spread < 0.62
    w = lucky_nodes.weights(torch.tensor(5), 20_000, 8)
    v = lucky_nodes.activations(w, states, chance)
    above = (w * f64(*kids.a[0])).sum(-1) > 0
    assert 0.1 < v[above].max().item() < 0.62


def test_no_node_of_two_children_meets_the_bound_beyond_c_of_12():
    rho = f64(1.0, -1.0)
    half = f64(0.5, 0.5)
    assert lucky_nodes.correlation(half, rho / 2).item() == 0
    bound = lucky_nodes.square_gap_bound(half, rho, 13.0).item()
    assert bound == pytest.approx(13 / 8) and bound > 3 / 2
    assert math.isfinite(lucky_nodes.nodes_asked(f64(13.0), f64(0.0), 0.5).item())


def test_unequal_polarities_let_the_threshold_fall_in_selectivity():
    for s1, s2 in ((1.0, 1.0), (1.0, 2.0)):
        bracket = lucky_nodes.square_gap_bound(f64(s1, s2), f64(1.0, 0.1), 9.0).item() / 3
        assert bracket == pytest.approx((1.5 * s1**2 - 0.975 * s2**2) / 2)


def test_counterexample_to_a_threshold_that_increases_in_all_arguments():
    low, high = (
        lucky_nodes.square_gap_bound(f64(0.5, s), f64(1.0, 0.1), 9.0).item() for s in (0.5, 0.55)
    )
    assert (round(low, 3), round(high, 3)) == (0.197, 0.120)


def test_numbers_of_the_counterexample_to_eq164():
    """Summed weights of 2400 units per latent, none beyond its range: v and the event by hand."""
    edge, flip = 2400 * math.sqrt(3 / 9600), 0.05
    level = 3 * math.sqrt(2 + flip**2) / 2
    rest = level * (1 + 1e-6) - flip * edge
    w = f64(rest / 2, rest / 2, -(1 - flip) * edge * (1 + 1e-6), edge)
    assert [round(x, 4) for x in w.tolist()[:2]] == [0.0007, 0.0007]
    assert [round(x, 1) for x in w.tolist()[2:]] == [-40.3, 42.4]
    # Given z = 1: leaves 1 and 2 are on, 3 is off, 4 is on with chance 0.05; given 0: 3 on, 4 0.95.
    assert rest + flip * edge >= level and w[2] + 0.95 * w[3] < 0
    plus, minus = rest + flip * edge, 0.95 * (w[2] + w[3]).item()
    assert round(plus, 3) == 2.123 and round(plus**2 - minus**2, 2) == 0.44
    bound = lucky_nodes.square_gap_bound(f64(0.5, 0.5, 0.5, 0.5), f64(1, 1, -1, -0.9), 9.0)
    assert round(bound.item(), 2) == 1.04
    kids = leaves(f64(1, 1, -1, -0.9).numpy()[None])
    assert node_means(w.numpy()[None, None], kids)[0, 0] == pytest.approx([minus, plus])


def test_built_nodes_respect_the_range_of_the_weights_and_meet_the_event():
    kids, c, w = lucky_gap.opposed(np.random.default_rng(0), 50)
    n = 4 * 2400
    assert np.abs(w).max() <= 2400 * math.sqrt(3 / n) * (1 + 1e-12)
    plus, minus = ((w[:, 0] * u).sum(-1) for u in (kids.h + kids.a, kids.h - kids.a))
    norm = np.sqrt(2400 * ((kids.h + kids.a) ** 2).sum(-1))
    assert (plus >= np.sqrt(c / n) * norm).all() and (minus < 0).all()
    assert (kids.a * np.abs(kids.a)).sum(-1).min() >= 0  # A+ is the heavier
    v = node_means(w, kids)[:, 0]
    short = lucky_gap.bounds(kids, c)[:, 0] - (v[:, 1] ** 2 - v[:, 0] ** 2)
    assert short.min() > 0.02
