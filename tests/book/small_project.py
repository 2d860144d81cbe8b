"""A project of two chapters, to build."""

import json
import shutil
from pathlib import Path

import nbformat

REPOSITORY = Path(__file__).parents[2]
PARAMETERS = 'profile = "book"\ndevice = "auto"\nseed = 0'


BEGIN = 'from clcore.book import chapter\nhere = chapter.start("{name}", globals())'
CLOSE = "here.close()"


def notebook(
    path: Path,
    *cells: str,
    parameters: str | None = PARAMETERS,
    frame: bool = True,
    solution: str | None = None,
) -> None:
    """A chapter: title, parameters, start, the given cells, an exercise's solution, close.

    frame: whether with start and close; without them a kernel spares the import of torch.
    """
    name = path.stem
    book = nbformat.v4.new_notebook(metadata={"clcore": {"claims": ["acl/minmax"]}})
    book.cells.append(nbformat.v4.new_markdown_cell(f"# Chapter {name}"))
    if parameters is not None:
        tagged = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        book.cells.append(tagged)
    for source in ([BEGIN.format(name=name)] if frame else []) + list(cells):
        book.cells.append(nbformat.v4.new_code_cell(source))
    if solution is not None:
        text = f"```{{solution}} x\n```\n\n```python\n{solution}\n```"
        book.cells.append(nbformat.v4.new_markdown_cell(text))
    if frame:
        book.cells.append(nbformat.v4.new_code_cell(CLOSE))
    path.parent.mkdir(exist_ok=True)
    nbformat.write(book, path)


CHECK = 'here.ledger.check("acl/thm1", 1e-12, 1e-9, {"broken": 1.0}, draws=3)'


def last(root: Path) -> dict:
    return json.loads((root / "_build" / "ledger.json").read_text())


def make_project(root: Path, *chapters: str) -> None:
    """A copy of clcore and the claims, and a table of contents with these chapters."""
    ignore = shutil.ignore_patterns("__pycache__", "cache", "recorded")
    shutil.copytree(REPOSITORY / "clcore", root / "clcore", ignore=ignore)
    shutil.copytree(REPOSITORY / "data", root / "data", ignore=ignore)
    shutil.copy(REPOSITORY / "requirements.txt", root)
    entries = [{"file": f"chapters/{name}"} for name in chapters]
    toc = {"format": "jb-book", "root": "book/index", "chapters": entries}
    (root / "_toc.yml").write_text(json.dumps(toc))
