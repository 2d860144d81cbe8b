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
    """What the ledger accepts of a check: {"records", "verdicts"}, or {"refused"}."""
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
    }


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
    """In a child: run checks against a mutant until one notices.

    Tells {"at"} before each, and in the end {"by", "how", "why"} or {"survived": how many were
    asked}.
    """
    import sys

    import swapped

    path, source, against, _ = job
    from clcore import _paths

    module = ".".join(path.relative_to(_paths.root()).with_suffix("").parts)
    if module in sys.modules:
        swapped.forget("clcore")
    swapped.swap(path, source)
    for one in against:
        tell({"at": one.unit.name})
        forking.allow(FLOOR + 4 * one.seconds)
        try:
            how, why = "judgement", _differs(found(one.unit.about), one.found)
        except Exception as error:
            how, why = "crash", f"{type(error).__name__}: {error}".split("\n")[0][:200]
        if why:
            tell({"by": one.unit.name, "how": how, "why": why})
            return
    tell({"survived": len(against)})


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
