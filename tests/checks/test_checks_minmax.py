"""Checks of the min-max chapter draw what their seed says; numbers of their notes by hand."""

from functools import partial

import numpy as np
import pytest

from clcore import losses
from clcore.checks.minmax.table1 import MARGIN, value_at
from clcore.ledger import registry

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    run = registry.function("acl/thm1")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other


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
