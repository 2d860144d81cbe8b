"""What each slide of a session shows, how long, and what to ask at it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from clcore.book.course.names import symbols
from clcore.book.course.sessions import CourseError, Session, Step, assigned, lines
from clcore.book.course.wide import letters
from clcore.ledger.html import place, placed
from clcore.ledger.outcomes import number
from clcore.ledger.tex import written

_WEIGHT = {"picture": 3, "statement": 4, "corrected": 5, "controls": 2, "own": 3, "exercises": 12}
_FALSE = ("corrected", "refuted")
_TRUE = ("holds", "reproduced")
_ROUNDING = 1e-3
"""A bound up to this asks for equality, or for a sign; a value below it is shown in words."""
_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,3} .*", re.MULTILINE)
_SMALL, _NOTHING = 1e-5, 1e-12
"""A bound up to the first allows for rounding alone; a value below the second is rounding."""
_HUGE = 1e4
"""A value further from 0 than this is shown in words."""
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
        names = (*_openings(step, pictures, at), *step.figures)
        fresh = [name for name in dict.fromkeys(names) if name not in seen]
        proved = _statements(step, rows, seen, last)
        opening = [_picture(name, pictures) for name in fresh if pictures[name]["opens"]]
        plain = [_picture(name, pictures) for name in fresh if not pictures[name]["opens"]]
        where = f"data/course.yaml, {session.id}, {step.title!r}"
        free = [of_markdown(text, where) for text in step.slides]
        tried = [_exercises(session, step)] if step.exercises else _controls(step, rows, seen)
        here = [*before, *opening, *free, *proved, *plain, *tried, *after]
        seen |= {*fresh, *step.claims}
        shown += _timed(session, step, here, begins)
        begins += step.minutes
    return shown


def of_markdown(text: str, where: str, path: str = "") -> Slide:
    """A slide of free Markdown. where: what stands in an error. path: the file with all but the
    heading, which the deck includes. Raises CourseError for text that does not begin with one, or
    that has another, which would be a slide without minutes."""
    head, _, body = text.strip().partition("\n")
    title = head.lstrip("#").strip()
    if not head.startswith("#") or not title:
        raise CourseError(f"{where}: expected a slide that begins with '# Its title'; got {head!r}")
    if more := _HEADING.search(_FENCED.sub("", body)):
        raise CourseError(
            f"{where}: expected one slide; {more[0]!r} begins another. Put it where it stands alone"
        )
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
    """A figure: what to ask before it is seen, and its caption as the answer."""
    picture = pictures[name]
    if picture["opens"]:
        ask = "Ask: what do you see, from left to right? Somebody says it in one sentence first."
    elif len(picture["files"]) > 1:
        ask = "Ask before each frame, and above all before the last: what will have changed?"
    else:
        ask = (
            "Ask before you show it: what is on the axes, and what should we see if the statement "
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
    """A statement, one line of its derivation, and its verdict, revealed in this order."""
    if row["in_short"].startswith("A definition"):
        ask = "Ask what each symbol is and what size it has; then what it all is for two samples."
    elif row["verdict"] in _FALSE:
        ask = (
            "Ask for a show of hands: true as printed? Those who say no show where it breaks. Then "
            "reveal what is below."
        )
    elif row["verdict"] in ("differs", "depends", "partial"):
        ask = "Ask what the paper leaves open here, and whether that could reverse the result."
    else:
        ask = (
            "Ask for a show of hands: true as it stands? What does it need? Then reveal what is "
            "below."
        )
    assumed = placed(" ".join(row["conditions"].split()), row["paper"])
    notes = (ask, f"Assumed: {assumed}" if assumed else "", f"Answer: {row['in_short']}")
    line, text = lines().get(row["id"], ""), placed(row["statement"], row["paper"])
    size = _size(text, row["in_short"], line)
    about = {"row": row, "text": text, "line": line, "size": size}
    return Slide("statement", place(row), tuple(filter(None, notes)), about)


def _corrected(row: Mapping[str, Any]) -> Slide | None:
    """The shortest counterexample to the printed form, and the correction; None without a corrected
    form."""
    instead: dict[str, list[str]] = {}
    for record in row["checks"]:
        if text := (record.get("correction") or "").strip():
            instead.setdefault(placed(text, row["paper"]), []).append(record["part"])
    if not instead:
        return None
    mended = {part for parts in instead.values() for part in parts}
    breaks = [r for r in row["checks"] if r.get("counterexample") and r["part"] in mended]
    first = min(breaks, key=lambda r: letters(r["counterexample"]), default={})
    example = placed(first.get("counterexample", ""), row["paper"])
    notes = (
        "Ask for the smallest example that breaks it: one minute, in pairs. Then ours, then what "
        "to change; ask which change is the least.",
        f"The same on a laptop: python -m clcore check {row['id']}",
    )
    several = len(instead) > 1
    told = [(", ".join(map(symbols, parts)) if several else "", t) for t, parts in instead.items()]
    about = {"row": row, "example": example, "instead": told, "size": _size(example, *instead)}
    about["of"] = symbols(first.get("part", "")) if several else ""
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
        some = list(best["control"].items())[:_MOST]
        told = [(symbols(name), _broken(best, value)) for name, value in some]
        notes = (
            "Ask for a prediction before you reveal a line: by how much is it wrong now, and why?",
            f"The same on a laptop: python -m clcore check {row['id']}",
        )
        part, stands = symbols(best["part"]), _stands(best)
        about = {"row": row, "part": part, "stands": stands, "controls": told}
        yield Slide("controls", f"What does {place(row)} need?", notes, about)
        return


def _stands(record: Mapping[str, Any]) -> str:
    """What was measured as stated, in words where it is nothing but rounding."""
    if not _equal(record):
        return _against(record, record["measured"])
    if record["bound"] == 0:
        return "holds exactly"
    return "holds, up to rounding" if record["bound"] <= _SMALL else "holds to a thousandth"


def _broken(record: Mapping[str, Any], value: float) -> str:
    """What was measured with one thing broken."""
    if not isfinite(value):
        return "no number comes out"
    if not _equal(record):
        return _against(record, value)
    return f"off by {_shown(value)}" if value >= _ROUNDING else "off by less than a thousandth"


def _equal(record: Mapping[str, Any]) -> bool:
    """Whether the part measures an error that is to be 0."""
    return record["relation"] == "<=" and 0 <= record["bound"] <= _ROUNDING


def _against(record: Mapping[str, Any], value: float) -> str:
    """A value and what it must be. A bound next to 0 asks for a sign: then small numbers count."""
    bound, most = record["bound"], record["relation"] == "<="
    if abs(bound) > _ROUNDING:
        wanted = f"at {'most' if most else 'least'} {written(number(bound))}"
        return f"{_shown(value)} (must be {wanted})"
    strict = bound < 0 if most else bound > 0
    wanted = ("below" if most else "above") if strict else ("at most" if most else "at least")
    near = "0, up to rounding" if 0 < abs(value) < _NOTHING else written(number(value))
    said = near if abs(value) < _ROUNDING else _shown(value)
    return f"{said} (must be {wanted} 0)"


def _shown(value: float) -> str:
    """A value in three digits; in words where it is very large or very small."""
    if abs(value) > _HUGE:
        return "more than ten thousand" if value > 0 else "less than minus ten thousand"
    return "next to nothing" if abs(value) < _ROUNDING else written(number(value))


def _exercises(session: Session, step: Step) -> Slide:
    """Those that fit into the minutes, or the first to begin with, and what is left for an hour at
    home."""
    hour, fit = assigned(session, 60), assigned(session, step.minutes)
    now = fit or hour[:1]
    home = [text for text in hour if text not in now]
    if not now:
        raise CourseError(
            f"{session.id}, {step.title!r}: no exercise of an hour or less in its chapters"
        )
    notes = (
        "Ask whoever is done first to explain, not to show. Ask at the end what the check said to "
        "a wrong answer.",
        *(f"{text.name}, hint: {text.hints[0]}" for text in now if text.hints),
    )
    return Slide("exercises", step.title, notes, {"now": now, "home": home, "fits": bool(fit)})


def _size(*texts: str) -> str:
    """A class of the style sheet: much text is set smaller."""
    many = sum(map(letters, texts))
    steps = ((950, "deck-tight"), (700, "deck-close"), (420, "deck-plain"))
    return next((name for least, name in steps if many > least), "deck-large")
