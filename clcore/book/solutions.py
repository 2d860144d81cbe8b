"""The code of the exercises' solutions: shown folded on a page, run in the profile smoke."""

import re
from pathlib import Path

import nbformat

TAG = "solution"
_QUESTION = re.compile(r"^(?P<fence>`{3,})\{exercise\}.*?^(?P=fence)$", re.DOTALL | re.MULTILINE)


def code(cells: list[dict]) -> list[str]:
    """The Python in the solutions of a notebook's cells, in order; not that below a question, which
    is the check of an answer that a reader has yet to find."""
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.findall(r"^```python\n(.*?)^```", _QUESTION.sub("", text), re.DOTALL | re.MULTILINE)


def with_cells(notebook: Path, copy: Path) -> Path:
    """Write the notebook with its solutions as code cells, put before its last cell."""
    book = nbformat.read(notebook, 4)
    cells = [
        nbformat.v4.new_code_cell(block, id=f"{TAG}-{number}", metadata={"tags": [TAG]})
        for number, block in enumerate(code(book.cells), 1)
    ]
    book.cells[-1:-1] = cells
    nbformat.write(book, copy)
    return copy


def without_cells(book: dict) -> dict:
    """The notebook as `with_cells` found it: readers try first, and the solutions stay folded."""
    cells = [cell for cell in book["cells"] if TAG not in cell["metadata"].get("tags", [])]
    return {**book, "cells": cells}
