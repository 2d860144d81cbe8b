"""The record of mutants: formulas of clcore that were changed, and whether a check noticed.

`tests/mutation` makes it. data/mutants has the record of the mathematics and that of the judge;
lots of the mathematics as they were before anybody had read their survivors; practised.json, the
names of those whose survivors were read without a record; and equivalents.yaml, changes that no
test could tell, each with the reason, as a person has found it.
"""

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import RESTORE, read_json, read_record, read_yaml, write_atomic, write_json
from clcore.book import provenance

MATHEMATICS, JUDGE, UNREAD = "mathematics", "judge", "unread"
OUTCOMES = ("judgement", "crash", "hang", "survived", "unasked")
KILLED = OUTCOMES[:3]

Name = tuple[str, str, str, str, int]
"""File, function, old text, new text, which of several."""


class MutantsError(ValueError):
    """A file of data/mutants that is damaged."""


def _schema(name: str) -> dict:
    path = _paths.root() / "data" / "mutants" / "schema.json"
    return read_json(path, RESTORE)[name]


@cache
def equivalents() -> dict[Name, str]:
    """Every mutant that is listed as equivalent, and why it is.

    Raises MutantsError naming the entry that is damaged, or there twice.
    """
    path = _paths.root() / "data" / "mutants" / "equivalents.yaml"
    found: dict[Name, str] = {}
    for entry in read_yaml(path, _schema("equivalents"), MutantsError):
        name = name_of(entry)
        if name in found:
            raise MutantsError(f"{_paths.shown(path)}: {name[2]!r} of {name[0]} is there twice")
        found[name] = entry["why"]
    return found


def name_of(row: dict[str, Any]) -> Name:
    """What a mutant is called where lines move."""
    return row["path"], row["where"], row["old"], row["new"], row.get("nth", 1)


def recorded(name: str) -> dict[str, Any]:
    """A record: provenance, and `mutants`, rows with path, where, line, kind, old, new, nth, and on
    each side what became of it, {"asked", "outcome", "by", "why", "moved"}. ran: of a mutant that
    checks crash over and none judges, how many of those asked got through all the same.

    Raises MutantsError when it is not there or damaged.
    """
    path = _paths.root() / "data" / "mutants" / f"{name}.json"
    return read_record(path, _schema("record"), MutantsError, "run `make mutants ARGS=--record`")


def unread() -> list[dict[str, Any]]:
    """The records of lots that nobody had read, by seed.

    Raises MutantsError when one is damaged.
    """
    found = (_paths.root() / "data" / "mutants").glob(f"{UNREAD}-*.json")
    return sorted((recorded(path.stem) for path in found), key=lambda lot: lot["seed"])


def practised() -> set[Name]:
    """The mutants of the lots that were asked about for practice.

    Raises MutantsError when the list is damaged.
    """
    path = _practised()
    remedy = "take it from the repository's history"
    listed = read_record(path, _schema("practised"), MutantsError, remedy) if path.exists() else []
    return {tuple(name) for name in listed}


def practise(names: Iterable[Name]) -> None:
    """Add mutants to that list.

    Raises MutantsError when it is damaged.
    """
    listed = ",\n".join(json.dumps(name) for name in sorted(practised().union(names)))
    write_atomic(_practised(), f"[\n{listed}\n]\n".encode())


def _practised() -> Path:
    return _paths.root() / "data" / "mutants" / "practised.json"


def in_records() -> set[Name]:
    """Every mutant of the mathematics that is in a record.

    Raises MutantsError when one is damaged.
    """
    lots = [recorded(MATHEMATICS), *unread()]
    return {name_of(row) for lot in lots for row in lot["mutants"]}


def read() -> set[Name]:
    """Every mutant of the mathematics that is in a record, was practised on or is listed as
    equivalent: survivors of these have been read.

    Raises MutantsError when one is damaged.
    """
    return in_records() | practised() | equivalents().keys()


def keep(name: str, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write a record, with where it comes from."""
    path = _paths.root() / "data" / "mutants" / f"{name}.json"
    write_json(path, provenance.made() | about | {"mutants": rows})


def sides(row: dict[str, Any]) -> list[str]:
    """Who was asked about a mutant: "checks", "tests"."""
    return [side for side in ("checks", "tests") if side in row]


def killed(row: dict[str, Any]) -> bool:
    """Whether any side noticed."""
    return any(row[side]["outcome"] in KILLED for side in sides(row))


def valueless(row: dict[str, Any]) -> bool:
    """Whether a mutant gives no value that anybody could judge: every check that executes it ends
    in an error, and so does the first unit test that fails, if any is asked. Where one check gets
    through, or the tests pass or judge, it gives one."""
    checks = row.get("checks", {})
    stopped = checks.get("outcome") == "crash" and checks.get("ran") == 0
    return stopped and row["tests"]["outcome"] in ("crash", "unasked")


def survivors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mutants that no side noticed and that are not listed as equivalent."""
    return [row for row in rows if not killed(row) and name_of(row) not in equivalents()]


def count(rows: list[dict[str, Any]], side: str) -> dict[str, int]:
    """How many mutants had which outcome on one side; equivalent ones apart."""
    listed = equivalents()
    found = Counter(
        "equivalent" if name_of(row) in listed else row[side]["outcome"] for row in rows
    )
    return {outcome: found[outcome] for outcome in (*OUTCOMES, "equivalent") if found[outcome]}
