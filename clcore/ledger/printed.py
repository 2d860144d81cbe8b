"""The claims as printed: papers and statements of data/claims, validated."""

from collections.abc import Iterable
from functools import cache

from clcore import _paths
from clcore._files import RESTORE, read_json, read_yaml


class LedgerError(ValueError):
    """A check that the ledger refuses."""


@cache
def papers() -> dict[str, dict]:
    """The papers in ledger order: how they are cited, authors with the year, name, title, the
    version read, and the subjects of its groups of claims.

    Raises LedgerError when data/claims/papers.yaml is damaged.
    """
    folder = _paths.root() / "data" / "claims"
    schema = read_json(folder / "papers.schema.json", RESTORE)
    return read_yaml(folder / "papers.yaml", schema, LedgerError)


@cache
def claims() -> dict[str, dict]:
    """All claims as printed, by id, in ledger order (data/claims/*.yaml), validated.

    Raises LedgerError naming the file, the row and what is wrong with it.
    """
    folder = _paths.root() / "data" / "claims"
    schema = read_json(folder / "schema.json", RESTORE)
    rows: dict[str, dict] = {}
    for paper, known in papers().items():
        path = folder / f"{paper}.yaml"
        document = read_yaml(path, schema, LedgerError)
        for row in document["claims"]:
            if row["id"] in rows:
                raise LedgerError(f"{_paths.shown(path)}: the id {row['id']} appears twice")
            if row["id"].split("/")[0] != paper:
                raise LedgerError(f"{_paths.shown(path)}: the id {row['id']} is not of {paper}")
            if row["chapter"] not in known["groups"]:
                raise LedgerError(
                    f"{_paths.shown(path)}: {row['id']} has the chapter {row['chapter']!r}; "
                    f"expected a group of {paper} in data/claims/papers.yaml: "
                    f"{', '.join(known['groups'])}"
                )
            rows[row["id"]] = {"paper": paper, **row}
    return rows


def claim(claim_id: str) -> dict:
    """One claim's row. Raises LedgerError that names near misses when the id is unknown."""
    rows = claims()
    if claim_id not in rows:
        hint = near(claim_id, rows, "see data/claims/ for the ids")
        raise LedgerError(f"expected the id of a claim, got {claim_id!r}; {hint}")
    return rows[claim_id]


def near(asked: str, names: Iterable[str], otherwise: str) -> str:
    """Which of some names may be meant by one that is none of them, as a question; `otherwise`
    where none is near."""
    import difflib

    found = difflib.get_close_matches(asked, list(names), n=3)
    return f"did you mean {', '.join(found)}?" if found else otherwise
