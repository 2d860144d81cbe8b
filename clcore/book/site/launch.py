"""Chapters that run elsewhere: notebooks that first install what they need, at the commit of the
site, and the buttons that open them. A Sphinx extension, and what the build writes for it."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from clcore import _folders
from clcore._files import read_notebook, write_atomic
from clcore.book.provenance import UNKNOWN, address, commit
from clcore.book.site.fragments import render

FOLDER = "launch"
BRANCH = "gh-pages"
"""Where a published site lies in its repository, and there its notebooks, which Colab opens."""


def notebook(path: Path, repository: str, commit: str) -> str:
    """A chapter whose first cell installs the book at this commit where it is not installed, the
    newest where the commit is `UNKNOWN`, and whose profile is smoke unless another one is chosen.
    """
    book = read_notebook(path)
    commit = "" if commit == UNKNOWN else commit.removesuffix("-dirty")
    code = render("launch_cell.txt", repository=repository, commit=commit)
    first = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install",
        "metadata": {},
        "outputs": [],
        "source": str(code).splitlines(True),
    }
    for cell in book["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            source = "".join(cell["source"]).replace('profile = "book"', 'profile = "smoke"')
            cell["source"] = source.splitlines(True)
    return json.dumps(book | {"cells": [first, *book["cells"]]}, indent=1, ensure_ascii=False)


def files(notebooks: list[Path], repository: str, commit: str) -> dict[str, str]:
    """Address in the site -> notebook, of every chapter."""
    return {f"{FOLDER}/{p.name}": notebook(p, repository, commit) for p in notebooks}


def write(notebooks: list[Path], out: Path, repository: str) -> str:
    """Write chapters so into a folder; what was written, in words. repository: as for
    `provenance.address`. Raises NotOurs for a folder of somebody's."""
    at, told = commit(), ""
    if at == UNKNOWN:
        told = "; git cannot tell of which commit, so they install the newest"
    elif at.endswith("-dirty"):
        told = f"; they install {at.removesuffix('-dirty')}, without what is changed here"
    made = files(notebooks, address(repository), at)
    _folders.own(out)
    for name, text in made.items():
        write_atomic(out / Path(name).name, text.encode())
    return f"{len(notebooks)} notebooks in {out}{told}"


def _to_launch(app: Any, page: str, template: str, context: dict, doctree: Any) -> None:
    """The theme's buttons open the committed chapter; ours open what `notebook` made of it."""
    of = app.config.cl_commit
    at = app.config.cl_branch if of == UNKNOWN else of.removesuffix("-dirty")
    name = page.rpartition("/")[2]
    for group in context.get("header_buttons", []):
        if group.get("label") != "launch-buttons":
            continue
        for button in group["buttons"]:
            stem, _, _ = button["url"].partition(f"/{app.config.cl_branch}")
            if button["text"] == "Colab":
                button["url"] = f"{stem}/{BRANCH}/{FOLDER}/{quote(name)}.ipynb"
            elif button["text"] == "Binder":
                urlpath = quote(f"lab/tree/{FOLDER}/{name}.ipynb", safe="")
                button["url"] = f"{stem}/{at}?urlpath={urlpath}"


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, behind the theme."""
    app.add_config_value("cl_commit", "", "html")
    app.add_config_value("cl_branch", "main", "html")
    app.connect("html-page-context", _to_launch, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
