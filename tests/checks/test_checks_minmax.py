"""Every check of the min-max chapter: what holds, what fails as printed, that controls fail."""

import pytest
from chapter_checks import claims_of, run_check

from clcore.checks.minmax import index

IDS = claims_of("acl", "minmax")
pytestmark = pytest.mark.usefixtures("one_thread")
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("acl/eq2", "SimCLR"),
    ("acl/tab1", "MINE"),
    ("acl/tab1", "Lifted Structured"),
}


def test_every_claim_of_the_chapter_has_a_function():
    assert len(IDS) == 24
    assert all(callable(getattr(index, name.split("/")[1], None)) for name in IDS)


@pytest.mark.parametrize("claim", IDS)
def test_check(claim):
    run_check(index, claim, CORRECTED, draws=6)


def test_other_draws_are_other_numbers():
    first, again, other = ([check.measured for check in index.thm1(9, seed)] for seed in (0, 0, 1))
    assert first == again != other
