"""Every check of the deep-linear chapter: what holds, what fails as printed, that controls fail."""

import pytest
from chapter_checks import claims_of, run_check

from clcore.checks import acl_deep_linear

IDS = claims_of("acl", "deep-linear-pca")
pytestmark = pytest.mark.usefixtures("one_thread")
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("acl/lem1", "Eq. 38, sign of the middle expression"),
    ("acl/num10", "norms"),
    ("acl/thm3", "local maxima"),
    ("acl/num11", "share of starts"),
    ("acl/def2", "normalisations"),
    ("acl/lem7", "forward"),
    ("acl/lem7", "backward, LayerNorm"),
    ("acl/lem11", "Eq. 119, forward"),
    ("acl/cor3", "local maxima"),
}


def test_every_claim_of_the_chapter_has_a_function():
    assert len(IDS) == 29
    assert all(callable(getattr(acl_deep_linear, name.split("/")[1], None)) for name in IDS)


@pytest.mark.parametrize("claim", IDS)
def test_check(claim):
    run_check(acl_deep_linear, claim, CORRECTED, draws=10)
