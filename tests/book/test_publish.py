"""The site on a branch, chapters that run elsewhere, and Jupyter Book by hand."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from clcore import _paths
from clcore.book import publish
from clcore.book.site import launch


def git(folder, *words):
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a bare remote, a built site and its ledger."""
    root, bare = tmp_path / "book", tmp_path / "bare.git"
    root.mkdir()
    git(tmp_path, "init", "-q", "--bare", str(bare))
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@example.org")
    (root / "data" / "claims").mkdir(parents=True)
    (root / "data" / "claims" / "x").write_text("x")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "remote", "add", "origin", str(bare))
    site = root / "_build" / "html"
    site.mkdir(parents=True)
    (site / "index.html").write_text("one")
    book = {"commit": "abc", "profile": "book", "built": "2026-01-01"}
    (root / "_build" / "ledger.json").write_text(json.dumps({"book": book, "rows": []}))
    monkeypatch.setenv("CLCORE_ROOT", str(root))
    monkeypatch.setenv("CLCORE_BUILD", str(root / "_build"))
    return root


def test_a_site_is_pushed_and_the_next_one_follows_it(repository):
    bare = repository.parent / "bare.git"
    assert publish.publish() == (
        "Site of abc, profile book, 2026-01-01: branch gh-pages, pushed to origin"
    )
    assert git(bare, "show", "gh-pages:index.html") == "one"
    assert git(bare, "ls-tree", "--name-only", "gh-pages").split() == [".nojekyll", "index.html"]
    (repository / "_build" / "html" / "index.html").write_text("two")
    publish.publish()
    assert git(bare, "show", "gh-pages:index.html") == "two"
    assert git(bare, "rev-list", "--count", "gh-pages").strip() == "2"
    assert git(repository, "status", "--short", "--untracked-files=no") == ""
    assert git(repository, "branch", "--show-current").strip() == "main"


def test_a_dry_run_pushes_nothing(repository):
    assert publish.publish(dry_run=True).endswith("here, not pushed")
    assert git(repository, "show", "gh-pages:index.html") == "one"
    assert git(repository.parent / "bare.git", "branch") == ""


def test_what_is_refused(repository):
    with pytest.raises(publish.PublishError, match=r"got 'other'; there is origin"):
        publish.publish("other")
    git(repository, "remote", "set-url", "origin", str(repository / "nowhere"))
    with pytest.raises(publish.PublishError, match="could not be put on gh-pages of origin"):
        publish.publish()
    (repository / "_build" / "html" / "index.html").unlink()
    with pytest.raises(publish.PublishError, match="run `make book`"):
        publish.publish()


def test_the_workflow_is_one():
    path = _paths.root() / ".github" / "workflows" / "publish.yml"
    command = ["--builtin-schema", "vendor.github-workflows", str(path)]
    assert CliRunner().invoke(check_jsonschema, command).exit_code == 0
    steps = [s.get("run", "") for s in yaml.safe_load(path.read_text())["jobs"]["site"]["steps"]]
    assert "make book" in steps and "make publish" in steps


def test_a_notebook_that_runs_elsewhere_installs_and_is_small(tmp_path):
    path = _paths.root() / "chapters" / "0-start-here.ipynb"
    made = launch.files([path], "https://github.com/owner/name", "abc-dirty")
    book = nbformat.reads(made["launch/0-start-here.ipynb"], 4)
    nbformat.validate(book)
    first = book.cells[0].source
    assert '"clone", "--quiet", "https://github.com/owner/name"' in first
    assert '"checkout", "--quiet", "abc"' in first and 'profile = "smoke"' in made[
        "launch/0-start-here.ipynb"
    ].replace("\\", "")
    import importlib.util
    import subprocess as processes

    given: dict = {}
    with pytest.MonkeyPatch.context() as patch:  # as on Colab: it is to leave nothing of its own
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        patch.setattr(processes, "run", lambda command, check: None)
        patch.setattr(sys, "path", [*sys.path])
        exec(compile(first, "first", "exec"), given)
    assert set(given) == {"__builtins__", "importlib", "subprocess", "sys"}
    assert len(book.cells) == len(nbformat.read(path, 4).cells) + 1


def test_jupyter_book_by_hand_says_what_to_do_and_leaves_the_site_alone(tmp_path):
    source = tmp_path / "book"
    (source / "_build" / "html").mkdir(parents=True)
    (source / "_build" / "html" / "index.html").write_text("kept")
    for name in ("_config.yml", "_toc.yml"):
        (source / name).write_bytes((_paths.root() / name).read_bytes())
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(source)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode != 0
    assert "`make book` runs the chapters and makes the site" in run.stdout + run.stderr
    assert (source / "_build" / "html" / "index.html").read_text() == "kept"
