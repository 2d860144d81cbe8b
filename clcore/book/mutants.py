"""Mutants, formulas of clcore changed in one place: which were detected, and which are equivalent.

`tests/mutation` asks. data/mutants/lots.yaml has the results, a row per lot; equivalents.yaml the
changes that no test could detect, each with a person's reason. Both identify a change by the text
of its statement, so that an edit elsewhere in the file does not affect it.
"""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from clcore import _paths
from clcore._files import read_yaml, write_atomic
from clcore.book import provenance

JUDGE = "ledger"
"""The one room that is asked about by its own tests alone: it computes the verdicts."""

Name = tuple[str, str, str, str, str, int]
"""File, function, text of the statement, old text, new text, which of several such."""

_TEXT = {"type": "string", "minLength": 1}
_CHANGE = {
    "path": {"type": "string", "pattern": "^clcore/.*\\.py$"},
    "where": {"type": "string"},
    "old": _TEXT,
    "new": _TEXT,
}


def _rows(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "object", "required": list(required), "additionalProperties": False}
    return {"type": "array", "items": row | {"properties": required | optional}}


EQUIVALENTS = _rows(
    _CHANGE | {"statement": _TEXT, "why": {"type": "string", "minLength": 10}},
    {"nth": {"type": "integer", "minimum": 2}},
)
LOTS = _rows(
    {name: _TEXT for name in ("made", "commit")}
    | {"modules": {"type": "array", "minItems": 1, "items": _TEXT}}
    | {
        name: {"type": "integer", "minimum": 0}
        for name in ("seed", "draws", "mutants", "equivalent", "checks", "tests", "crashes")
    }
    | {"unasked": {"type": "integer", "minimum": 0}, "survivors": _rows(_CHANGE, {})},
    {"note": _TEXT},
)
_ABOUT = {
    "equivalents": "Changes that no test could tell, each with the reason, as a person found it.\n"
    '# An entry that fits no statement any more is reported; ARGS="--drop" takes those out.\n',
    "lots": "A row per lot: of how many mutants, how many the checks killed, how many of the rest\n"
    "# the tests killed, how many of both by a crash, and what nobody killed.\n",
}


class MutantsError(ValueError):
    """A file of data/mutants that is damaged."""


def _path(name: str) -> Path:
    return _paths.root() / "data" / "mutants" / f"{name}.yaml"


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    text = yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=98)
    write_atomic(_path(name), f"# {_ABOUT[name]}{text}".encode())


@cache
def equivalents() -> dict[Name, str]:
    """Every mutant that is listed as equivalent, and why it is.

    Raises MutantsError naming the entry that is damaged, or there twice.
    """
    found: dict[Name, str] = {}
    for entry in read_yaml(_path("equivalents"), EQUIVALENTS, MutantsError):
        name = name_of(entry)
        if name in found:
            raise MutantsError(
                f"{_paths.shown(_path('equivalents'))}: expected each change once, got "
                f"{name[3]!r} -> {name[4]!r} of {name[0]} twice; take one out"
            )
        found[name] = entry["why"]
    return found


def name_of(row: dict[str, Any]) -> Name:
    """The name of a mutant, independent of line numbers."""
    return (*(row[k] for k in ("path", "where", "statement", "old", "new")), row.get("nth", 1))


def drop(names: set[Name]) -> None:
    """Take entries out of the list of equivalents. Raises MutantsError when it is damaged."""
    listed = read_yaml(_path("equivalents"), EQUIVALENTS, MutantsError)
    _write("equivalents", [entry for entry in listed if name_of(entry) not in names])
    equivalents.cache_clear()


def lots() -> list[dict[str, Any]]:
    """The recorded lots, oldest first. Of each: made, commit, seed, draws, modules; how many
    `mutants` that are not equivalent, how many `equivalent`; how many killed by `checks`, by
    `tests` where no check did, by a crash (`crashes`, of either), executed by nobody (`unasked`);
    and the `survivors`: path, where, old, new.

    Raises MutantsError when the file is damaged.
    """
    return read_yaml(_path("lots"), LOTS, MutantsError)


def judges(path: str) -> bool:
    """Whether a file or folder, by its path below clcore/, is the judge's own."""
    return path.split("/")[0] == JUDGE


def keep(lot: dict[str, Any]) -> None:
    """Add a lot to the record; one of the judge takes the place of the one before.

    Raises MutantsError when the file is damaged.
    """
    judge = any(map(judges, lot["modules"]))
    known = [one for one in lots() if not (judge and any(map(judges, one["modules"])))]
    made = provenance.made()
    _write("lots", [*known, {name: made[name] for name in ("made", "commit")} | lot])


def refuse_recorded(seed: int) -> None:
    """Raises MutantsError for the seed of a recorded lot, whose survivors have been read."""
    seeds = sorted(lot["seed"] for lot in lots() if not any(map(judges, lot["modules"])))
    if seed in seeds:
        raise MutantsError(
            f"expected the --seed of a lot that is not recorded, got {seed}; recorded are "
            f"{', '.join(map(str, seeds))}: try {seeds[-1] + 1}"
        )
