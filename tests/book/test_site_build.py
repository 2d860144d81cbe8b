"""From sources to a site with the real Jupyter Book: kills, warnings, missing chapters."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import opening
import pytest
from sphinx.errors import ExtensionError

from clcore import _folders
from clcore.book.build import seal
from clcore.book.site import links, pages, serve, source, stage

REPOSITORY = Path(__file__).parents[2]


TOC = """format: jb-book
root: book/index
chapters:
  - file: chapters/1-minmax
  - file: book/ledger
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The book with its own front page, the ledger and a chapter that is never run, so that only
    the site is made, and of that little. The whole is made by the build under test."""
    root = tmp_path_factory.mktemp("book")
    ignore = shutil.ignore_patterns("__pycache__", "cache")
    for name in ("book", "data", "chapters", "clcore"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=ignore)
    for name in ("_config.yml", "requirements.txt", "CITATION.cff"):
        shutil.copy(REPOSITORY / name, root)
    (root / "_toc.yml").write_text(TOC)
    # What the ledger refers to stands here.
    (root / "book" / "index.md").write_text("(verdicts)=\n# A book of two pages\n")
    return root


def command(root: Path, **environment: str) -> dict:
    script = (
        "from clcore.book import build\n"
        "from clcore.book.site import code, stage\n"
        # Of all modules, which take a third of the time to colour, a few have their page.
        "used = code._used\n"
        "code._used = lambda notebooks: dict(list(used(notebooks).items())[:9])\n"
        # Every row has a page: one in nine is enough.
        "rows = list(build.ledger.rows([]))[::9]\n"
        "runs = build.plan('smoke', None, 'cpu')\n"
        "for run in runs: run.status = 'missing'\n"
        "book = build._book('smoke', 'cpu', runs)\n"
        "problem = stage.build(rows, book, [build.page(run, rows) for run in runs])\n"
        "raise SystemExit(problem or 0)"
    )
    return {
        "args": [sys.executable, "-c", script],
        "cwd": root,
        "env": os.environ | {"CLCORE_ROOT": str(root), "PYTHONPATH": str(root)} | environment,
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }


def test_the_seal_knows_all_that_a_site_is_made_from(root, monkeypatch):
    """By what was opened while the pages were laid out; code that runs is among it."""
    (root / "_build" / "html").mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("CLCORE_ROOT", str(root))
    monkeypatch.setenv("CLCORE_BUILD", str(root / "_build"))
    call = command(root, CLCORE_BUILD=str(root / "_build"), CLCORE_CHECKPOINTS="site")
    laid_out = "stage._key = lambda *folder: exit(0)\n"
    script = call["args"][2].replace("problem =", f"{laid_out}problem =")
    call["args"][2] = f"import opening\nopening.install()\n{script}"
    call["env"]["PYTHONPATH"] += f"{os.pathsep}{Path(opening.__file__).parent}"
    run = subprocess.run(**call)
    assert run.returncode == 0, run.stdout
    names = (opening.folder(root / "_build") / "site").read_text().splitlines()
    read = {path for name in names if (path := root / name).is_file()}
    laid = {path for path in read if path.is_relative_to(root / "_build")}
    compiled = {path for path in read if "__pycache__" in path.parts}
    assert root / "data" / "glossary.yaml" in read and root / "CITATION.cff" in read
    assert read - laid - compiled <= set(seal.sources())


def test_killed_in_the_middle_and_made_again(root):
    """SIGKILL to the build while Sphinx works; then the same command; then nothing to do. A folder
    stands where an old site has its stamp."""
    stamp = root / "_build" / "html" / ".key"
    stamp.mkdir(parents=True)
    first = subprocess.Popen(**command(root))
    end = time.monotonic() + 600
    while not (root / "_build" / f"jb-{first.pid}").exists():
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)  # Sphinx itself lives on
    assert {stamp, stamp.with_name(_folders.MARK)} == set((root / "_build" / "html").iterdir())
    again = subprocess.run(**command(root))
    assert again.returncode == 0, again.stdout
    page = root / "_build" / "html" / "chapters" / "1-minmax.html"
    assert "was not executed in this build" in page.read_text()
    # Killed between the two renames at the very end: the old site is put back.
    (root / "_build" / "html").replace(root / "_build" / "html.old")
    assert "nothing changed" in subprocess.run(**command(root)).stdout
    assert page.exists()


def test_a_page_that_is_written_over_is_made_again(root):
    if not (root / "_build" / "html").exists():
        assert subprocess.run(**command(root)).returncode == 0
    ledger = root / "_build" / "html" / "book" / "ledger.html"
    whole = ledger.read_bytes()
    ledger.write_text("written by another tool")
    again = subprocess.run(**command(root), umask=0o077)
    assert again.returncode == 0, again.stdout
    assert len(ledger.read_bytes()) == len(whole)
    made = [root / "_build" / "html", *(root / "_build" / "html").rglob("*")]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in made}
    assert modes == {(True, 0o755), (False, 0o644)}, "whatever the umask, a server can read it"
    assert _folders.marked(root / "_build" / "html")


def test_a_folder_of_somebodys_in_the_place_of_the_site_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    mine = _folders.own(tmp_path) / "html" / "index.html"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(_folders.NotOurs, match=r"html: it holds index.html"):
        stage.build([], {"chapters": []}, [])
    assert mine.read_text() == "mine"


def test_the_stamp_knows_every_page_and_not_itself(tmp_path):
    page, stamp = tmp_path / "book" / "a.html", tmp_path / ".key"
    page.parent.mkdir()
    page.write_text("a")
    whole = stage._pages(tmp_path)
    stamp.write_text(whole)
    assert stage._pages(tmp_path) == whole
    page.write_text("b")
    changed = stage._pages(tmp_path)
    page.unlink()
    gone = stage._pages(tmp_path)
    page.with_name("b.html").write_text("a")
    assert len({whole, changed, gone, stage._pages(tmp_path)}) == 4


def test_the_bare_sources_are_refused_and_a_stage_is_not(tmp_path):
    with pytest.raises(ExtensionError, match=r"make book.*nothing was changed"):
        source._refuse(SimpleNamespace(srcdir=str(REPOSITORY)), None)
    cards = tmp_path / links.CARDS
    cards.parent.mkdir(parents=True, exist_ok=True)
    cards.write_text("{}")
    source._refuse(SimpleNamespace(srcdir=str(tmp_path)), None)


def test_warning_is_an_error_and_the_old_site_stays(root):
    if not (root / "_build" / "html").exists():
        assert subprocess.run(**command(root)).returncode == 0
    before = (root / "_build" / "html" / "book" / "index.html").read_bytes()
    index = root / "book" / "index.md"
    text = index.read_text()
    index.write_text(text + "\n[a dead link](nowhere.md)\n")
    # A whole build is strict; this one has a chapter missing, so make it pass for whole.
    call = command(root)
    call["args"][2] = call["args"][2].replace("problem =", "book['chapters'] = []\nproblem =")
    run = subprocess.run(**call)
    index.write_text(text)
    assert run.returncode == 1
    assert "the site was not built" in run.stdout
    assert "nowhere" in run.stdout
    assert (root / "_build" / "html" / "book" / "index.html").read_bytes() == before
    said = serve.state(root / "_build" / "html")
    assert said["profile"] == "smoke" and [c["status"] for c in said["chapters"]] == ["missing"]
    assert f"The site of before stays, of commit {said['commit']}" in run.stdout


def test_repository_links_only_with_an_address(root):
    config = {"html": {"title": "x"}}
    changed = pages.with_repository(config, "https://github.com/someone/book")
    assert config == {"html": {"title": "x"}}, "the given configuration is not changed"
    assert changed["repository"]["url"] == "https://github.com/someone/book"
    text = (root / "_build" / "html" / "book" / "index.html").read_text()
    assert "github.com" not in text.replace("github.com/executablebooks", "")
