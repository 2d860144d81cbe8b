"""A project of two chapters, to build."""

import json
from pathlib import Path

import nbformat

REPOSITORY = Path(__file__).parents[2]
PARAMETERS = 'profile = "book"\ndevice = "auto"\nseed = 0'


def notebook(path: Path, *cells: str, parameters: str | None = PARAMETERS) -> None:
    """A chapter: title, parameters, start, the given cells, close."""
    name = path.stem
    book = nbformat.v4.new_notebook(metadata={"clcore": {"claims": ["acl/minmax"]}})
    book.cells.append(nbformat.v4.new_markdown_cell(f"# Chapter {name}"))
    if parameters is not None:
        tagged = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        book.cells.append(tagged)
    begin = f'from clcore.book import chapter\nhere = chapter.start("{name}", globals())'
    for source in (begin, *cells, "here.close()"):
        book.cells.append(nbformat.v4.new_code_cell(source))
    path.parent.mkdir(exist_ok=True)
    nbformat.write(book, path)


CHECK = 'here.ledger.check("acl/thm1", 1e-12, 1e-9, {"broken": 1.0}, draws=3)'


def last(root: Path) -> dict:
    return json.loads((root / "_build" / "ledger.json").read_text())
