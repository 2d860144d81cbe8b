"""The workers of a Dask cluster: which can do the tasks, which answer, which fell silent."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Any

from clcore.grid.waiting import Teller
from clcore.grid.work import Task, Unreachable, different

log = logging.getLogger(__name__)

EVERY, SILENT = 5.0, 60.0
"""Seconds between two looks at the workers, and without a sign after which one gets no task."""
FEW, MANY = 10.0, 300.0
"""Seconds for which a worker's answer is waited for while another one could begin, and at all: to
answer it imports PyTorch, which takes minutes on a busy machine."""
ASK = 60.0
"""Seconds for which the scheduler's answer is waited for."""

_PROBE = (
    "__import__('sys').path.extend([p for p in {path!r} if p not in __import__('sys').path]) or "
    "list(map(__import__('clcore.grid.address', fromlist=['needs']).needs, {names!r}))"
)
"""The expression with which a worker reports its hardware; a text, since it may lack clcore."""


class Workers:
    """Those of one cluster, for the tasks of one launch.

    A worker is asked once what it has, and again if the connection broke; one that does not answer,
    being frozen or not there any more, holds nobody up, and gets tasks as soon as it answers.
    """

    def __init__(self, client: Any, address: str, tasks: Sequence[Task]) -> None:
        self.client, self.address = client, address
        self.wanted = {task.function: task.needs for task in tasks}
        self.path, self.gpu = tasks[0].path, tasks[0].device.startswith("cuda")
        self.there: dict[str, dict[str, Any]] = {}
        self.unfit: dict[str, str] = {}
        self.asked: dict[str, asyncio.Future] = {}
        self.cut: set[str] = set()
        self.able: set[str] = set()
        self.signs: dict[str, tuple[Any, float]] = {}
        self.silent: set[str] = set()
        self.looked = float("-inf")

    @property
    def fit(self) -> dict[str, int]:
        """The workers that may be given a task now, with how many they do at a time."""
        good = (self.able & self.there.keys()) - self.silent
        return {name: 1 if self.gpu else self.there[name]["nthreads"] for name in good}

    def first(self) -> None:
        """Wait until some can work. Raises Unreachable if there are none, or none can."""
        began, teller = time.monotonic(), Teller()
        while True:
            self.look(0.5)
            waited = time.monotonic() - began
            if not self.there:
                raise Unreachable(
                    f"the scheduler at {self.address} has no workers; start some with `dask worker "
                    f"{self.address} --nthreads 1`. Finished runs are kept"
                )
            if not (self.asked or self.cut) or waited > (FEW if self.fit else MANY):
                break
            if self.cut:  # its end may not be known yet, nor who takes its place
                time.sleep(0.5)
            teller.tell("workers of %s have not answered yet: %s", self.address, [*self.asked])
        if self.fit:
            return
        told = [f"{worker}: {why}" for worker, why in sorted(self.unfit.items())]
        asked = sorted(self.asked.keys() | self.cut)
        told += [f"{worker}: no answer in {waited:.0f} s" for worker in asked]
        told += [f"{w}: no sign for {SILENT:.0f} s" for w in sorted(self.silent & self.able)]
        raise Unreachable(f"no worker of {self.address} can do the work: {'; '.join(told)}")

    def due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() - self.looked > EVERY

    def look(self, wait: float = 0.0) -> None:
        """Find the workers that are connected and have answered, within `wait` seconds. Raises
        TimeoutError if the scheduler does not answer."""
        self.there = self.client.sync(self._look, wait, callback_timeout=ASK)
        self.looked = time.monotonic()
        for worker, info in self.there.items():
            sign = info.get("last_seen")
            if worker not in self.signs or self.signs[worker][0] != sign:
                self.signs[worker] = sign, self.looked
        before = self.silent
        self.silent = {w for w in self.there if self.looked - self.signs[w][1] > SILENT}
        for worker in sorted(self.silent - before - self.asked.keys()):  # who is asked imports
            log.warning("%s gave no sign for %.0f s and gets no task until it does", worker, SILENT)

    def again(self) -> None:
        """Ask all workers again, after one refused a task."""
        self.able, self.unfit = set(), {}

    def close(self) -> None:
        """Wait for no answer any more."""

        async def stop() -> None:
            for asked in self.asked.values():
                asked.cancel()

        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.sync(stop, callback_timeout=5)

    async def _look(self, wait: float) -> dict[str, dict[str, Any]]:
        there = (await self.client.scheduler.identity(n_workers=-1))["workers"]
        self.cut.clear()
        for worker in there.keys() - self.asked.keys() - self.able - self.unfit.keys():
            if self.gpu and not there[worker].get("resources", {}).get("GPU"):
                self._refuse(worker, "it offers no GPU; start it with --resources GPU=1")
                continue
            text = _PROBE.format(path=self.path, names=[*self.wanted])
            asking = self.client.run(eval, text, workers=[worker], on_error="return")
            self.asked[worker] = asyncio.ensure_future(asking)
        for worker in self.asked.keys() - there.keys():
            self.asked.pop(worker).cancel()
        if self.asked:
            await asyncio.wait(self.asked.values(), timeout=wait)
        for worker in [worker for worker, asked in self.asked.items() if asked.done()]:
            self._heard(worker, self.asked.pop(worker))
        return there

    def _heard(self, worker: str, asked: asyncio.Future) -> None:
        self.signs[worker] = None, time.monotonic()  # an answer is a sign
        try:
            own = asked.result().get(worker)
        except (Exception, asyncio.CancelledError) as error:
            own = error
        if type(own).__name__ == "CommClosedError":
            self.cut.add(worker)
            return
        if not isinstance(own, list):
            self._refuse(worker, _lacks(own))
            return
        pairs = zip(self.wanted.values(), own, strict=True)
        if other := "; ".join(filter(None, (different(wanted, has) for wanted, has in pairs))):
            self._refuse(
                worker,
                f"{other}; install the same there, and start a worker again whose code was edited",
            )
        else:
            self.able.add(worker)

    def _refuse(self, worker: str, why: str) -> None:
        self.unfit[worker] = why
        log.warning("%s gets no task: %s", worker, why)


def _lacks(error: Any) -> str:
    """What a worker lacks, and how to give it that."""
    told = f"{type(error).__name__}: {error}"
    if not isinstance(error, ModuleNotFoundError):
        return told
    first = str(error.name).partition(".")[0]
    if first in ("clcore", "torch", "numpy", "pandas"):
        return f"{told}. Install the same clcore, torch, numpy and Python there"
    return (
        f"{told}. Put the module {first} where this worker sees it: into a folder that both "
        "machines share, or one of its PYTHONPATH"
    )
