"""How a chapter is run, and what is told of one that failed while others run."""

import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from clcore.book import execute
from clcore.book.build import running

TIMEOUT = """CellTimeoutError: A cell timed out while it was being executed, after 4 seconds.
The message was: Timeout waiting for IOPub output.
Here is a preview of the cell contents:
-------------------
x = 1
-------------------
"""


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ({"error": "KeyError: 'x'", "cell": "a1"}, "in cell a1: KeyError: 'x'"),
        ({"error": "OSError: no disk"}, "OSError: no disk"),
        ({"error": "----\n"}, ""),
        ({}, ""),
    ],
)
def test_a_failure_is_told_with_its_cell(outcome, told):
    assert running._cause(outcome) == told


def test_a_failure_is_told_with_its_cause_in_one_short_line():
    told = running._cause({"error": TIMEOUT, "cell": "a1"})
    assert told.startswith("in cell a1: CellTimeoutError: A cell timed out")
    assert "Timeout waiting for IOPub output" in told and "---" not in told and "\n" not in told
    assert len(running._cause({"error": "ValueError: " + "x" * 10**6})) == running.CAUSE


def test_limits_are_ours(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(papermill, "execute_notebook", lambda *_, **how: given.update(how))
    job = {"notebook": str(tmp_path / "a.ipynb"), "parameters": {}, "progress": False}
    execute._run(tmp_path / "a.ipynb", tmp_path / "out.ipynb", job, "")
    assert given["start_timeout"] >= 600 and given["iopub_timeout"] >= 600
    assert not given.get("coalesce_streams"), "its expression takes the square of a line's length"


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (
            RuntimeError("Kernel didn't respond in 600 seconds"),
            "failed",
            "RuntimeError: Kernel did",
        ),
        (RuntimeError("Kernel died before replying"), "dead", "died before its first cell"),
        (OSError(28, "no room"), "failed", "no room"),
        (ZeroDivisionError("of ours"), "failed", "ZeroDivisionError: of ours"),
        (
            PapermillExecutionError(1, 2, "x = 1", "KeyError", "'x'", ["\x1b[31mtrace\x1b[0m"]),
            "failed",
            "KeyError: 'x'",
        ),
    ],
)
def test_whatever_ends_a_run_has_an_outcome(tmp_path, error, status, told):
    book = '{"cells": [], "metadata": {}}'
    (tmp_path / "a.ipynb").write_text(book)
    found = execute._failed(error, tmp_path / "a.ipynb", tmp_path / "out.ipynb", 0)
    assert found["status"] == status and told in found["error"]
    assert "\x1b" not in found.get("traceback", "")
