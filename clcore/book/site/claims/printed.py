"""The tables of numbers that a paper prints, as tables that a person reads."""

from typing import Any

WORDS = {
    "bn": "BatchNorm",
    "symrelu": "symmetric ReLU",
    "pr_sparse": "Pr(sparse)",
    "n": "runs",
    "std": "standard deviation",
}
"""Names of columns that are more than their letters with blanks for underscores."""


def tables(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables among the numbers of a claim: {"columns": names, "rows": lists of texts}.

    numbers: of data/claims. A number that stands alone is in the statement and left out here.
    """
    found = []
    for value in numbers.values():
        rows = _rows(value)
        if len(rows) > 1:
            columns = list(dict.fromkeys(name for row in rows for name in row))
            cells = [[_cell(row.get(name, "")) for name in columns] for row in rows]
            found.append({"columns": [_word(name) for name in columns], "rows": cells})
        elif isinstance(value, dict):
            found += tables(value)
    return found


def _rows(value: Any) -> list[dict[str, Any]]:
    """The rows of what is a table: a list of rows, or rows by their names."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value
    if isinstance(value, dict) and all(isinstance(row, dict) for row in value.values()):
        if all(set(row) == {"mean", "std"} for row in value.values()):
            return []
        return [{"": name} | row for name, row in value.items()]
    return []


def _word(name: str) -> str:
    return WORDS.get(name, name.replace("_", " "))


def _cell(value: Any) -> str:
    """A cell in words: a mean with its spread, yes and no, a list after commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not printed"
    if isinstance(value, dict):
        if set(value) >= {"mean", "std"}:
            return f"{_cell(value['mean'])} ± {_cell(value['std'])}"
        return ", ".join(f"{_word(str(name))} {_cell(of)}" for name, of in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return str(value)
