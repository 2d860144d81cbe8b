"""Tasks on a Dask cluster, by the address of its scheduler."""

import contextlib
import logging
import os
import pickle
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from clcore._extras import extra
from clcore.grid.waiting import MINUTE, Teller
from clcore.grid.work import Outcome, Task, Unreachable, begun
from clcore.grid.workers import ASK, Workers

log = logging.getLogger(__name__)

WAIT = 60.0
"""Seconds to wait for a scheduler or for workers, unless $CLCORE_SCHEDULER_WAIT is set."""
DEATHS = 3
"""Times that the workers which had a task die before it is called killed."""
PAUSE = 0.02
"""Seconds between two looks at the tasks."""

_WORK = "__import__('clcore.grid.work', fromlist=['sent']).sent({!r})"
"""What workers evaluate: a text, since the scheduler reads what is sent and may lack this package,
as a worker may."""


def _wait() -> float:
    given = os.environ.get("CLCORE_SCHEDULER_WAIT", WAIT)
    try:
        return float(given)
    except ValueError:
        raise ValueError(
            f"CLCORE_SCHEDULER_WAIT: expected a number of seconds, got {given!r}"
        ) from None


class Dask:
    """Workers of a cluster that somebody started, with one thread or more; a task at a time each.

    A worker that dies or freezes, a scheduler that is started again: tasks that were lost are sent
    again, unless workers die over one again and again. A worker with another version of the code,
    torch, numpy or Python gets none. The scheduler has about as many tasks as are worked at, the
    others wait here.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended, as they end. Raises Unreachable."""
        waiting, deaths = {task.name: task for task in tasks}, Counter[str]()
        while waiting:
            with self._client() as client:
                try:
                    for task, outcome in self._sent(client, [*waiting.values()], deaths):
                        del waiting[task.name]
                        yield task, outcome
                except Unreachable:
                    raise
                except OSError as error:  # the scheduler went, or froze, while it was asked
                    log.warning("the connection to %s was lost (%r)", self.address, error)
            if waiting:
                log.warning("%s: %d tasks were lost and are sent again", self.address, len(waiting))

    @contextlib.contextmanager
    def _client(self) -> Generator[Any, None, None]:
        wait = _wait()
        client = self._connected(wait)
        try:
            self._wait_for_workers(client, wait)
            yield client
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                client.close(timeout=5)

    def _connected(self, wait: float) -> Any:
        with extra("cluster"):
            from distributed import Client
        began, teller = time.monotonic(), Teller()
        while True:
            left = wait - (time.monotonic() - began)
            try:
                return Client(
                    self.address, timeout=max(0.1, min(left, MINUTE)), set_as_default=False
                )
            except TypeError as error:  # tls:// without certificates
                raise Unreachable(
                    f"{self.address} cannot be reached: {error}. Name the certificates in Dask's "
                    "configuration (distributed.comm.tls, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE "
                    "and the like)"
                ) from None
            except ImportError as error:
                raise Unreachable(f"{self.address} cannot be reached: {error}") from None
            except (OSError, TimeoutError, ValueError) as error:
                waited = time.monotonic() - began
                if waited < wait and isinstance(error, OSError):
                    teller.tell("no scheduler answers at %s yet", self.address)
                    time.sleep(PAUSE)
                    continue
                raise Unreachable(
                    f"no Dask scheduler answered at {self.address} within {wait:g} s "
                    f"({waited:.0f} s waited: {error!s:.100}); start one with `dask scheduler`, or "
                    "correct the address. Finished runs are kept"
                ) from None

    def _wait_for_workers(self, client: Any, wait: float) -> None:
        began = time.monotonic()
        while (left := wait - (time.monotonic() - began)) > 0:
            with contextlib.suppress(TimeoutError):
                client.wait_for_workers(1, timeout=min(left, MINUTE))
                return
            log.warning(
                "the scheduler at %s has no workers after %.0f s",
                *(self.address, time.monotonic() - began),
            )

    def _sent(
        self, client: Any, tasks: list[Task], deaths: Counter[str]
    ) -> Iterator[tuple[Task, Outcome]]:
        """The tasks that ended; fewer than all when the scheduler was lost, or all workers that
        they may run on. deaths: counted here, by the tasks' names."""
        todo, pending = deque(tasks), dict[Any, tuple[Task, dict[str, int]]]()
        workers = Workers(client, self.address, tasks)
        try:
            workers.first()
            while (todo or pending) and client.status == "running":
                if workers.due():
                    workers.look()
                    for future in _stuck(client, pending, workers):
                        task, given = pending.pop(future)
                        deaths[task.name] += _died(task, given, workers)
                        if deaths[task.name] < DEATHS:
                            todo.appendleft(task)
                        else:
                            yield (
                                task,
                                Outcome("killed", error=f"workers died over it {DEATHS} times"),
                            )
                    if not workers.fit:
                        log.warning("no worker of %s is left that can work", self.address)
                        return
                # One more than are worked at: what waits here goes to whoever answers later, too.
                while todo and len(pending) <= sum(workers.fit.values()):
                    task = todo.popleft()
                    pending[_submit(client, task, workers.fit)] = task, workers.fit
                for future in [future for future in pending if future.status != "pending"]:
                    task, _ = pending.pop(future)
                    outcome = _ended(future)
                    if outcome is None:  # lost, with its worker or scheduler
                        todo.append(task)
                        continue
                    if outcome.state == "versions":  # a worker that changed since it was asked
                        log.warning("%s refused a task: %s", outcome.where, outcome.error)
                        workers.again()
                        workers.first()
                        todo.append(task)
                        continue
                    yield task, outcome
                time.sleep(PAUSE)
        finally:
            workers.close()


def _submit(client: Any, task: Task, fit: dict[str, int]) -> Any:
    more = {"resources": {"GPU": 1}} if task.device.startswith("cuda") else {}
    text = _WORK.format(pickle.dumps(task))
    return client.submit(eval, text, pure=False, workers=sorted(fit), **more)


def _stuck(client: Any, pending: dict[Any, tuple[Task, dict]], workers: Workers) -> list[Any]:
    """The tasks that others must do: those with workers that fell silent, and those for workers of
    which none is left."""
    held: set[str] = set()
    if workers.silent:
        silent = [*workers.silent]
        told = client.sync(client.scheduler.processing, workers=silent, callback_timeout=ASK)
        held = {key for keys in told.values() for key in keys}
    return [
        future
        for future, (_, given) in pending.items()
        if future.key in held or not workers.fit.keys() & given.keys()
    ]


def _died(task: Task, given: dict[str, int], workers: Workers) -> bool:
    """Whether a task's workers are gone, one of them over the task: it has left its mark.

    A worker that comes back, started again by its nanny, has another address.
    """
    if given.keys() & workers.there.keys() or not begun(task).exists():
        return False
    begun(task).unlink(missing_ok=True)
    return True


def _ended(future: Any) -> Outcome | None:
    """How a task ended; None when that was lost with its scheduler, or with the worker that had it,
    where no other one may do the task again."""
    from distributed import CancelledError, KilledWorker

    try:
        if future.status == "finished":
            return future.result(timeout=ASK)
        if future.status != "error":
            return None
        error = future.exception(timeout=ASK)
    except (CancelledError, TimeoutError):  # gone between the two questions
        return None
    if isinstance(error, KilledWorker):
        return Outcome("killed", error=f"workers died over it: {error!s:.200}")
    return Outcome("failed", error=f"{type(error).__name__}: {error}")
