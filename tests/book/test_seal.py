"""The seal of a build: what it was made from and what it made, to the byte."""

import json
import os

import pytest

from clcore import _paths
from clcore.book import keys
from clcore.book.build import seal

SOURCES = (
    *("_toc.yml", "chapters/good.ipynb", "clcore/losses/pairs.py", "data/claims/acl.yaml"),
    *("clcore/book/site/templates/code.html", "data/findings/acl.yaml"),
)
MADE = ("ledger.json", "html/index.html", "cache/good-smoke-1/run.json")
SET = "data/cache/set/images"


@pytest.fixture
def sealed(tmp_path, monkeypatch):
    """The files of a project, and of a build of it that is sealed."""
    for name in (*SOURCES, *(f"_build/{made}" for made in MADE), SET):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    monkeypatch.setenv("CLCORE_BUILD", "_build")
    monkeypatch.setattr(seal, "commit", lambda: "here")
    seal.put(seal.inputs("smoke", "cpu"), [tmp_path / "_build" / "cache" / "good-smoke-1"])
    return tmp_path


def unbroken(profile="smoke", device="cpu"):
    return seal.unbroken(seal.inputs(profile, device)) is not None


def test_unbroken_until_something_is_asked_for_that_it_was_not_made_for(sealed, monkeypatch):
    assert unbroken()
    assert not unbroken(profile="book") and not unbroken(device="cuda")
    with monkeypatch.context() as patch:
        patch.setenv("CLCORE_REPOSITORY_URL", "https://example.org/a/b")
        assert not unbroken()
    with monkeypatch.context() as patch:
        patch.setattr(seal, "commit", lambda: "there")
        assert not unbroken()
    with monkeypatch.context() as patch:
        patch.setattr(keys, "versions", lambda: {"torch": "0"})
        assert not unbroken()
    assert unbroken()


@pytest.mark.parametrize(
    "name",
    [
        *(*SOURCES, "book/new.md", "new.txt"),
        *(f"_build/{made}" for made in (*MADE, "html/new.html", "cache/good-smoke-1/more")),
    ],
)
def test_one_file_that_is_other_new_or_gone_breaks_it(sealed, name):
    path = sealed / name
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((before or b"") + b" ")
    assert not unbroken()
    path.unlink()
    assert unbroken() == (before is None)
    if before is not None:
        path.write_bytes(before)
        assert unbroken()


def test_data_sets_other_builds_and_what_python_compiled_are_no_part_of_it(sealed):
    (sealed / SET).write_text("2")
    (sealed / "_build" / "cache" / "other-book-2").mkdir()
    (sealed / "_build" / "cache" / "other-book-2" / "run.json").write_text("{}")
    (sealed / "clcore" / "__pycache__").mkdir()
    (sealed / "clcore" / "__pycache__" / "a.pyc").write_text("")
    assert unbroken()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"entries": 1}', '{"entries": [["x"]]}'])
def test_a_damaged_seal_is_no_seal(sealed, content):
    (sealed / "_build" / "seal.json").write_text(content)
    assert not unbroken()


def test_a_ledger_that_is_no_json_is_no_ledger(sealed):
    (sealed / "_build" / "ledger.json").write_text("{")
    (entry,) = (sealed / "_build" / "cache").iterdir()
    seal.put(seal.inputs("smoke", "cpu"), [entry])
    assert not unbroken()


def test_a_folder_that_cannot_be_read_is_no_error(sealed):
    (sealed / "_build" / "ledger.json").unlink()
    (sealed / "_build" / "ledger.json").mkdir()
    assert not unbroken()


def test_entries_that_are_in_use_stay_young(sealed):
    (entry,) = (sealed / "_build" / "cache").iterdir()
    os.utime(entry, (0, 0))
    assert unbroken() and entry.stat().st_mtime > 0
    assert json.loads((_paths.build_dir() / "seal.json").read_text())["entries"] == [entry.name]
