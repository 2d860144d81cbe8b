"""The runs of a build: which chapters, with which parameters, under which key."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from clcore import _paths
from clcore.book import keys, parameters
from clcore.book.contents import chapters


class BuildError(RuntimeError):
    """The build was asked for something that it cannot do."""


@runtime_checkable
class Process(Protocol):
    """What a build asks of a chapter's runner, as of any Popen."""

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        ...

    def terminate(self) -> None:
        """End it."""
        ...


@dataclass
class Run:
    """One chapter of a build."""

    name: str
    notebook: Path
    parameters: dict[str, Any]
    key: str = ""
    status: str = "waiting"  # ok, failed, dead, missing (not asked for and not in the cache)
    cached: bool = False
    outcome: dict = field(default_factory=dict)
    result: dict = field(default_factory=dict)
    process: Process | None = None

    def fail(self, error: Exception) -> None:
        """Note what kept it from running."""
        self.status = "failed"
        self.outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}"}

    @property
    def entry(self) -> Path:
        """Its folder in the cache."""
        profile = self.parameters["profile"]
        return _paths.build_dir() / "cache" / f"{self.name}-{profile}-{self.key}"


def plan(profile: str, only: list[str] | None, device: str) -> list[Run]:
    """The runs of a build, parameters checked before any kernel starts.

    A notebook that cannot be read, or that does not take these parameters, is a failed run.
    Raises BuildError for an unknown chapter and ParameterError for a profile or device that no
    chapter takes.
    """
    if profile not in parameters.PROFILES:
        raise parameters.ParameterError(
            f"expected profile in {', '.join(parameters.PROFILES)}; got {profile!r}"
        )
    names = chapters()
    for name in only or []:
        if name not in names:
            raise BuildError(
                f"expected --only to name chapters of {', '.join(names)}; got {name!r}; a new one "
                "needs its line in _toc.yml first"
            )
    resolved = parameters.check_device(device)
    runs = []
    for name in names:
        notebook = _paths.root() / "chapters" / f"{name}.ipynb"
        if not notebook.is_file():
            raise BuildError(
                f"_toc.yml lists chapters/{name}, but {_paths.shown(notebook)} is gone"
            )
        given = {"profile": profile, "device": resolved}
        run = Run(name, notebook, given)
        try:
            run.key = key(run)
        except (SyntaxError, ValueError, KeyError) as error:
            run.fail(error)
        runs.append(run)
    return runs


# Python 3.11 cannot parse in two threads at once (SystemError: AST constructor recursion depth
# mismatch), and keys are made from what the sources import.
_PARSING = threading.RLock()


def _values(run: Run) -> dict[str, Any]:
    with _PARSING:
        return parameters.validate(run.parameters, parameters.declared(run.notebook), run.name)


def key(run: Run) -> str:
    """The key of a chapter with these parameters, from all that it depends on."""
    with _PARSING:
        return keys.chapter_key(run.notebook, _values(run))


def checkpoints(run: Run) -> Path:
    """The folder in which its training can be taken up again."""
    with _PARSING:
        return keys.checkpoints(run.notebook, _values(run))
