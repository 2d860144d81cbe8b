"""What is known of the claims: every claim has its row, and a damaged row is refused by name."""

import shutil

import pytest
import yaml

from clcore import _paths, ledger
from clcore.ledger import findings
from clcore.ledger.findings import FindingsError


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A function that changes one field (None takes it away) and reads the findings again."""
    for name in ("claims", "findings"):
        shutil.copytree(_paths.root() / "data" / name, tmp_path / "data" / name)
    path = tmp_path / "data" / "findings" / "acl.yaml"
    document = yaml.safe_load(path.read_text())
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    findings.known.cache_clear()

    def read(claim, **fields):
        row = document.setdefault(claim, {}) | fields
        document[claim] = {k: v for k, v in row.items() if v is not None}
        path.write_text(yaml.safe_dump(document))
        return findings.known()

    yield read
    findings.known.cache_clear()


def test_every_claim_has_a_finding():
    assert list(findings.known()) and findings.known().keys() == ledger.claims().keys()


def test_roots_are_roots():
    known = findings.known()
    for row in known.values():
        if "root" in row:
            assert known[row["root"]]["root"] == row["root"], row["id"]


@pytest.mark.parametrize(
    ("claim", "fields", "message"),
    [
        ("acl/thm6", {"grade": None}, "'grade' is a required property"),
        ("acl/thm6", {"grade": "grave"}, "'grave' is not one of"),
        ("acl/thm6", {"root": None}, "'root' is a required property"),
        ("acl/num11", {"root": "acl/thm1"}, "is acl/thm1, which is no root"),
        ("acl/thm1", {"added": None}, "'added' is a required property"),
        ("acl/thm1", {"added": 3}, "3 is not of type 'string'"),
        ("acl/thm1", {"grade": "proof"}, "False schema"),
        ("acl/thm1", {"verdict": "differs"}, "'open' is a required property"),
        ("acl/thm1", {"verdict": "true"}, "'true' is not one of"),
        ("ddn/thm1", {"verdict": "holds", "added": ""}, "is not of acl"),
    ],
)
def test_a_damaged_row_is_named(damaged, claim, fields, message):
    with pytest.raises(FindingsError, match=rf"{claim}.*{message}"):
        damaged(claim, **fields)
