"""The whole kit, written into one folder."""

from pathlib import Path

import nbformat

from clcore import _folders, _paths
from clcore._files import write_atomic
from clcore.book.course import decks, environment, handout, notebooks
from clcore.book.course.plain import PICTURES, page
from clcore.book.course.sessions import CourseError, Session, plans, sessions
from clcore.book.provenance import repository
from clcore.book.site import serve
from clcore.ledger.html import render


def make(
    out: Path | None = None,
    only: list[str] | None = None,
    otter: bool = False,
    key: str = "",
    own: Path | None = None,
) -> list[str]:
    """Write the course into a folder, by default course/ of the build, and describe its content,
    one line each.

    only: ids of sessions; the decks of the others stay as they are. own: a folder with slides of a
    lecturer's, in which nothing is written. otter: the assignments with Otter's marks besides. key:
    a lecturer's, for other numbers in the questions (`exercises.variants`). Raises CourseError for
    a session or a folder of slides that is not there, for one inside of the course, without a
    build, and where the site is not of the build whose ledger is there, and NotOurs for a folder of
    somebody's.
    """
    known = sessions()
    if lost := [key for key in only or () if key not in known]:
        raise CourseError(f"expected sessions of {', '.join(known)}; got {', '.join(lost)}")
    decks.placed(own, out or _paths.build_dir() / "course")
    _last_build()
    # In the build's own folder, what is called so is older than the marks.
    slides = _folders.MARK if out else ".*"
    out = _folders.own(out) if out else _folders.room("course")
    _folders.own(out / "slides", slides)
    chosen = [session for key, session in known.items() if not only or key in only]
    said = []
    for kind in (*notebooks.KINDS[:2], *(["otter"] if otter else [])):
        _notebooks(out / kind, kind, chosen, key)
        said.append(f"{kind} notebooks: {_paths.shown(out / kind)}")
    if repository() is None:
        said.append(
            "the notebooks install the book from this folder, for CLCORE_REPOSITORY_URL is not "
            "set; set it to the address of the repository for students and graders elsewhere"
        )
    made = decks.write(chosen, out / "slides", own, keep=bool(only))
    said.append(f"slides: {_paths.shown(made)}/index.html")
    said.append(f"plans: {_paths.shown(_plans(out / 'plans.md'))}")
    sheet = handout.write(out / "notation.pdf")
    said.append(f"handout: {_paths.shown(sheet)}" if sheet else handout.MISSING)
    return said


def read_key(path: Path) -> str:
    """The key in a file: its text, without the space around it. Raises CourseError for none."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(
            f"expected a file with a key, a line of text, at {path}: {error}"
        ) from None
    if not key:
        raise CourseError(f"expected a key, a line of text, in {path}; the file is empty")
    return key


def _notebooks(folder: Path, kind: str, chosen: list[Session], key: str) -> None:
    """Write the notebooks of a kind, with all files that they need."""
    _folders.begin(folder)
    needs = environment.requirements()
    files = {"environment.yml": environment.conda(needs)} if kind == "otter" else {}
    if kind == "student":
        files["README.md"] = str(render("clcore.book.course", "student.md.txt", needs=needs))
    for path in (path for session in chosen for path in session.notebooks):
        of = page(path)
        config = environment.otter(key) if kind == "otter" else ""
        book = notebooks.assignment(path, kind, key, config, of)
        write_atomic(folder / path.name, nbformat.writes(book).encode())
        for name, picture in of.pictures.items():
            write_atomic(folder / PICTURES / name, picture.read_bytes())
    for name, text in files.items():
        write_atomic(folder / name, text.encode())


def _last_build() -> None:
    """Raises CourseError without a site, and without one of the same build as the ledger."""
    html = _paths.build_dir() / "html"
    if not (html / "index.html").exists():
        raise CourseError("there is no build to take figures and checks from; run `make book`")
    said, last = serve.state(html), serve.rows_file()["book"]
    if said != last:
        raise CourseError(
            "the site and the ledger are of different builds, as after one whose pages failed; "
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
