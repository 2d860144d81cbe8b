"""The build: execute the chapters, gather what they found, write the ledger, make the site.

Everything that is made lies in _build/ and is written whole or not at all:
cache/<chapter>-<key>/ (executed.ipynb, run.json), ledger.json, html/.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from clcore import _paths, ledger
from clcore._files import explain_full, read_json, sha256, write_atomic, write_json
from clcore.book import keys, parameters, schedule
from clcore.book.provenance import PROVENANCE_MIME, commit, encode
from clcore.book.site import code, drawing, stage
from clcore.ledger import words
from clcore.ledger.html import check_table

KEEP = 3  # cache entries kept for each chapter and profile


class BuildError(RuntimeError):
    """The build was asked for something that it cannot do."""


@dataclass
class Run:
    """One chapter of a build."""

    name: str
    notebook: Path
    parameters: dict[str, Any]
    key: str = ""
    status: str = "waiting"  # ok, failed, dead, missing (not asked for and not in the cache)
    cached: bool = False
    outcome: dict = field(default_factory=dict)
    result: dict = field(default_factory=dict)
    process: subprocess.Popen | None = None

    def fail(self, error: Exception) -> None:
        self.status = "failed"
        self.outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}"}

    @property
    def entry(self) -> Path:
        profile = self.parameters["profile"]
        return _paths.build_dir() / "cache" / f"{self.name}-{profile}-{self.key}"


def chapters() -> list[str]:
    """Names of the notebooks in _toc.yml, in order."""
    toc = yaml.safe_load((_paths.root() / "_toc.yml").read_text())
    found: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            name = str(node.get("file", ""))
            if name.startswith("chapters/"):
                found.append(name.removeprefix("chapters/").removesuffix(".ipynb"))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(toc)
    return found


def plan(profile: str, only: list[str] | None, device: str) -> list[Run]:
    """The runs of a build, parameters checked before any kernel starts.

    A notebook that cannot be read, or that does not take these parameters, is a failed run.
    Raises BuildError for an unknown chapter and ParameterError for a profile or device that no
    chapter takes.
    """
    if profile not in parameters.PROFILES:
        raise parameters.ParameterError(
            f"expected profile in {', '.join(parameters.PROFILES)}; got {profile!r}"
        )
    names = chapters()
    for name in only or []:
        if name not in names:
            raise BuildError(
                f"expected --only to name chapters of {', '.join(names)}; got {name!r}"
            )
    resolved = parameters.check_device(device)
    runs = []
    for name in names:
        notebook = _paths.root() / "chapters" / f"{name}.ipynb"
        if not notebook.is_file():
            raise BuildError(
                f"_toc.yml lists chapters/{name}, but {_paths.shown(notebook)} is gone"
            )
        given = {"profile": profile, "device": resolved}
        run = Run(name, notebook, given)
        try:
            run.key = _key(run)
        except (SyntaxError, ValueError, KeyError) as error:
            run.fail(error)
        runs.append(run)
    return runs


# Python 3.11 cannot parse in two threads at once (SystemError: AST constructor recursion depth
# mismatch), and keys are made from what the sources import.
_PARSING = threading.RLock()


def _values(run: Run) -> dict[str, Any]:
    with _PARSING:
        return parameters.validate(run.parameters, parameters.declared(run.notebook), run.name)


def _key(run: Run) -> str:
    with _PARSING:
        return keys.chapter_key(run.notebook, _values(run))


def _checkpoints(run: Run) -> Path:
    with _PARSING:
        return keys.checkpoints(run.notebook, _values(run))


def build(
    profile: str = "book",
    only: list[str] | None = None,
    device: str = "auto",
    jobs: int | str = "auto",
    force: bool = False,
) -> int:
    """Execute what has changed, write ledger and site, print a table. Returns the exit status.

    jobs: chapters at a time, or "auto" (see `schedule.side_by_side`); the longest first.
    """
    jobs = schedule.asked(jobs)
    runs = plan(profile, only, device)
    with _lock():
        _tidy()
        wanted = [run for run in runs if not only or run.name in only]
        for run in runs:
            if run.status == "failed" or (not (force and run in wanted) and _from_cache(run)):
                continue
            run.status = "waiting" if run in wanted else "missing"
        _execute_all([run for run in wanted if run.status == "waiting"], jobs)
        rows = list(ledger.rows(run.result for run in runs if run.result))
        _refuse_unsaid(runs)
        book = _book(profile, device, runs)
        write_json(_paths.build_dir() / "ledger.json", encode({"book": book, "rows": rows}))
        problem = stage.build(rows, book, [_page(run, rows) for run in runs])
    _report(runs, rows)
    if problem:
        print(problem, file=sys.stderr)
    else:
        print(f"\nThe site: {_paths.build_dir() / 'html' / 'index.html'}")
    failed = [run for run in wanted if run.status != "ok"]
    for run in failed:
        print(_failure(run), file=sys.stderr)
    return 1 if failed or problem else 0


def _refuse_unsaid(runs: list[Run]) -> None:
    """Words of data/findings that no check takes up would be lost without a sound."""
    if any(run.status != "ok" for run in runs):
        return  # the part may be in the chapter that is missing
    records = [record for run in runs for record in run.result["records"]]
    # Of a table whose full-size runs are not there yet, some parts are not there either.
    partial = {r["claim"] for r in records if r.get("evidence") == "partial" or "blocked" in r}
    left = words.unsaid(r for r in records if r["claim"] not in partial)
    if left:
        raise BuildError(
            f"data/findings has words for parts that no check has: {', '.join(left)}; give the "
            "part that name (or `words=` that name), or take the words out"
        )


def _book(profile: str, device: str, runs: list[Run]) -> dict:
    return {
        "profile": profile,
        "device": parameters.check_device(device),
        # The day of the newest run, not today: a book in which nothing changed is not made again.
        "built": max(
            (run.result["started"][:10] for run in runs if run.result),
            default=datetime.now(UTC).date().isoformat(),
        ),
        "commit": commit(),
        "repository": os.environ.get("CLCORE_REPOSITORY_URL") or None,
        "chapters": [
            {
                "name": run.name,
                "title": _title(run.notebook),
                "status": run.status,
                "seconds": run.outcome.get("seconds"),
                "peak_mib": run.outcome.get("peak_mib"),
            }
            for run in runs
        ],
    }


# ------------------------------------------------------------------------------------ one chapter


def _from_cache(run: Run) -> bool:
    """Take a chapter's finished run from the cache; a damaged entry is named and left unused."""
    if not run.entry.is_dir():
        return False
    try:
        outcome = read_json(run.entry / "run.json", "it is made again")
        executed = (run.entry / "executed.ipynb").read_bytes()
        if sha256(executed) != outcome["sha256"]:
            raise ValueError(f"{run.entry / 'executed.ipynb'} is not as it was written")
        run.result = _gather(run, json.loads(executed))
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        print(f"{run.name}: damaged cache entry, running the chapter again ({error})")
        shutil.rmtree(run.entry)
        return False
    except OSError as error:  # it may be whole: leave it where it is
        print(f"{run.name}: cannot read its cache entry, running the chapter again ({error})")
        return False
    run.outcome, run.cached, run.status = outcome, True, "ok"
    os.utime(run.entry)
    return True


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
        error = run.outcome.get("error", "").strip().splitlines()
        why = (
            f": {error[-1]}" if error and run.status != "ok" else ""
        )  # the whole is told at the end
        self._print(
            f"{run.name}: {run.status} after {run.outcome.get('seconds', '?')} s{count}{why}"
        )

    def _print(self, line: str) -> None:
        with self._lock:
            if not self.stopping.is_set():  # what was ended has not failed
                print(line, flush=True)


def _execute_all(waiting: list[Run], jobs: int | str) -> None:
    """Run the chapters, the longest first and `jobs` at a time; an interrupt ends them all."""
    if not waiting:
        return
    profile, device = (waiting[0].parameters[name] for name in ("profile", "device"))
    by_name = {run.name: run for run in waiting}
    order = schedule.longest_first(list(by_name), profile)
    jobs = schedule.side_by_side(jobs, device, order, profile)
    progress = _Progress(len(order))
    if jobs > 1:
        print(f"{len(order)} chapters to run, {jobs} at a time", flush=True)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            list(pool.map(lambda name: _execute(by_name[name], jobs, progress), order))
        except BaseException:  # Ctrl-C: end what runs, so that leaving the pool waits for nothing
            progress.stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for run in waiting:
                if run.process:
                    run.process.terminate()
            raise


def _execute(run: Run, jobs: int, progress: _Progress) -> None:
    """Run one notebook in a process of its own and put it into the cache when it went well."""
    progress.begins(run)
    work = _paths.build_dir() / "work" / f"{run.name}-{os.getpid()}"
    ipython = tempfile.mkdtemp(prefix="clcore-")
    try:
        checkpoints = _checkpoints(run)
        work.mkdir(parents=True, exist_ok=True)
        job = {
            "notebook": str(run.notebook),
            "output": str(work / "executed.ipynb"),
            "outcome": str(work / "run.json"),
            "parameters": run.parameters,
            "solutions": run.parameters["profile"] == "smoke",
            "progress": jobs == 1 and sys.stderr.isatty(),
        }
        write_json(work / "job.json", job)
        environment = os.environ | {
            "CLCORE_CHECKPOINTS": str(checkpoints),
            "IPYTHONDIR": ipython,  # neither the reader's start-up files nor their history
            "JUPYTER_PREFER_ENV_PATH": "1",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(_paths.root()), os.environ.get("PYTHONPATH")])
            ),
        }
        if first := os.environ.get("CLCORE_STARTUP"):
            _begins_with(Path(first).resolve(strict=True), Path(ipython))
        if threads := schedule.threads(jobs):
            environment["OMP_NUM_THREADS"] = str(threads)
        with (work / "log").open("wb") as log:
            run.process = subprocess.Popen(
                [sys.executable, "-m", "clcore.book.execute", str(work / "job.json")],
                env=environment,
                stderr=None if job["progress"] else log,
                stdout=log,
            )
            if progress.stopping.is_set():  # between the interrupt's look at processes and this
                run.process.terminate()
            status = run.process.wait()
        if (work / "run.json").exists():
            run.outcome = read_json(work / "run.json", "run the build again")
        else:
            run.outcome = _vanished(status, work / "log")
        run.status = run.outcome["status"]
        executed = work / "executed.ipynb"
        if run.status == "ok":
            data = executed.read_bytes()
            run.result = _gather(run, json.loads(data))
            if _key(run) != run.key:
                raise ValueError(
                    "the sources were edited while it ran, so its result belongs to neither "
                    "state; run the build again"
                )
            _keep(run, data)
            shutil.rmtree(checkpoints, ignore_errors=True)
    except Exception as error:  # whatever it is, the other chapters go on
        run.fail(explain_full(error, work) if isinstance(error, OSError) else error)
        run.result = {}
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(ipython, ignore_errors=True)
        progress.ends(run)


def _begins_with(file: Path, ipython: Path) -> None:
    """Let every kernel of a build run a file of Python first: the tests check signatures so."""
    folder = ipython / "profile_default" / "startup"
    folder.mkdir(parents=True)
    (folder / "00-first.py").write_text(f"import runpy\nrunpy.run_path({str(file)!r})\n")


def _vanished(status: int, log: Path) -> dict:
    tail = log.read_text(errors="replace")[-2000:]
    if status < 0:
        error = (
            f"the process was killed by signal {-status}"
            + (", most likely because memory ran out" if status == -9 else "")
            + "; run the build again, with a smaller profile or fewer --jobs if it recurs"
        )
        return {"status": "dead", "error": error, "traceback": tail}
    return {
        "status": "failed",
        "error": f"the runner stopped with status {status}",
        "traceback": tail,
    }


def _keep(run: Run, executed: bytes) -> None:
    """Put a finished run into the cache as one folder, and drop the oldest of its kind."""
    cache = run.entry.parent
    cache.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=cache, prefix=".new-"))
    try:
        write_atomic(fresh / "executed.ipynb", executed)
        write_json(fresh / "run.json", run.outcome | {"sha256": sha256(executed)})
        aside = Path(tempfile.mkdtemp(dir=cache, prefix=".old-"))
        if run.entry.exists():
            run.entry.replace(aside)
        fresh.replace(run.entry)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    same = cache.glob(f"{run.name}-{run.parameters['profile']}-*")
    for old in sorted(same, key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)


def _gather(run: Run, notebook: dict) -> dict:
    """Records and provenance that an executed notebook carries in its outputs."""
    records: list[dict] = []
    provenance: dict = {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            records += data.get(ledger.RECORDS_MIME, [])
            provenance = data.get(PROVENANCE_MIME, provenance)
    if not provenance:
        raise ValueError(
            f"{run.name} ended without its provenance; its last cell must call close()"
        )
    records = [_numbers(record) for record in records]
    for claim in {record["claim"] for record in records}:
        ledger.verdict(
            [r for r in records if r["claim"] == claim]
        )  # refuses what contradicts itself
    return provenance | {"chapter": run.name, "records": records}


def _numbers(record: dict) -> dict:
    """A record as it was before JSON, which has no NaN and no infinity."""
    numbers = {name: float(record[name]) for name in ("measured", "bound") if name in record}
    control = {k: float(v) for k, v in record.get("control", {}).items()}
    return record | numbers | {"control": control}


# ---------------------------------------------------------------------------------- what is shown


def _title(notebook: Path) -> str:
    for cell in json.loads(notebook.read_text())["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if line.startswith("# "):
                return line[2:].strip()
    return notebook.stem


def _page(run: Run, rows: list[dict]) -> tuple[str, bytes]:
    """File name and content of a chapter in the site: the executed notebook, or what went wrong."""
    if run.status == "ok":
        executed = json.loads((run.entry / "executed.ipynb").read_bytes())
        behind = {"cell_type": "markdown", "id": "code-behind", "metadata": {}}
        behind["source"] = drawing.section(run.name, rows) + code.section(run.notebook)
        return f"{run.name}.ipynb", json.dumps(_as_shown(executed, behind)).encode()
    if run.status == "missing":
        reason = (
            "This chapter was not executed in this build. "
            f"`python -m clcore build --only {run.name}` executes it."
        )
    else:
        reason = "This chapter failed in this build.\n\n```text\n" + _failure(run) + "\n```"
    return f"{run.name}.md", f"# {_title(run.notebook)}\n\n{reason}\n".encode()


def _as_shown(notebook: dict, behind: dict) -> dict:
    """The notebook with today's words in its tables of checks, without the data that only the build
    reads, which Sphinx would warn of, and with a last cell."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if records := output.get("data", {}).get(ledger.RECORDS_MIME):
                now = [words.worded(_numbers(record)) for record in records]
                output["data"]["text/html"] = check_table(now)
            for mime in (ledger.RECORDS_MIME, PROVENANCE_MIME):
                output.get("data", {}).pop(mime, None)
    return notebook | {"cells": [*notebook["cells"], behind]}


def _failure(run: Run) -> str:
    out = run.outcome
    lines = [f"{run.name} {run.status}: {out.get('error', '')}"]
    if out.get("cell"):
        lines.append(f"in cell {out['cell']}:")
        lines += [f"    {line}" for line in out.get("source", "").splitlines()]
    if out.get("traceback"):
        lines.append(out["traceback"])
    return "\n".join(lines)


def _report(runs: list[Run], rows: list[dict]) -> None:
    from tabulate import tabulate

    table = []
    for run in runs:
        counts = {v: 0 for v in ledger.VERDICTS}
        for row in rows:
            if row["notebook"] == run.name:
                counts[row["verdict"]] += 1
        table.append(
            [
                run.name,
                ", ".join(f"{n} {v}" for v, n in counts.items() if n) or "-",
                run.outcome.get("seconds", "-"),
                run.outcome.get("peak_mib", "-"),
                "cached" if run.cached else {"ok": "run"}.get(run.status, run.status),
            ]
        )
    print("\n" + tabulate(table, ["chapter", "verdicts", "seconds", "peak MiB", ""]))


# ------------------------------------------------------------------------------------ housekeeping


@contextlib.contextmanager
def _lock() -> Generator[None, None, None]:
    """Two builds in one folder would overwrite one another: the second is told so."""
    folder = _paths.build_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("a+")  # closed below, with the lock
    except OSError as error:
        raise explain_full(error, folder) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            raise BuildError(
                f"another build is running in {folder} (process {handle.read().strip()}); wait for "
                "it, or stop it and run the same command again"
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _tidy() -> None:
    """Remove what a build that was killed has left: unfinished work and cache entries."""
    shutil.rmtree(_paths.build_dir() / "work", ignore_errors=True)
    for path in (_paths.build_dir() / "cache").glob(".*-*"):
        shutil.rmtree(path, ignore_errors=True)
    month = time.time() - 30 * 86400
    for path in (_paths.build_dir() / "checkpoints").glob("*"):
        if path.stat().st_mtime < month:
            shutil.rmtree(path, ignore_errors=True)


__all__ = ["BuildError", "build", "chapters", "plan"]
