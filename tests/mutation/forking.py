"""Work in forked children: nothing is imported again, and whatever happens to a child stays there.

For Linux. A child hangs, is killed, runs out of memory or writes where it likes on its output: the
parent is told how it ended, and goes on.
"""

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY = 6 * 2**30
"""What a child may take, in bytes, besides what it had when it began."""

PATIENCE = 20
HANGS = (signal.SIGPROF, signal.SIGALRM)
"""How a child ends whose time is up: of a processor, or by the clock."""

Tell = Callable[[Any], None]


@dataclass
class Child:
    """A job at work, and in the end how it went. told: what it said, in order. ended: "done",
    "hang" (its time was up), "died" (of a signal, or without a word)."""

    job: Any
    pid: int
    pipe: int
    data: bytearray = field(default_factory=bytearray)
    told: list[Any] = field(default_factory=list)
    ended: str = ""


def allow(seconds: float) -> None:
    """From now on, the child that calls this has so much time of a processor, and, should it wait
    for something, `PATIENCE` times that by the clock, since others may be at work beside it. The
    alarms are the kernel's: no code of the child has to run for them."""
    for number in HANGS:
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)


def each(jobs: Iterable[Any], work: Callable[[Any, Tell], None], workers: int) -> Iterator[Child]:
    """Do `work(job, tell)` in a child for every job, `workers` at a time; yields them as they end.

    What a child tells must be JSON. Children end with the parent, whatever ends it.
    """
    waiting, running = iter(jobs), {}
    with selectors.DefaultSelector() as watched:
        try:
            while True:
                while len(running) < workers:
                    job = next(waiting, running)
                    if job is running:
                        break
                    child = _begin(job, work)
                    running[child.pipe] = child
                    watched.register(child.pipe, selectors.EVENT_READ)
                if not running:
                    return
                for key, _ in watched.select():
                    child = running[key.fd]
                    if data := os.read(key.fd, 1 << 16):
                        child.data += data
                        continue
                    watched.unregister(key.fd)
                    del running[key.fd]
                    _end(child)
                    yield child
        finally:
            for child in running.values():
                _kill(child.pid)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)


def _begin(job: Any, work: Callable[[Any, Tell], None]) -> Child:
    sys.stdout.flush()
    sys.stderr.flush()
    reads, writes = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writes)
        return Child(job, pid, reads)
    try:
        os.close(reads)
        _settle(parent)

        def tell(said: Any) -> None:
            os.write(writes, json.dumps(said).encode() + b"\n")

        work(job, tell)
        tell(True)  # the last word: without it, the child died
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(writes, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(0)


def _settle(parent: int) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: to end with the parent
    if os.getppid() != parent:
        os._exit(1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)


def _end(child: Child) -> None:
    _, status = os.waitpid(child.pid, 0)
    _kill(child.pid)  # what it may have left behind
    os.close(child.pipe)
    for line in bytes(child.data).splitlines():
        with contextlib.suppress(ValueError):  # cut off in the middle
            child.told.append(json.loads(line))
    whole = bool(child.told) and child.told[-1] is True
    if whole:
        child.told.pop()
    alarmed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in HANGS
    child.ended = "done" if whole else "hang" if alarmed else "died"


def _kill(group: int) -> None:
    """End a child and what it started; it may not have made the group its own yet."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(group, signal.SIGKILL)
