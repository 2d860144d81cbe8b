"""Every check of the ReLU chapter: what holds, what fails as printed, that controls fail."""

import pytest
import torch
import yaml

from clcore import ledger, paths
from clcore.checks import acl_relu

IDS = [
    row["id"]
    for row in ledger.claims().values()
    if row["paper"] == "acl" and row["chapter"] == "relu-composition"
]
# (claim, part) that fail as printed and hold as corrected.
CORRECTED = {
    ("acl/thm5", "fixed weights"),
    ("acl/thm5", "weights follow w1"),
    ("acl/num13", "among all unit w"),
    ("acl/lem15", "alpha >= 0"),
    ("acl/lem16", "Eq. 128"),
    ("acl/eq14", "D_aug across fields"),
    ("acl/eq64", "Eq. 67"),
    ("acl/eq64", "rank-1 W2"),
    ("acl/eq71", "Eq. 71"),
    ("acl/eq71", "Eq. 72"),
    ("acl/thm6", "weak"),
    ("acl/thm6", "strong"),
    ("acl/rem5", "conclusion"),
    ("acl/rem5", "Eqs. 78, 79"),
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
    assert sorted(acl_relu.__all__) == sorted(name.split("/")[1] for name in IDS)


@pytest.mark.parametrize("claim", IDS)
def test_check(claim):
    book = ledger.Ledger("3-relu-composition")
    # `run` refuses passing controls, missing counterexamples and parts recorded twice.
    records = book.run([getattr(acl_relu, claim.split("/")[1])], draws=6, seed=11)
    assert records and {r.claim for r in records} == {claim}
    for r in records:
        falls = (r.claim, r.part) in CORRECTED and r.form == "printed"
        assert r.passed is not falls, (r.part, r.form, r.measured)
        assert len(r.control) >= 1 and r.draws >= 1
    parts = {(r.claim, r.part) for r in records if r.form == "corrected"}
    assert parts == {key for key in CORRECTED if key[0] == claim}
    register = yaml.safe_load((paths.root() / "data" / "verdicts.yaml").read_text())
    assert ledger.verdict(book.records) == register[claim]


def test_other_draws_are_other_numbers():
    first, again, other = (
        [check.measured for check in acl_relu.lem4(9, seed)] for seed in (0, 0, 1)
    )
    assert first == again != other
