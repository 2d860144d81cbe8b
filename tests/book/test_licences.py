"""Licences: of all that is installed and shipped somebody has looked at each."""

import importlib.metadata as metadata
from fnmatch import fnmatch
from pathlib import Path

import pytest

from clcore import _paths
from clcore.book.site import licences, search


def test_every_package_has_a_licence_that_was_looked_at():
    allowed = set(licences.known()["reviewed"].values())
    found = {name: licences.licences(name)[0] for name in licences.installed()}
    assert len(found) > 140
    assert {name: names for name, names in found.items() if not names or set(names) - allowed} == {}


def test_a_name_that_nobody_has_looked_at_is_marked(monkeypatch):
    said = {"x": ["GPL-3.0-only"], "y": []}
    monkeypatch.setattr(licences, "stated", said.__getitem__)
    assert licences.licences("x") == (["GPL-3.0-only?"], "")
    assert licences.licences("y") == (["not stated?"], "")


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (
            ["License-Expression: MIT AND (PSF-2.0 OR BSD-3-Clause)"],
            ["MIT", "PSF-2.0", "BSD-3-Clause"],
        ),
        (
            ["License: Apache License 2.0", "Classifier: License :: OSI Approved :: MIT License"],
            ["Apache License 2.0", "MIT License"],
        ),
        (["Classifier: License :: OSI Approved"], []),
        (["License: Copyright", " all that follows", " of the text"], []),
    ],
)
def test_what_metadata_state(monkeypatch, lines, names):
    import email

    text = "\n".join(["Metadata-Version: 2.1", *lines, "", ""])
    monkeypatch.setattr(metadata, "metadata", lambda _: email.message_from_string(text))
    assert licences.stated("x") == names


def test_what_is_said_by_hand_is_of_use_and_what_is_shipped_is_installed():
    installed, allowed = licences.installed(), set(licences.known()["reviewed"].values())
    for name, said in licences.known()["packages"].items():
        assert name in installed and set(said["licences"]) <= allowed, name
    for one in licences.known()["shipped"]:
        assert one["by"] in {*installed, "npm"} and set(one["licences"]) <= allowed, one["what"]


def test_the_page_has_every_package_with_its_version():
    text = licences.page()
    for name, version in licences.installed().items():
        assert f'<th scope="row">{name}</th><td>{version}</td>' in text
    assert "?</td>" not in text and "MathJax" in text


@pytest.mark.site
def test_every_static_file_of_the_site_is_ours_or_on_the_page(site: Path):
    ours = {p.relative_to(_paths.root() / "book") for p in (_paths.root() / "book").rglob("*")}
    ours.add(Path(search.INDEX))
    patterns = [p for one in licences.known()["shipped"] for p in one["files"]]
    files = [p.relative_to(site) for p in (site / "_static").rglob("*") if p.is_file()]
    assert len(files) > 100
    joined = {f for f in files if fnmatch(f.name, "all-*.js") or fnmatch(f.name, "all-*.css")}
    assert joined and {f.parent.name for f in joined} == {"_static"}  # made of the others
    of_others = [f.as_posix() for f in files if f not in ours | joined]
    assert [f for f in of_others if not any(fnmatch(f, p) for p in patterns)] == []
    unused = [p for p in patterns if not any(fnmatch(f, p) for f in [*of_others, "code/code.css"])]
    assert unused == [], "what the site does not ship"
