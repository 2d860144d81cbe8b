"""One run: mutants are drawn, those that are known are skipped, the others are asked about."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checks_side
import forking
import psutil
import sampling
import tests_side
import units
from alter import Mutant
from results import Results
from units import Measured, Unit

from clcore import _folders, _paths
from clcore._files import sha256
from clcore.book import mutants as record

SIDES = {"checks": checks_side, "tests": tests_side}
"""Who is asked, in this order: the tests about what no check kills."""


@dataclass(frozen=True)
class Job:
    """A mutant before one side. against: those of the side that execute it, the quickest first."""

    mutant: Mutant
    source: str
    side: str
    against: list[Measured]

    @property
    def name(self) -> str:
        """Of the mutant, for the results."""
        return sha256(*(t.encode() for t in (self.side, self.mutant.path, self.source)))

    @property
    def keys(self) -> dict[str, Measured]:
        """Who is asked, by key."""
        return {one.unit.key: one for one in self.against}


def command(
    modules: list[str] | None,
    sample: int,
    seed: int,
    draws: int,
    workers: int,
    keep: bool = False,
    practice: bool = False,
) -> int:
    """Draw, ask, say; the exit code. keep: draw from the held-out half and record the counts.
    practice: draw from the other half. Raises ValueError for an unknown module, for both at once,
    and for the seed of a lot that is recorded."""
    if keep and practice:
        raise ValueError("expected --record or --practice, got both: a lot is held out, or read")
    root, base = _paths.root(), _folders.build() / "mutants"
    names = modules or ["mathematics"]
    paths = sampling.files(root, modules or sampling.MATHEMATICS)
    judge = any(map(record.judges, names))
    if judge and not all(map(record.judges, names)):
        raise ValueError("expected modules of the ledger, or of the rest of clcore, got both")
    if keep and not judge:
        record.refuse_recorded(seed)
    for name in sorted(stale(root)):
        _say(f'fits no statement, ignored (ARGS="--drop" takes it out): {name}')
    half = None if judge else "held out" if keep else "practice" if practice else None
    chosen = list(sampling.sample(root, paths, sample, seed, half))
    with _scratch(base):
        found = _asked(chosen, _sides(judge, draws), workers, base)
    lot = {"seed": seed, "draws": draws, "modules": names}
    return _report([mutant for mutant, _ in chosen], found, lot, keep)


def stale(root: Path) -> set[record.Name]:
    """Entries of the list of equivalents that are no mutant of today."""
    listed = record.equivalents()
    there: set[record.Name] = set()
    for path in {name[0] for name in listed}:
        if (root / path).is_file():
            there |= {mutant.name for mutant in sampling.of_file(root, root / path)}
    return set(listed) - there


def drop_stale() -> None:
    """Take these out of the list, and say which."""
    names = stale(_paths.root())
    for name in sorted(names):
        _say(f"taken out: {name}")
    record.drop(names)


@contextmanager
def _scratch(base: Path) -> Iterator[None]:
    """Children that are killed leave temporary files, below a folder that goes in the end; that of
    a run which was killed itself goes with the next."""
    _folders.begin(base)
    for left in base.glob("scratch-*"):
        pid = left.name.split("-")[1]
        if not (pid.isdecimal() and psutil.pid_exists(int(pid))):
            _folders.remove(left)
    before = tempfile.tempdir
    scratch = Path(tempfile.mkdtemp(prefix=f"scratch-{os.getpid()}-", dir=base))
    tempfile.tempdir = str(_folders.mark(scratch))
    try:
        yield
    finally:
        _folders.remove(scratch)
        tempfile.tempdir = before


def _sides(judge: bool, draws: int) -> dict[str, list[Unit]]:
    """Who may be asked: about the judge, its own tests; about the rest, checks and unit tests."""
    if judge:
        return {"tests": tests_side.of_repository((record.JUDGE,))}
    return {"checks": checks_side.of_repository(draws), "tests": tests_side.of_repository()}


def _asked(
    chosen: list[tuple[Mutant, str]], sides: dict[str, list[Unit]], workers: int, base: Path
) -> list[dict[str, Any]]:
    """What became of every mutant: "side", that killed it or was the last to survive, ""  where
    nobody executes it; and "outcome", judgement, crash, hang or survived."""
    results = Results(base / "results.jsonl")
    found: list[dict[str, Any]] = [{"side": "", "outcome": "survived"} for _ in chosen]
    for side, every in sides.items():
        left = [n for n, told in enumerate(found) if told["outcome"] == "survived"]
        paths = {chosen[n][0].path for n in left}
        measured = _measured(side, every, paths, workers, base)
        jobs = {n: _job(*chosen[n], side, measured) for n in left}
        _ask([job for job in jobs.values() if job.against], workers, results)
        for n, job in jobs.items():
            if job.against:
                told = results.kill(job.name, job.keys) or {"outcome": "survived"}
                found[n] = {"side": side, "outcome": told["outcome"]}
    return found


def _measured(
    side: str, every: list[Unit], paths: set[str], workers: int, base: Path
) -> list[Measured]:
    """Those of a side that may execute one of these files, the quickest first."""
    SIDES[side].warm()
    needs = {name: _paths.root() / name for name in paths}
    asked = [u for u in every if any(u.asks(n) and at in u.needs for n, at in needs.items())]
    found = units.measure(asked, SIDES[side].measure, base / "measured", workers, _say)
    return sorted(found, key=lambda one: one.seconds)


def _ask(jobs: list[Job], workers: int, results: Results) -> None:
    """Have every answer that is not known."""
    new = []
    for job in jobs:
        if not results.kill(job.name, job.keys):
            known = results.survived(job.name)
            left = [one for key, one in job.keys.items() if key not in known]
            new += [Job(job.mutant, job.source, job.side, left)] if left else []
    _say(f"{len(jobs)} mutants before the {jobs[0].side if jobs else 'next'}, {len(new)} to ask")
    for count, child in enumerate(forking.each(new, _attack, workers), 1):
        outcome = _outcome(child)
        results.add(outcome)
        m, by = child.job.mutant, outcome.get("by", "")
        at = f"{count}/{len(new)} {child.job.side} {m.path}:{m.line} {m.old!r} -> {m.new!r}"
        _say(f"{at}: {outcome['outcome']} {by}")


def _job(mutant: Mutant, source: str, side: str, measured: list[Measured]) -> Job:
    outside = not mutant.where  # executed by whoever imports the module, once for all tests
    against = [
        one
        for one in measured
        if one.unit.asks(mutant.path)
        and (
            one.executes(mutant.path, mutant.first, mutant.last)
            or (outside and mutant.path in one.lines)
        )
    ]
    return Job(mutant, source, side, against)


def _attack(job: Job, tell: forking.Tell) -> None:
    path = _paths.root() / job.mutant.path
    lines = (job.mutant.first, job.mutant.last)
    SIDES[job.side].attack((path, job.source, job.against, lines), tell)


def _outcome(child: forking.Child) -> dict[str, Any]:
    """judgement, crash, hang or survived; by which check or test, and why."""
    job, last = child.job, child.told[-1] if child.told else {}
    names = {one.unit.name: key for key, one in job.keys.items()}
    told = {"mutant": job.name, "asked": list(job.keys)}
    if "survived" in last:
        return told | {"outcome": "survived"}
    by = last.get("by") or next((t["at"] for t in reversed(child.told) if "at" in t), "")
    how = last.get("how") or ("hang" if child.ended == "hang" else "crash")
    why = last.get("why", last.get("error", child.ended))
    # A test is of the file that its name begins with; before any has begun, the first is to blame.
    killer = names.get(by.split("::")[0], next(iter(job.keys)))
    return told | {"outcome": how, "by": by, "why": why, "killer": killer}


def _report(drawn: list[Mutant], found: list[dict], lot: dict[str, Any], keep: bool) -> int:
    """Say what came out, and keep it where asked; 1 where a mutant that is listed as equivalent is
    killed, which it then is not."""
    listed = record.equivalents()
    wrong = [
        mutant
        for mutant, told in zip(drawn, found, strict=True)
        if mutant.name in listed and told["outcome"] != "survived"
    ]
    lot |= counted(drawn, found)
    for mutant in wrong:
        _say(f"listed as equivalent, but killed: {mutant.path}:{mutant.line} {mutant.old!r}")
    _say(", ".join(f"{lot[name]} {name}" for name in COUNTS))
    if keep:
        record.keep(lot)
    return 1 if wrong else 0


COUNTS = ("mutants", "equivalent", "checks", "tests", "crashes", "unasked")


def counted(drawn: list[Mutant], found: list[dict]) -> dict[str, Any]:
    """The counts of a lot and its survivors, as `clcore.book.mutants.lots`; survivors are said."""
    listed = record.equivalents()
    real = [(m, told) for m, told in zip(drawn, found, strict=True) if m.name not in listed]
    killed = [told for _, told in real if told["outcome"] != "survived"]
    left = [(m, told) for m, told in real if told["outcome"] == "survived"]
    for m, _ in left:
        _say(f"survives: {m.path}:{m.line} in {m.where or 'the module'}")
        _say(f"    {m.statement}\n    - {m.old}\n    + {m.new}")
    names = ("path", "where", "old", "new")
    return {
        "mutants": len(real),
        "equivalent": len(drawn) - len(real),
        "checks": sum(told["side"] == "checks" for told in killed),
        "tests": sum(told["side"] == "tests" for told in killed),
        "crashes": sum(told["outcome"] == "crash" for told in killed),
        "unasked": sum(not told["side"] for _, told in left),
        "survivors": [{name: getattr(m, name) for name in names} for m, _ in left],
    }


def _say(text: str) -> None:
    print(text, flush=True)
