"""One run: mutants are drawn, those that are known are skipped, the others are asked about."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Job:
    """A mutant before one side. against: those of the side that execute it, the quickest first."""

    mutant: Mutant
    source: str
    side: str
    against: list[Measured]

    @property
    def name(self) -> str:
        """Of the mutant and the side, for the results."""
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
    unread: bool = False,
    practice: bool = False,
) -> int:
    """Draw, ask, say; the exit code. keep: as the record that the book shows. unread: as a lot that
    nobody has read, of mutants whose survivors nobody has. practice: the checks alone, about
    mutants that are in no record; they will be in no lot that nobody has read. Raises ValueError
    for an unknown module, for a list of equivalents that does not fit, and for a lot that has been
    read."""
    if keep + unread + practice > 1:
        raise ValueError(
            "expected one of --record, --unread and --practice, got more: a lot is "
            "recorded, recorded unread, or read"
        )
    root, base = _paths.root(), _folders.build() / "mutants"
    paths = sampling.files(root, modules or sampling.MATHEMATICS)
    names = [path.relative_to(root).as_posix() for path in paths]
    judge = any(map(sampling.judges, names))
    if judge and not all(map(sampling.judges, names)):
        raise ValueError("expected modules of the ledger, or of the rest of clcore, got both")
    refuse_stale(root)
    if judge and practice:
        raise ValueError("expected modules of the mathematics with --practice, got the ledger's")
    if unread:
        refuse_read(seed, whole=not modules)
    without = record.read() if unread else record.in_records() if practice else ()
    chosen = list(sampling.sample(root, paths, sample, seed, without))
    if practice:  # now, for survivors are said as they come
        record.practise(mutant.name for mutant, _ in chosen)
    sides = _sides(judge, draws)
    if practice:
        sides = {"checks": sides["checks"]}
    with _scratch(base):
        found = _asked(chosen, sides, workers, base)
    rows = [
        described(mutant) | outcomes for (mutant, _), outcomes in zip(chosen, found, strict=True)
    ]
    about = {"seed": seed, "sample": sample, "draws": draws, "modules": names}
    name = record.JUDGE if judge else record.MATHEMATICS
    name = f"{record.UNREAD}-{seed}" if unread else name
    return _report(rows, about, name, keep or unread)


def refuse_read(seed: int, whole: bool) -> None:
    """Raises ValueError for what cannot be recorded as a lot that nobody has read."""
    if not whole:
        raise ValueError("expected a lot of the whole mathematics with --unread, got --modules")
    seeds = [lot["seed"] for lot in (record.recorded(record.MATHEMATICS), *record.unread())]
    if seed in seeds:
        raise ValueError(
            f"expected the --seed of a lot that nobody has read, got {seed}; recorded are "
            f"{', '.join(map(str, sorted(seeds)))}: try {max(seeds) + 1}"
        )


def refuse_stale(root: Path) -> None:
    """Raises ValueError for an entry of the list of equivalents that is no mutant of today."""
    listed = record.equivalents()
    for path in dict.fromkeys(name[0] for name in listed):
        there = sampling.of_file(root, root / path) if (root / path).is_file() else []
        names = {mutant.name for mutant in there}
        for name in listed:
            if name[0] == path and name not in names:
                raise ValueError(
                    f"data/mutants/equivalents.yaml: {path} has no change of {name[2]!r} into "
                    f"{name[3]!r} in {name[1] or 'the module'} (number {name[4]}); the code has "
                    "changed: take the entry out, or say of what is there now that it is equivalent"
                )


def described(mutant: Mutant) -> dict[str, Any]:
    """A mutant for the record: what it is, not the tree."""
    names = ("path", "where", "line", "kind", "old", "new", "nth")
    return {name: getattr(mutant, name) for name in names}


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
        return {"tests": tests_side.of_repository((sampling.JUDGE,))}
    return {"checks": checks_side.of_repository(draws), "tests": tests_side.of_repository()}


def _asked(
    chosen: list[tuple[Mutant, str]], sides: dict[str, list[Unit]], workers: int, base: Path
) -> list[dict[str, dict]]:
    """What became of every mutant, side by side."""
    paths = {mutant.path: _paths.root() / mutant.path for mutant, _ in chosen}
    measured = {}
    for side, every in sides.items():
        SIDES[side].warm()
        asked = [
            unit
            for unit in every
            if any(unit.asks(name) and path in unit.needs for name, path in paths.items())
        ]
        work = SIDES[side].measure
        found = units.measure(asked, work, base / "measured", workers, _say)
        measured[side] = sorted(found, key=lambda one: one.seconds)
    jobs = [
        {side: _job(mutant, source, side, found) for side, found in measured.items()}
        for mutant, source in chosen
    ]
    results = Results(base / "results.jsonl")
    every = [job for of_mutant in jobs for job in of_mutant.values()]
    new = [left for job in every if (left := _left(job, results)).against]
    _say(f"{len(chosen)} mutants, {len(every)} answers, {len(new)} of them to be had")
    while new:
        for count, child in enumerate(forking.each(new, _attack, workers), 1):
            outcome = _outcome(child)
            results.add(outcome)
            m, by = child.job.mutant, outcome.get("by", "")
            at = f"{count}/{len(new)} {child.job.side} {m.path}:{m.line} {m.old!r} -> {m.new!r}"
            _say(f"{at}: {outcome['outcome']} {by}")
        # Where a child came to its end before all were asked, the others are asked in the next.
        new = [left for job in new if (left := _left(job, results)).against]
    return [{side: _became(job, results) for side, job in of.items()} for of in jobs]


def _left(job: Job, results: Results) -> Job:
    """The job without those whose answer is known; without any where that of one is the last
    word."""
    if results.kill(job.name, job.keys, SIDES[job.side].ENDS):
        return replace(job, against=[])
    known = results.ran(job.name) | results.crashed(job.name).keys()
    return replace(job, against=[one for key, one in job.keys.items() if key not in known])


def _became(job: Job, results: Results) -> dict[str, Any]:
    asked = {"asked": len(job.against)}
    if not job.against:
        return asked | {"outcome": "unasked"}
    ends, ran = SIDES[job.side].ENDS, results.ran(job.name)
    if kill := results.kill(job.name, job.keys, ends):
        return asked | {name: kill[name] for name in ("outcome", "by", "why")}
    asked["moved"] = results.moved(job.name, job.keys)
    crashed = [how for key, how in results.crashed(job.name).items() if key in job.keys]
    if crashed:
        through = sum(key in ran for key in job.keys)
        return asked | {"outcome": "crash", **crashed[0], "ran": through}
    return asked | {"outcome": "survived"}


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
    """judgement, crash, hang or survived; by which check or test, and why; where a crash is not the
    last word, who crashed and who got through."""
    job, last = child.job, child.told[-1] if child.told else {}
    names = {one.unit.name: key for key, one in job.keys.items()}
    moved = {names[name]: name for name in last.get("moved", ())}
    told = {"mutant": job.name, "asked": list(job.keys)}
    if "survived" in last:
        return told | {"outcome": "survived", "moved": moved}
    by = last.get("by") or next((t["at"] for t in reversed(child.told) if "at" in t), "")
    how = last.get("how") or ("hang" if child.ended == "hang" else "crash")
    why = last.get("why", last.get("error", child.ended))
    # A test is of the file that its name begins with; before any has begun, the first is to blame.
    killer = names.get(by.split("::")[0], next(iter(job.keys)))
    told |= {"outcome": how, "by": by, "why": why, "killer": killer}
    if "crash" in SIDES[job.side].ENDS:
        return told
    over = [t for t in child.told if "crashed" in t]
    crashed = {names[t["crashed"]]: {"by": t["crashed"], "why": t["why"]} for t in over}
    if how == "crash":
        crashed.setdefault(killer, {"by": by, "why": why})  # the child itself came to its end
    begun = [names[t["at"]] for t in child.told if "at" in t]
    ran = [key for key in begun if key not in crashed and key != killer]
    return told | {"crashed": crashed, "ran": ran, "moved": moved}


def _report(rows: list[dict], about: dict, name: str, keep: bool) -> int:
    """Say what came out, and keep it where asked; 1 where a mutant that is listed as equivalent is
    killed, which it then is not."""
    listed = record.equivalents()
    killed = [row for row in rows if record.name_of(row) in listed and record.killed(row)]
    for row in record.survivors(rows):
        _say(f"survives: {row['path']}:{row['line']} in {row['where'] or 'the module'}")
        _say(f"    - {row['old']}\n    + {row['new']}")
    for side in rows[0] if rows else ():
        if side in SIDES:
            _say(f"{side}: " + ", ".join(f"{n} {w}" for w, n in record.count(rows, side).items()))
    for row in killed:
        _say(f"listed as equivalent, but killed: {row['path']}:{row['line']} {row['old']!r}")
    if keep:
        record.keep(name, rows, about)
    return 1 if killed else 0


def _say(text: str) -> None:
    print(text, flush=True)
