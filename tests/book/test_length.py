"""No chapter is longer than what is read at a sitting: its prose in sight, folds closed."""

import json
import re
from pathlib import Path

import pytest

from clcore import _paths
from clcore.book import build

WORDS = 5000
_FOLDED = re.compile(
    r"(?ms)^(:{3,}|`{3,})\{(?:dropdown|solution)\}.*?^\1[ \t]*$"  # up to the fence of its length
)


def in_sight(text: str) -> str:
    """The text of a cell without dropdowns and solutions."""
    return _FOLDED.sub(" ", text)


def words(path: Path) -> int:
    """Words of a notebook's text and captions, formulas among them, without what is folded."""
    count = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            count += len(in_sight("".join(cell["source"])).split())
        elif "hide-cell" not in cell["metadata"].get("tags", []):
            figure = cell["metadata"].get("mystnb", {}).get("figure", {})
            count += len(figure.get("caption", "").split())
    return count


@pytest.mark.parametrize("name", build.chapters())
def test_a_chapter_is_read_at_a_sitting(name: str) -> None:
    found = words(_paths.root() / "chapters" / f"{name}.ipynb")
    assert found <= WORDS, f"{found} words: fold what few need, or divide the chapter"


def test_what_is_folded_does_not_count():
    text = "one\n:::{dropdown} Title\ntwo\n:::\nthree\n"
    text += "````{solution} x\n```python\n4\n```\n````\nfive"
    assert in_sight(text).split() == ["one", "three", "five"]
