"""What readers of a paper remember of it, in their words, with the rows that decide it.

A sentence in data/headlines states a finding; it names the verdicts for which it was written,
and if a build computes another, the sentence is not shown.
"""

from functools import cache
from typing import Any

from clcore import _paths
from clcore._files import RESTORE, read_json, read_yaml
from clcore.ledger.printed import claims, papers


class HeadlinesError(ValueError):
    """A file of data/headlines that is damaged."""


@cache
def known() -> dict[str, dict[str, Any]]:
    """Paper -> {"in_short": text, "claims": [{"says", "found", "rows": {id: verdict}}]}, in the
    order of the papers.

    Raises HeadlinesError naming the file and what is wrong: no file, a field, an id that does not
    exist or is of another paper.
    """
    folder = _paths.root() / "data" / "headlines"
    schema = read_json(folder / "schema.json", RESTORE)
    found = {}
    for paper in papers():
        path = folder / f"{paper}.yaml"
        if not path.exists():
            raise HeadlinesError(f"{_paths.shown(path)}: expected a file for each paper, got none")
        found[paper] = read_yaml(path, schema, HeadlinesError)
        for entry in found[paper]["claims"]:
            for claim in entry["rows"]:
                if claim not in claims() or not claim.startswith(f"{paper}/"):
                    raise HeadlinesError(
                        f"{_paths.shown(path)}: {entry['says']!r} names {claim!r}, which is no "
                        f"claim of {paper}"
                    )
    return found
