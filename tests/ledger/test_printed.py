"""The papers and their claims as printed: damaged files are refused by name."""

import re
import shutil

import pytest
import yaml

from clcore import _paths, ledger
from clcore.ledger import LedgerError


@pytest.fixture
def papers(tmp_path, monkeypatch):
    """A function that reads papers.yaml again, with other fields of acl (None takes one away)."""
    shutil.copytree(_paths.root() / "data" / "claims", tmp_path / "data" / "claims")
    path = tmp_path / "data" / "claims" / "papers.yaml"
    document = yaml.safe_load(path.read_text())
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))

    def read(**fields):
        acl = document["acl"] | fields
        document["acl"] = {name: value for name, value in acl.items() if value is not None}
        path.write_text(yaml.safe_dump(document))
        ledger.papers.cache_clear()
        return ledger.papers()

    yield read
    ledger.papers.cache_clear()


def test_the_fields_of_a_paper_are_read(papers):
    fields = {"name": "A", "title": "B", "version": "C", "groups": {"x": "Y"}}
    fields |= {"authors": "D, E, 2020", "cite": "D 2020", "called": ["A paper"]}
    assert papers(**fields)["acl"] == fields


@pytest.mark.parametrize(
    "field", ["name", "title", "version", "groups", "authors", "cite", "called"]
)
def test_a_paper_has_all_its_fields(papers, field):
    with pytest.raises(
        LedgerError, match=rf"papers\.yaml, at acl: '{field}' is a required property"
    ):
        papers(**{field: None})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "at acl/name: ''"),
        ({"title": ""}, "at acl/title: ''"),
        ({"version": ""}, "at acl/version: ''"),
        ({"groups": {"minmax": ""}}, "at acl/groups/minmax: ''"),
        ({"groups": ["minmax"]}, "at acl/groups: ['minmax'] is not of type 'object'"),
        ({"year": 2022}, "at acl: Additional properties are not allowed ('year' was unexpected)"),
    ],
)
def test_a_damaged_paper_is_named(papers, fields, told):
    with pytest.raises(LedgerError, match=re.escape(f"papers.yaml, {told}")):
        papers(**fields)


def test_three_near_ids_are_told_and_no_more():
    with pytest.raises(LedgerError, match=r"did you mean nl/thm\w+, nl/thm\w+, nl/thm\w+\?$"):
        ledger.claim("nl/thm44")


def test_where_no_id_is_near_the_folder_is_told():
    with pytest.raises(LedgerError, match="got 'nothing of the kind'; see data/claims/ for the"):
        ledger.claim("nothing of the kind")
