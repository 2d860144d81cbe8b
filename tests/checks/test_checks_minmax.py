"""Checks of the min-max chapter draw what their seed says; numbers of their notes by hand."""

from functools import partial

import numpy as np
import pytest
import torch

from clcore import losses
from clcore.checks.minmax.table1 import MARGIN, value_at
from clcore.ledger import registry
from clcore.losses import contrast

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    run = registry.function("acl/thm1")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other


def test_descent_of_infonce_can_lower_the_value_of_the_game():
    """acl/cor1: epsilon = 1, tau = 1, outputs -6, 0.01, 0.01 and -1, 0, 0. V falls along -dL."""
    views = torch.tensor([[-6.0, 0.01, 0.01], [-1, 0, 0]], dtype=torch.float64)[..., None]
    views.requires_grad_()
    inter = (views[0] - views[0].T) ** 2 / 2
    gaps = (views[0] - views[1]) ** 2 / 2 - inter
    xi = (gaps.exp() * (1 - torch.eye(3, dtype=torch.float64))).sum(1)
    far = np.exp(-(6.01**2) / 2)
    own = np.exp(0.01**2 / 2) * (1 + far)
    assert xi.tolist() == pytest.approx([2 * np.exp(12.5) * far, own, own])
    value = -2 * (xi / (1 + xi) * torch.log1p(xi)).sum()  # 2 sum xi phi' log(phi' / tau)
    loss = contrast.family_loss(*views, losses.infonce_pair(1.0, 1.0))
    assert loss.item() == pytest.approx(torch.log1p(xi).sum().item())
    up, down = (torch.autograd.grad(f, views, retain_graph=True)[0] for f in (value, loss))
    assert (-(up * down).sum() / up.norm() / down.norm()).item() == pytest.approx(-0.193, abs=5e-4)


def test_one_logarithm_for_the_batch_and_one_for_each_anchor():
    """acl/tab1: numbers 0, 1, 3, both views the same; half of the squared distances."""
    far = np.exp([-0.5, -4.5, -2.0])
    assert value_at(losses.source_mine, [0, 1, 3]) == pytest.approx(np.log(far.sum() / 3))
    (mine,) = (pair for pair in losses.table1(0.5, 1.0, MARGIN, 2.0) if pair.name == "MINE")
    by_anchor = sum(np.log(far.sum() - f) for f in far)
    assert value_at(mine, [0, 1, 3]) == pytest.approx(by_anchor)


@pytest.mark.parametrize("x", [1, 1.5, 2, 3])
def test_the_lifted_loss_of_two_points_and_its_row(x):
    """acl/tab1: both views the same, at distance x: four negatives of an anchor there."""
    source = partial(losses.source_lifted, margin=MARGIN, second_views=True)
    assert value_at(source, [0, x]) == pytest.approx(2 * max(0, np.log(4) + MARGIN - x) ** 2)
    row = losses.lifted_pair(MARGIN + np.log(4))
    expected = 2 * max(0, np.log(4) + MARGIN - x**2 / 2) ** 2
    assert value_at(row, [0, x]) == pytest.approx(expected)
