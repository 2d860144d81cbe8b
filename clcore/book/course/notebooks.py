"""A chapter as an assignment: for students without solutions, for instructors with them, and with
the marks that Otter reads."""

import re
from copy import deepcopy
from pathlib import Path

import nbformat

_BLOCK = re.compile(
    r"^(?P<fence>`{3,})\{(?P<kind>exercise|solution)\} *(?P<head>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=fence)$\n?",
    re.DOTALL | re.MULTILINE,
)
_LABEL = re.compile(r":label: (ex-[\w-]+)")
_OPTION = re.compile(r"^:[\w-]+:.*\n", re.MULTILINE)
_CODE = re.compile(r"^```python\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
_ANSWER = re.compile(r"\banswer\b")
_SPAN = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
KINDS = ("student", "instructor", "otter")


def assignment(path: Path, kind: str) -> nbformat.NotebookNode:
    """A chapter's notebook with its exercises as cells.

    kind: "student" (each exercise has an empty answer and its check), "instructor" (the solutions
    in their place) or "otter" (an instructor's notebook with the marks of `otter assign`, and a
    name of its own for each answer).
    """
    if kind not in KINDS:
        raise ValueError(f"expected a kind of {', '.join(KINDS)}; got {kind!r}")
    book = deepcopy(nbformat.read(path, 4))
    cells = []
    for cell in book.cells:
        parts = _parts(cell.source) if cell.cell_type == "markdown" else None
        cells += _answered(parts, kind) if parts else [cell]
    book.cells = cells
    if kind == "otter":
        book.cells = [_raw("otter-config", "# ASSIGNMENT CONFIG\ngenerate: true"), *cells]
    nbformat.validate(book)
    return book


def _parts(source: str) -> list[tuple[str, str, str, str]]:
    """(kind, id, title, text) of what a cell of exercises holds, in order; [] for other cells."""
    found, at = [], 0
    for block in _BLOCK.finditer(source):
        if before := source[at : block.start()].strip():
            found.append(("text", "", "", before))
        label = _LABEL.search(block["body"])
        name = label[1] if label else block["head"].strip()
        text = _OPTION.sub("", block["body"]).strip()
        found.append((block["kind"], name, block["head"].strip(), text))
        at = block.end()
    if found and (after := source[at:].strip()):
        found.append(("text", "", "", after))
    return found


def _answered(parts: list[tuple[str, str, str, str]], kind: str) -> list[nbformat.NotebookNode]:
    made: list[nbformat.NotebookNode] = []
    first = next(name for sort, name, _, _ in parts if sort != "text")
    solutions = {name: text for sort, name, _, text in parts if sort == "solution"}
    for at, (sort, name, title, text) in enumerate(parts):
        if sort == "text":
            made.append(nbformat.v4.new_markdown_cell(text, id=f"text-{at}-{first}"))
        elif sort == "exercise":
            told = nbformat.v4.new_markdown_cell(f"### {title}\n\n{_plain(text)}", id=name)
            code = "\n".join(_CODE.findall(solutions.get(name, ""))).strip()
            made += _cells(name, told, code, solutions.get(name, ""), kind)
    return made


def _cells(
    name: str, told: nbformat.NotebookNode, code: str, solution: str, kind: str
) -> list[nbformat.NotebookNode]:
    check = f'exercises.check("{name}", answer)'
    empty = nbformat.v4.new_code_cell(f"answer = ...  # yours\n{check}", id=f"{name}-answer")
    words = nbformat.v4.new_markdown_cell(
        f"**Solution.** {_CODE.sub('', solution).strip()}", id=f"{name}-solution"
    )
    full = nbformat.v4.new_code_cell(code or check, id=f"{name}-answer")
    if kind == "student":
        return [told, empty]
    if kind == "instructor":
        return [told, words, full]
    # Otter runs all tests at the end, too: what a later question defines must not replace it.
    answer = f"answer_{name.removeprefix('ex-').replace('-', '_')}"
    own = "\n".join(line for line in code.splitlines() if not line.startswith("exercises.check("))
    own = _ANSWER.sub(answer, own)
    told.source = _SPAN.sub(lambda span: _ANSWER.sub(answer, span[0]), told.source)
    quiet = f'exercises.check("{name}", {answer}, quiet=True)'
    start, end = "# BEGIN SOLUTION\n", "\n# END SOLUTION"
    return [
        _raw(f"{name}-q", f"# BEGIN QUESTION\nname: {name.replace('-', '_')}\npoints: 1"),
        told,
        _raw(f"{name}-s", "# BEGIN SOLUTION"),
        nbformat.v4.new_code_cell(f"{start}{own}{end}", id=f"{name}-answer"),
        _raw(f"{name}-e", "# END SOLUTION"),
        _raw(f"{name}-t", "# BEGIN TESTS"),
        nbformat.v4.new_code_cell(quiet, id=f"{name}-test"),
        _raw(f"{name}-u", "# END TESTS"),
        _raw(f"{name}-x", "# END QUESTION"),
    ]


def _raw(name: str, text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_raw_cell(text, id=name)


def _plain(text: str) -> str:
    """A hint as it folds in Jupyter, which knows no dropdown."""
    hint = re.compile(r"^`{3,}\{dropdown\} Hint[^\n]*\n(.*?)^`{3,}$", re.DOTALL | re.MULTILINE)
    folded = r"<details><summary>Hint</summary>\n\n\1\n</details>"
    return hint.sub(folded, text)
