"""Chapters in separate processes, several at a time."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clcore import _folders, _paths
from clcore._files import explain_full, read_json, write_json
from clcore.book import schedule, surroundings
from clcore.book.build.cache import gather, keep
from clcore.book.build.planning import Process, Run, checkpoints, key
from clcore.book.warm import ask

CAUSE = 200
"""Maximal length of an error message while other notebooks run."""


class _Progress:
    """Lines about several chapters at once, which threads print, and whether to stop."""

    def __init__(self, total: int) -> None:
        self.stopping = threading.Event()
        self._total, self._ended, self._lock = total, 0, threading.Lock()

    def begins(self, run: Run) -> None:
        given = run.parameters
        self._print(f"{run.name}: running ({given['profile']}, {given['device']})")

    def ends(self, run: Run) -> None:
        with self._lock:
            self._ended += 1
            count = f" ({self._ended} of {self._total})" if self._total > 1 else ""
        why = "" if run.status == "ok" else f": {_cause(run.outcome)}"  # the whole at the end
        self._print(
            f"{run.name}: {run.status} after {run.outcome.get('seconds', '?')} s{count}{why}"
        )

    def _print(self, line: str) -> None:
        with self._lock:
            if not self.stopping.is_set():  # what was ended has not failed
                with contextlib.suppress(OSError, ValueError):  # nobody reads: the work goes on
                    print(line, flush=True)


def _cause(outcome: dict) -> str:
    """An error, its cell and its cause in a line. Errors of others have rulers and previews in
    their later lines: of these as much as stays short."""
    lines = (line.strip() for line in outcome.get("error", "").splitlines())
    told = " ".join(line for line in lines if any(map(str.isalnum, line)))
    told = told if len(told) <= CAUSE else f"{told[: CAUSE - 4]} ..."
    return f"in cell {outcome['cell']}: {told}" if outcome.get("cell") else told


def execute_all(waiting: list[Run], jobs: int | str) -> None:
    """Run the chapters, the longest first and `jobs` at a time; an interrupt ends them all."""
    if not waiting:
        return
    profile, device = (waiting[0].parameters[name] for name in ("profile", "device"))
    by_name = {run.name: run for run in waiting}
    order = schedule.longest_first(list(by_name), profile)
    jobs = schedule.side_by_side(jobs, device, order, profile)
    progress = _Progress(len(order))
    surroundings.find_fonts()
    if jobs > 1:
        print(f"{len(order)} chapters to run, {jobs} at a time", flush=True)
    with ThreadPoolExecutor(jobs) as pool, ask.door(waiting, _environment(jobs)) as door:
        try:
            list(pool.map(lambda name: _execute(by_name[name], jobs, progress, door), order))
        except BaseException:  # Ctrl-C: end what runs, so that leaving the pool waits for nothing
            progress.stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for run in waiting:
                if run.process:
                    run.process.terminate()
            raise


def _environment(jobs: int) -> dict[str, str]:
    """What reaches all chapters, `jobs` of which run at a time."""
    threads = schedule.threads(jobs)
    return surroundings.environment(
        MPLBACKEND="module://matplotlib_inline.backend_inline",
        **({"OMP_NUM_THREADS": str(threads)} if threads else {}),
    )


def _begin(
    job: Path, environment: dict[str, str], own: dict[str, str], out: list[int], door: Any
) -> Process:
    """A chapter's runner: forked where it can be. own: variables of this chapter alone; out: files
    for what it prints and for its errors."""
    if door:
        with contextlib.suppress(OSError):  # nobody is there who forks
            return ask.Runner(door, job, own, out)
    return subprocess.Popen(
        [sys.executable, "-m", "clcore.book.execute", str(job)],
        env=environment | own,
        stdin=subprocess.DEVNULL,
        stdout=out[0],
        stderr=out[1],
    )


def _execute(run: Run, jobs: int, progress: _Progress, door: Any) -> None:
    """Run one notebook in its own process and cache it if it succeeds."""
    progress.begins(run)
    work = _paths.build_dir() / "work" / f"{run.name}-{os.getpid()}"
    ipython = work / "ipython"
    try:
        kept = checkpoints(run)
        _folders.begin(work)
        ipython.mkdir(exist_ok=True)
        job = {
            "notebook": str(run.notebook),
            "output": str(work / "executed.ipynb"),
            "outcome": str(work / "run.json"),
            "parameters": run.parameters,
            "solutions": run.parameters["profile"] == "smoke",
            "progress": jobs == 1 and bool(sys.stderr and sys.stderr.isatty()),
            "parent": os.getpid(),
        }
        write_json(work / "job.json", job)
        own = {
            "CLCORE_CHECKPOINTS": str(kept),
            "IPYTHONDIR": str(ipython),  # neither the reader's start-up files nor their history
        }
        if first := surroundings.startup():
            _begins_with(first, ipython)
        with (work / "log").open("wb") as log:
            out = [log.fileno(), sys.stderr.fileno() if job["progress"] else log.fileno()]
            process = _begin(work / "job.json", _environment(jobs), own, out, door)
            run.process = process
            if progress.stopping.is_set():  # between the interrupt's look at processes and this
                process.terminate()
            status = process.wait()
        if (work / "run.json").exists():
            run.outcome = read_json(work / "run.json", "run the build again")
            if run.outcome["status"] == "dead":
                run.outcome["traceback"] = _tail(work / "log")
        else:
            run.outcome = _vanished(status, work / "log")
        run.status = run.outcome["status"]
        executed = work / "executed.ipynb"
        if run.status == "ok":
            data = executed.read_bytes()
            run.result = gather(run, json.loads(data))
            if key(run) != run.key:
                raise ValueError(
                    "the sources were edited while it ran, so its result belongs to neither "
                    "state; run the build again"
                )
            keep(run, data)
            shutil.rmtree(kept, ignore_errors=True)
    except Exception as error:  # whatever it is, the other chapters go on
        run.fail(explain_full(error, work) if isinstance(error, OSError) else error)
        run.result = {}
    finally:
        _folders.remove(work)
        progress.ends(run)


def _begins_with(file: Path, ipython: Path) -> None:
    """Let every kernel of a build run a file of Python first."""
    folder = ipython / "profile_default" / "startup"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "00-first.py").write_text(
        f"import runpy\nrunpy.run_path({str(file)!r})\n", encoding="utf-8"
    )


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


def _vanished(status: int, log: Path) -> dict:
    tail = _tail(log)
    if status < 0:
        error = (
            f"the process was killed by signal {-status}"
            + (", most likely because memory ran out" if status == -9 else "")
            + "; run the build again, with a smaller profile or fewer --jobs if it recurs"
        )
        return {"status": "dead", "error": error, "traceback": tail}
    last = next((line for line in reversed(tail.splitlines()) if line.strip()), "it said nothing")
    return {
        "status": "failed",
        "error": f"the runner stopped with status {status}: {last}",
        "traceback": tail,
    }
