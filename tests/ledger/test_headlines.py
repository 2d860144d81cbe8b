"""What readers remember of a paper: a damaged headline is refused by name."""

import re

import pytest

from clcore import ledger
from clcore.ledger import headlines


def test_every_paper_has_headlines_in_the_order_of_the_papers():
    known = headlines.known()
    assert list(known) == list(ledger.papers())
    for paper, about in known.items():
        assert about["in_short"]
        rows = [claim for entry in about["claims"] for claim in entry["rows"]]
        assert rows and all(ledger.claim(claim)["paper"] == paper for claim in rows)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("acl/thm1: holds", "acl/thm99: holds", "names 'acl/thm99', which is no claim of acl"),
        ("acl/thm1: holds", "ncl/thm1: holds", "names 'ncl/thm1', which is no claim of acl"),
        ("acl/thm1: holds", "acl/thm1: true", "acl.yaml, at claims/0/rows/acl/thm1"),
        ("in_short:", "short:", "acl.yaml, at top"),
        ("    found: ", "    found: " + "long " * 48, "acl.yaml, at claims/0/found"),
    ],
)
def test_a_damaged_headline_is_named(tmp_path, monkeypatch, old, new, told):
    folder = tmp_path / "data" / "headlines"
    folder.mkdir(parents=True)
    real = headlines._paths.root()
    for file in (real / "data" / "headlines").iterdir():
        text = file.read_text()
        (folder / file.name).write_text(text.replace(old, new, 1) if file.stem == "acl" else text)
    ledger.claims()  # read before the project moves
    monkeypatch.setattr(headlines._paths, "root", lambda: tmp_path)
    headlines.known.cache_clear()
    with pytest.raises(headlines.HeadlinesError, match=re.escape(told)):
        headlines.known()
    headlines.known.cache_clear()


def test_a_paper_without_its_file_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "headlines"
    folder.mkdir(parents=True)
    real = headlines._paths.root() / "data" / "headlines" / "schema.json"
    (folder / "schema.json").write_text(real.read_text())
    monkeypatch.setattr(headlines._paths, "root", lambda: tmp_path)
    headlines.known.cache_clear()
    with pytest.raises(headlines.HeadlinesError, match=r"acl\.yaml: expected a file"):
        headlines.known()
    headlines.known.cache_clear()
