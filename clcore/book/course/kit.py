"""The whole kit, written into one folder."""

from pathlib import Path

import nbformat

from clcore import _folders, _paths
from clcore._files import write_atomic
from clcore.book.course import decks, handout, notebooks
from clcore.book.course.sessions import CourseError, plans, sessions
from clcore.book.site import serve
from clcore.ledger.html import render


def make(out: Path | None = None, only: list[str] | None = None, otter: bool = False) -> list[str]:
    """Write the course into a folder, by default course/ of the build, and say what lies where, a
    line each.

    only: ids of sessions. otter: the assignments with Otter's marks besides. Raises CourseError for
    a session that is not there, without a build, or where the site is not of the build whose ledger
    is there, and NotOurs for a folder of somebody's.
    """
    known = sessions()
    if lost := [key for key in only or () if key not in known]:
        raise CourseError(f"expected sessions of {', '.join(known)}; got {', '.join(lost)}")
    _last_build()
    # In the build's own folder, what is called so is older than the marks.
    slides = _folders.MARK if out else ".*"
    out = _folders.own(out) if out else _folders.room("course")
    _folders.own(out / "slides", slides)
    chosen = [session for key, session in known.items() if not only or key in only]
    said = []
    for kind in (*notebooks.KINDS[:2], *(["otter"] if otter else [])):
        _folders.begin(out / kind)
        for session in chosen:
            for path in session.notebooks:
                book = notebooks.assignment(path, kind)
                write_atomic(out / kind / path.name, nbformat.writes(book).encode())
        said.append(f"{kind} notebooks: {_paths.shown(out / kind)}")
    said.append(f"slides: {_paths.shown(decks.write(chosen, out / 'slides'))}/index.html")
    said.append(f"plans: {_paths.shown(_plans(out / 'plans.md'))}")
    sheet = handout.write(out / "notation.pdf")
    said.append(f"handout: {_paths.shown(sheet)}" if sheet else handout.MISSING)
    return said


def _last_build() -> None:
    """Raises CourseError without a site, and without one of the same build as the ledger."""
    html = _paths.build_dir() / "html"
    if not (html / "index.html").exists():
        raise CourseError("there is no build to take figures and checks from; run `make book`")
    said, last = serve.state(html), serve.rows_file()["book"]
    if said != last:
        raise CourseError(
            "the site is not of the build whose ledger is there, as after one whose pages failed; "
            "run `make book`, and see that it makes the site"
        )


def pages() -> dict[str, str]:
    """Name below book/ -> Markdown: the plans and the sessions, for the page For teachers."""
    return {
        "_generated/plans.md": _weeks(captions=True),
        "_generated/sessions.md": str(
            render("clcore.book.course", "sessions.md.txt", sessions=sessions())
        ),
    }


def _weeks(captions: bool) -> str:
    """The plans, as tables of MyST with captions, or of plain Markdown."""
    return str(render("clcore.book.course", "plans.md.txt", plans=plans(), captions=captions))


def _plans(out: Path) -> Path:
    write_atomic(out, _weeks(captions=False).encode())
    return out
