"""What is known of every claim: its verdict, how grave an error is and where it starts, and what we
added to its conditions.

No verdict is computed from this: a test compares it with what the chapters compute, so that none
changes unnoticed. Grade, root and added conditions are judgements of ours, by the rules of the page
"How we judge", and are shown as such.
"""

import json
from functools import cache

from clcore import _paths
from clcore._files import read_yaml

GRADES = ("conclusion", "proof", "hypothesis", "constant", "misprint")
"""From the error that matters most to the one that matters least; the rules are on the page "How we
judge"."""


class FindingsError(ValueError):
    """A row of data/findings that is damaged."""


@cache
def known() -> dict[str, dict]:
    """Every claim's finding by id: id, verdict, added, and where they apply grade, root, open.

    Raises FindingsError naming the file, the row and what is wrong: a field that is missing or
    unknown, a row of another paper, a root that is no root.
    """
    folder = _paths.root() / "data" / "findings"
    schema = json.loads((folder / "schema.json").read_text())
    rows: dict[str, dict] = {}
    for path in sorted(folder.glob("*.yaml")):
        document = read_yaml(path, schema, FindingsError)
        for claim, row in document.items():
            if claim.split("/")[0] != path.stem:
                raise FindingsError(f"{_paths.shown(path)}: {claim} is not of {path.stem}")
            rows[claim] = {"id": claim, **row}
    for claim, row in rows.items():
        root = row.get("root", claim)
        if rows.get(root, {}).get("root") != root and root != claim:
            raise FindingsError(
                f"data/findings: the root of {claim} is {root}, which is no root itself; name the "
                "row where the error starts"
            )
    return rows


def verdicts() -> dict[str, str]:
    """The verdict that is known of every claim."""
    return {claim: row["verdict"] for claim, row in known().items()}
