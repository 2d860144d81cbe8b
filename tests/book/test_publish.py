"""The site on a branch, chapters that run elsewhere, and Jupyter Book by hand."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from clcore import _folders, _paths
from clcore.book import chapter, publish
from clcore.book.site import launch

NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
BOOK = {"commit": "abc", "profile": "book", "built": "2026-01-01", "chapters": []}


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    run = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | NOBODY,
    )
    return run.stdout


def site(root, text, **book):
    """A built site that tells its state."""
    made = root / "_build" / "html"
    made.mkdir(parents=True, exist_ok=True)
    (made / "index.html").write_text(text)
    (made / "site.json").write_text(json.dumps(BOOK | book))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a bare remote, whose default branch it is on, and a built site."""
    root, bare = tmp_path / "book", tmp_path / "bare.git"
    for name, value in NOBODY.items():
        monkeypatch.setenv(name, value)
    root.mkdir()
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@example.org")
    (root / "data" / "claims").mkdir(parents=True)
    (root / "data" / "claims" / "x").write_text("x")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    git(root, "remote", "add", "origin", f"file://{bare}")
    git(root, "push", "-q", "origin", "main")
    site(root, "one")
    monkeypatch.setenv("CLCORE_ROOT", str(root))
    monkeypatch.setenv("CLCORE_BUILD", str(root / "_build"))
    return root


@pytest.fixture
def bare(repository):
    return repository.parent / "bare.git"


def branches(folder):
    return git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_a_site_is_pushed_and_the_next_one_follows_it(repository, bare):
    assert publish.publish() == (
        "Site of abc, profile book, 2026-01-01: branch gh-pages, pushed to origin"
    )
    assert git(bare, "show", "gh-pages:index.html") == "one"
    names = [".nojekyll", "index.html", "site.json"]
    assert git(bare, "ls-tree", "--name-only", "gh-pages").split() == names
    site(repository, "two")
    publish.publish()
    assert git(bare, "show", "gh-pages:index.html") == "two"
    assert git(bare, "rev-list", "--count", "gh-pages").strip() == "2"
    assert git(repository, "status", "--short", "--untracked-files=no") == ""
    assert git(repository, "branch", "--show-current").strip() == "main"


def test_fresh_checkouts_of_one_commit_of_one_branch_publish_in_turn(repository, bare, monkeypatch):
    """As a workflow checks out: of the branch of the site, such a clone has nothing."""
    for turn in range(3):
        clone = repository.parent / f"ci-{turn}"
        git(repository, "clone", "-q", "--depth=1", "--single-branch", f"file://{bare}", str(clone))
        git(clone, "config", "user.name", "a")
        git(clone, "config", "user.email", "a@example.org")
        site(clone, f"turn {turn}")
        monkeypatch.setenv("CLCORE_ROOT", str(clone))
        monkeypatch.setenv("CLCORE_BUILD", str(clone / "_build"))
        publish.publish()
        assert git(bare, "show", "gh-pages:index.html") == f"turn {turn}"
    assert git(bare, "rev-list", "--count", "gh-pages").strip() == "3"
    (repository / "_build" / "html" / "index.html").write_text("from a clone that is behind")
    monkeypatch.setenv("CLCORE_ROOT", str(repository))
    monkeypatch.setenv("CLCORE_BUILD", str(repository / "_build"))
    publish.publish()
    assert git(bare, "rev-list", "--count", "gh-pages").strip() == "4"
    assert git(repository, "rev-parse", "--is-shallow-repository").strip() == "false"


def test_a_dry_run_pushes_nothing(repository, bare):
    assert publish.publish(dry_run=True).endswith("here, not pushed")
    assert git(repository, "show", "gh-pages:index.html") == "one"
    assert branches(bare) == ["main"]
    git(repository, "remote", "remove", "origin")
    assert publish.publish(dry_run=True).endswith("here, not pushed")


def test_the_branch_that_is_checked_out_and_the_default_one_are_never_replaced(repository, bare):
    head = git(bare, "rev-parse", "main")
    with pytest.raises(publish.PublishError, match="got 'main', which is checked out here"):
        publish.publish(branch="main", replace="main")
    git(repository, "checkout", "-q", "-b", "dev")
    with pytest.raises(publish.PublishError, match="got 'main', the default branch of origin"):
        publish.publish(branch="main", replace="main")
    git(repository, "worktree", "add", "-q", str(repository.parent / "tree"), "-b", "pages")
    with pytest.raises(publish.PublishError, match="got 'pages', which is checked out"):
        publish.publish(branch="pages")
    assert git(bare, "rev-parse", "main") == head and branches(bare) == ["main"]
    assert git(repository, "rev-parse", "main") == head


def test_a_remote_of_the_site_alone_has_it_on_its_default_branch(repository):
    pages = repository.parent / "pages.git"
    git(repository, "init", "-q", "--bare", "-b", "gh-pages", str(pages))
    git(repository, "remote", "add", "pages", str(pages))
    for _ in range(2):
        publish.publish("pages")
    assert git(pages, "rev-list", "--count", "gh-pages").strip() == "2"


def test_a_branch_that_holds_no_site_is_replaced_when_it_is_named_twice(repository, bare):
    git(repository, "push", "-q", "origin", "main:docs")
    head = git(bare, "rev-parse", "docs")
    told = r"docs of origin to end in a site of ours.* first'.*`--replace docs`"
    for replace in (None, "gh-pages"):
        with pytest.raises(publish.PublishError, match=told):
            publish.publish(branch="docs", replace=replace)
    assert git(bare, "rev-parse", "docs") == head and branches(repository) == ["main"]
    publish.publish(branch="docs", replace="docs")
    assert git(bare, "show", "docs:index.html") == "one"
    assert git(bare, "rev-parse", "docs~1") == head, "what was there stays in the history"
    publish.publish(branch="docs")


def test_what_somebody_put_upon_the_site_is_not_replaced(repository, bare):
    publish.publish()
    clone = repository.parent / "clone"
    git(repository, "clone", "-q", "-b", "gh-pages", f"file://{bare}", str(clone))
    (clone / "CNAME").write_text("book.example.org\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Create CNAME")
    git(clone, "push", "-q", "origin", "gh-pages")
    with pytest.raises(publish.PublishError, match="Create CNAME"):
        publish.publish()
    publish.publish(replace="gh-pages")
    assert git(bare, "show", "gh-pages:CNAME").strip() == "book.example.org"
    publish.publish()
    assert git(bare, "show", "gh-pages:CNAME").strip() == "book.example.org"


def test_a_branch_of_the_same_name_here_is_not_lost(repository, bare):
    publish.publish()
    git(repository, "branch", "-f", "gh-pages", "main")
    with pytest.raises(publish.PublishError, match="gh-pages here to end in a site of ours"):
        publish.publish()
    assert git(repository, "rev-parse", "gh-pages") == git(repository, "rev-parse", "main")
    git(repository, "branch", "-q", "-D", "gh-pages")
    publish.publish()


def test_sites_that_older_versions_published_are_ours(repository, bare):
    git(repository, "checkout", "-q", "--orphan", "gh-pages")
    git(repository, "commit", "-qm", "Site of 0123abc-dirty, profile book, 2026-01-01")
    git(repository, "push", "-q", "origin", "gh-pages")
    git(repository, "checkout", "-q", "main")
    publish.publish()
    assert git(bare, "rev-list", "--count", "gh-pages").strip() == "2"


def test_the_site_tells_its_state_not_the_ledger_beside_it(repository):
    """Of a build whose pages failed, the ledger is there, and the site of before."""
    ledger = repository / "_build" / "ledger.json"
    ledger.write_text(json.dumps({"book": BOOK | {"commit": "later"}, "rows": []}))
    site(repository, "one", commit="earlier-dirty")
    assert publish.publish(dry_run=True).startswith("Site of earlier-dirty, profile book")
    (repository / "_build" / "html" / "site.json").unlink()
    assert publish.publish(dry_run=True).startswith("Site of an unknown commit, profile book")
    ledger.write_text(json.dumps({"book": BOOK | {"profile": "smoke"}, "rows": []}))
    with pytest.raises(publish.PublishError, match="not finished"):
        publish.publish(dry_run=True)
    (repository / "_build" / "html" / "site.json").write_text('{"commit"')
    with pytest.raises(ValueError, match=r"site.json is damaged.*make book"):
        publish.publish(dry_run=True)


def test_a_site_that_is_not_finished_is_published_when_that_is_meant(repository, bare):
    rows = [{"name": name, "status": status} for name, status in (("a", "ok"), ("b", "failed"))]
    for told, book in (
        ("did not run well: b", {"chapters": rows}),
        ("smoke", {"profile": "smoke"}),
    ):
        site(repository, "one", **book)
        with pytest.raises(publish.PublishError, match=rf"not finished: .*({told}).*--unfinished"):
            publish.publish()
        assert branches(bare) == ["main"]
    site(repository, "one", profile="smoke", chapters=rows)
    said = publish.publish(unfinished=True)
    assert said.startswith("Site of abc, profile smoke, 2026-01-01, without b: ")


def test_another_repository_is_neither_asked_nor_written(repository, bare, tmp_path, monkeypatch):
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", f"file://{bare}", str(other))
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(other / ".git"))
        patch.setenv("GIT_WORK_TREE", str(other))
        publish.publish()
    assert branches(other) == ["main"] and branches(repository) == ["gh-pages", "main"]
    inner = other / "book"
    inner.mkdir()
    (repository / "data").rename(inner / "data")
    (repository / "_build").rename(inner / "_build")
    monkeypatch.setenv("CLCORE_ROOT", str(inner))
    monkeypatch.setenv("CLCORE_BUILD", str(inner / "_build"))
    with pytest.raises(publish.PublishError, match="no git repository, but lies inside the one"):
        publish.publish()
    assert branches(other) == ["main"]


def test_whose_commit_it_is(repository, bare, monkeypatch):
    for key in ("user.name", "user.email"):
        git(repository, "config", "--unset", key)
    git(repository, "config", "user.useConfigOnly", "true")
    with pytest.raises(
        publish.PublishError, match=r"expected a git identity.*config user\.name NAME"
    ):
        publish.publish()
    assert branches(repository) == ["main"]
    monkeypatch.setenv("GIT_COMMITTER_NAME", "A Name")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "n@example.org")
    publish.publish()
    assert git(bare, "log", "-1", "--format=%cn %ce", "gh-pages").strip() == "A Name n@example.org"


def test_what_is_refused(repository):
    with pytest.raises(publish.PublishError, match=r"got 'other'; there is origin"):
        publish.publish("other")
    with pytest.raises(publish.PublishError, match=r"the name of a branch, got 'a\.\.b'"):
        publish.publish(branch="a..b")
    git(repository, "remote", "set-url", "origin", str(repository / "nowhere"))
    with pytest.raises(publish.PublishError, match="could not be put on gh-pages of origin"):
        publish.publish()
    assert branches(repository) == ["main"]
    (repository / "_build" / "html" / "index.html").unlink()
    with pytest.raises(publish.PublishError, match="run `make book`"):
        publish.publish()


@pytest.mark.parametrize(
    ("name", "commands"), [("publish", {"make book", "make publish"}), ("ci", {"bash .ci/run"})]
)
def test_a_workflow_is_one(name, commands):
    path = _paths.root() / ".github" / "workflows" / f"{name}.yml"
    command = ["--builtin-schema", "vendor.github-workflows", str(path)]
    assert CliRunner().invoke(check_jsonschema, command).exit_code == 0
    (job,) = yaml.safe_load(path.read_text())["jobs"].values()
    assert commands <= {step.get("run") for step in job["steps"]}
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used), "no tag"


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
    parameters = next(c.source for c in book.cells if "parameters" in c.metadata.get("tags", []))
    exec(parameters, given)  # the next cell, and the one after it, which begins the chapter
    here = chapter.start("0-start-here", given | {"In": ["", first, parameters]})
    assert here.parameters == {"profile": "smoke", "device": "auto", "seed": 0}
    assert len(book.cells) == len(nbformat.read(path, 4).cells) + 1


def test_without_a_commit_the_newest_is_installed_and_that_is_told(tmp_path, monkeypatch):
    path = _paths.root() / "chapters" / "0-start-here.ipynb"
    monkeypatch.setattr(launch, "commit", lambda: "unknown")
    said = launch.write([path], tmp_path / "out", "https://github.com/owner/name")
    assert "git cannot tell" in said and "install the newest" in said
    first = nbformat.read(tmp_path / "out" / path.name, 4).cells[0].source
    assert "checkout" not in first and '"unknown"' not in first and "clone" in first
    compile(first, "first", "exec")
    monkeypatch.setattr(launch, "commit", lambda: "abc-dirty")
    said = launch.write([path], tmp_path / "out", "https://github.com/owner/name")
    assert said.endswith("they install abc, without what is changed here")


def test_notebooks_of_somebodys_are_not_written_over(tmp_path):
    path = _paths.root() / "chapters" / "0-start-here.ipynb"
    (tmp_path / path.name).write_text("mine")
    with pytest.raises(_folders.NotOurs, match=f"it holds {path.name}"):
        launch.write([path], tmp_path, "https://github.com/owner/name")
    assert (tmp_path / path.name).read_text() == "mine"


@pytest.mark.parametrize(("commit", "at"), [("abc-dirty", "abc"), ("unknown", "trunk")])
def test_the_button_of_binder_names_a_commit_or_else_the_branch(commit, at):
    config = SimpleNamespace(cl_commit=commit, cl_branch="trunk")
    button = {"text": "Binder", "url": "https://mybinder.org/v2/gh/o/n/trunk?urlpath=x"}
    context = {"header_buttons": [{"label": "launch-buttons", "buttons": [button]}]}
    launch._to_launch(SimpleNamespace(config=config), "chapters/a", "", context, None)
    assert button["url"].startswith(f"https://mybinder.org/v2/gh/o/n/{at}?urlpath=lab")


def test_binder_takes_the_build_for_the_cpu_at_the_pinned_version(tmp_path):
    """binder/postBuild with programs that write down how they are called."""
    root, log = _paths.root(), tmp_path / "log"
    for name in ("pip", "python"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n')
        program.chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    script = ["bash", str(root / "binder" / "postBuild")]
    subprocess.run(script, cwd=root, env=os.environ | path, check=True, capture_output=True)
    first, book, launched = log.read_text().splitlines()
    pin = re.search(r"^torch==.*$", (root / "requirements.txt").read_text(), re.M)[0]
    assert first.startswith("pip install") and first.endswith(f"/cpu {pin}")
    assert "-e .[book]" in book and "-m clcore launch" in launched


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
