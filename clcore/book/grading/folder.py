"""A folder of notebooks to one table."""

import csv
import io
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from clcore._files import write_atomic
from clcore.book.grading.mark import Graded, Limits, grade

COLUMNS = ("notebook", "chapter", "points", "of", "minutes", "messages")


def grade_folder(
    folder: Path,
    out: Path,
    limits: Limits | None = None,
    key: str = "",
    jobs: int = 1,
    told: Callable[[str], None] = print,
) -> list[Graded]:
    """Grade all notebooks in a folder and below it, and write a row each to a file of CSV, by name.

    The file is rewritten after each notebook, so an interruption keeps the grades so far.
    Raises FileNotFoundError for a folder without notebooks.
    """
    found = sorted(p for p in folder.rglob("*.ipynb") if not _hidden(p.relative_to(folder)))
    if not found:
        got = "none" if folder.is_dir() else "no such folder"
        raise FileNotFoundError(f"expected notebooks (*.ipynb) in {folder}, found {got}")
    rows: dict[Path, Graded] = {}
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(grade, path, limits, key): path for path in found}
        for done in as_completed(waiting):
            path = waiting[done]
            rows[path] = row = _row(path, done)
            write_atomic(out, _table(folder, rows).encode())
            told(f"{path.relative_to(folder)}: {row.points} of {len(row.marks)}")
    return [rows[path] for path in found]


def _row(path: Path, done: Future[Graded]) -> Graded:
    """What came of a notebook. A fault of ours has a row, too, and the others are graded."""
    error = done.exception()
    if error is None:
        return done.result()
    told = f"not graded, by a fault of the grader: {type(error).__name__}: {error}"
    return Graded(path.name, "", {}, 0.0, told)


def _hidden(path: Path) -> bool:
    """Jupyter's copies (.ipynb_checkpoints) and a Mac's (._name) are nobody's work."""
    return any(part.startswith(".") for part in path.parts)


def _table(folder: Path, rows: dict[Path, Graded]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for path in sorted(rows):
        row = rows[path]
        messages = " | ".join(" ".join(told.split()) for told in row.messages)
        cells = (str(path.relative_to(folder)), row.chapter, row.points, len(row.marks))
        table.writerow([_inert(c) for c in (*cells, row.minutes, messages)])
    return text.getvalue()


def _inert(cell: object) -> object:
    """A text that a spreadsheet does not take for a formula: students choose some of them."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell
