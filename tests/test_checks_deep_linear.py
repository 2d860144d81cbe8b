"""Every check of the deep-linear chapter: what holds, what fails as printed, that controls fail."""

import pytest
import torch
import yaml

from clcore import ledger, paths
from clcore.checks import acl_deep_linear

IDS = [
    row["id"]
    for row in ledger.claims().values()
    if row["paper"] == "acl" and row["chapter"] == "deep-linear-pca"
]
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


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors here are tiny; threads cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_claim_of_the_chapter_has_a_function():
    assert len(IDS) == 29
    assert all(callable(getattr(acl_deep_linear, name.split("/")[1], None)) for name in IDS)


@pytest.mark.parametrize("claim", IDS)
def test_check(claim):
    book = ledger.Ledger("2-deep-linear-pca")
    # `run` refuses passing controls, missing counterexamples and parts recorded twice.
    records = book.run([getattr(acl_deep_linear, claim.split("/")[1])], draws=10, seed=11)
    assert records and {r.claim for r in records} == {claim}
    for r in records:
        falls = (r.claim, r.part) in CORRECTED and r.form == "printed"
        assert r.passed is not falls, (r.part, r.form, r.measured)
    parts = {(r.claim, r.part) for r in records if r.form == "corrected"}
    assert parts == {key for key in CORRECTED if key[0] == claim}
    register = yaml.safe_load((paths.root() / "data" / "verdicts.yaml").read_text())
    assert ledger.verdict(book.records) == register[claim]
