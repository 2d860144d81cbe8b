"""What a worker does with a task, a stack of runs of one function; each run has its own file."""

import contextlib
import hashlib
import inspect
import logging
import os
import pickle
import platform
import sys
import threading
import time
import traceback
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pandas as pd
import torch

from clcore import _locks
from clcore._files import DiskFull
from clcore.grid import lent, seats
from clcore.grid.address import needs, resolve
from clcore.grid.store import Store, Stored
from clcore.grid.waiting import patiently
from clcore.sweep import Result, Stopped
from clcore.sweep.configs import Config, out_of_memory

log = logging.getLogger(__name__)


class Unreachable(ConnectionError):
    """No scheduler answers at an address, or none of its workers can do the work.

    Examples:
        >>> try:
        ...     raise Unreachable("no scheduler at tcp://host:8786")
        ... except ConnectionError as error:
        ...     print(error)
        no scheduler at tcp://host:8786
    """


@dataclass(frozen=True)
class Task:
    """Runs that are trained as one tensor.

    function: "module:name"; options: what the runs share and their addresses count; free: what is
    handed to the function, too, and changes no result; shared: larger arguments, as of `lent`;
    needs: `address.needs` of who asks; path: where who asks finds its own modules; mark: of the
    folder, that a worker sees the same one; seats: tasks of this machine at a time, 0 for as many
    as are sent.
    """

    function: str
    configs: list[Config]
    keys: list[str]
    options: dict[str, Any]
    free: dict[str, Any]
    shared: bytes | None
    needs: dict[str, str]
    path: list[str]
    folder: str
    mark: str
    device: str
    seats: int
    tensors: bool

    @property
    def name(self) -> str:
        """A name for its files: a digest of its runs."""
        return hashlib.sha256(" ".join(self.keys).encode()).hexdigest()[:16]

    def only(self, runs: list[int]) -> "Task":
        """The task of some of the runs."""
        return replace(
            self, configs=[self.configs[r] for r in runs], keys=[self.keys[r] for r in runs]
        )


@dataclass(frozen=True)
class Outcome:
    """How a task ended.

    state: done; stopped (its time was over); memory, disk (there was none left); versions (this
    worker has other ones); killed; failed. where: host and process.
    """

    state: str
    seconds: float = 0.0
    where: str = ""
    error: str = ""


LOCK_WAIT = 30.0
"""Seconds for which a worker waits for another one that is at the same task."""

_ONE = threading.Lock()
"""A worker with several threads does one task at a time: torch's default device and number of
threads belong to the process."""


def begun(task: Task) -> Path:
    """Marker file for a running task; names the task if its worker is killed."""
    return Path(task.folder) / "begun" / f"{task.name}.txt"


def work(task: Task, threads: int | None = 1) -> Outcome:
    """Do a task and keep its results; every error is an outcome.

    threads: of torch, None for as many as it has now. Runs that have a result are not run again.
    """
    began, where = time.monotonic(), f"{platform.node()}, process {os.getpid()}"

    def ended(state: str, error: str = "") -> Outcome:
        return Outcome(state, time.monotonic() - began, where, error)

    with _ONE:
        try:
            sys.path.extend(place for place in task.path if place not in sys.path)
            if wrong := _unfit(task):
                return ended(*wrong)
            store = Store(task.folder)
            if _left(task, store):
                with _marked(task, where), _seat(task) as device, _threads(threads):
                    if left := _left(task, store):
                        _compute(left, store, device)
        except Stopped as stopped:
            return ended("stopped", str(stopped))
        except DiskFull as error:
            return ended("disk", str(error))
        except Exception as error:  # a task that fails stops no other
            if out_of_memory(error):
                return ended("memory", f"{type(error).__name__}: {error!s:.800}")
            short = "".join(traceback.format_exception(error)[-3:])
            return ended("failed", f"{type(error).__name__}: {error}\n{short}")
        return ended("done")


def sent(task: bytes) -> Outcome:
    """`work` for a pickled task, from the launcher that one's own cluster was given."""
    return work(pickle.loads(task))


def _unfit(task: Task) -> tuple[str, str] | None:
    """Why this worker must not do the task."""
    folder = Path(task.folder)
    if other := different(task.needs, needs(task.function)):
        return "versions", other
    # Once a mark was waited for, the other tasks of this process do not wait for it, too.
    same = _seen(task) or (task.mark not in _MISSED and patiently(lambda: _seen(task), folder))
    if same:
        return None
    _MISSED.add(task.mark)
    return "failed", (
        f"this worker does not see the grid's folder {folder}; results are kept in files, so that "
        "folder must be one that all machines share"
    )


_MISSED: set[str] = set()


def _seen(task: Task) -> bool | None:
    """Whether this process sees the folder of who asks; None if not, or not yet."""
    return Store(task.folder).mark() == task.mark or None


def different(asked: dict[str, str], own: dict[str, str]) -> str:
    """How the versions of a worker differ from those that are asked for; "" if they do not."""
    return ", ".join(
        f"{name} {own.get(name)} where {wanted} is asked for"
        for name, wanted in asked.items()
        if own.get(name) != wanted
    )


@contextlib.contextmanager
def _seat(task: Task) -> Generator[str, None, None]:
    """The device to run on: of several GPUs, one that no other task of this machine has."""
    if task.device == "cuda":
        with seats.taken("cuda", torch.cuda.device_count()) as number:
            yield f"cuda:{number}"
    elif task.seats:
        with seats.taken("cpu", task.seats):
            yield task.device
    else:
        yield task.device


@contextlib.contextmanager
def _threads(count: int | None) -> Generator[None, None, None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _marked(task: Task, where: str) -> Generator[None, None, None]:
    """Leaves its mark where the process is killed, and only there.

    Waits for whoever is at the same task, such as a worker that was given up for lost; but not for
    ever, since that one may be frozen. Two that do the same write the same.
    """
    path = begun(task)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locks.opened(path) as handle:
        _wait_for(handle, path)
        if not path.exists():  # the other one ended, and took the file with it
            path.touch()
        handle.truncate(0)
        handle.write(where)
        handle.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _wait_for(handle: IO[str], path: Path) -> None:
    end = time.monotonic() + LOCK_WAIT
    try:
        while not _locks.take(handle):
            if time.monotonic() > end:
                log.warning(
                    "%s has held its task for %.0f s since this worker was given it, too; computed "
                    "here as well",
                    *(path.read_text(encoding="utf-8").strip() or path, LOCK_WAIT),
                )
                return
            time.sleep(0.1)
    except _locks.NoLocks:  # the launcher has said so
        return


def _left(task: Task, store: Store) -> Task | None:
    """The runs that have no result yet."""
    left = [r for r, key in enumerate(task.keys) if not store.has(key)]
    return task.only(left) if left else None


def _compute(task: Task, store: Store, device: str) -> None:
    function = resolve(task.function)
    options = task.options | task.free
    if task.shared:
        own = lent.HERE.get(task.shared)
        options = options | (own or lent.read(Path(task.folder), task.shared))
    saved = None
    if "checkpoint" in inspect.signature(function).parameters:
        saved = Path(task.folder) / "begun" / f"{task.name}.pt"
        options = options | {"checkpoint": saved}
    began = time.monotonic()
    found = function(task.configs, device=device, progress=False, **options)
    each = (time.monotonic() - began) / len(task.configs)
    store.write({key: _of(found, run, task, each) for run, key in enumerate(task.keys)})
    if saved:
        saved.unlink(missing_ok=True)


def _of(found: Result | pd.DataFrame, run: int, task: Task, seconds: float) -> Stored:
    """One run's part of what a function returned: a sweep's result, or a table with `run`."""
    table = found if isinstance(found, pd.DataFrame) else found.table
    own = table[table.run == run].drop(columns="run").reset_index(drop=True)
    columns = [name for name in table if name != "run"]
    if isinstance(found, pd.DataFrame):
        return Stored(own, columns, seconds=seconds)
    own = own.drop(columns=[name for name in task.configs[run] if name in own])
    kept = {"params": found.params(run), "setup": found.setup(run)} if task.tensors else {}
    return Stored(own, columns, found.diverged.get(run), seconds, kept)
