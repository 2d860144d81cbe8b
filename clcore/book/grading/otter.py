"""A plugin of Otter's: the submission is graded by `clcore.book.grading.mark`, and Otter sees what
came of it. So an Otter assignment has the marks of `python -m clcore grade`, whatever a notebook
replaces in the kernel in which Otter would run it."""

import json
from pathlib import Path
from typing import Any

import nbformat

from clcore.book.grading import mark

_CELL = """\
import json

from clcore.book import exercises


def _told(name, answer, quiet=True, said=json.loads({said!r})):
    right, words = said[name]
    if not right:
        raise exercises.NotYet(words)


exercises.check = _told
{names} = ...
"""


class Plugin:
    """`generate: {plugins: [clcore.book.grading.otter.Plugin]}` of an assignment's config.

    Takes what `otter.plugins.AbstractOtterPlugin` takes; config: {"key": ..., "minutes": ...,
    "seconds": ..., "mib": ...}, each of them optional.
    """

    def __init__(self, submission_path: str | None, submission_metadata: dict, plugin_config: dict):
        self.path = submission_path  # None while `otter assign` packs the autograder
        self.config = plugin_config or {}

    def before_execution(self, submission: Any) -> Any:
        """In place of the submission, a notebook with the verdict on each of its answers."""
        limits = {k: self.config[k] for k in ("minutes", "seconds", "mib") if k in self.config}
        graded = mark.grade(Path(str(self.path)), mark.Limits(**limits), self.config.get("key", ""))
        for line in (f"{graded.minutes:g} minutes", *graded.messages):
            print(line)
        if not graded.marks:
            return nbformat.v4.new_notebook(metadata=submission["metadata"])
        said = {name: (one.right, one.told) for name, one in graded.marks.items()}
        names = " = ".join(mark.variable(name) for name in said)
        source = _CELL.format(said=json.dumps(said), names=names)
        cells = [nbformat.v4.new_code_cell(source)]
        return nbformat.v4.new_notebook(cells=cells, metadata=submission["metadata"])
