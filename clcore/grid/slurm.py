"""Tasks as an array of Slurm jobs, by submitit; or as processes that stand in for them."""

import contextlib
import json
import logging
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from clcore._extras import extra
from clcore._files import write_json
from clcore.grid.seats import cores, private
from clcore.grid.store import Store
from clcore.grid.waiting import PATIENCE
from clcore.grid.work import Outcome, Task, begun, work

with extra("cluster"):
    import yaml

log = logging.getLogger(__name__)

LOOK, ASK = 2.0, 30.0
"""Seconds between two listings of what has ended, and between two questions to Slurm."""
MOST = 1001
"""Jobs of an array if Slurm does not report its limit: Slurm's default."""


def parameters(text: str) -> dict[str, Any]:
    """What stands after "slurm:", such as "timeout_min=600,slurm_partition=gpu", as submitit's
    parameters. Errors: a part without "="."""
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise ValueError(f"scheduler: expected NAME=VALUE,... after slurm:, got {part!r}")
        found[name] = yaml.safe_load(value)
    return found


class Slurm:
    """An array of jobs, a task each, or several where there are more tasks than an array may have
    jobs. submitit's files are kept in the grid's folder.

    However a launch ends, by Ctrl-C, too, jobs that have not ended are cancelled.
    """

    def __init__(self, cluster: str, given: dict[str, Any]) -> None:
        self.cluster, self.given = cluster, given

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended, as they end. Errors: as of submitit, where there is no
        Slurm."""
        waiting = {task.name: task for task in tasks}
        while waiting:
            for task, outcome in self._once([*waiting.values()]):
                del waiting[task.name]
                yield task, outcome
            if waiting:
                log.warning("%d tasks of jobs that ended early are submitted again", len(waiting))

    def _once(self, tasks: list[Task]) -> Iterator[tuple[Task, Outcome]]:
        """The tasks that ended; the others stood behind one over which their job was killed."""
        folder = Path(tasks[0].folder)
        shutil.rmtree(folder / "ended", ignore_errors=True)  # of a launcher that was killed
        place = folder / "ended" / uuid.uuid4().hex
        place.mkdir(parents=True)
        jobs: dict[Any, list[Task]] = {}
        try:
            jobs |= self._submitted(tasks, place)
            yield from self._followed(jobs, place)
        finally:
            self._cancel([*jobs])
            shutil.rmtree(place, ignore_errors=True)

    def _submitted(self, tasks: list[Task], place: Path) -> dict[Any, list[Task]]:
        with extra("cluster"):
            import submitit

        # submitit's files are pickles: nobody else may write there.
        own = private(place.parents[1] / f"jobs-{os.getuid()}")
        executor = submitit.AutoExecutor(own, cluster=self.cluster)
        settings = {"timeout_min": 24 * 60, "cpus_per_task": 1, "name": "clcore"}
        if tasks[0].device.startswith("cuda"):
            settings["gpus_per_node"] = 1
        executor.update_parameters(**settings | self.given)
        seats = cores() if self.cluster == "local" else 0
        count = min(len(tasks), seats or _most())
        parts = [tasks[number::count] for number in range(count)]
        with executor.batch():
            jobs = [
                executor.submit(job, [replace(task, seats=seats) for task in part], str(place))
                for part in parts
            ]
        return dict(zip(jobs, parts, strict=True))

    def _followed(self, jobs: dict[Any, list[Task]], place: Path) -> Iterator[tuple[Task, Outcome]]:
        """Tasks as they end, reported by files of one folder; removes ended jobs from `jobs`."""
        names = {task.name: (one, task) for one, part in jobs.items() for task in part}
        left = {one: {task.name for task in part} for one, part in jobs.items()}
        over: dict[Any, float] = {}
        patience = 0.0 if self.cluster == "local" else PATIENCE
        asked = float("-inf")
        while jobs:
            if time.monotonic() - asked > (0.0 if self.cluster == "local" else ASK):
                asked = time.monotonic()
                for one in self._over([*jobs]):
                    over.setdefault(one, asked)
            for name, outcome in _told(place):
                if name in names:
                    one, task = names.pop(name)
                    left[one].discard(name)
                    yield task, outcome
            for one in [one for one in jobs if not left[one]]:
                del jobs[one]
            for one, since in [*over.items()]:
                if one in jobs and time.monotonic() - since >= patience:
                    yield from _lost(one, [t for t in jobs.pop(one) if t.name in left[one]])
            if jobs:
                time.sleep(0.2 if self.cluster == "local" else LOOK)

    def _cancel(self, jobs: list[Any]) -> None:
        if not jobs:
            return
        log.warning("%d jobs that have not ended are cancelled", len(jobs))
        if self.cluster == "local":
            for one in jobs:
                one.cancel()
        else:  # an array by its number: one call for all of its jobs
            numbers = sorted({one.job_id.partition("_")[0] for one in jobs})
            subprocess.run(["scancel", *numbers], check=False)

    def _over(self, jobs: list[Any]) -> list[Any]:
        """The jobs that have ended, however: one question for all."""
        if self.cluster == "local":
            return [one for one in jobs if one.done()]
        jobs[0].watcher.update()
        return [one for one in jobs if one.watcher.is_done(one.job_id, mode="cache")]


def job(tasks: list[Task], place: str) -> None:
    """What a job does: its tasks, one after another, and a file about each."""
    for task in tasks:
        write_json(Path(place) / f"{task.name}.json", asdict(work(task)))


def _told(place: Path) -> Iterator[tuple[str, Outcome]]:
    """The tasks that a file reports, each once."""
    for path in sorted(place.glob("[!.]*.json")):
        try:
            outcome = Outcome(**json.loads(path.read_bytes()))
            path.unlink()
        except (OSError, ValueError, TypeError):  # shown in part by a shared disk: at the next look
            continue
        yield path.stem, outcome


def _lost(one: Any, tasks: list[Task]) -> Iterator[tuple[Task, Outcome]]:
    """The tasks of a job that ended without a word of them. Those behind the one it died over are
    left out, so that they are submitted again; but none of a job that never came to one."""
    begin = [task for task in tasks if begun(task).exists()]
    for task in tasks:
        if all(map(Store(task.folder).has, task.keys)):
            yield task, Outcome("done")
        elif task in begin or not begin:
            begun(task).unlink(missing_ok=True)
            words = f"job {one.job_id} ended over it (state {one.state}): {_last_words(one)}"
            yield task, Outcome("killed", error=words)


def _last_words(one: Any) -> str:
    try:
        lines = one.paths.stderr.read_text(errors="replace", encoding="utf-8").strip().splitlines()
    except OSError:
        lines = []
    return f"{lines[-1] if lines else 'it wrote nothing':.300} ({one.paths.stderr})"


def _most() -> int:
    """How many jobs an array may have here."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            ["scontrol", "show", "config"], capture_output=True, text=True, timeout=60, check=True
        )
        if found := re.search(r"^MaxArraySize\s*=\s*(\d+)", told.stdout, re.MULTILINE):
            return max(1, int(found[1]))
    return MOST
