"""The findings on every claim: its verdict, how grave an error is and where it starts, and what we
added to its conditions.

No verdict is computed from this: a test compares it with what the chapters compute, so that none
changes unnoticed. Grade, root and added conditions are judgements of ours, by the rules of the page
"How we judge", and are shown as such.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from clcore import _paths
from clcore._files import RESTORE, read_json, read_yaml
from clcore.ledger.printed import LedgerError, claim, claims

GRADES = ("conclusion", "proof", "hypothesis", "constant", "misprint")
"""From the error that matters most to the one that matters least; the rules are on the page "How we
judge"."""


LEFT_OPEN = {
    "not varied": "Not varied",
    "runs": "Runs",
    "against the print": "Also run, contrary to the paper",
    "ours": "Ours",
}
"""What is told of the settings that the print leaves open beside those that were varied."""

FAILING = re.compile(r"\b[Ff]ails\b")
"""The word by which a note names a regime in which its part fails."""


class FindingsError(ValueError):
    """A row of data/findings that is damaged or missing."""


def of_paper(paper: str) -> dict[str, dict]:
    """The findings of one paper, by id; none where it has no file yet.

    Raises FindingsError naming the file, the row and what is wrong: a field that is missing or
    unknown, a row of another paper, one without a row in data/claims.
    """
    folder = _paths.root() / "data" / "findings"
    path = folder / f"{paper}.yaml"
    if not path.is_file():
        return {}
    document = read_yaml(path, read_json(folder / "schema.json", RESTORE), FindingsError)
    for claim_id in document:
        if claim_id.split("/")[0] != paper:
            raise FindingsError(f"{_paths.shown(path)}: {claim_id} is not of {paper}")
        try:
            claim(claim_id)
        except LedgerError as error:
            raise FindingsError(
                f"{_paths.shown(path)}: {error}; a claim that is new gets its row in "
                f"data/claims/{paper}.yaml first"
            ) from None
    return {claim_id: {"id": claim_id, **row} for claim_id, row in document.items()}


@cache
def known() -> dict[str, dict]:
    """Every claim's finding by id: id, verdict, in_short, added, and where they apply grade, root,
    open. in_short: the answer in words, at most 200 characters. open: a mapping, see the schema.

    Raises FindingsError for what `of_paper` refuses, and for a root that is no root.
    """
    rows: dict[str, dict] = {}
    for path in sorted((_paths.root() / "data" / "findings").glob("*.yaml")):
        rows |= of_paper(path.stem)
    for claim_id, row in rows.items():
        root = row.get("root", claim_id)
        if rows.get(root, {}).get("root") != root and root != claim_id:
            raise FindingsError(
                f"data/findings: the root of {claim_id} is {root}, which is no root itself; name "
                "the row where the error starts"
            )
    return rows


def unexcused(claim_id: str, row: dict) -> list[str]:
    """Entries of a finding that record a failure, and neither correct it nor explain it away.

    A part whose note states where it fails has a counterexample, or `excluded by`, the printed
    words that exclude the regime, or `edge`. A row that holds with an added condition states, in
    `without it`, what is known if the condition is not met.
    """
    answers = ("counterexample", "excluded by", "edge")
    found = [
        f"{claim_id} {name!r}: its note says where it fails; expected `excluded by` (the printed "
        "words that exclude this, and their place), `edge`, or a counterexample and a correction"
        for name, part in row.get("parts", {}).items()
        if FAILING.search(part.get("note", "")) and not any(name in part for name in answers)
    ]
    if row["verdict"] == "holds" and row["added"] and "without it" not in row:
        found.append(
            f"{claim_id}: it holds with a condition of ours; expected `without it`, what is known "
            "where the condition is not met"
        )
    return found


class Step(NamedTuple):
    """A step of a printed proof. by: what executes it, as (row, part), with "" for all of a row.
    read: of a step that nothing executes, why it was only read."""

    step: str
    by: tuple[tuple[str, str], ...] = ()
    read: str = ""


def steps(claim_id: str) -> tuple[Step, ...]:
    """The steps of a theorem's printed proof, in order; none of a claim that has no entry of them.

    Raises FindingsError for a step that names a row which does not exist.
    """
    return tuple(_step(claim_id, **step) for step in known()[claim_id].get("steps", ()))


def _step(claim_id: str, step: str, by: Iterable[str] = (), read: str = "") -> Step:
    rows = tuple(name.partition(": ")[::2] for name in by)
    for row, _ in rows:
        try:
            claim(row)
        except LedgerError as error:
            raise FindingsError(
                f"data/findings: a step of the proof of {claim_id}, {step!r}: {error}"
            ) from None
    return Step(step, rows, read)


def stepped(claim_id: str) -> set[str]:
    """The parts of a claim that execute a step of some proof, by name."""
    taken = (by for other in known() for step in steps(other) for by in step.by)
    return {part for row, part in taken if row == claim_id and part}


def left_open(entry: Mapping[str, Any]) -> str:
    """What the print leaves open and what we varied, as running text.

    entry: `open` of a row, or {} of a row without it, for which the text is "".
    """
    if not entry:
        return ""
    said = ["Not printed: " + "; ".join(entry["unprinted"]) + "."]
    if "decides" in entry:
        said.append("Decisive: " + entry["decides"])
    for name, tried in entry["varied"].items():
        said += [f"{name}, {value}: {result}" for value, result in tried.items()]
    return " ".join(said + [f"{LEFT_OPEN[n]}: {entry[n]}" for n in LEFT_OPEN if n in entry])


def no_entry(claim_id: str) -> str:
    """What is to be done for a claim that has no entry yet."""
    return (
        f"no entry yet in data/findings/{claim_id.split('/')[0]}.yaml; add verdict, in_short, "
        "added, parts (step 2 of book/contributing.md)"
    )


def complete() -> None:
    """Raise FindingsError naming the first claim that has no entry."""
    for claim_id in claims():
        if claim_id not in known():
            raise FindingsError(f"{claim_id}: {no_entry(claim_id)}")


def verdicts() -> dict[str, str]:
    """The verdict that is known of every claim."""
    return {claim_id: row["verdict"] for claim_id, row in known().items()}
