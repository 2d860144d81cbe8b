"""What each slide of a session shows, how long, and what to ask at it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from clcore.book import exercises
from clcore.book.course.sessions import CourseError, Session, Step, assigned, lines
from clcore.book.course.wide import letters
from clcore.ledger.html import place
from clcore.ledger.outcomes import number
from clcore.ledger.tex import written

_WEIGHT = {"picture": 3, "statement": 4, "corrected": 5, "controls": 2, "own": 3, "exercises": 1}
_FALSE = ("corrected", "refuted")
_TRUE = ("holds", "reproduced")
_CELLS = re.compile(r"[;,]? all cells in `numbers`")
"""A pointer into the ledger's file, which a slide does not show."""
_ROUNDING = 1e-3
"""A bound up to this asks for equality; a value below it is shown in words."""
_HUGE = 1e4
"""A value above this is shown in words."""
_MOST = 4
"""Controls on one slide."""


@dataclass(frozen=True)
class Slide:
    """One slide. kind: which part of the template shows it, with what is in `about`. notes: what
    to ask, and what to answer. minutes: how long it is looked at, in halves. first: whether a step
    begins with it; those that follow stand below it."""

    kind: str
    title: str
    notes: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    minutes: float = 0
    begins: float = 0
    first: bool = False


Pictures = Mapping[str, Mapping[str, Any]]
"""Name of a figure -> its files, alt text, caption and whether it has frames."""


def made(
    session: Session,
    rows: Mapping[str, Mapping[str, Any]],
    pictures: Pictures,
    own: Sequence[Sequence[Slide]] = (),
) -> list[Slide]:
    """The slides of a session behind its title, with the minutes of each.

    rows: claim -> its row in the ledger of the last build. pictures: those of its figures; one that
    `opens` a chapter is shown before the first step that shows something of it. own: slides of the
    lecturer's, those behind the title and those behind each step. Raises CourseError where a step
    has more slides than half minutes.
    """
    shown: list[Slide] = []
    begins, seen = 0, set()
    last = {claim: step for step in session.steps for claim in step.claims}
    for at, step in enumerate(session.steps):
        before = own[0] if own and at == 0 else ()
        after = own[at + 1] if own else ()
        names = [name for name in (*_openings(step, pictures, at), *step.figures)]
        fresh = [name for name in dict.fromkeys(names) if name not in seen]
        proved = _statements(step, rows, seen, last)
        opening = [_picture(name, pictures) for name in fresh if pictures[name]["opens"]]
        plain = [_picture(name, pictures) for name in fresh if not pictures[name]["opens"]]
        free = [of_markdown(text) for text in step.slides]
        here = [*before, *opening, *free, *proved, *plain, *_controls(step, rows, seen), *after]
        seen |= {*fresh, *step.claims}
        if step.exercises:
            here.append(_exercises(session, step))
        shown += _timed(session, step, here, begins)
        begins += step.minutes
    return shown


def of_markdown(text: str, where: str = "data/course.yaml", path: str = "") -> Slide:
    """A slide of free Markdown. where: what stands in an error. path: the file with all but the
    heading, which the deck includes. Raises CourseError for text that does not begin with one."""
    head, _, body = text.strip().partition("\n")
    title = head.lstrip("#").strip()
    if not head.startswith("#") or not title:
        raise CourseError(f"{where}: expected a slide that begins with '# Its title'; got {head!r}")
    return Slide("own", title, ("A slide of your own.",), {"text": body.strip(), "path": path})


def _openings(step: Step, pictures: Pictures, at: int) -> list[str]:
    """The opening drawings that a step begins with: of the session's first chapter, if it is the
    first step, and of the chapters that its figures are from."""
    from_here = {pictures[name]["chapter"] for name in step.figures}
    opening = {p["chapter"]: name for name, p in pictures.items() if p["opens"]}
    first = list(opening)[:1] if at == 0 else []
    return [name for chapter, name in opening.items() if chapter in from_here or chapter in first]


def _timed(session: Session, step: Step, here: list[Slide], begins: int) -> Iterator[Slide]:
    """A step's slides with their shares of its minutes, in halves; the first has the step's title
    above its own, and its note."""
    halves = 2 * step.minutes
    if not 1 <= len(here) <= halves:
        raise CourseError(
            f"{session.id}, {step.title!r}: expected 1 to {halves} slides in {step.minutes} "
            f"minutes, half a minute each at least; got {len(here)}"
        )
    weights = [_WEIGHT[slide.kind] for slide in here]
    ends = [0]
    for at in range(len(here)):
        even = round(halves * sum(weights[: at + 1]) / sum(weights))
        ends.append(min(max(even, ends[-1] + 1), halves - (len(here) - at - 1)))
    for at, slide in enumerate(here):
        notes = (step.what, *slide.notes) if at == 0 else slide.notes
        time = {"begins": begins + ends[at] / 2, "minutes": (ends[at + 1] - ends[at]) / 2}
        title = slide.title if slide.kind == "own" or (at and slide.title) else step.title
        yield replace(slide, title=title, notes=notes, first=at == 0, **time)


def _picture(name: str, pictures: Pictures) -> Slide:
    picture = pictures[name]
    if picture["opens"]:
        ask = "Ask: what do you see, from left to right? Somebody says it in one sentence first."
    elif len(picture["files"]) > 1:
        ask = "Ask before each frame, and above all before the last: what will have changed?"
    else:
        ask = (
            "Ask before you show it: what is on the axes, and what must be seen if the statement "
            "is true? Then half a minute in which nobody speaks."
        )
    return Slide("picture", picture["title"], (ask, f"Answer: {picture['caption']}"), picture)


def _statements(
    step: Step, rows: Mapping[str, Mapping[str, Any]], seen: set, last: Mapping[str, Step]
) -> Iterator[Slide]:
    """Statements that the session has not shown, and behind each false one, where the session
    comes to it for the last time, what is true instead."""
    for claim in step.claims:
        row = rows[claim]
        if claim not in seen:
            yield _statement(row)
        if row["verdict"] in _FALSE and last[claim] is step and (told := _corrected(row)):
            yield told


def _statement(row: Mapping[str, Any]) -> Slide:
    if row["in_short"].startswith("A definition"):
        ask = "Ask what each symbol is and what size it has; then what it all is for two samples."
    elif row["verdict"] in _FALSE:
        ask = (
            "Ask for a show of hands: true as printed? Whoever says no says where it breaks. Then "
            "reveal what is below."
        )
    elif row["verdict"] in ("differs", "depends", "partial"):
        ask = "Ask what the paper leaves open here, and whether that could turn the result round."
    else:
        ask = (
            "Ask for a show of hands: true as it stands? What does it need? Then reveal what is "
            "below."
        )
    assumed = " ".join(row["conditions"].split())
    notes = (ask, f"Assumed: {assumed}" if assumed else "", f"Answer: {row['in_short']}")
    line, text = lines().get(row["id"], ""), _CELLS.sub("", row["statement"])
    size = _size(text, row["in_short"], line)
    about = {"row": row, "text": text, "line": line, "size": size}
    return Slide("statement", place(row), tuple(filter(None, notes)), about)


def _corrected(row: Mapping[str, Any]) -> Slide | None:
    """Counterexample to the printed form, and the correction; None without a corrected form."""
    breaks = [r["counterexample"] for r in row["checks"] if r.get("counterexample")]
    example = min(breaks, key=letters, default="")
    instead: dict[str, list[str]] = {}
    for record in row["checks"]:
        if text := (record.get("correction") or "").strip():
            instead.setdefault(text, []).append(record["part"])
    if not instead:
        return None
    notes = (
        "Ask for the smallest example that breaks it: one minute, in pairs. Then ours, then what "
        "to change; ask which change is the least.",
        f"The same on a laptop: python -m clcore check {row['id']}",
    )
    told = [(", ".join(parts) if len(instead) > 1 else "", text) for text, parts in instead.items()]
    about = {"row": row, "example": example, "instead": told, "size": _size(example, *instead)}
    return Slide("corrected", f"{place(row)}, corrected", notes, about)


def _controls(step: Step, rows: Mapping[str, Mapping[str, Any]], seen: set) -> Iterator[Slide]:
    """Of the first true statement with controls that was not looked at: what breaks it."""
    for claim in step.claims:
        row = rows[claim]
        records = [r for r in row["checks"] if r["form"] == "printed" and r["passed"]]
        best = max(records, key=lambda r: len(r["control"]), default=None)
        if row["verdict"] not in _TRUE or not best or not best["control"]:
            continue
        if ("controls", claim) in seen:
            continue
        seen.add(("controls", claim))
        told = [(name, _broken(best, v)) for name, v in list(best["control"].items())[:_MOST]]
        notes = (
            "Ask for a prediction before you reveal a line: by how much is it wrong now, and why?",
            f"The same on a laptop: python -m clcore check {row['id']}",
        )
        about = {"row": row, "part": best["part"], "stands": _stands(best), "controls": told}
        yield Slide("controls", f"What does {place(row)} need?", notes, about)
        return


def _stands(record: Mapping[str, Any]) -> str:
    """What was measured as stated, in words where it is nothing but rounding."""
    if record["relation"] == "<=" and record["bound"] <= _ROUNDING:
        return "both sides agree"
    return _against(record, record["measured"])


def _broken(record: Mapping[str, Any], value: float) -> str:
    """What was measured with one thing broken."""
    if not isfinite(value):
        return "no number comes out"
    if record["relation"] == "<=" and record["bound"] <= _ROUNDING:
        return (
            f"off by {_shown(value)}" if abs(value) >= _ROUNDING else "off, by a thousandth or less"
        )
    return _against(record, value)


def _against(record: Mapping[str, Any], value: float) -> str:
    most = "at most" if record["relation"] == "<=" else "at least"
    return f"{_shown(value)}; {most} {_shown(record['bound'])} is asked for"


def _shown(value: float) -> str:
    if abs(value) > _HUGE:
        return "more than ten thousand"
    return "next to nothing" if abs(value) < _ROUNDING else written(number(value))


def _exercises(session: Session, step: Step) -> Slide:
    """Those that fit into the minutes, or the first, and what is left for an hour at home."""
    hour = assigned(session, 60)
    now = assigned(session, step.minutes) or hour[:1]
    home = [text for text in hour if text not in now]
    every = [text for file in session.notebooks for text in exercises.texts(file).values()]
    if not every:
        raise CourseError(f"{session.id}, {step.title!r}: no exercises in its chapters")
    notes = (
        "Ask whoever is done first to explain, not to show. Ask at the end what the check said to "
        "a wrong answer.",
        *(f"{text.name}, hint: {text.hints[0]}" for text in now if text.hints),
    )
    return Slide("exercises", step.title, notes, {"now": now, "home": home})


def _size(*texts: str) -> str:
    """A class of the style sheet: much text is set smaller."""
    many = sum(map(letters, texts))
    steps = ((950, "deck-tight"), (700, "deck-close"), (420, "deck-plain"))
    return next((name for least, name in steps if many > least), "deck-large")
