"""Runs on latent trees: the loss, the views, training, its grid's requests, and what is refused."""

import numpy as np
import pytest
import torch

from clcore import random as cr
from clcore.experiments import tree_contrast as tc
from clcore.theory.trees import leaf_patterns

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_losses_by_hand():
    f = cr.normal(cr.key(13), (3, 5, 4), torch.float64)
    x, plus, minus = (v / v.norm(dim=-1, keepdim=True) for v in f)
    rp, rm = ((x - other).square().sum(-1) / 2 for other in (plus, minus))
    expected = -torch.log(torch.exp(-rp / 0.1) / (torch.exp(-rp / 0.1) + torch.exp(-rm / 0.1)))
    assert tc.loss(f) == pytest.approx(float(expected.mean()))
    p, n = ((x - other).square().mean() / 0.1 for other in (plus, minus))
    expected = -torch.exp(-p) / (torch.exp(-p) + torch.exp(-n))
    assert tc.loss(f, "released") == pytest.approx(float(expected), rel=1e-3)


def test_views_share_the_root_and_nothing_else():
    rho = torch.ones(62, dtype=torch.float64)  # every leaf shows its root
    tables = leaf_patterns.sampler(rho)
    for shuffled in (False, True):
        patterns = tc.views(cr.key(14), tables, 400, shuffled).unflatten(-1, (3, 400))
        assert set(patterns.unique().tolist()) == {0, 255}
        x, plus, minus = patterns[0] > 0
        assert bool((x == plus).all()) is not shuffled
        assert 0.4 < (x == minus).double().mean() < 0.6
        assert 0.4 < x.double().mean() < 0.6


def test_training_learns_the_root_and_shuffled_views_do_not():
    configs = [
        tc.configuration(seed, 0.8, 6, shuffled=shuffled)
        for shuffled in (False, True)
        for seed in range(4)
    ]
    found = tc.run(configs, 0.4, latents=("",), nodes=("1100",), samples=64)
    table = found.table.pivot(index=["shuffled", "seed"], columns="step", values="nc_s")
    gain = (table[200] - table[0]).groupby("shuffled").median()
    assert gain[False] > 0.02 > 0 > gain[True]
    same = found.table.query("step == 0")
    assert np.allclose(same.op_s1100, same.op_rescaled_s1100, rtol=1e-4)


def test_views_that_are_drawn_ahead_are_those_of_the_step(monkeypatch):
    configs = [tc.configuration(s, 0.8, 2, depth=2, shuffled=s == 1) for s in (0, 1)]
    ahead = tc.run(configs, 20.5 / tc.STEPS_PER_EPOCH, latents=("",))
    monkeypatch.delitem(tc.PROBLEM, "ahead")
    alone = tc.run(configs, 20.5 / tc.STEPS_PER_EPOCH, latents=("",))
    assert ahead.table.equals(alone.table) and ahead.table.step.max() == 20


def test_a_request_is_run_with_its_options():
    configs = [tc.configuration(0, 0.8, 2, depth=2)]
    asked = tc.request(configs, 2 / tc.STEPS_PER_EPOCH, latents=("0",), each=True, progress=False)
    assert asked.static == tc.PROBLEM["static"]
    found = asked.function(asked.configs, **asked.options).table
    assert found.step.max() == 2
    assert {"nc_s0", "c_s0_0", "c_s0_1"} <= set(found) and "nc_s" not in found


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tc.steps_per_pass(100, 128), "batch of at most 100 samples, got 128"),
        (lambda: tc.steps_per_pass(100, 0), "batch of at most 100 samples, got 0"),
        (lambda: tc.configuration(0, -0.1, 2), "least polarity in"),
        (lambda: tc.configuration(0, 0.5, 2, kind="nce"), "expected one of"),
        (lambda: tc.loss(torch.ones(3, 1, 2), "nce"), "expected one of"),
        (lambda: tc.loss(torch.ones(3, 1, 2), tau=0.0), "temperature above 0"),
        (lambda: tc.configuration(0, 0.5, 2, depth=0), "at least one layer of edges, got 0"),
        (lambda: tc.configuration(0, 0.5, 0), "at least one node per latent, got 0"),
    ],
)
def test_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call()
