"""Finished runs of chapters: one folder each in _build/cache, taken from there or put there."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from clcore import _folders, ledger
from clcore._files import read_json, sha256, write_atomic, write_json
from clcore.book.build.planning import Run
from clcore.book.provenance import PROVENANCE_MIME

# Other content, other types, lists a thousand deep.
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, RecursionError, FileNotFoundError)
KEEP = 3  # cache entries kept for each chapter and profile


def from_cache(run: Run) -> bool:
    """Take a chapter's finished run from the cache; a damaged entry is named and left unused."""
    if not run.entry.is_dir() or run.entry.is_symlink():
        if os.path.lexists(run.entry):
            print(f"{run.name}: no folder at its place in the cache, running the chapter again")
            _clear(run)
        return False
    try:
        outcome = read_json(run.entry / "run.json", "it is made again")
        executed = (run.entry / "executed.ipynb").read_bytes()
        if _digest(executed, outcome) != outcome["sha256"]:
            raise ValueError(f"{run.entry} is not as it was written")
        run.result = gather(run, json.loads(executed))
    except _DAMAGED as error:
        print(f"{run.name}: damaged cache entry, running the chapter again ({error})")
        _clear(run)
        return False
    except OSError as error:  # it may be whole: leave it where it is
        print(f"{run.name}: cannot read its cache entry, running the chapter again ({error})")
        return False
    run.outcome, run.cached, run.status = outcome, True, "ok"
    os.utime(run.entry)
    return True


def keep(run: Run, executed: bytes) -> None:
    """Put a finished run into the cache as one folder, and drop the oldest of its kind."""
    cache = _folders.room("cache")
    fresh = _folders.mark(Path(tempfile.mkdtemp(dir=cache, prefix=".new-")))
    try:
        write_atomic(fresh / "executed.ipynb", executed)
        write_json(fresh / "run.json", run.outcome | {"sha256": _digest(executed, run.outcome)})
        aside = Path(tempfile.mkdtemp(dir=cache, prefix=".old-"))
        if run.entry.exists():
            run.entry.replace(aside)
        fresh.replace(run.entry)
        _folders.remove(aside)
    finally:
        _folders.remove(fresh)
    kind = f"{run.name}-{run.parameters['profile']}-"
    same = [p for p in _folders.known("cache") if p.name.rpartition("-")[0] + "-" == kind]
    for old in sorted(same, key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)


def _clear(run: Run) -> None:
    """Remove what stands in the place of a chapter's entry. Its name is a digest, in a folder of
    ours: it is the entry, damaged, be it a file, a pipe or a link by now."""
    if run.entry.is_dir() and not run.entry.is_symlink():
        shutil.rmtree(run.entry)
    else:
        run.entry.unlink(missing_ok=True)


def _digest(executed: bytes, outcome: dict) -> str:
    """Of both files of an entry, the digest itself apart."""
    said = {name: value for name, value in outcome.items() if name != "sha256"}
    return sha256(executed, json.dumps(said, sort_keys=True).encode())


def gather(run: Run, notebook: dict) -> dict:
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
    records = [numbers(record) for record in records]
    for claim in {record["claim"] for record in records}:
        ledger.verdict(
            [r for r in records if r["claim"] == claim]
        )  # refuses what contradicts itself
    return provenance | {"chapter": run.name, "records": records}


def numbers(record: dict) -> dict:
    """A record as it was before JSON, which has no NaN and no infinity."""
    numbers = {name: float(record[name]) for name in ("measured", "bound") if name in record}
    control = {k: float(v) for k, v in record.get("control", {}).items()}
    return record | numbers | {"control": control}
