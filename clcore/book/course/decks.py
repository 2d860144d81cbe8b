"""Slides of every session, made by sphinx-revealjs from what the last build found."""

import base64
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from clcore import _folders, _paths
from clcore._files import read_json, read_notebook, write_atomic
from clcore.book import surroundings
from clcore.book.course.sessions import CourseError, Session, Step, figures
from clcore.book.site import policy
from clcore.ledger.html import place, render

_HERE = "clcore.book.course"


def write(sessions: list[Session], out: Path) -> Path:
    """Write one deck a session and an index of them into a folder, and return it.

    Everything that a deck needs lies beside it: it works without a network. Raises CourseError when
    Sphinx does, with what it said.
    """
    last = read_json(_paths.build_dir() / "ledger.json", "run `make book` to make it again")
    rows = {row["id"]: row for row in last["rows"]}
    profile = (last["book"] or {}).get("profile", "")
    with tempfile.TemporaryDirectory(prefix="clcore-decks-") as folder:
        source, made = Path(folder) / "source", Path(folder) / "made"
        own = Path(__file__).parent / "templates"
        write_atomic(source / "conf.py", (own / "conf.py.txt").read_bytes())
        write_atomic(source / "_static" / "deck.css", (own / "deck.css").read_bytes())
        for session in sessions:
            text = _deck(session, rows, source, profile)
            write_atomic(source / f"{session.id}.md", text.encode())
        index = render(_HERE, "decks.md.txt", sessions=sessions, book=last["book"])
        write_atomic(source / "index.md", index.encode())
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "revealjs"]
        run = subprocess.run(
            [*command, str(source), str(made)],
            env=surroundings.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
        )
        if run.returncode:
            raise CourseError(f"the slides could not be made:\n{run.stderr.strip()[-3000:]}")
        shutil.rmtree(made / ".doctrees", ignore_errors=True)
        policy.apply(made, slides=True)
        _folders.own(out)
        _folders.remove(out)
        shutil.copytree(_folders.mark(made), out)
        _folders.readable(out)
    return out


def _deck(session: Session, rows: dict[str, dict], source: Path, profile: str) -> str:
    steps = []
    for step in session.steps:
        about = [rows[claim] for claim in step.claims]
        shown = [_figure(name, session, source) for name in step.figures]
        steps.append({"step": step, "claims": about, "check": _check(step, rows), "figures": shown})
    about_session = {"session": session, "steps": steps, "profile": profile}
    return str(render(_HERE, "deck.md.txt", place=place, **about_session))


def _check(step: Step, rows: dict[str, dict]) -> dict | None:
    """The first of a step's claims that was measured: the check that its slide shows."""
    return next((rows[c] for c in step.claims if rows[c].get("control")), None)


def _figure(name: str, session: Session, source: Path) -> dict[str, str]:
    """Copy a figure of the last build into the deck's source: its file, caption and alt text."""
    for notebook in session.notebooks:
        if name not in figures(notebook):
            continue
        made = figures(notebook)[name]
        cells = read_notebook(notebook)["cells"]
        if made.startswith(".."):
            drawing = (notebook.parent / made).resolve()
            target = source / "_static" / drawing.name
            write_atomic(target, drawing.read_bytes())
            caption, alt = _drawn(cells, name)
        else:
            target = source / "_static" / f"{name}.png"
            write_atomic(target, _picture(notebook.stem, made))
            meta = next(c for c in cells if c["id"] == made)["metadata"]["mystnb"]
            caption, alt = meta["figure"]["caption"], meta["image"]["alt"]
        return {"file": f"_static/{target.name}", "caption": caption, "alt": alt}
    raise CourseError(f"no figure {name} in {', '.join(session.chapters)}")


def _picture(chapter: str, cell: str) -> bytes:
    """The picture that a cell of a chapter left in the last build."""
    page = _paths.build_dir() / "executed" / f"{chapter}.ipynb"
    executed = read_json(page, "run `make book` to make the site again")
    for one in executed["cells"]:
        if one.get("id") == cell:
            for output in one["outputs"]:
                if picture := output.get("data", {}).get("image/png"):
                    return base64.b64decode("".join(picture))
    raise CourseError(f"chapter {chapter} has no picture of its cell {cell} in the last build")


def _drawn(cells: list[dict[str, Any]], name: str) -> tuple[str, str]:
    """Caption and alt text of a drawing that a Markdown cell shows."""
    for cell in cells:
        source = "".join(cell["source"])
        if f":name: {name}\n" in source:
            after = source.split(f":name: {name}\n", 1)[1].split("```", 1)[0].splitlines()
            alt = next(x for x in after if x.startswith(":alt:")).removeprefix(":alt:").strip()
            caption = [x for x in after if x.strip() and not x.startswith(":")]
            return " ".join(caption), alt
    raise CourseError(f"no drawing {name}")
