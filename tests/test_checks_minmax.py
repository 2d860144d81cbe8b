"""Every check of the min-max chapter: what holds, what fails as printed, that controls fail."""

import pytest
import torch

from clcore import ledger
from clcore.checks import acl_minmax

IDS = [
    row["id"]
    for row in ledger.claims().values()
    if row["paper"] == "acl" and row["chapter"] == "minmax"
]
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("acl/eq2", "SimCLR"),
    ("acl/tab1", "MINE"),
    ("acl/tab1", "Soft Triplet"),
    ("acl/tab1", "N+1 Tuplet"),
    ("acl/tab1", "Lifted Structured"),
    ("acl/tab1", "Modified Triplet"),
    ("acl/tab1", "Triplet Contrastive"),
    ("acl/tab1", "differentiable"),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors here are tiny; threads cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_claim_of_the_chapter_has_a_function():
    assert len(IDS) == 23
    assert all(callable(getattr(acl_minmax, name.split("/")[1], None)) for name in IDS)


@pytest.mark.parametrize("claim", IDS)
def test_check(claim):
    book = ledger.Ledger("1-minmax")
    # `run` refuses passing controls, missing counterexamples and parts recorded twice.
    records = book.run([getattr(acl_minmax, claim.split("/")[1])], draws=6, seed=11)
    assert records and {r.claim for r in records} == {claim}
    for r in records:
        falls = (r.claim, r.part) in CORRECTED and r.form == "printed"
        assert r.passed is not falls, (r.part, r.form, r.measured)
        assert len(r.control) >= 1 and r.draws >= 1
    parts = {(r.claim, r.part) for r in records if r.form == "corrected"}
    assert parts == {key for key in CORRECTED if key[0] == claim}
    expected = "corrected" if parts else "holds"
    assert ledger.verdict(book.records) == expected


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in acl_minmax.thm1(9, seed)] for seed in (0, 0, 1)
    )
    assert first == again != other
