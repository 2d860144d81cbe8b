"""The cache: what stands in the place of an entry, and which entries go."""

import json
import os

import pytest

from clcore import _folders
from clcore.book import build
from clcore.book.build.cache import from_cache, keep
from clcore.book.provenance import PROVENANCE_MIME


@pytest.fixture
def run(project):
    """A run of a chapter that is in the cache."""
    run = build.plan("smoke", None, "cpu")[0]
    run.outcome = {"status": "ok"}
    output = {"data": {PROVENANCE_MIME: {"started": "2026-01-01"}}}
    keep(run, json.dumps({"cells": [{"outputs": [output]}]}).encode())
    assert from_cache(run) and _folders.marked(run.entry)
    run.status = "waiting"
    return run


@pytest.mark.parametrize("kind", ["empty", "file", "pipe", "link"])
def test_something_else_in_the_place_of_a_cache_entry_is_cleared_away(run, project, capsys, kind):
    elsewhere = run.entry.replace(project / "elsewhere")
    if kind == "pipe":
        os.mkfifo(run.entry)
    elif kind == "link":
        run.entry.symlink_to(elsewhere)
    else:
        run.entry.write_text("" if kind == "empty" else "x")
    assert not from_cache(run) and run.status == "waiting"
    assert "good: no folder at its place in the cache" in capsys.readouterr().out
    assert not os.path.lexists(run.entry) and (elsewhere / "run.json").is_file()
    run.outcome = {"status": "ok"}
    keep(run, (elsewhere / "executed.ipynb").read_bytes())
    assert from_cache(run) and _folders.marked(run.entry)


def test_the_oldest_entries_of_a_chapter_go_and_what_has_another_name_stays(run):
    executed = (run.entry / "executed.ipynb").read_bytes()
    cache, run.outcome = run.entry.parent, {"status": "ok"}
    old = [f"good-smoke-{n:020x}" for n in range(4)]
    kept = [f"good-book-{0:020x}", f"good-smoke-x-smoke-{0:020x}"]
    for age, name in enumerate([*kept, *old]):
        (cache / name).mkdir()
        os.utime(cache / name, (age, age))
    keep(run, executed)
    assert {p.name for p in cache.iterdir()} == {*kept, *old[-2:], run.entry.name, _folders.MARK}
