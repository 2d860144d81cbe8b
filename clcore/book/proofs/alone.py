"""Run programs where nothing but the standard library, SymPy and mpmath can be imported.

A script that imports nothing of clcore: from JSON on standard input to JSON on standard output.
"""

import contextlib
import importlib
import importlib.abc
import io
import json
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path


class Only(importlib.abc.MetaPathFinder):
    """Refuses to import anything but what is given."""

    def __init__(self, allowed: list[str]) -> None:
        self.allowed = {*allowed}

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """None, so that others find it; ModuleNotFoundError for what is not allowed."""
        if name.partition(".")[0] not in self.allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _late(*_: object) -> None:
    raise TimeoutError("it takes too long")


def run(text: str, name: str, limit: float) -> dict:
    """What a program prints, the CPU seconds that it takes, and the error that ends it, or ""."""
    from sympy.core.cache import clear_cache

    clear_cache()  # each as if it were the first
    printed, error = io.StringIO(), ""
    signal.setitimer(signal.ITIMER_PROF, limit)
    begun = time.process_time()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
    except Exception as raised:
        error = traceback.format_exception_only(raised)[-1].strip()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = time.process_time() - begun
    return {"prints": printed.getvalue(), "seconds": took, "error": error}


def main() -> None:
    """Input: kernel, the text of exact.py; programs, texts by name; allowed; limit in seconds."""
    asked = json.load(sys.stdin)
    sys.meta_path.insert(0, Only([*asked["allowed"], "exact"]))
    signal.signal(signal.SIGPROF, _late)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "exact.py").write_text(asked["kernel"], encoding="utf-8")
        sys.path.insert(0, folder)
        importlib.import_module("exact")  # loads SymPy, outside the measured time
        found = {n: run(t, n, asked["limit"]) for n, t in asked["programs"].items()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
