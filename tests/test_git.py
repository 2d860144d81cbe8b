"""Git is asked in the project's own repository alone, and says why where it cannot tell."""

import os
import shutil
import subprocess

import pytest

from clcore import _git

NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", *who, *words]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, env=os.environ | NOBODY
    )
    return run.stdout.strip()


def repository(folder):
    """One commit of the files of a project."""
    for name in ("data/claims/x", "clcore/a.py", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(str(folder))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path / "book"))
    return repository(tmp_path / "book")


def test_the_commit_and_what_makes_it_another(root):
    clean = git(root, "rev-parse", "--short=12", "HEAD")
    assert _git.commit() == clean and len(clean) == 12
    (root / "notes of mine.txt").write_text("no part of a build")
    (root / "out.ipynb").write_text("{}")
    assert _git.commit() == clean
    for name in ("clcore/new.py", "clcore/new/deep.txt", "data/ü.csv", "beside.py", "lib/new.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("X = 1")
        assert _git.commit() == f"{clean}-dirty", name
        (root / name).unlink()
        assert _git.commit() == clean, name
    (root / "notes.txt").write_text("a tracked file")
    assert _git.commit() == f"{clean}-dirty"
    git(root, "mv", "-f", "notes.txt", "moved.txt")
    assert _git.commit() == f"{clean}-dirty"


def test_settings_of_the_reader_do_not_hide_a_file(root):
    git(root, "config", "status.showUntrackedFiles", "no")
    git(root, "config", "status.branch", "true")
    assert not _git.commit().endswith("-dirty")
    (root / "clcore" / "new.py").write_text("X = 1")
    assert _git.commit().endswith("-dirty")


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"])
def test_variables_that_lead_elsewhere_are_not_followed(root, tmp_path, monkeypatch, name):
    other = repository(tmp_path / "other")
    for inner in ("clcore/a.py", "data/claims/x", "notes.txt"):
        assert (other / inner).read_text() != (root / inner).read_text()
    expected = _git.commit()
    git(other, "commit", "-q", "--allow-empty", "-m", "second")
    at = {"GIT_WORK_TREE": other, "GIT_INDEX_FILE": other / ".git" / "index"}
    monkeypatch.setenv(name, str(at.get(name, other / ".git")))
    assert _git.commit() == expected
    assert _git.git(root, "rev-parse", "--show-toplevel") == str(root)


def test_who_commits_and_how_a_remote_is_reached_is_kept(monkeypatch):
    kept = {"GIT_COMMITTER_NAME": "a", "GIT_AUTHOR_EMAIL": "b", "GIT_SSH_COMMAND": "c"}
    gone = {"GIT_DIR": "d", "GIT_CONFIG_COUNT": "0", "GIT_NAMESPACE": "e", "GIT_ANYTHING": "f"}
    for name, value in (kept | gone).items():
        monkeypatch.setenv(name, value)
    found = _git.environment()
    assert kept.items() <= found.items() and not gone.keys() & found.keys()
    assert found["PATH"] == os.environ["PATH"]


def test_a_project_inside_another_repository_has_no_commit(root, tmp_path, monkeypatch):
    outer = repository(tmp_path / "outer")
    shutil.copytree(root, outer / "book", ignore=shutil.ignore_patterns(".git"))
    monkeypatch.setenv("CLCORE_ROOT", str(outer / "book"))
    told = rf"{outer}/book is no git repository, but lies inside the one at {outer}"
    with pytest.raises(_git.GitError, match=told):
        _git.commit()
    with pytest.raises(_git.GitError, match=told):
        _git.git(outer / "book", "remote")


def test_a_worktree_is_a_repository_and_a_link_to_one(root, tmp_path, monkeypatch):
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "link").symlink_to(root)
    for name in ("tree", "link"):
        monkeypatch.setenv("CLCORE_ROOT", str(tmp_path / name))
        assert _git.commit() == git(root, "rev-parse", "--short=12", "HEAD")


def test_why_a_commit_is_unknown(root, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        with pytest.raises(_git.GitError, match="expected git on this machine"):
            _git.commit()
    shutil.rmtree(root / ".git")
    with pytest.raises(_git.GitError, match="rev-parse --show-toplevel: not a git repository"):
        _git.commit()
    git(root, "init", "-q")
    with pytest.raises(_git.GitError, match="HEAD"):
        _git.commit()
