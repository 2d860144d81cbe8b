"""Tasks as an array of Slurm jobs, by submitit; or as processes that stand in for them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import yaml

from clcore.grid.work import Outcome, Task, work


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
    """An array of jobs, a task each; submitit's files are kept in the grid's folder."""

    def __init__(self, cluster: str, given: dict[str, Any]) -> None:
        self.cluster, self.given = cluster, given

    def launch(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Each task with how it ended, as they end. Errors: as of submitit, where there is no
        Slurm."""
        import submitit

        executor = submitit.AutoExecutor(Path(tasks[0].folder) / "jobs", cluster=self.cluster)
        own = {"timeout_min": 24 * 60, "cpus_per_task": 1, "name": "clcore"}
        if tasks[0].device.startswith("cuda"):
            own["gpus_per_node"] = 1
        executor.update_parameters(**own | self.given)
        seats = joblib.cpu_count() if self.cluster == "local" else 0
        with executor.batch():
            jobs = [executor.submit(work, replace(task, seats=seats)) for task in tasks]
        waiting = dict(zip(jobs, tasks, strict=True))
        while waiting:
            for job in [job for job in waiting if job.done()]:
                yield waiting.pop(job), _ended(job)
            time.sleep(0.2)


def _ended(job: Any) -> Outcome:
    try:
        return job.result()
    except Exception as error:  # submitit raises for what a job raised and for one that vanished
        return Outcome("killed", error=f"job {job.job_id}: {error!s:.500}")
