"""Every check of the landscapes of masked views: what holds, what fails as printed."""

import math
from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
import torch

from clcore.checks.landscape import contrastive_landscape as contrastive
from clcore.checks.landscape import informal_theorem, recovery, sentences, surrogate
from clcore.ledger import judge, registry
from clcore.theory.sparse import mask_landscape as ml

# Trainings and what is said about them.


pytestmark = pytest.mark.usefixtures("one_thread")


def test_descents_in_the_setting_of_theorem_1():
    """All minimisers of NCL are bad; fewer than half of the runs of CL end at a permutation."""
    for seed in range(2):
        ncl, cl = sentences.rem13(6, seed)
        assert judge(ncl) and ncl.measured > 0.9 and ncl.evidence == cl.evidence == "partial"
        assert 0.1 < cl.measured < 0.5 and not judge(cl)


def test_other_draws_are_other_numbers():
    run = registry.function("ncl/eq9")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other


def test_counterexample_to_equation_15():
    eye = torch.eye(2, dtype=torch.float64)
    limit = partial(ml.one_hot_contrastive, eye, 0.5, 1.0)
    assert float(limit("others")) == pytest.approx(-1 / 4)
    repeated = -1 / 4 + math.log((3 + math.e) / 4) / 2
    assert float(limit("data")) == pytest.approx(repeated) and round(repeated, 3) == -0.071
    printed = -1 / 4 + math.log((1 + math.e) / 2) / 4
    right = contrastive.printed_right_side(eye, 0.5, 1.0)
    assert float(right) == pytest.approx(printed) and round(printed, 3) == -0.095


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_equation_20_as_typeset_is_no_equality(tau):
    eye = torch.eye(2, dtype=torch.float64)
    left = float(ml.one_hot_surrogate(eye, 1.0, tau))
    assert left == pytest.approx(2 * math.log1p(math.exp(-tau)))
    assert ml.proof_bound(2, 1.0, tau, "traces") == pytest.approx(
        2 * math.log1p(math.exp(-4 * tau))
    )


def test_unit_rows_do_not_fix_the_constant():
    row, M = torch.tensor([[0.6, 0.8]]), torch.tensor([[1.0], [0.0]])
    assert float(row.norm()) == pytest.approx(1)
    assert torch.relu(row @ M).tolist() == [[pytest.approx(0.6)]]


def test_beyond_the_threshold_other_columns_are_better():
    """d = 3, alpha = 1/2: log 5 is the threshold."""
    assert ml.repeats_threshold(3, 0.5) == pytest.approx(math.log(5))
    eye = torch.eye(3, dtype=torch.float64)
    for tau, better in ((1.5, False), (1.8, True)):
        loss = partial(ml.one_hot_contrastive, keep=0.5, tau=tau, negatives="data")
        W = contrastive.beyond(3, 0.5, tau)
        torch.testing.assert_close(W.norm(dim=0), torch.ones(3, dtype=torch.float64))
        assert bool(loss(W) < loss(eye) - 1e-6) is better


@pytest.mark.parametrize(("d", "alpha", "tau"), [(2, 0.3, 2.0), (2, 1.0, 0.5), (4, 0.6, 3.0)])
def test_where_the_bound_on_the_surrogate_is_exact(d, alpha, tau):
    """Two columns of any signs; of four, two that overlap and one that is shorter."""
    W = np.array([[[-0.6, 0.28], [0.8, 0.96]]])
    if d > 2:
        W = np.eye(d)[None].repeat(2, 0)
        W[:, 3, 3], W[0, 0, 1], W[0, 1, 1] = -1.0, 0.6, 0.8
    eye = torch.eye(d, dtype=torch.float64)
    rise = ml.one_hot_surrogate(torch.from_numpy(W), alpha, tau)
    rise = (rise - ml.one_hot_surrogate(eye, alpha, tau)).numpy()
    bound = surrogate.rise_bound(W, alpha, tau)
    alone = surrogate.rise_bound(W, alpha, tau, overlaps=False)
    assert bound == pytest.approx(rise) and alone[0] < bound[0]
    s = (np.maximum(W, 0) ** 2).sum(-2)
    terms = np.log1p((d - 1) * np.exp(-tau * s)) - np.log1p((d - 1) * np.exp(-tau))
    assert alone == pytest.approx(alpha**2 * terms.sum(-1))
    assert surrogate.rise_bound(np.eye(d)[None], alpha, tau) == pytest.approx(0, abs=1e-15)


def test_witnesses_are_positive_and_two_rows_a_column():
    W = informal_theorem.witnesses(np.random.default_rng(0), 50, 5)
    assert W.min() >= 0 and np.allclose((W**2).sum(-2), 1)
    assert (np.sort(W, -2)[:, -2] / W.max(-2)).min() > 0.3
    assert (np.sort(W, -2)[:, -3] < 0.06).all()


def test_separation_has_signs():
    M = np.eye(3)
    for W, ratio in (
        ([[1.0, 0.1, 0.05]], 0.1),
        ([[1.0, 0.8, -0.4]], 0.5),  # N_1 has two columns
        ([[1.0, -0.9, 0.0]], 0.9),
        ([[0.05, 0.1, 1.0], [0.2, 1.0, 0.15]], 0.2),
    ):
        assert recovery.margin(np.array(W), M) == pytest.approx(ratio)
    assert recovery.margin(-np.eye(3), M) > 1e6


@pytest.mark.parametrize("W", [np.diag([1.0, 10, 100]), np.vstack([np.eye(3), np.ones((3, 3))])])
def test_the_misfit_is_the_least_of_all_permutations(W):
    """ncl/eq11: where all three metrics are 1."""
    z = np.array(list(product((0.0, 1.0), repeat=3)))[1:]
    h, padded = recovery._encode(W, z), np.pad(z, ((0, 0), (0, len(W) - 3)))
    tries = [padded[:, list(order)] for order in permutations(range(len(W)))]
    short = [np.linalg.norm(h - (h * y).sum() / (y**2).sum() * y) for y in tries]
    least = min(short) / np.linalg.norm(h)
    assert recovery.misfit(h, padded) == pytest.approx(least) and least > 0.1


def test_ranks_of_outputs_are_those_of_the_weights():
    """ncl/rem15: the second moment of the outputs has the singular values of W, squared."""
    W = sentences.optima(np.random.default_rng(0), 4, 5)
    singular = np.linalg.svd(W, compute_uv=False)
    assert sentences.least_rank(W) == pytest.approx(singular[:, -1] ** 2, abs=1e-12)
    moment = sentences.second_moment(W)
    effective = np.trace(moment, axis1=1, axis2=2) ** 2 / (moment**2).sum((1, 2))
    expected = (singular**2).sum(-1) ** 2 / (singular**4).sum(-1)
    assert effective == pytest.approx(expected)
