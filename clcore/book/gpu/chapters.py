"""The chapters by papermill on a device, without the site, as a step of `clcore.book.gpu`."""

import contextlib
import io
import json
import lzma
import tarfile
import threading
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from clcore import _folders
from clcore._files import write_atomic
from clcore.book import schedule
from clcore.book.build import ledger_of, planning
from clcore.book.build.cache import from_cache
from clcore.book.build.running import execute_all
from clcore.book.provenance import encode

if TYPE_CHECKING:
    from clcore.book.gpu import Plan


def run(plan: "Plan") -> None:
    """Every chapter in the profile `book`; chapters.tar.xz has the executed notebooks, ledger.json
    and outcomes.json, and is written anew as chapters end."""
    _folders.build()
    profile, began = "smoke" if plan.rehearse else "book", time.monotonic()
    runs = planning.plan(profile, None, plan.device)
    if plan.rehearse:
        quickest = min(schedule.MEASURED, key=schedule.MEASURED.__getitem__)
        runs = [run for run in runs if run.name == quickest]
    waiting = [run for run in runs if run.status != "failed" and not from_cache(run)]
    try:
        with _packed(plan, profile, runs):
            execute_all(waiting, plan.jobs)
    finally:
        for run in runs:
            seconds = float(run.outcome.get("seconds", 0.0))
            error = run.outcome.get("error", "").strip().splitlines()
            words = f"{run.status}: {error[-1]:.200}" if error else run.status
            words += " (from the cache)" if run.cached else ""
            plan.found("chapters", run.name, words, seconds, run.status == "ok")
        done = sum(run.status == "ok" for run in runs)
        words = f"{done} of {len(runs)} executed, {plan.jobs} at a time"
        plan.found("chapters", "all", words, time.monotonic() - began, done == len(runs))


@contextlib.contextmanager
def _packed(plan: "Plan", profile: str, runs: list[planning.Run]) -> Generator[None, None, None]:
    """Pack what is done whenever that has changed, and at the end."""
    over = threading.Event()

    def watch() -> None:
        seen = -1
        while not over.wait(5):
            done = sum(run.status == "ok" and bool(run.result) for run in runs)
            if done != seen:
                _pack(plan, profile, runs)
                seen = done

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _pack(plan, profile, runs)


def _pack(plan: "Plan", profile: str, runs: list[planning.Run]) -> None:
    done = [run for run in runs if run.status == "ok" and run.entry.is_dir()]
    files = {f"{run.name}.ipynb": (run.entry / "executed.ipynb").read_bytes() for run in done}
    content = encode(ledger_of(profile, plan.device, runs))
    outcomes = {run.name: {"status": run.status, **run.outcome} for run in runs}
    files["ledger.json"] = json.dumps(content, indent=1).encode()
    files["outcomes.json"] = json.dumps(outcomes, indent=1).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    write_atomic(plan.out / "chapters.tar.xz", lzma.compress(buffer.getvalue(), preset=1))
