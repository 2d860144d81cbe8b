"""Who does the tasks of a grid: this process, processes of this machine, or a cluster."""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch

from clcore._extras import extra
from clcore.grid.seats import cores, folder, free
from clcore.grid.store import Store
from clcore.grid.work import Outcome, Task, begun, work

log = logging.getLogger(__name__)

LAUNCHERS = (
    "serial",
    "local",
    "local:N",
    "tcp://HOST:PORT",
    "slurm[:NAME=VALUE,...]",
    "submitit[:NAME=VALUE,...]",
)


@runtime_checkable
class Launcher(Protocol):
    """Does tasks in any order. A task may come back more than once only if it is lost: whatever
    ends up in the grid's folder counts."""

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended, as they end."""
        ...


def launcher(name: str) -> Launcher:
    """A launcher by its name, one of LAUNCHERS.

    "serial" is this process; "local" as many processes as there are cores, or GPUs where the tasks
    run on "cuda"; an address a Dask cluster; "slurm" an array of jobs, "submitit" processes that
    stand in for them. Errors: another name; a number of processes below 1; a package that is not
    installed.

    Examples:
        >>> launcher("local:2").jobs
        2
    """
    kind, _, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if name == "serial":
        return Serial()
    if kind == "local" and (not rest or (rest.isdecimal() and int(rest) > 0)):
        return Local(int(rest) if rest else None)
    if kind in ("tcp", "tls", "ws", "wss", "ucx") and rest.startswith("//"):
        from clcore.grid.dask import Dask

        return Dask(name)
    if kind in ("slurm", "submitit"):
        from clcore.grid.slurm import Slurm, parameters

        return Slurm("slurm" if kind == "slurm" else "local", parameters(rest))
    raise ValueError(f"scheduler: expected one of {', '.join(LAUNCHERS)}; got {name!r}")


class Serial:
    """One task after another in this process, with as many threads as it has."""

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended."""
        for task in tasks:
            yield task, work(replace(task, seats=0), threads=None)


class Local:
    """Processes of this machine, one thread each.

    A process that is killed takes the others of its pool with it. Finished runs are kept; the task
    of the process that died is tried once more, alone, so that a second death is its own.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended, as they end."""
        waiting, strikes = {task.name: task for task in tasks}, Counter[str]()
        for task in tasks:  # left by a process that was killed before
            begun(task).unlink(missing_ok=True)
        while waiting:
            calm = [task for name, task in waiting.items() if not strikes[name]]
            alone = calm or list(waiting.values())[:1]
            jobs = self._jobs(alone[0]) if calm else 1
            for task, outcome in self._together(alone, jobs):
                yield waiting.pop(task.name), outcome
            for name, task in [*waiting.items()]:
                if not begun(task).exists():
                    continue
                begun(task).unlink()
                strikes[name] += 1
                if strikes[name] > 1:
                    words = "its process was killed twice, most likely because memory ran out"
                    yield waiting.pop(name), Outcome("killed", error=words)

    def _jobs(self, task: Task) -> int:
        if self.jobs is None and task.device == "cuda":
            return torch.cuda.device_count()
        return self.jobs or cores()

    def _together(self, tasks: list[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
        """The tasks that ended; fewer than all when a process was killed."""
        with extra("cluster"):
            from joblib.externals.loky import (
                BrokenProcessPool,
                as_completed,
                get_reusable_executor,
            )

        one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        # A process costs memory and a start: no more of them than there are tasks.
        pool = get_reusable_executor(
            min(jobs, len(tasks)),
            timeout=60,
            reuse=False,
            env=one,
            initializer=_watch,
            initargs=(os.getpid(),),
        )
        seats = max(jobs, cores())
        if not free("cpu", seats):
            log.warning(
                "other grids hold all %d seats of this machine (%s): this one waits for them; with "
                "$CLCORE_SEATS set to another folder it does not",
                *(seats, folder()),
            )
        try:
            asked = {pool.submit(work, replace(task, seats=seats)): task for task in tasks}
            for future in as_completed(asked):
                task = asked[future]
                try:
                    yield task, future.result()
                except BrokenProcessPool:
                    if all(map(Store(task.folder).has, task.keys)):
                        yield task, Outcome("done")
        finally:  # at once, whatever ended this: finished runs are kept, begun ones go on later
            pool.shutdown(wait=True, kill_workers=True)


def _watch(parent: int) -> None:
    """End this process soon after the one that launched it, which may be killed."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
