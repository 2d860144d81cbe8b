"""Slides of every session, made by sphinx-revealjs from what the last build found."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clcore import _folders, _paths
from clcore._files import read_json, write_atomic
from clcore.book import surroundings
from clcore.book.course import pictures, slides, wide
from clcore.book.course.sessions import CourseError, Session, sessions
from clcore.book.site import policy
from clcore.ledger.html import render

_HERE = "clcore.book.course"
_NUMBERED = re.compile(r"(\d+)-.+\.md", re.IGNORECASE)


def write(chosen: list[Session], out: Path, own: Path | None = None, keep: bool = False) -> Path:
    """Write one deck a session and an index of them into a folder, and return it.

    Everything that a deck needs is in its folder: it works without a network. own: a folder of the
    lecturer's, with slides for <session>/<step>-<name>.md. keep: leave the other decks in `out` as
    they are. Raises CourseError for a slide of the lecturer's that has no place, and when Sphinx
    fails, with its message.
    """
    last = read_json(_paths.build_dir() / "ledger.json", "run `make book` to make it again")
    rows = {row["id"]: row for row in last["rows"]}
    profile = (last["book"] or {}).get("profile", "")
    placed(own, out)
    with tempfile.TemporaryDirectory(prefix="clcore-decks-") as folder:
        source, made = Path(folder) / "source", Path(folder) / "made"
        templates = Path(__file__).parent / "templates"
        write_atomic(source / "conf.py", (templates / "conf.py.txt").read_bytes())
        write_atomic(source / "_static" / "deck.css", (templates / "deck.css").read_bytes())
        for session in chosen:
            text = _deck(session, rows, source, profile, own)
            write_atomic(source / f"{session.id}.md", text.encode())
        listed = [
            session
            for session in sessions().values()
            if session in chosen or (keep and (out / f"{session.id}.html").exists())
        ]
        index = render(_HERE, "decks.md.txt", sessions=listed, book=last["book"])
        write_atomic(source / "index.md", index.encode())
        _build(source, made)
        _folders.own(out)
        if keep:
            for session in chosen:
                shutil.rmtree(out / "_static" / session.id, ignore_errors=True)
                (out / f"{session.id}.pdf").unlink(missing_ok=True)
        else:
            _folders.remove(out)
        shutil.copytree(_folders.mark(made), out, dirs_exist_ok=True)
        _folders.readable(out)
    return out


def _build(source: Path, made: Path) -> None:
    """Have Sphinx make the decks. Raises CourseError with Sphinx's message."""
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


def _deck(
    session: Session, rows: dict[str, dict], source: Path, profile: str, own: Path | None = None
) -> str:
    """The Markdown of a session's deck; its pictures are written beside it."""
    shown = pictures.write(session, source / "_static" / session.id)
    made = slides.made(session, rows, shown, _own(session, source, own))
    about = {"session": session, "slides": made, "profile": profile}
    return str(render(_HERE, "deck.md.txt", cut=wide.cut, clock=_clock, **about))


def _clock(minutes: float) -> str:
    """Minutes since the beginning, as on a watch: 12:30."""
    return f"{int(minutes)}:{round(60 * minutes) % 60:02}"


def placed(own: Path | None, out: Path) -> None:
    """Raises CourseError for a lecturer's folder that is not there, or that lies in `out`, where
    things are deleted, and for a folder or a slide in it that belongs to no session."""
    if own is None:
        return
    if not own.is_dir():
        raise CourseError(f"expected a folder with slides at {own}, there is none")
    if own.resolve().is_relative_to(out.resolve()):
        raise CourseError(
            f"expected slides of yours outside of {out}, whose content is deleted and made again; "
            f"got {own}. Move them elsewhere"
        )
    known = ", ".join(sessions())
    for entry in sorted(own.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and entry.name not in sessions():
            raise CourseError(f"{entry}: expected folders called as sessions, {known}")
        if entry.is_file() and _NUMBERED.fullmatch(entry.name):
            raise CourseError(f"{entry}: expected a slide in the folder of its session, {known}")


def _own(session: Session, source: Path, own: Path | None) -> list[list[slides.Slide]]:
    """The lecturer's slides of a session: those behind its title, then those behind each step."""
    found: list[list[slides.Slide]] = [[] for _ in range(len(session.steps) + 1)]
    here = own / session.id if own else None
    if here is None or not here.is_dir():
        return found
    for file in sorted(here.rglob("*")):
        inside = file.relative_to(here)
        # What begins with a dot is an editor's, such as the copies in .ipynb_checkpoints.
        if not file.is_file() or any(part.startswith(".") for part in inside.parts):
            continue
        to = source / "own" / session.id / inside
        if file.suffix.lower() != ".md":
            write_atomic(to, file.read_bytes())
            continue
        number = _NUMBERED.fullmatch(file.name)
        if number is None or int(number[1]) > len(session.steps):
            raise CourseError(
                f"{file}: expected a name such as 2-my-slide.md, where 2 is the step that it "
                f"comes after, 0 to {len(session.steps)}"
            )
        path = to.relative_to(source).as_posix()
        slide = slides.of_markdown(_text(file), str(file), path)
        write_atomic(to, slide.about["text"].encode())
        found[int(number[1])].append(slide)
    return found


def _text(file: Path) -> str:
    """The text of a file, without the mark that some editors begin one with."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CourseError(f"{file}: expected text in UTF-8; {error}. Save it as that") from None
