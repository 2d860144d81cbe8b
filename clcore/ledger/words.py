r"""Words on the parts of a claim: notes, counterexamples, corrections, misprints.

They are in data/findings/<paper>.yaml, under `parts` of the claim, and are put in when a page is
made, so that a comma in an erratum executes no chapter again. A check fills the numbers: {=name} in
a text, or {=name:.2f} with a format, is the check's number of that name. Formulas keep their
braces: nothing else that begins with {= is a number.
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from clcore.ledger import findings
from clcore.ledger.printed import near

FIELDS = ("note", "counterexample", "correction", "misprint")
_NUMBER = re.compile(r"\{=(\w+)(?::([^{}]*))?\}")


class WordsError(ValueError):
    """Words of data/findings that do not fit the check that they are about."""


def of(claim: str, part: str, form: str = "printed", setting: str = "") -> dict[str, str]:
    """The words of one part under one form, by field, with their numbers still open.

    The printed form has note, counterexample and misprint; the corrected one its correction and the
    note `corrected note`; an open setting its own note under `open`, or the printed form's.
    """
    entry = findings.known().get(claim, {}).get("parts", {}).get(part, {})
    if form == "corrected":
        found = {"correction": entry.get("correction"), "note": entry.get("corrected note")}
    elif form == "open":
        found = {"note": entry.get("open", {}).get(setting, entry.get("note"))}
    else:
        found = {name: entry.get(name) for name in ("note", "counterexample", "misprint")}
        found["note"] = _with_reason(entry)
    return {name: text for name, text in found.items() if text}


def _with_reason(entry: dict[str, str]) -> str:
    """A note, and why the regime in which, by the note, the part fails makes nothing false."""
    note = entry.get("note", "").strip()
    if words := entry.get("excluded by"):
        note += f" Excluded by {words.strip().rstrip('.')}."
    if edge := entry.get("edge"):
        note += f" An unintended edge case: {edge.strip().rstrip('.')}."
    return note


def fill(text: str, said: dict[str, Any], where: str) -> str:
    """`text` with its numbers. Raises WordsError naming `where`, the number and those there are."""
    return _NUMBER.sub(partial(_number, said, where), text)


def _number(said: dict[str, Any], where: str, match: re.Match) -> str:
    name, how = match.groups()
    if name not in said:
        there = ", ".join(sorted(said)) or "none"
        raise WordsError(
            f"data/findings, {where}: no number {name!r} for {match.group(0)}; the check says "
            f"{there} (Part.says)"
        )
    try:
        return format(said[name], how or "")
    except ValueError as error:
        raise WordsError(f"data/findings, {where}: {match.group(0)}: {error}") from None


def worded(record: dict) -> dict:
    """A record with the words that data/findings has for it now; others stay as they are.

    record: the fields of `ledger.Record`; `said` is None if a check gave its words itself. The
    results of readings against the print (`clcore.ledger.readings`) are added to the note.
    """
    said = record.get("said")
    if said is None or "blocked" in record:
        return record
    where = f"{record['claim']} {record['words']!r}"
    # a reading that is the correction is the same part measured again, and has its note
    form = "open" if record.get("reading") else record["form"]
    found = of(record["claim"], record["words"], form, record.get("setting", ""))
    filled = {name: fill(text, said, where) for name, text in found.items()}
    if reading := record.get("reading"):
        filled["correction"] = reading
    if readings := record.get("readings"):
        note = filled.get("note", "").rstrip(". ")
        filled["note"] = f"{note}. {readings}" if note else readings
    return record | {name: filled.get(name, "") for name in FIELDS}


def unsaid(records: Iterable[dict]) -> list[str]:
    """Entries of data/findings for parts that no check has, as "claim 'part'", of the claims that
    are on trial here: words that none takes up, and parts marked as executing a step of a proof;
    with the parts there are whose names are near."""
    taken: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for record in records:
        if record.get("said") is not None:
            taken.setdefault(record["claim"], set()).add(record["words"])
            named.setdefault(record["claim"], set()).add(record["part"])
    known = findings.known()
    left = [
        (claim, part, parts)
        for claim, parts in taken.items()
        for part in known.get(claim, {}).get("parts", {})
        if part not in parts
    ]
    left += [
        (claim, part, parts)
        for claim, parts in named.items()
        for part in sorted(findings.stepped(claim) - parts)
    ]
    return [" ".join([f"{claim} {part!r}", *_meant(part, parts)]) for claim, part, parts in left]


def _meant(part: str, parts: Iterable[str]) -> list[str]:
    hint = near(part, parts, "")
    return [f"({hint})"] if hint else []
