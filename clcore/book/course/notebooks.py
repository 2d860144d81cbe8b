"""A chapter as an assignment: for students without solutions, for instructors with them, and with
the marks that Otter reads."""

import re
from pathlib import Path

import nbformat

from clcore.book import exercises
from clcore.book.course.plain import Page, page
from clcore.book.exercises import variants
from clcore.book.grading.mark import variable

_BLOCK = re.compile(
    r"^(?P<fence>`{3,})\{(?P<kind>exercise|solution)\} *(?P<head>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=fence)$\n?",
    re.DOTALL | re.MULTILINE,
)
_LABEL = re.compile(r":label: (ex-[\w-]+)")
_OPTION = re.compile(r"^:[\w-]+:.*\n", re.MULTILINE)
_CODE = re.compile(r"^```python\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
_CHECK = re.compile(r"^exercises\.check\(.*\n?", re.MULTILINE)
_ANSWER = re.compile(r"\banswer\b")
_SPAN = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
KINDS = ("student", "instructor", "otter")


def assignment(
    path: Path, kind: str, key: str = "", config: str = "", of: Page | None = None
) -> nbformat.NotebookNode:
    """A chapter's notebook with its exercises as cells, in plain Markdown.

    kind: "student" (each exercise has an empty answer, under its own name, and its check),
    "instructor" (the solutions in their place) or "otter" (an instructor's notebook with the marks
    of `otter assign`, which reads `config`). key: a lecturer's, for other numbers in the questions
    (`exercises.variants`); such a question has no check, whose numbers would be the printed ones.
    of: the page, which is given the pictures.
    """
    if kind not in KINDS:
        raise ValueError(f"expected a kind of {', '.join(KINDS)}; got {kind!r}")
    of = of or page(path)
    book = nbformat.read(path, 4)
    cells = []
    for cell in book.cells:
        parts = _parts(cell.source) if cell.cell_type == "markdown" else None
        if parts:
            cells += _answered(parts, kind, key, of)
            continue
        if cell.cell_type == "markdown":
            cell.source = of.plain(cell.source)
        cells.append(cell)
    if kind == "otter":
        cells = [_raw("otter-config", f"# ASSIGNMENT CONFIG\n{config}".rstrip()), *cells]
    else:
        score = f'exercises.score("{path.stem}")'
        cells.append(nbformat.v4.new_code_cell(score, id="score"))
    book.cells = cells
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


def _answered(
    parts: list[tuple[str, str, str, str]], kind: str, key: str, of: Page
) -> list[nbformat.NotebookNode]:
    made: list[nbformat.NotebookNode] = []
    first = next(name for sort, name, _, _ in parts if sort != "text")
    solutions = {name: text for sort, name, _, text in parts if sort == "solution"}
    for at, (sort, name, title, text) in enumerate(parts):
        if sort == "text":
            made.append(nbformat.v4.new_markdown_cell(of.plain(text), id=f"text-{at}-{first}"))
        elif sort == "exercise":
            made += _cells(name, title, text, solutions.get(name, ""), kind, key, of)
    return made


def _cells(
    name: str, title: str, question: str, solution: str, kind: str, key: str, of: Page
) -> list[nbformat.NotebookNode]:
    # A name for each: Otter and the grader judge at the end, in whatever order cells were run.
    answer = variable(name)
    varied = variants.varied(name, key)
    asked = _named(_without_check(variants.rewritten(name, question, key)), answer)
    heading = f"### {exercises.title(name)}: {title}"
    told = nbformat.v4.new_markdown_cell(f"{heading}\n\n{of.plain(asked)}", id=name)
    check = f'exercises.check("{name}", {answer})'
    if kind == "student":
        empty = f"{answer} = ...  # yours\n" + ("# Judged when handed in." if varied else check)
        return [told, nbformat.v4.new_code_cell(empty, id=f"{name}-answer")]
    code = _ANSWER.sub(answer, _CHECK.sub("", "\n".join(_CODE.findall(solution)))).strip()
    if varied:
        found = exercises.known(name)
        truth = found.truth(**variants.constants(found, key)) if found.truth else ...
        code = f"{answer} = {truth!r}  # with the numbers of your key"
    if kind == "instructor":
        words = of.plain(_named(_CODE.sub("", solution).strip(), answer))
        full = code if varied else f"{code}\n{check}"
        return [
            told,
            nbformat.v4.new_markdown_cell(f"**Solution.** {words}", id=f"{name}-solution"),
            nbformat.v4.new_code_cell(full, id=f"{name}-answer"),
        ]
    quiet = f'exercises.check("{name}", {answer}, quiet=True)'
    begin, end = "# BEGIN SOLUTION\n", "\n# END SOLUTION"
    return [
        _raw(f"{name}-q", f"# BEGIN QUESTION\nname: {name.replace('-', '_')}\npoints: 1"),
        told,
        _raw(f"{name}-s", "# BEGIN SOLUTION"),
        nbformat.v4.new_code_cell(f"{begin}{code}{end}", id=f"{name}-answer"),
        _raw(f"{name}-e", "# END SOLUTION"),
        _raw(f"{name}-t", "# BEGIN TESTS"),
        nbformat.v4.new_code_cell(quiet, id=f"{name}-test"),
        _raw(f"{name}-u", "# END TESTS"),
        _raw(f"{name}-x", "# END QUESTION"),
    ]


def _without_check(question: str) -> str:
    """A question without its call of the check, which stands in the cell below it."""
    return _CODE.sub(lambda block: "" if _CHECK.search(block[1]) else block[0], question)


def _named(text: str, answer: str) -> str:
    """Text whose code calls the answer by its own name."""
    return _SPAN.sub(lambda span: _ANSWER.sub(answer, span[0]), text)


def _raw(name: str, text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_raw_cell(text, id=name)
