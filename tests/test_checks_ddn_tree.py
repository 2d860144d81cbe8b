"""Every check of ddn's latent trees: what holds, what fails as printed, that controls fail."""

import numpy as np
import pytest
import torch
from chapter_checks import run_check

from clcore import latent_tree as lt
from clcore import tree_nets
from clcore.checks import ddn_tree
from clcore.checks import tree_reference as tr

pytestmark = pytest.mark.usefixtures("one_thread")
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("ddn/eq88", "second member"),
    ("ddn/eq14", "posterior at rho = 0"),
    ("ddn/eq95", "Eq. 97"),
    ("ddn/eq158", "Eq. 155, several units a latent"),
    ("ddn/eq158", "Eqs. 158, 159, several units a latent"),
    ("ddn/eq163", "Eq. 163, several units a latent"),
    ("ddn/rem9", "leaves, selectivity"),
    ("ddn/thm6", "o_mu"),
    ("ddn/thm6b", "appendix, no condition"),
    ("ddn/rem10", "o_mu"),
    ("ddn/eq15", "growth factor, o_mu of Theorem 6"),
}


def test_the_module_has_its_24_claims():
    assert len(set(ddn_tree.__all__)) == 24
    assert all(callable(getattr(ddn_tree, name)) for name in ddn_tree.__all__)


@pytest.mark.parametrize("claim", [f"ddn/{name}" for name in ddn_tree.__all__])
def test_check(claim):
    run_check(ddn_tree, claim, CORRECTED, draws=6)


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in ddn_tree.eq158(6, seed)] for seed in (0, 0, 1)
    )
    assert first == again != other


def test_counterexample_to_theorem_6():
    """A uniform root, one child that is a leaf and copies it: the variance is 1/4, not 0."""
    model = lt.binary(lt.tree((-1, 0)), torch.ones(1, 1, dtype=torch.float64))
    weights = {0: torch.ones(1, 1, 1, dtype=torch.float64)}
    w = tr.explore(model, weights)
    assert tr.over_root(w, w.out[1]).item() == pytest.approx(0.25)
    assert tree_nets.child_selectivity(model, w.groups, 0).item() ** 2 == pytest.approx(0.25)


@pytest.mark.parametrize(("copies", "exceeds"), [(2, False), (8, False), (10, True)])
def test_counterexample_to_the_bounds_of_one_unit(copies, exceeds):
    """Two groups of equal units, added and subtracted: the variance is n times the bound; the mean
    activation passes its bound from n = 9 on."""
    rate = torch.tensor([[0.01, 0.0, 1.0, 1.0]], dtype=torch.float64)
    one = torch.full((1, copies, 1), 3**0.5, dtype=torch.float64)
    top = torch.cat([one.mT, -one.mT], -1) * (1 / (2 * copies)) ** 0.5
    model = lt.binary(lt.tree((-1, 0, 0, 1, 2)), rate)
    w = tr.explore(model, {0: top, 1: one, 2: one})
    s, _, rho = tr.selective(w, 0)
    bound = 3 * (s**2 * (1 - rho**2)).mean()
    variance = tr.spread(w, 0, w.pre[0])[0, 0, 0, 0]
    assert tr.given(w, 0, w.pre[0])[0, 0, 0] < 0
    assert variance == pytest.approx(copies * bound)
    assert (tr.given(w, 0, w.out[0])[0, 0, 0] > np.sqrt(bound)) == exceeds


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
