"""Results as lines of JSON, one per answer, of which none is lost when the run is stopped.

A check or a file of tests goes by its key, which changes with anything that it depends on. So a
mutant stays killed as long as what killed it is what it was, and what it survived is not asked
again; what is new is.
"""

import fcntl
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any


class Results:
    """What is known of each mutant, in a file that is only ever appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, list[dict[str, Any]]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                told = json.loads(line)
                self.lines.setdefault(told["mutant"], []).append(told)
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a run that was killed as it wrote

    def add(self, told: dict[str, Any]) -> None:
        """Keep an outcome, {"mutant", "asked": keys, "outcome"}, of one that is killed "killer",
        the key of what killed it: one write of one line, on a line of its own, whatever another run
        has left behind."""
        line = b"\n" + json.dumps(told).encode() + b"\n"
        target = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(target, fcntl.LOCK_EX)
            os.write(target, line)
            os.fsync(target)
        finally:
            os.close(target)
        self.lines.setdefault(told["mutant"], []).append(told)

    def kill(self, mutant: str, keys: Collection[str]) -> dict[str, Any] | None:
        """How a mutant was killed by one of these, if it was."""
        for told in self.lines.get(mutant, ()):
            if told["outcome"] != "survived" and told["killer"] in keys:
                return told
        return None

    def survived(self, mutant: str) -> set[str]:
        """The keys of all that noticed nothing."""
        lines = self.lines.get(mutant, ())
        return {k for told in lines if told["outcome"] == "survived" for k in told["asked"]}
