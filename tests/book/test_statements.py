"""Statements under the papers' numbers, and figures counted by chapter."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes

from clcore import _paths, ledger
from clcore.book import build
from clcore.book.site import statements

NOTEBOOKS = [_paths.root() / "chapters" / f"{name}.ipynb" for name in build.chapters()]


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("thm-acl-3", ("Tian 2022, Theorem 3", "acl/thm3")),
        ("lem-nl-4", ("Tian 2023, Lemma 4", "nl/lem4")),
        ("thm-ncl-1a", ("Pokle et al. 2022, Theorem 1a", "ncl/thm1a")),
        ("ass-acl-1", ("Tian 2022, Assumption 1", None)),
        ("prop-ncl-two", ("", None)),
        ("thm-acl-33", ("Tian 2022, Theorem 33", None)),
    ],
)
def test_a_label_names_its_claim(label, found):
    assert statements.named(label) == found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_labels_of_the_chapters_name_claims_that_are_there(path):
    source = "".join(s for c in json.loads(path.read_text())["cells"] for s in c["source"])
    for label in re.findall(r"^:label: ((?:thm|lem|cor|def)-[a-z]+-\d\S*)$", source, re.M):
        number, claim = statements.named(label)
        assert claim, label
        where = ledger.claim(claim)["where"].replace("(", "").replace(")", "")
        assert number.split(", ", 1)[1] in where, (label, where)


def test_figures_are_counted_by_chapter():
    counted = {
        "chapters/a": {"figure": {"f": (7,), "g": (8,)}, "exercise": {"e": (3,)}},
        "chapters/b": {"figure": {"h": (9,)}},
        "book/c": {"figure": {"i": (10,)}},
    }
    titles = {"chapters/a": "4.2 On images", "chapters/b": "2 Linear", "book/c": "10 things"}
    titles = {page: nodes.title("", text) for page, text in titles.items()}
    titles["book/c"] = nodes.title("", "Ten things")
    env = SimpleNamespace(toc_fignumbers=counted, titles=titles)
    assert statements.count_by_chapter(None, env) == []
    assert counted["chapters/a"] == {
        "figure": {"f": (4, 2, 1), "g": (4, 2, 2)},
        "exercise": {"e": (4, 2, 1)},
    }
    assert counted["chapters/b"]["figure"] == {"h": (2, 1)}
    assert counted["book/c"]["figure"] == {"i": (1,)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_chapter_is_numbered_like_its_file(path):
    first = "".join(json.loads(path.read_text())["cells"][0]["source"]).split()
    assert re.fullmatch(r"\d(\.\d)?", first[1]) and first[1][0] == Path(path).stem[0]
