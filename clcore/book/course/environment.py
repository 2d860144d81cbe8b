"""Requirements of the course's notebooks without a clone, for students and for graders."""

import json
from importlib.metadata import version

from clcore import _paths
from clcore.book.provenance import UNKNOWN, commit, repository


def requirements() -> list[str]:
    """Lines for pip: PyTorch at the book's version, and the book at this commit, as a clone that
    pip keeps, for a notebook reads the chapters' claims and records. Without
    $CLCORE_REPOSITORY_URL the book is the one in this folder."""
    torch = version("torch").partition("+")[0]
    return [f"torch=={torch}", f"-e {_book()}"]


def _book() -> str:
    at, url = commit().removesuffix("-dirty"), repository()
    if not url:
        return f"{_paths.root()}[book]"
    where = "" if at == UNKNOWN else f"@{at}"
    return f"git+{url}{where}#egg=clcore[book]"


def conda(needs: list[str]) -> str:
    """The environment.yml that `otter assign` puts into the autograder."""
    lines = "".join(f"  - {json.dumps(need)}\n" for need in needs)
    return f"dependencies:\n- pip\n- pip:\n{lines}"


def otter(key: str = "") -> str:
    """The config of an assignment. No cell for an export: `otter run` and Gradescope take the
    notebook itself. The marks are those of `python -m clcore grade`, by its plugin; the key goes
    into the autograder's zip, which students do not get."""
    plugin = {"clcore.book.grading.otter.Plugin": {"key": key} if key else {}}
    return (
        "environment: environment.yml\n"
        "export_cell: false\n"
        f"generate:\n  plugins:\n  - {json.dumps(plugin)}\n"
    )
