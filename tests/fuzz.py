"""Corrections tried at ten thousand inputs: `make fuzz`, apart from the tests.

A correction of ours stands in a letter to an author, so it is tried harder than the rest: a check
with a corrected form runs at one seed after another until each such form has had that many inputs
inside its own conditions, or its time is up; its draws are doubled as long as a seed takes little
of that time, since most checks take all draws at once. What is trained has runs and no inputs, and
is left out. `--record` writes data/fuzz.json, which the page "How the checks are checked" shows.
"""

import sys
import time
from importlib import import_module
from typing import Annotated

import joblib
import typer
from tqdm import tqdm

from clcore.book import fuzz as record
from clcore.ledger import Ledger, LedgerError, findings, registry

Tried = dict[str, dict]
"""Of each corrected form, as "claim 'part'": its inputs, and what failed at which seed."""


LITTLE = 1 / 20
"""The share of a check's time below which a seed's draws are doubled for the next one."""


def tried(module: str, name: str, inputs: int, draws: int, seconds: float) -> Tried:
    """Run one check, in this process, until its corrected forms have had `inputs` inputs, or it has
    had `seconds` of this process' CPU time."""
    import torch

    torch.set_num_threads(1)
    check = getattr(import_module(module), name)
    found: Tried = {}
    began, seed = time.process_time(), 1  # seed 0 is the book's own
    while seed == 1 or time.process_time() - began < seconds:
        book, at = Ledger("fuzz"), time.process_time()
        try:
            book.run([check], draws, seed)
        except (LedgerError, ArithmeticError) as error:  # a check that refuses its own inputs, too
            found.setdefault(name, {"inputs": 0, "failed": {}})["failed"][seed] = str(error)
        for row in book.records:
            exact = row["evidence"] == "exact"  # what is trained has no inputs
            if exact and row["form"] == "corrected":
                one = found.setdefault(
                    f"{row['claim']} {row['part']!r}", {"inputs": 0, "failed": {}}
                )
                one["inputs"] += row["draws"]
                if not row["passed"]:
                    said = f"{row['measured']:.3g}, bound {row['bound']:.3g}, {draws} draws"
                    one["failed"][seed] = said
        counts = [one["inputs"] for one in found.values() if one["inputs"]]
        if counts and min(counts) >= inputs:
            break
        seed += 1
        if time.process_time() - at < LITTLE * seconds:
            draws = min(2 * draws, inputs)
    return found


def main(
    inputs: Annotated[int, typer.Option(help="of every corrected form", min=1)] = 10_000,
    draws: Annotated[int, typer.Option(help="at the first seed", min=1)] = 50,
    seconds: Annotated[float, typer.Option(help="of CPU for a check, at most", min=1)] = 600.0,
    workers: Annotated[int, typer.Option(help="processes", min=1)] = 2,
    papers: Annotated[list[str] | None, typer.Option(help="keys; all without")] = None,
    keep: Annotated[bool, typer.Option("--record", help="write data/fuzz.json")] = False,
) -> None:
    """Try every corrected form; exit 1 where one fails."""
    known = findings.verdicts()
    places = [
        place
        for place in registry.places()
        if place.on == "draws"
        and any(known[claim] == "corrected" for claim in place.claims)
        and (not papers or place.claims[0].split("/")[0] in papers)
    ]
    if not places:
        sys.exit(f"--papers: expected papers with corrections, got {', '.join(papers or [])}")
    jobs = (
        joblib.delayed(tried)(place.module, place.name, inputs, draws, seconds) for place in places
    )
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
    forms: Tried = {}
    for found in tqdm(parallel(jobs), total=len(places), unit="check"):
        forms |= found
    rows = [
        {"form": form, "seed": seed, "said": said}
        for form, one in forms.items()
        for seed, said in one["failed"].items()
    ]
    for row in rows:
        print(f"{row['form']}, seed {row['seed']}: {row['said']}")
    forms = {form: one for form, one in forms.items() if one["inputs"]}  # not what was refused
    few = {form: one["inputs"] for form, one in forms.items() if one["inputs"] < inputs}
    for form, n in sorted(few.items(), key=lambda item: item[1]):
        print(f"{form}: {n} inputs in the time that it had")
    print(f"{len(forms)} corrected forms, {len(forms) - len(few)} at {inputs} inputs or more")
    if keep:
        about = sorted({place.claims[0].split("/")[0] for place in places})
        record.keep(about, inputs, {form: forms[form]["inputs"] for form in sorted(forms)}, rows)
    raise typer.Exit(1 if rows else 0)


if __name__ == "__main__":
    typer.run(main)
