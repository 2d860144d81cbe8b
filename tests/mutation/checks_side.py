"""The ledger's checks against mutants: does a verdict change, or what the ledger accepts?"""

import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import forking
import units
from units import Lines, Measured, Unit

SEED = 0
FLOOR = 10.0
"""Seconds of a processor that every check has, besides four times what it took."""

ENDS = ("judgement", "hang")
"""Outcomes after which nobody else is asked. A crash says little: another check may judge."""


def of_repository(draws: int) -> list[Unit]:
    """Every check on draws. Those on runs need tables that a chapter trains, and are no part of
    this."""
    from clcore import ledger
    from clcore.book.keys import closure
    from clcore.ledger import findings, registry

    known, printed = findings.known(), ledger.claims()
    needs: dict[str, list[Path]] = {}
    out = []
    for place in registry.places():
        if place.on != "draws":
            continue
        if place.module not in needs:
            folder, _, module = place.module.rpartition(".")
            needs[place.module] = closure([f"from {folder} import {module}"])
        name = f"{place.module}.{place.name}"
        words = json.dumps([[known[c], printed[c]] for c in place.claims], default=str)
        key = units.digest(needs[place.module], name.encode(), words.encode(), b"%d" % draws)
        about = {"module": place.module, "function": place.name, "draws": draws}
        out.append(Unit(name, key, about, frozenset(needs[place.module])))
    return out


def warm() -> None:
    """Import what every check needs, so that no child does; but no mathematics of clcore."""
    import torch

    from clcore import ledger
    from clcore.ledger import exact, findings, registry

    units.warm()
    torch.func.jvp(torch.sin, (torch.ones(()),), (torch.ones(()),))  # torch imports more for it
    exact.equal(exact.vector("x", 1), exact.vector("x", 1))
    ledger.claims(), findings.known(), registry.places()


def found(about: dict[str, Any]) -> dict[str, Any]:
    """What the ledger accepts of a check: {"records", "verdicts", "numbers"}, or {"refused"}."""
    import torch

    from clcore.ledger import Ledger, LedgerError, verdict

    torch.manual_seed(0)
    book = Ledger("mutants")
    try:
        function = getattr(import_module(about["module"]), about["function"])
        book.run([function], about["draws"], SEED)
        claims = dict.fromkeys(r["claim"] for r in book.records)
        verdicts = {c: verdict([r for r in book.records if r["claim"] == c]) for c in claims}
    except LedgerError as error:
        return {"refused": str(error)}
    names = ("claim", "part", "form", "setting", "passed")
    return {
        "records": [[r[name] for name in names] for r in book.records],
        "verdicts": verdicts,
        "numbers": [_numbers(r) for r in book.records],
    }


def _numbers(record: dict) -> list[float]:
    said = [v for v in (record["said"] or {}).values() if isinstance(v, int | float)]
    return [record["measured"], *record["control"].values(), *said]


def measure(unit: Unit, tell: forking.Tell) -> None:
    """In a child: what the check finds unmutated, how long it takes, which lines it executes."""
    from clcore import _paths

    forking.allow(600)
    lines = Lines(_paths.root())
    with lines.on():
        first = found(unit.about)
    if "refused" in first:
        raise ValueError(first["refused"])
    tell({"lines": lines.told(), "seconds": time.process_time(), "found": first})


def attack(job: tuple[Path, str, list[Measured], tuple[int, int]], tell: forking.Tell) -> None:
    """In a child: run checks against a mutant until one judges it.

    Tells {"at"} before each, {"crashed", "why"} of one that does not get through, and in the end
    {"by", "how", "why"}, where none judges that of the first crash, or {"survived": how many were
    asked}; with "moved": those that got through and in which a number changed.
    """
    import sys

    import swapped

    path, source, against, _ = job
    from clcore import _paths

    module = ".".join(path.relative_to(_paths.root()).with_suffix("").parts)
    if module in sys.modules:
        swapped.forget("clcore")
    swapped.swap(path, source)
    moved: list[str] = []
    crash: dict[str, str] = {}
    for one in against:
        tell({"at": one.unit.name})
        forking.allow(FLOOR + 4 * one.seconds)
        try:
            now = found(one.unit.about)
        except Exception as error:
            why = f"{type(error).__name__}: {error}".split("\n")[0][:200]
            tell({"crashed": one.unit.name, "why": why})
            crash = crash or {"by": one.unit.name, "how": "crash", "why": why}
            continue
        if why := _differs(now, one.found):
            tell({"by": one.unit.name, "how": "judgement", "why": why, "moved": moved})
            return
        if not _same(now["numbers"], one.found["numbers"]):
            moved.append(one.unit.name)
    tell((crash or {"survived": len(against)}) | {"moved": moved})


def _differs(now: dict, before: dict) -> str:
    """How the outcome of a check differs from the unmutated one's; "" where it does not."""
    if "refused" in now:
        return now["refused"][:200]
    for claim, verdict in before["verdicts"].items():
        if now["verdicts"].get(claim) != verdict:
            return f"{claim}: {verdict} becomes {now['verdicts'].get(claim)}"
    if now["records"] != before["records"]:
        return "the ledger accepts other records"
    return ""


def _same(now: list[list[float]], before: list[list[float]]) -> bool:
    """Whether the numbers of two runs are the same but for rounding."""
    pairs = [(a, b) for x, y in zip(now, before, strict=True) for a, b in zip(x, y, strict=False)]
    return all(abs(a - b) <= 1e-6 * max(abs(a), abs(b)) or abs(a - b) < 1e-8 for a, b in pairs)
