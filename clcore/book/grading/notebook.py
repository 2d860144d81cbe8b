"""The process of one notebook: runs its cells, then returns the requested values.

Started by `clcore.book.grading.mark`, which writes to its standard input. The notebook's output
is discarded. It has no judge: `exercises.check` prints nothing here.
"""

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

_WORDS = 300


class CellTimeout(BaseException):
    """A cell that took too long. No Exception, so that few cells catch it."""


def main() -> None:
    """Serve one notebook over the two streams that the process was started with."""
    asked, answers = _streams()
    from clcore.book.grading import wire

    job = wire.receive(asked)
    _limit(job["mib"])
    _without_judges()
    shell = _shell()
    for at, cell in enumerate(job["cells"]):
        failed = _run(shell, cell["source"], job["seconds"])
        if cell["parameters"]:
            # As papermill would: the notebook may have been left with a larger profile.
            shell.user_ns |= {"profile": "smoke", "device": "cpu"}
        wire.send(answers, {"cell": at, "failed": failed})
    wire.send(answers, {"ran": True})
    functions: list[Callable] = []
    while True:
        try:
            request = wire.receive(asked)
        except EOFError:
            return
        wire.send(answers, _answer(request, shell.user_ns, functions, job["seconds"]))


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output as they were, out of the notebook's way."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return asked, answers


def _limit(mib: int) -> None:
    """Limit the memory that this process may get, where the system can (Linux)."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (mib * 2**20, mib * 2**20))


def _without_judges() -> None:
    """In place of the package that judges, a module that does nothing: its answers are not here."""
    import clcore.book

    stub = ModuleType("clcore.book.exercises")
    for name in ("check", "score"):
        setattr(stub, name, lambda *args, **named: None)
    for name, error in (("NotYet", AssertionError), ("ExerciseError", ValueError)):
        setattr(stub, name, error)
    sys.modules["clcore.book.exercises"] = stub
    vars(clcore.book)["exercises"] = stub
    _closed(Path(str(clcore.book.__file__)).with_name("exercises").resolve())
    # The book's own checks take most of a chapter's time, and no answer needs what they find.
    from clcore.ledger import Ledger

    Ledger.run = lambda self, checks, draws, seed: []


def _closed(folder: Path) -> None:
    """Python opens no file of a folder by its path any more: who takes the module above out of
    `sys.modules` would import the judges from there. Other programs still read them."""

    def hook(event: str, given: tuple, real: Callable = os.path.realpath) -> None:
        named = event == "open" and isinstance(given[0], str | bytes | os.PathLike)
        if named and real(os.fsdecode(given[0])).startswith(f"{folder}{os.sep}"):
            raise PermissionError("the judges are not for a notebook that is graded")

    sys.addaudithook(hook)


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False  # no file in a home folder
    return InteractiveShell.instance(config=settings)


def _run(shell: Any, source: str, seconds: float) -> str | None:
    """Run a cell; what went wrong, in words."""
    try:
        with _alarm(seconds):
            result = shell.run_cell(source, store_history=True)
    except BaseException as error:
        return _words(error)
    error = result.error_before_exec or result.error_in_exec
    return _words(error) if error else None


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Raise CellTimeout inside after so many seconds, again each second, for it may be caught.
    Python sees it between two of its steps; where there are none, the other process ends this one.
    """
    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def late(*_: Any) -> None:
        raise CellTimeout(f"took longer than {seconds:g} seconds")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_WORDS]


def _answer(
    request: dict, space: dict[str, Any], functions: list[Callable], seconds: float
) -> dict[str, Any]:
    from clcore.book.grading import wire

    try:
        with _alarm(seconds):
            if "name" in request:
                if request["name"] not in space:
                    return {"absent": True}
                value = space[request["name"]]
            else:
                value = functions[request["call"]](*wire.unpack(request["with"]))
            return {"value": wire.pack(value, functions)}
    except BaseException as error:
        return {"failed": _words(error)}


if __name__ == "__main__":
    main()
