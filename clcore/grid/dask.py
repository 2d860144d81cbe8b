"""Tasks on a Dask cluster, by the address of its scheduler."""

import contextlib
import logging
import os
import pickle
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from clcore.grid.work import Outcome, Task, Unreachable, different

log = logging.getLogger(__name__)

WAIT = 60.0
"""Seconds to wait for a scheduler or for workers, unless $CLCORE_SCHEDULER_WAIT says otherwise."""
PAUSE, EVERY = 0.05, 5.0
"""Seconds between two looks at the tasks, and at the workers that they may run on."""


def _wait() -> float:
    given = os.environ.get("CLCORE_SCHEDULER_WAIT", WAIT)
    try:
        return float(given)
    except ValueError:
        raise ValueError(
            f"CLCORE_SCHEDULER_WAIT: expected a number of seconds, got {given!r}"
        ) from None


_PROBE = "__import__('clcore.grid.address', fromlist=['needs']).needs({!r})"
_WORK = "__import__('clcore.grid.work', fromlist=['sent']).sent({!r})"
"""What workers evaluate: what they have, and a task. Both are texts, since a scheduler reads what
is sent and may lack this package, as a worker may."""


class Dask:
    """Workers of a cluster that somebody started, with one thread or more; a task at a time each.

    A worker that dies, a scheduler that is started again: tasks that were lost are sent again. A
    worker with another version of the code, torch, numpy or Python gets none.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended, as they end. Raises Unreachable."""
        waiting = {task.name: task for task in tasks}
        while waiting:
            with self._client() as client:
                try:
                    for task, outcome in self._sent(client, [*waiting.values()]):
                        del waiting[task.name]
                        yield task, outcome
                except Unreachable:
                    raise
                except OSError as error:  # the scheduler went while it was asked something
                    log.warning("the connection to %s was lost (%s)", self.address, error)
            if waiting:
                log.warning("%s: %d tasks were lost and are sent again", self.address, len(waiting))

    @contextlib.contextmanager
    def _client(self) -> Generator[Any, None, None]:
        from distributed import Client

        began, wait = time.monotonic(), _wait()
        try:
            client = Client(self.address, timeout=wait, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise Unreachable(
                f"no Dask scheduler answered at {self.address} within {wait:g} s "
                f"({time.monotonic() - began:.0f} s waited: {error!s:.100}); start one with `dask "
                "scheduler`, or mend the address. What was finished is kept"
            ) from None
        try:
            with contextlib.suppress(TimeoutError):
                client.wait_for_workers(1, timeout=wait)
            yield client
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                client.close(timeout=5)

    def _sent(self, client: Any, tasks: list[Task]) -> Iterator[tuple[Task, Outcome]]:
        """The tasks that ended; fewer than all when the scheduler was lost, or all workers that
        they may run on."""
        fit = self._fit(client, tasks)
        more = {"resources": {"GPU": 1}} if tasks[0].device.startswith("cuda") else {}
        pending = {_submit(client, task, fit, more): task for task in tasks}
        looked = time.monotonic()
        while pending:
            if client.status != "running":
                return
            if fit and time.monotonic() - looked > EVERY:
                looked = time.monotonic()
                if not fit & client.scheduler_info(n_workers=-1)["workers"].keys():
                    return
            for future in [future for future in pending if future.status != "pending"]:
                task = pending.pop(future)
                outcome = _ended(future)
                if outcome is None:  # lost with its scheduler
                    continue
                if outcome.state == "versions":  # a worker that came later
                    log.warning("%s refused a task: %s", outcome.where, outcome.error)
                    fit = self._fit(client, [task])
                    pending[_submit(client, task, fit, more)] = task
                    continue
                yield task, outcome
            time.sleep(PAUSE)

    def _fit(self, client: Any, tasks: list[Task]) -> set[str]:
        """The workers that the tasks may run on; none if every worker has what they need.

        Raises Unreachable if there are no workers, or none has it.
        """
        wanted = {task.function: task.needs for task in tasks}
        unfit: dict[str, str] = {}
        every: set[str] = set()
        for function, asked in wanted.items():
            probe = _PROBE.format(function)
            for worker, own in client.run(eval, probe, on_error="return").items():
                every.add(worker)
                if not isinstance(own, dict):
                    unfit[worker] = f"{type(own).__name__}: {own}"
                elif other := different(asked, own):
                    unfit[worker] = other
        if not every:
            raise Unreachable(
                f"the scheduler at {self.address} has no workers after {_wait():g} s; start some "
                f"with `dask worker {self.address} --nthreads 1`. What was finished is kept"
            )
        told = "; ".join(f"{worker}: {why}" for worker, why in sorted(unfit.items()))
        if not every - unfit.keys():
            raise Unreachable(
                f"no worker of {self.address} can do the work: {told}. Install the same clcore, "
                "torch, numpy and Python there"
            )
        if not unfit:
            return set()
        log.warning("workers that get no task: %s", told)
        return every - unfit.keys()


def _submit(client: Any, task: Task, fit: set[str], more: dict[str, Any]) -> Any:
    where = {"workers": sorted(fit)} if fit else {}
    return client.submit(eval, _WORK.format(pickle.dumps(task)), pure=False, **where, **more)


def _ended(future: Any) -> Outcome | None:
    """How a task ended; None when it was lost with its scheduler."""
    from distributed import CancelledError, KilledWorker

    try:
        if future.status == "finished":
            return future.result()
        if future.status != "error":
            return None
        error = future.exception()
    except CancelledError:  # the scheduler went between the two questions
        return None
    if isinstance(error, KilledWorker):
        return Outcome("killed", error=f"workers died over it: {error!s:.200}")
    return Outcome("failed", error=f"{type(error).__name__}: {error}")
