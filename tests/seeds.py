"""The ledger's checks at other seeds: `make seeds`, apart from the tests.

A verdict that hangs on the seed is none. Every check on draws is run at each of the seeds, and what
the ledger says (verdicts, and which parts pass) must be what it says at seed 0. `--record` writes
data/seeds.json, from which the page "How the checks are checked" has its sentence.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import joblib
import typer
from tqdm import tqdm

from clcore.book import seeds as record
from clcore.ledger import Ledger, LedgerError, registry, verdict

Said = dict[str, Any]
"""What the ledger says of a check: verdicts by claim, whether each part passes; or "refused"."""


def said(module: str, name: str, draws: int, seed: int) -> Said:
    """Run one check, in this process."""
    import torch

    torch.set_num_threads(1)
    book = Ledger("seeds")
    try:
        book.run([getattr(import_module(module), name)], draws, seed)
    except LedgerError as error:
        return {"refused": str(error)}
    except Exception as error:  # of any check: the others go on
        return {"refused": f"{type(error).__name__}: {error}"}
    found: Said = {}
    for row in book.records:
        part = f"{row['claim']} {row['part']!r} ({row['form']}{row['setting'] and ', '}"
        found[f"{part}{row['setting']})"] = "passes" if row["passed"] else "fails"
    for claim in dict.fromkeys(row["claim"] for row in book.records):
        found[claim] = verdict([row for row in book.records if row["claim"] == claim])
    return found


def apart(at_zero: Said, other: Said) -> str:
    """In words, where two differ; empty where they do not."""
    if "refused" in other and "refused" not in at_zero:
        return f"refused: {other['refused']}"
    gone = "is not there"
    differ = [
        f"{what} {other.get(what, gone)}, at seed 0 it {at_zero.get(what, gone)}"
        for what in at_zero | other
        if other.get(what) != at_zero.get(what)
    ]
    return "; ".join(differ)


def _answers(jobs: list[tuple[str, str, int, int]], workers: int) -> Iterator[tuple[Any, Said]]:
    """Every job with what came of it, as they come."""

    def one(job: tuple[str, str, int, int]) -> tuple[Any, Said]:
        return job, said(*job)

    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    yield from tqdm(parallel(joblib.delayed(one)(job) for job in jobs), total=len(jobs), unit="run")


def _rows(place: registry.Place, found: dict[Any, Said], draws: int, seeds: int) -> list[dict]:
    """Where a check is refused at seed 0, or says something else at another."""

    def at(seed: int) -> Said:
        return found[place.module, place.name, draws, seed]

    told = [at(0).get("refused", ""), *(apart(at(0), at(seed)) for seed in range(1, seeds + 1))]
    name = f"{place.module}.{place.name}"
    return [{"check": name, "seed": k, "said": words} for k, words in enumerate(told) if words]


def main(
    seeds: Annotated[int, typer.Option(help="how many, beside 0", min=1)] = 8,
    draws: Annotated[int, typer.Option(help="of every check", min=1)] = 7,
    workers: Annotated[int, typer.Option(help="processes", min=1)] = 2,
    only: Annotated[list[str] | None, typer.Option(help="claims; all without")] = None,
    keep: Annotated[bool, typer.Option("--record", help="write data/seeds.json")] = False,
) -> None:
    """Run every check on draws at several seeds; exit 1 where a seed says something else."""
    places = [
        place
        for place in registry.places()
        if place.on == "draws" and (not only or set(only) & set(place.claims))
    ]
    if not places:
        sys.exit(f"--only: expected claims that have a check on draws, got {', '.join(only or [])}")
    jobs = [
        (place.module, place.name, draws, seed) for seed in range(seeds + 1) for place in places
    ]
    found = dict(_answers(jobs, workers))
    rows = [row for place in places for row in _rows(place, found, draws, seeds)]
    for row in rows:
        print(f"{row['check']}, seed {row['seed']}: {row['said']}")
    print(f"{len(places)} checks at {seeds} seeds beside 0: {len(rows)} times something else")
    if keep:
        record.keep(len(places), seeds, draws, rows)
    raise typer.Exit(1 if rows else 0)


if __name__ == "__main__":
    typer.run(main)
