"""What a build asks of the process that forks."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import psutil

from clcore.book import keys, surroundings
from clcore.book.build.planning import Run

STACK = ("torch", "pandas", "matplotlib.pyplot", "seaborn", "scipy.stats", "sympy")
"""What takes long to import. The process imports those that two chapters or more have need of."""

GONE = 60
"""Seconds for a runner to see that its parent is gone; it looks ten times a second."""


class Runner:
    """A chapter's runner that another process forked; of a Popen what a build asks of one."""

    def __init__(self, door: socket.socket, job: Path, own: dict[str, str], out: list[int]) -> None:
        """own: variables of this chapter alone; out: files for what it prints and for its errors.
        Raises OSError where nobody forks."""
        told = json.dumps({"job": str(job), "own": own}).encode()
        self._answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(door, [told], [theirs.fileno(), *out])
        answer = self._answers.recv(64)
        if not answer:
            self._answers.close()
            raise ChildProcessError("the process that forks is gone")
        self.pid = int(answer)

    def wait(self) -> int:
        """Its exit status, once it has ended: below 0, the signal that ended it."""
        with self._answers:
            answer = self._answers.recv(64)
        if answer:
            return int(answer)
        # The process that forks is gone, and its children end themselves.
        with contextlib.suppress(psutil.Error):
            psutil.Process(self.pid).wait(GONE)
        return -signal.SIGKILL

    def terminate(self) -> None:
        """End it and its kernel."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)


@contextlib.contextmanager
def door(runs: list[Run], environment: dict[str, str]) -> Generator[socket.socket | None]:
    """Where a `Runner` can be asked for, or None: for one chapter, on a GPU, with more threads than
    one, where there is no Linux, or something lies beside the notebooks that an import in a kernel
    would find first.

    environment: of the process, and so of its children, but for what each is given.
    """
    folders = {run.notebook.parent for run in runs}
    devices = {run.parameters["device"] for run in runs}
    single = devices == {"cpu"} and environment.get("OMP_NUM_THREADS") == "1"
    if len(runs) < 2 or len(folders) > 1 or not single or sys.platform != "linux":
        yield None
        return
    folder = folders.pop()
    if surroundings.found_first(folder):
        yield None
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"from clcore.book.warm import serve; serve.serve({theirs.fileno()}, {needed(runs)})"
    with ours, tempfile.TemporaryFile() as said:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=folder,  # where matplotlib looks for settings, as in a kernel
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        try:
            yield ours
        finally:  # what it forked has ended, or ends without its parent
            process.kill()
            process.wait()


def needed(runs: list[Run]) -> list[str]:
    """What of the stack two chapters or more import, they or the files of clcore they need."""
    asked = [_with_those_around(keys.imports(run.notebook, run.parameters)) for run in runs]
    return [name for name in STACK if sum(name in names for names in asked) > 1]


def _with_those_around(names: set[str]) -> set[str]:
    return {".".join(n.split(".")[:i]) for n in names for i in range(1, n.count(".") + 2)}
