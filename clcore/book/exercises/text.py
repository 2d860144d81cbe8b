"""The exercises of a chapter's notebook: title, level, minutes, hints."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clcore import _paths
from clcore._files import read_notebook

_EXERCISE = re.compile(
    r"^(?P<fence>`{3,})\{exercise\} *(?P<title>[^\n]*)\n:label: (?P<id>ex-[\w-]+)\n"
    r"(?P<body>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_EFFORT = re.compile(r"\*Level (?P<level>[123]), (?P<minutes>\d+) minutes\.\*")
_CHAPTER = re.compile(r"^# (\d+(?:\.\d+)*)\b", re.MULTILINE)
_HINT = re.compile(
    r"^(?P<fence>`{3,})\{dropdown\} Hint[^\n]*\n(?P<hint>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Text:
    """An exercise as it is printed. level: 1 (read off), 2 (a page of work) or 3 (open)."""

    id: str
    title: str
    level: int
    minutes: int
    hints: tuple[str, ...]

    @property
    def name(self) -> str:
        """As `title` has it."""
        return title(self.id)


def texts(notebook: Path) -> dict[str, Text]:
    """Id -> exercise, of one notebook, in the order of the page; those that state level and
    minutes (*Level 2, 20 minutes.*), as all are to do.
    """
    found = {}
    for one in _EXERCISE.finditer(_markdown(notebook)):
        effort = _EFFORT.search(one["body"])
        if not effort:
            continue
        hints = tuple(hint["hint"].strip() for hint in _HINT.finditer(one["body"]))
        level, minutes = int(effort["level"]), int(effort["minutes"])
        found[one["id"]] = Text(one["id"], one["title"].strip(), level, minutes, hints)
    return found


def _markdown(notebook: Path) -> str:
    cells = read_notebook(notebook)["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def ids(notebook: Path) -> list[str]:
    """Ids of all exercises of a notebook, in the order of the page."""
    return [one["id"] for one in _EXERCISE.finditer(_markdown(notebook))]


@cache
def _numbers() -> dict[str, str]:
    """Id -> number of an exercise, as the site counts: chapter, then place; none where the
    notebooks are not at hand."""
    try:
        notebooks = sorted((_paths.root() / "chapters").glob("*.ipynb"))
    except FileNotFoundError:
        return {}
    found = {}
    for notebook in notebooks:
        before = chapter_number(notebook)
        found |= {name: f"{before}.{at}" for at, name in enumerate(ids(notebook), 1)}
    return found


def chapter_number(notebook: Path) -> str:
    """The number in a chapter's title: 1.1."""
    found = _CHAPTER.search(_markdown(notebook))
    return found[1] if found else notebook.stem


def title(exercise: str) -> str:
    """The name of an exercise on every page and in every message: "Exercise 6.1.8"."""
    number = _numbers().get(exercise)
    return f"Exercise {number}" if number else exercise


def hints(exercise: str) -> tuple[str, ...]:
    """The hints of an exercise; none where the notebooks are not at hand."""
    for notebook in sorted((_paths.root() / "chapters").glob("*.ipynb")):
        if f":label: {exercise}\\n" in notebook.read_text(encoding="utf-8"):
            found = texts(notebook).get(exercise)
            return found.hints if found else ()
    return ()
