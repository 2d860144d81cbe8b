"""One notebook: its chapter, its answers, and how they are judged."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import read_notebook
from clcore.book import exercises, surroundings
from clcore.book.exercises.judge import Verdict
from clcore.book.grading import wire

_START = re.compile(r"""chapter\.start\(\s*["']([\w-]+)["']""")


@dataclass(frozen=True)
class Limits:
    """What a notebook may take. minutes: in all. seconds: a cell, and a call of an answer. mib:
    memory, where the system can limit it (Linux)."""

    minutes: float = 10.0
    seconds: float = 120.0
    mib: int = 4096

    def __post_init__(self) -> None:
        if not (self.minutes > 0 and self.seconds > 0) or self.mib < 1024:
            raise ValueError(
                "expected minutes and seconds above 0 and at least 1024 MiB, got "
                f"{self.minutes:g} minutes, {self.seconds:g} seconds and {self.mib} MiB"
            )


@dataclass(frozen=True)
class Graded:
    """The result of a notebook. marks: a verdict per exercise, in the order of the page; none if
    the notebook could not be run for the reason in `trouble`."""

    notebook: str
    chapter: str
    marks: dict[str, Verdict]
    minutes: float
    trouble: str = ""

    @property
    def points(self) -> int:
        """Right answers."""
        return sum(mark.right for mark in self.marks.values())

    @property
    def messages(self) -> list[str]:
        """The messages: on the notebook, then on every answer that is not right."""
        told = [self.trouble] if self.trouble else []
        return told + [mark.told for mark in self.marks.values() if not mark.right]


class _Ended(Exception):
    """The process of a notebook ended before it was to."""


def variable(exercise: str) -> str:
    """The name that holds the answer to an exercise: answer_start_1 for ex-start-1."""
    return f"answer_{exercise.removeprefix('ex-').replace('-', '_')}"


def grade(path: Path, limits: Limits | None = None, key: str = "") -> Graded:
    """Run a notebook and judge its answers.

    key: the lecturer's, where the notebook was made with one (`variants`). A notebook that cannot
    be read or run has no points and the reason; nothing is raised for it.
    """
    began = time.perf_counter()
    chapter = ""
    try:
        cells = read_notebook(path)["cells"]
        chapter = _chapter(cells)
        names = exercises.ids(_paths.root() / "chapters" / f"{chapter}.ipynb")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Graded(path.name, chapter, {}, _minutes(began), f"not graded: {error}")
    marks, trouble = _marks(cells, names, limits or Limits(), key)
    return Graded(path.name, chapter, marks, _minutes(began), trouble)


def _minutes(began: float) -> float:
    return round((time.perf_counter() - began) / 60, 2)


def _chapter(cells: list[dict]) -> str:
    """The chapter that a notebook is of, by the call that starts it, whatever its file is called.
    Raises ValueError for none, and for one that is not there."""
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    found = _START.search(text)
    if not found:
        raise ValueError('expected a notebook of the course, with a cell `chapter.start("...")`')
    if not (_paths.root() / "chapters" / f"{found[1]}.ipynb").exists():
        raise ValueError(f"expected a chapter of the book, got {found[1]!r}")
    return found[1]


def _marks(
    cells: list[dict], names: list[str], limits: Limits, key: str
) -> tuple[dict[str, Verdict], str]:
    """Verdicts of the exercises, and further messages on the run."""
    code = [
        {
            "source": "".join(cell["source"]),
            "parameters": "parameters" in cell.get("metadata", {}).get("tags", []),
        }
        for cell in cells
        if cell["cell_type"] == "code"
    ]
    marks, trouble = {}, ""
    with (
        tempfile.TemporaryDirectory(prefix="clcore-grade-") as folder,
        _Process(Path(folder), limits) as process,
    ):
        try:
            failed = process.run(code)
            if failed:
                trouble = f"{len(failed)} of {len(code)} cells failed, the first with {failed[0]}"
            for name in names:
                marks[name] = _judged(name, process, key)
        except _Ended as ended:
            trouble = str(ended)
    for name in names:
        marks.setdefault(name, Verdict(name, False, f"{exercises.title(name)}: not judged"))
    return marks, trouble


def _judged(name: str, process: "_Process", key: str) -> Verdict:
    try:
        answer = process.value(variable(name))
    except wire.WireError as error:
        told = f"{exercises.title(name)}: {variable(name)} cannot be judged: {error}"
        return Verdict(name, False, told)
    return exercises.verdict(name, answer, key)


class _Process:
    """The process that a notebook runs in, seen from outside."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.limits, self.late, self.cell, self.failure = limits, False, "", None
        self._functions: dict[int, Callable] = {}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clcore.book.grading.notebook"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=surroundings.environment(
                **threads,
                CLCORE_BUILD=str(folder / "build"),
                CLCORE_SCHEDULER="serial",
                IPYTHONDIR=str(folder / "ipython"),
                MPLBACKEND="agg",
                HOME=str(folder),
            ),
            start_new_session=True,
        )
        self._asked: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self._watch = threading.Timer(60 * limits.minutes, self._stop)

    def __enter__(self) -> "_Process":
        self._watch.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._watch.cancel()
        self._kill()
        self._process.wait()
        for stream in (self._asked, self._answers):
            with contextlib.suppress(OSError):  # for what was not sent
                stream.close()

    def _stop(self) -> None:
        self.late = True
        self._kill()

    def _kill(self) -> None:
        """End the process and all that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except AttributeError:  # Windows
            self._process.kill()
        except (ProcessLookupError, PermissionError):
            pass

    def _ask(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            if request is not None:
                wire.send(self._asked, request)
            return wire.receive(self._answers)
        except wire.WireError as error:
            raise _Ended(f"the notebook wrote to the grader itself: {error}") from None
        except (OSError, EOFError):
            where = f" {self.cell}" if self.cell else ""
            if self.late:
                raise _Ended(f"stopped after {self.limits.minutes:g} minutes{where}") from None
            raise _Ended(
                f"the notebook's process ended{where}, as after os._exit or for want of memory "
                f"({self.limits.mib} MiB allowed)"
            ) from None

    def run(self, cells: list[dict]) -> list[str]:
        """Run the cells, those after one that fails, too: what failed, in words."""
        message = self._ask(
            {
                "cells": cells,
                "mib": self.limits.mib,
                "seconds": self.limits.seconds,
            }
        )
        failed = []
        while "cell" in message:
            at = message["cell"] + 1
            self.cell = f"in code cell {at + 1}"
            if message["failed"]:
                failed.append(f"{message['failed']} (code cell {at})")
            message = self._ask()
        self.cell = ""
        return failed

    def value(self, name: str) -> Any:
        """What the notebook has under a name: ... for nothing. A function is one that asks there.
        Raises WireError for what is no number, text, list or function."""
        self.cell = f"while {name} was judged"
        return self._value(self._ask({"name": name}))

    def _value(self, message: dict[str, Any]) -> Any:
        if message.get("absent"):
            return ...
        if "failed" in message:
            raise wire.WireError(message["failed"])
        return wire.unpack(message.get("value"), self._function)

    def _function(self, place: int) -> Callable:
        def function(*given: Any) -> Any:
            return self._value(self._ask({"call": place, "with": wire.pack(given)}))

        return function
