"""What can kill a mutant, a check or a file of tests, and which lines of clcore it executes.

Each is measured once, in a child of its own, so that nothing that another has cached is missing;
what was found is kept until anything changes that it depends on.
"""

import platform
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import forking

from clcore._files import sha256, write_json

ELSEWHERE = (
    *("beartype", "hypothesis", "jaxtyping", "jsonschema", "mpmath", "pandas", "pytest", "yaml"),
    *("scipy.linalg", "scipy.optimize", "scipy.stats", "scipy.special", "scipy.sparse.linalg"),
    *("sympy", "sympy.combinatorics", "sympy.tensor.tensor", "torch", "torch.func"),
)


@dataclass(frozen=True)
class Unit:
    """name: of a check its module and function, of a file of tests its path. key: digest of what
    it depends on. about: what the side that it is of needs to run it. needs: the files of clcore
    that it imports, directly or through others. room: the folder of clcore that it is asked about,
    "" where that is all of it."""

    name: str
    key: str
    about: Any
    needs: frozenset[Path]
    room: str = ""

    def asks(self, path: str) -> bool:
        """Whether it may be asked about a file, by its path below the root."""
        return path.startswith(f"clcore/{self.room}")


@dataclass(frozen=True)
class Measured:
    """lines: path below the root -> lines of it that were executed. seconds: of a processor,
    under tracing, which makes it slower. found: what the side needs of the unmutated run."""

    unit: Unit
    lines: dict[str, frozenset[int]]
    seconds: float
    found: Any

    def executes(self, path: str, first: int, last: int) -> bool:
        """Whether any line of a statement is among what it executed."""
        return any(first <= line <= last for line in self.lines.get(path, ()))


class Lines:
    """The lines of files below a folder that are executed while `on` holds, of all threads."""

    def __init__(self, root: Path) -> None:
        self.root = f"{root}/clcore/"
        self.seen: dict[str, set[int]] = {}
        self._known: dict[str, set[int] | None] = {}

    def _global(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._known:
            own = name.startswith(self.root)
            path = f"clcore/{name.removeprefix(self.root)}"
            self._known[name] = self.seen.setdefault(path, set()) if own else None
        lines = self._known[name]
        if lines is None:
            return None

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return local

        return local

    @contextmanager
    def on(self) -> Iterator[None]:
        """Look on."""
        threading.settrace(self._global)
        sys.settrace(self._global)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def told(self) -> dict[str, list[int]]:
        """What was seen, for JSON."""
        return {path: sorted(lines) for path, lines in sorted(self.seen.items()) if lines}


def warm() -> None:
    """Import what nearly all of clcore and of its tests import from elsewhere."""
    import torch

    for name in ELSEWHERE:
        import_module(name)
    torch.set_num_threads(1)


def versions() -> bytes:
    """Of what decides a number besides clcore."""
    import numpy
    import torch

    return f"{platform.python_version()} {numpy.__version__} {torch.__version__}".encode()


def measure(
    units: list[Unit],
    work: Callable[[Unit, forking.Tell], None],
    folder: Path,
    workers: int,
    say: Callable[[str], None],
) -> list[Measured]:
    """Every unit with the lines that it executes. work: tells one dict {"lines", "seconds",
    "found"}, in a child. What is known from before, in `folder`, is not run again.

    A unit that does not get through is left out and said.
    """
    from clcore._files import read_json

    def place(unit: Unit) -> Path:
        return folder / f"{unit.key}.json"

    new = [unit for unit in units if not place(unit).exists()]
    for count, child in enumerate(forking.each(new, work, workers), 1):
        whole = child.ended == "done" and child.told and "lines" in child.told[-1]
        told = child.told[-1] if whole else {"failed": [child.ended, *child.told[-1:]]}
        write_json(place(child.job), told)
        say(f"{count}/{len(new)} {child.job.name}: {'measured' if whole else told['failed']}")
    out = []
    for unit in units:
        told = read_json(place(unit), "delete it")
        if "failed" in told:
            say(f"left out, it fails by itself: {unit.name}: {told['failed']}")
            continue
        lines = {path: frozenset(found) for path, found in told["lines"].items()}
        out.append(Measured(unit, lines, told["seconds"], told["found"]))
    return out


def digest(files: Iterable[Path], *more: bytes) -> str:
    """A short name for the content of files and of whatever else counts."""
    return sha256(*(path.read_bytes() for path in files), versions(), *more)[:24]
