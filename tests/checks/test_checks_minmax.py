"""Checks of the min-max chapter draw what their seed says."""

import pytest

from clcore.ledger import registry

pytestmark = pytest.mark.usefixtures("one_thread")


def test_other_draws_are_other_numbers():
    run = registry.function("acl/thm1")
    first, again, other = ([check.measured for check in run(9, seed)] for seed in (0, 0, 1))
    assert first == again != other
