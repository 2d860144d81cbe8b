"""Nothing is deleted or written over but what holds our mark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clcore import _folders
from clcore.book.build import housekeeping
from clcore.book.site import stage

KEY = "0123456789abcdef0123"


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A build folder that is not there yet, of a project that has its own."""
    (tmp_path / "project" / "data" / "claims").mkdir(parents=True)
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path / "project"))
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "made"))
    return tmp_path / "made"


def put(path: Path, text: str = "mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def files(folder: Path) -> dict[str, str]:
    found = (p for p in folder.rglob("*") if p.is_file() and p.name != _folders.MARK)
    return {str(p.relative_to(folder)): p.read_text() for p in found}


def test_ours_is_what_we_make_what_is_empty_and_what_has_the_mark(tmp_path):
    assert _folders.marked(_folders.own(tmp_path / "new" / "deep"))
    (tmp_path / "empty").mkdir()
    assert _folders.marked(_folders.own(tmp_path / "empty"))
    put(tmp_path / "empty" / "later")
    assert _folders.own(tmp_path / "empty") == tmp_path / "empty"


def test_a_folder_of_somebodys_is_refused_in_words_and_stays(tmp_path):
    theirs = put(tmp_path / "talks" / "keynote.txt").parent
    told = rf"expected a folder that clcore made.*{theirs}: it holds keynote.txt, and no .clcore"
    with pytest.raises(_folders.NotOurs, match=told) as error:
        _folders.own(theirs)
    assert f"touch {theirs / _folders.MARK}" in str(error.value)
    assert [p.name for p in theirs.iterdir()] == ["keynote.txt"]
    with pytest.raises(_folders.NotOurs, match="there is a file; move it away"):
        _folders.own(theirs / "keynote.txt")
    assert not _folders.remove(theirs) and files(theirs) == {"keynote.txt": "mine"}
    assert _folders.begin(theirs) and not _folders.marked(theirs)
    (tmp_path / "link").symlink_to(_folders.own(tmp_path / "ours"))
    assert not _folders.remove(tmp_path / "link") and _folders.marked(tmp_path / "ours")


def test_the_mark_is_the_last_that_is_deleted(tmp_path, monkeypatch):
    """So a folder of which something could not be deleted is still ours."""
    ours = _folders.own(tmp_path / "ours")
    put(ours / "inner" / "a")
    with monkeypatch.context() as patch:
        patch.setattr(_folders.shutil, "rmtree", lambda path, ignore_errors: None)
        assert not _folders.remove(ours)
    assert _folders.marked(ours) and files(ours) == {"inner/a": "mine"}
    assert _folders.remove(ours) and not ours.exists()
    assert _folders.remove(ours), "it is gone"


@pytest.mark.parametrize("how", ["cut", "folder"])
def test_a_damaged_mark_is_one(tmp_path, how):
    ours = _folders.own(tmp_path / "ours")
    (ours / _folders.MARK).unlink()
    (ours / _folders.MARK).mkdir() if how == "folder" else (ours / _folders.MARK).touch()
    put(ours / "a")
    assert _folders.own(ours) and _folders.remove(ours)


USERS = (
    "work/thesis.txt",
    "lock/diary.txt",
    "html/mine.html",
    "stage-1/props",
    "cache/.old-projects/a",
)


@pytest.mark.parametrize("users", [USERS, ("ledger.json",), ("lock",), (".hidden",)])
def test_a_build_refuses_a_folder_with_files_of_the_users_own(base, users):
    for name in users:
        put(base / name)
    before = files(base)
    with pytest.raises(_folders.NotOurs), housekeeping.lock():
        housekeeping.tidy()
    with pytest.raises(_folders.NotOurs):
        _folders.clean()
    assert files(base) == before and not (base / _folders.MARK).exists()


@pytest.mark.parametrize("name", ["cache", "html", "checkpoints", "decoded"])
def test_a_folder_of_somebodys_in_a_build_of_ours_is_refused(base, name):
    _folders.build()
    put(base / name / "thesis.txt")
    with pytest.raises(_folders.NotOurs, match=f"{name}: it holds thesis.txt"), housekeeping.lock():
        housekeeping.tidy()
    assert files(base / name) == {"thesis.txt": "mine"}


@pytest.mark.parametrize("name", ["lock", "ledger.json", "seal.json", "site.log"])
def test_a_folder_in_the_place_of_a_file_goes_if_it_is_empty(base, name):
    (_folders.build() / name).mkdir()
    with housekeeping.lock():
        housekeeping.tidy()
    (base / name).unlink(missing_ok=True)
    put(base / name / "thesis.txt")
    with pytest.raises(_folders.NotOurs, match=f"expected a file at .*{name}"), housekeeping.lock():
        housekeeping.tidy()
    assert files(base / name) == {"thesis.txt": "mine"}


def test_tidy_removes_what_a_killed_build_left_and_nothing_else(base):
    _folders.build()
    gone = ("work/good-12/log", "cache/.new-12345678/run.json", "stage-12/a", "jb-12/a")
    for name in gone:
        put(_folders.own((base / name).parent) / Path(name).name)
    half = put(base / ".ledger.json.12345678")
    kept = (
        "work/thesis-2024/a",
        "cache/.old-projects/a",
        "stage-left/a",
        "jb-old/a",
        ".my.json.notes",
    )
    for name in ("cache", "checkpoints", "decoded"):
        _folders.room(name)
    kept = (*kept, "cache/.git-x/a", "checkpoints/mine/a", "decoded/.mine/a")
    for name in kept:
        put(base / name)
    with housekeeping.lock():
        housekeeping.tidy()
    stage.sweep(base)
    assert not half.exists() and not any((base / name).exists() for name in gone)
    assert all((base / name).read_text() == "mine" for name in kept)


def test_what_older_builds_made_is_taken_over_by_the_names_that_we_give(base):
    """They left the number of their process in the lock, a stamp in the site, keys in names."""
    put(base / "lock", "123")
    old = [f"cache/good-smoke-{KEY}/run.json", f"checkpoints/good-paper-{KEY}/a.pt", "html/.key"]
    old += ["decoded/digits-train-0123456789abcdef/labels.npy", "course/slides/index.html"]
    for name in old:
        put(base / name)
    with housekeeping.lock():
        housekeeping.tidy()
    _folders.room("course")
    for name in ("", "cache", "checkpoints", "decoded", "html", "course"):
        assert _folders.marked(base / name), name
    assert all((base / name).exists() for name in old)


def test_the_projects_own_build_folder_is_known_by_its_place(base, monkeypatch):
    monkeypatch.delenv("CLCORE_BUILD")
    own = base.parent / "project" / "_build"
    put(own / "cache" / f"good-book-{KEY}" / "run.json")  # as a workflow brings it back
    put(own / "notes.txt")
    with housekeeping.lock():
        housekeeping.tidy()
    assert _folders.marked(own) and _folders.marked(own / "cache")
    assert (own / "notes.txt").exists()


def test_a_lost_mark_is_put_back(base):
    for name in ("cache", "checkpoints"):
        put(_folders.room(name) / f"good-smoke-{KEY}" / "a")
    with housekeeping.lock():
        housekeeping.tidy()
    for folder in (base, base / "cache", base / "checkpoints"):
        (folder / _folders.MARK).unlink()
        with housekeeping.lock():
            housekeeping.tidy()
        assert _folders.marked(folder)


def test_an_empty_file_in_the_place_of_a_room_goes_and_a_full_one_is_refused(base):
    put(_folders.build() / "cache", "")
    assert _folders.room("cache").is_dir()
    put(base / "checkpoints")
    with pytest.raises(_folders.NotOurs, match="checkpoints, there is a file"):
        _folders.room("checkpoints")


def test_clean_deletes_what_is_ours_here_and_in_builds_below_and_names_the_rest(base):
    for folder in (base, base / "smoke"):
        os.environ["CLCORE_BUILD"] = str(folder)  # the fixture puts it back
        with housekeeping.lock():
            housekeeping.tidy()
        put(_folders.own(folder / "html") / "index.html")
        put(folder / "ledger.json")
    os.environ["CLCORE_BUILD"] = str(base)
    mine = [put(base / name) for name in ("notes.txt", "smoke/drafts/a", "thesis/a")]
    left = _folders.clean()
    assert sorted(left) == [base / "notes.txt", base / "smoke" / "drafts", base / "thesis"]
    assert files(base) == {str(path.relative_to(base)): "mine" for path in mine}
    for path in mine:
        path.unlink()
    assert _folders.clean() == [] and not base.exists() and _folders.clean() == []


def test_the_command_says_what_it_leaves(base):
    put(_folders.build() / "notes.txt")
    command = [sys.executable, "-m", "clcore", "clean"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr == f"left, for it is not ours: {base}/notes.txt\n"


def test_everybody_can_read_a_site_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        page = put(tmp_path / "html" / "book" / "a.html")
    finally:
        os.umask(before)
    assert page.stat().st_mode & 0o777 == 0o600
    _folders.readable(tmp_path / "html")
    assert page.stat().st_mode & 0o777 == 0o644
    assert page.parent.stat().st_mode & 0o777 == page.parents[1].stat().st_mode & 0o777 == 0o755


def test_two_that_begin_at_once_both_have_the_folder(tmp_path):
    """The mark comes first, so whoever finds the folder not empty finds the mark, too."""
    script = "import sys; from pathlib import Path; from clcore import _folders\n"
    script += "for i in range(200): _folders.own(Path(sys.argv[1]) / str(i)); "
    script += "(Path(sys.argv[1]) / str(i) / sys.argv[2]).touch()"
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in ("a", "b")
    ]
    assert [run.wait() for run in runs] == [0, 0]
    assert all(
        {p.name for p in f.iterdir()} == {_folders.MARK, "a", "b"} for f in tmp_path.iterdir()
    )
