"""From executed chapters and ledger rows to the static site in _build/html."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from clcore import _folders, _paths
from clcore._files import explain_full, read_yaml, sha256, write_atomic, write_json
from clcore.book import surroundings
from clcore.book.build import legible
from clcore.book.programs import pyodide
from clcore.book.site import (
    claims,
    code,
    fields,
    launch,
    lean,
    letters,
    links,
    pages,
    policy,
    search,
    serve,
)

STAMP = ".key"
"""Of a site: what it was made from, and all that was made."""

_JUPYTER_BOOK = (
    "import sys; from jupyter_book.cli.main import main; sys.argv[0] = 'jupyter-book'; main()"
)
_CONFIG = {
    "type": "object",
    "required": ["sphinx"],
    "properties": {
        "sphinx": {
            "type": "object",
            "required": ["config"],
            "properties": {"config": {"type": "object", "required": ["mathjax3_config"]}},
        },
    },
}


def build(rows: list[dict], book: dict, chapters: list[tuple[str, bytes]]) -> str:
    """Make the site if anything in it changed; the old site stays until the new one is whole.

    chapters: (file name, content) of each page below chapters/. Returns "" or what went wrong.
    """
    base = _folders.build()
    html, old = base / "html", base / "html.old"
    check(base)
    sweep(base)
    if old.exists() and not html.exists():  # killed between the two renames below
        old.replace(html)
    # Named after this process: Sphinx may live on for a while when a build is killed, and must not
    # write into the folders of the next one.
    stage, out = base / f"stage-{os.getpid()}", base / f"jb-{os.getpid()}"
    try:
        for folder in (stage, out):
            _folders.own(folder)
        _stage(stage, rows, book, chapters)
        key = _key(stage)
        stamp = html / STAMP
        # The pages themselves count: one may have been deleted, or written over by another tool.
        if (
            stamp.is_file()
            and stamp.read_text(encoding="utf-8", errors="replace") == f"{key} {_pages(html)}"
        ):
            print("site: nothing changed")
            return ""
        print("site: building", flush=True)
        whole = all(chapter["status"] == "ok" for chapter in book["chapters"])
        with ThreadPoolExecutor(1) as beside:  # Sphinx is a process of its own
            sphinx = beside.submit(_sphinx, stage, out, base / "site.log", strict=whole)
            sources = code.pages(_notebooks(book))
            made = sphinx.result()
        if isinstance(made, str):
            return f"{made}\n{_still(html)}"
        claims.wrap(stage / claims.FOLDER, made)
        try:
            legible.refuse(made)
        except legible.LegibleError as error:
            return f"{error}\n{_still(html)}"
        for address, page in sources.items():
            write_atomic(made / address, page.encode())
        lean.apply(made)
        policy.apply(made)
        _folders.mark(made)
        write_atomic(made / STAMP, f"{key} {_pages(made)}".encode())
        _folders.readable(made)
        for name, content in chapters:
            write_atomic(_folders.room("executed") / name, content)  # for the course kit
        _folders.remove(old)
        if html.exists():
            html.replace(old)
        made.replace(html)
        _folders.remove(old)
    except OSError as error:
        return str(explain_full(error, base))
    finally:
        _folders.remove(stage)
        _folders.remove(out)
    return ""


def check(base: Path) -> None:
    """Raises NotOurs where somebody's folder stands in the place of the site, in a build folder."""
    for name in ("html", "html.old"):  # a site that is older than the marks has its stamp
        if (base / name).exists():
            _folders.own(base / name, ".*" if (base / name / STAMP).exists() else "")


def sweep(base: Path) -> None:
    """Remove what a build that was killed has left of its work on the site."""
    for left in (*base.glob("stage-*"), *base.glob("jb-*")):
        _folders.remove(left)


def _still(html: Path) -> str:
    """What is where a new site could not be made."""
    if not (html / "index.html").exists():
        return "There is no site yet."
    said = serve.state(html)
    of = f", of commit {said['commit']}, built on {said['built']}" if said else ""
    return f"The site of before stays{of}."


def _stage(stage: Path, rows: list[dict], book: dict, chapters: list[tuple[str, bytes]]) -> None:
    """Lay out the book's sources: prose pages, executed chapters, generated pages."""
    root = _paths.root()
    shutil.copytree(root / "book", stage / "book", ignore=shutil.ignore_patterns("__pycache__"))
    scripts = shutil.ignore_patterns("*.txt")
    kept = root / "data" / "certificates"
    shutil.copytree(kept, stage / "book" / "_extra" / "certificates", ignore=scripts)
    if pyodide.here():
        shutil.copytree(pyodide.folder(), stage / "book" / "_static" / "python")
    for kept in (root / "_toc.yml", fields.file()):
        shutil.copy(kept, stage)
    config = read_yaml(root / "_config.yml", _CONFIG, ValueError)
    if book["repository"]:
        config = pages.with_repository(config, book["repository"])
        made = launch.files(_notebooks(book), book["repository"], book["commit"])
        for address, text in made.items():
            write_atomic(stage / "book" / "_extra" / address, text.encode())
    write_json(stage / "book" / "_extra" / serve.STATE, book)
    config = pages.with_foot(config, book)
    write_atomic(stage / "_config.yml", yaml.safe_dump(config, sort_keys=False).encode())
    for name, content in chapters:
        write_atomic(stage / "chapters" / name, content)
    pages.write_pages(rows, stage, book)
    for address, text in claims.bodies(rows, book).items():
        write_atomic(stage / address, text.encode())
    extra = claims.files(rows, book) | letters.texts(rows)
    for address, text in extra.items():
        write_atomic(stage / "book" / "_extra" / address, text.encode())
    links.write_cards(rows, stage)
    search.write_claims(rows, stage)
    write_atomic(stage / "code.key", code.digest(_notebooks(book)).encode())


def _notebooks(book: dict) -> list[Path]:
    return [_paths.root() / "chapters" / f"{chapter['name']}.ipynb" for chapter in book["chapters"]]


def _key(stage: Path) -> str:
    """Digest of everything that the site is made from."""
    root = _paths.root()
    makers = sorted((root / "clcore" / "book" / "site").rglob("*.py"))
    files = [root / "requirements.txt", *makers]
    return sha256(*(file.read_bytes() for file in files), *_contents(stage))


def _pages(html: Path) -> str:
    """Digest of a site as it was made: every file but the stamp, which holds this digest."""
    return sha256(*_contents(html, without=STAMP))


def _contents(folder: Path, without: str = "") -> Iterator[bytes]:
    """Name and content of every file below a folder, in order."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if name != without:
            yield from (name.encode(), path.read_bytes())


def _sphinx(stage: Path, out: Path, log_file: Path, strict: bool) -> Path | str:
    """Run Jupyter Book from scratch, since its own cache can outlive a kill in a broken state.

    strict: warnings are errors (off only when a chapter failed, whose labels others refer to).
    Returns the folder with the pages, or the warnings and errors.
    """
    # By this Python, and not by the program of that name: the first line of that one says where the
    # environment was made, which may have been copied since.
    command = [sys.executable, "-c", _JUPYTER_BOOK, "build", str(stage)]
    command += ["--path-output", str(out), "--keep-going", "-n"] + (["-W"] if strict else [])
    environment = surroundings.environment(PYTHONWARNINGS="ignore", NO_COLOR="1")
    with log_file.open("wb") as log:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    status = done.returncode
    lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    if status:
        bad = [line for line in lines if "WARNING" in line or "ERROR" in line or "Error" in line]
        shown = "\n".join(bad[:40] or lines[-40:])
        return f"the site was not built (whole log: {log_file}):\n{shown}"
    return out / "_build" / "html"
