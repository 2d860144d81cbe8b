"""Compare two builds: is every number the same to the bit?"""

import json
from pathlib import Path
from typing import Any

from clcore._files import read_json

FIELDS = ("measured", "bound", "relation", "control", "draws", "evidence", "passed")
WORDS = ("note", "counterexample", "correction", "misprint")


def records(path: Path) -> dict[tuple[str, ...], dict]:
    """Every record of a ledger.json by (claim, part, form, setting).

    Raises ValueError when the file is missing, damaged, or no ledger.
    """
    document = read_json(path, "expected the ledger.json of a build (_build/ledger.json)")
    if not isinstance(document, dict) or "rows" not in document:
        raise ValueError(f"{path} has no rows; expected the ledger.json of a build")
    found = {}
    for row in document["rows"]:
        found[row["id"], "", "verdict", ""] = {"verdict": row["verdict"]}
        for check in row["checks"]:
            key = (row["id"], check["part"], check["form"], check.get("setting", ""))
            found[key] = check
    return found


def differences(old: Path, new: Path, words: bool = False) -> list[str]:
    """What is not the same in two ledgers, a line each: records that are only in one, verdicts, and
    of each record the claim, part, form, measured, bound, control, draws; numbers to the bit.

    words: notes, counterexamples, corrections and misprints, too.
    """
    before, after = records(old), records(new)
    lines = []
    for key in [*before, *(k for k in after if k not in before)]:
        name = " | ".join(filter(None, key))
        if key not in after:
            lines.append(f"gone: {name}")
        elif key not in before:
            lines.append(f"new: {name}")
        else:
            a, b = before[key], after[key]
            fields = ("verdict", *FIELDS, *(WORDS if words else ()))
            lines += [
                f"{name}: {field} {_shown(a.get(field))} -> {_shown(b.get(field))}"
                for field in fields
                if _shown(a.get(field)) != _shown(b.get(field))
            ]
    return lines


def _shown(value: Any) -> str:
    # the shortest text that reads back as the same number, NaN equal to NaN
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
