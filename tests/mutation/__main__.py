"""How the checks are checked: a formula of clcore is changed, and checks and tests are asked.

    make mutants
    make mutants ARGS="--modules losses --modules theory/trees --sample 40 --seed 3"
    make mutants ARGS="--modules ledger --sample 0 --record"     the judge, against tests/ledger
    make mutants ARGS="--seed 9 --sample 150 --record"           a held-out lot, for the book's page
    make mutants ARGS="--seed 9 --sample 150 --practice"         one to read and to mend
    make mutants ARGS=--drop                                     entries that fit no statement

Every mutant is one change in one module (`changes.py`). It is compiled in a forked child in place
of the module; no file is touched. Asked are the ledger's checks that execute the changed statement
(`checks_side.py`) and, of what these leave, the unit tests of its folder that do (`tests_side.py`).
What nobody kills is a survivor. Stopped at any time, the same command resumes. Every mutant belongs
for good to one of two halves: `--record` draws from the one, `--practice` from the other, so that
reading the survivors of practice helps no lot that is recorded.
"""

import sys
from pathlib import Path
from typing import Annotated

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import run  # noqa: E402
import typer  # noqa: E402


def main(
    modules: Annotated[
        list[str] | None, typer.Option(help="below clcore/; may be repeated")
    ] = None,
    sample: Annotated[int, typer.Option(help="how many mutants; 0: all there are", min=0)] = 300,
    seed: Annotated[int, typer.Option(help="of the lot")] = 0,
    draws: Annotated[int, typer.Option(help="of every check", min=1)] = 7,
    workers: Annotated[int, typer.Option(help="children at a time", min=1)] = 1,
    record: Annotated[bool, typer.Option(help="held-out mutants; keep the counts")] = False,
    practice: Annotated[bool, typer.Option(help="the other mutants, to read and mend")] = False,
    drop: Annotated[bool, typer.Option(help="only clean the list of equivalents")] = False,
) -> None:
    """Draw mutants, ask checks and tests, list those that nobody kills."""
    try:
        if drop:
            run.drop_stale()
            return
        code = run.command(modules, sample, seed, draws, workers, record, practice)
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped; the same command resumes here")
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
