"""The tests that need a CUDA device, as a step of `clcore.book.gpu`."""

import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from clcore import _paths

if TYPE_CHECKING:
    from clcore.book.gpu import Plan

TESTS = (
    "tests/test_cuda.py",
    "tests/test_random.py::test_cuda_gives_what_the_cpu_gives",
    "tests/sweep/test_sweep_runs.py::test_cuda_gives_what_the_cpu_gives",
)
"""Those that are skipped where there is no CUDA device."""

_LINE = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*\d+%\]|\d+%\] +(\w+)")


def run(plan: "Plan") -> None:
    """TESTS; every test has its line in tests.txt as it ends."""
    log, began = plan.out / "tests.txt", time.monotonic()
    command = [sys.executable, "-m", "pytest", *TESTS, "-vv", "-ra"]
    if importlib.util.find_spec("xdist") and plan.jobs > 1:
        command += ["-n", str(min(4, plan.jobs))]
    path = os.pathsep.join(filter(None, [str(_paths.root()), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    finished = False
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=_paths.root(),
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            finished = process.wait() in (0, 1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            counts = counted(log)
            told = ", ".join(f"{n} {word.lower()}" for word, n in counts.items())
            tail = log.read_text(encoding="utf-8", errors="replace").strip()[-200:]
            told = told or f"no test ran: {tail}"
            fine = finished and not counts["FAILED"] + counts["ERROR"]
            fine = fine and bool(counts["PASSED"] or (plan.rehearse and counts["SKIPPED"]))
            words = told if finished else f"did not end: {told}"
            plan.found("tests", "those for CUDA", words, time.monotonic() - began, fine)


def counted(log: Path) -> Counter[str]:
    """How many tests ended how, by pytest's lines about each."""
    found = map(_LINE.search, log.read_text(encoding="utf-8", errors="replace").splitlines())
    return Counter(match[1] or match[2] for match in found if match)
