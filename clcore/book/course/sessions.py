"""What is taught when: data/course.yaml, validated, with the exercises that fit into the weeks."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clcore import _paths, ledger
from clcore._files import read_notebook, read_yaml
from clcore.book import exercises


class CourseError(ValueError):
    """A damaged data/course.yaml, or a course that the last build cannot serve."""


@dataclass(frozen=True)
class Step:
    """Some minutes of a session: the heading of its slide, the speaker's note, and what it shows.
    slides: free Markdown, one per slide. A step that shows nothing is for exercises."""

    minutes: int
    title: str
    what: str
    claims: tuple[str, ...]
    figures: tuple[str, ...]
    slides: tuple[str, ...] = ()

    @property
    def exercises(self) -> bool:
        """Whether its slide lists the exercises of the session."""
        return not (self.claims or self.figures or self.slides)

    @property
    def listed(self) -> str:
        """Title and note as one text, Markdown, without a repeated title."""
        what = self.what
        if what.lower().startswith(self.title.lower()) and what[len(self.title)] in ".,:;?":
            what = what[len(self.title) + 1 :].strip()
        stop = "" if self.title.endswith(("?", "!")) else "."
        end = "" if what.endswith(("?", "!", ".")) else "."
        return f"**{self.title}{stop}** {what[0].upper()}{what[1:]}{end}"


@dataclass(frozen=True)
class Session:
    """One session, with the chapters that it draws on and its prerequisites."""

    id: str
    title: str
    chapters: tuple[str, ...]
    needs: str
    steps: tuple[Step, ...]

    @property
    def minutes(self) -> int:
        """How long it takes."""
        return sum(step.minutes for step in self.steps)

    @property
    def notebooks(self) -> list[Path]:
        """The notebooks of its chapters."""
        return [_paths.root() / "chapters" / f"{name}.ipynb" for name in self.chapters]


_STRINGS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_TEXT = {"type": "string", "minLength": 1}
_STEP = {
    "type": "object",
    "required": ["minutes", "title", "what", "claims", "figures"],
    "additionalProperties": False,
    "properties": {
        "minutes": {"type": "integer", "minimum": 1},
        "title": _TEXT,
        "what": _TEXT,
        "claims": _STRINGS,
        "figures": _STRINGS,
        "slides": _STRINGS,
    },
}
_SESSION = {
    "type": "object",
    "required": ["id", "title", "chapters", "needs", "steps"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z-]+$"},
        "title": _TEXT,
        "chapters": _STRINGS,
        "needs": _TEXT,
        "steps": {"type": "array", "items": _STEP, "minItems": 1},
    },
}
_WEEK = {
    "type": "object",
    "required": ["sessions"],
    "additionalProperties": False,
    "properties": {"sessions": _STRINGS},
}
_SCHEMA = {
    "type": "object",
    "required": ["sessions", "plans", "lines"],
    "additionalProperties": False,
    "properties": {
        "lines": {"type": "object", "additionalProperties": _TEXT},
        "sessions": {"type": "array", "items": _SESSION, "minItems": 1},
        "plans": {"type": "object", "additionalProperties": {"type": "array", "items": _WEEK}},
    },
}


@cache
def _known() -> dict:
    return read_yaml(_paths.root() / "data" / "course.yaml", _SCHEMA, CourseError)


@cache
def sessions() -> dict[str, Session]:
    """All sessions by id, in teaching order.

    Raises CourseError for a damaged file, for a claim, chapter or figure that is not there, and for
    a claim that a step without a figure shows without its line.
    """
    found: dict[str, Session] = {}
    for entry in _known()["sessions"]:
        lists = ("claims", "figures", "slides")
        steps = tuple(
            Step(**s | {name: tuple(s.get(name, ())) for name in lists}) for s in entry["steps"]
        )
        made = Session(**entry | {"chapters": tuple(entry["chapters"]), "steps": steps})
        absent = [file.stem for file in made.notebooks if not file.exists()]
        if absent:
            raise CourseError(f"data/course.yaml, {made.id}: no chapter {', '.join(absent)}")
        there = {name for file in made.notebooks for name in figures(file)}
        for step in steps:
            for claim in step.claims:
                ledger.claim(claim)
            if lost := [name for name in step.figures if name not in there]:
                raise CourseError(
                    f"data/course.yaml, {made.id}, {step.title!r}: no figure {', '.join(lost)} in "
                    f"{', '.join(made.chapters)}; there are {', '.join(sorted(there))}"
                )
        found[made.id] = made
    _pictured(found)
    return found


def lines() -> dict[str, str]:
    """Claim -> one line of its derivation, Markdown with LaTeX, of data/course.yaml."""
    return _known()["lines"]


def _pictured(found: dict[str, Session]) -> None:
    """Raises CourseError for a statement with neither a picture nor a line of derivation, and for a
    line that nothing shows."""
    steps = [step for session in found.values() for step in session.steps]
    bare = {claim for step in steps if not step.figures for claim in step.claims}
    if lost := sorted(bare - lines().keys()):
        raise CourseError(
            f"data/course.yaml: no line of derivation for {', '.join(lost)}, which a step without "
            "a figure shows; write one under `lines`"
        )
    if idle := sorted(lines().keys() - {claim for step in steps for claim in step.claims}):
        raise CourseError(f"data/course.yaml: no step shows {', '.join(idle)}, which has a line")


def figures(notebook: Path) -> dict[str, str]:
    """Name -> what makes it, of the figures of a notebook: the id of a code cell, or the path of a
    drawing, as it stands in the notebook."""
    found = {}
    for cell in read_notebook(notebook)["cells"]:
        if figure := cell["metadata"].get("mystnb", {}).get("figure"):
            found[figure["name"]] = cell["id"]
        lines = "".join(cell["source"]).splitlines()
        for at, line in enumerate(lines):
            if line.lstrip("`").startswith("{figure}"):
                named = next((x for x in lines[at:] if x.startswith(":name:")), ":name:")
                found[named.removeprefix(":name:").strip()] = line.split("}", 1)[1].strip()
    return found


def assigned(session: Session, minutes: int) -> list[exercises.Text]:
    """The exercises that fit into so many minutes of homework, easier ones first."""
    every = [text for file in session.notebooks for text in exercises.texts(file).values()]
    chosen: list[exercises.Text] = []
    for text in sorted(every, key=lambda t: t.level):
        if sum(c.minutes for c in chosen) + text.minutes <= minutes:
            chosen.append(text)
    return chosen


def plans() -> dict[str, list[dict]]:
    """Plan -> its weeks: sessions, and the exercises to assign, an hour of them where a week has
    one session of a short course, ninety minutes in a long one."""
    found = {}
    for name, weeks in _known()["plans"].items():
        short = len(weeks) < 6
        found[name] = [
            {
                "sessions": [sessions()[key] for key in week["sessions"]],
                "exercises": [
                    text
                    for key in week["sessions"]
                    for text in assigned(sessions()[key], 60 if short else 90)
                ],
            }
            for week in weeks
        ]
    return found
