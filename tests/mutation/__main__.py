"""How the checks are checked: a formula of clcore is changed, and the checks are asked.

    make mutants
    make mutants ARGS="--modules losses --modules theory/trees --sample 40 --seed 3"
    make mutants ARGS="--modules ledger --sample 0"          the judge, against tests/ledger
    make mutants ARGS="--seed 9 --sample 150 --unread"       a lot that nobody has read
    make mutants ARGS="--seed 8 --sample 500 --practice"     one to read and to mend

Every mutant is one change in one module (`changes.py`). It is compiled in a forked child in place
of the module; no file is touched. Asked are the ledger's checks that execute the changed statement
(`checks_side.py`), and the unit tests that do (`tests_side.py`). Stopped at any time, the same
command goes on where it was. `--record` writes data/mutants, from which the book has its page.
Survivors of what is recorded are read and mended, so that it scores better than a new lot would;
`--unread` draws one, of mutants whose survivors nobody has read, and records it as it is.
`--practice` asks the checks alone, which is quicker, about mutants that are in no record, and keeps
their names, so that none of them is in a lot of `--unread` later.
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
    record: Annotated[bool, typer.Option(help="write data/mutants for the book")] = False,
    unread: Annotated[
        bool, typer.Option(help="record it as a lot that nobody has read; once a seed")
    ] = False,
    practice: Annotated[
        bool, typer.Option(help="ask the checks alone, and keep it out of lots of --unread")
    ] = False,
) -> None:
    """Draw mutants, ask checks and tests, list those that none of them kills."""
    try:
        code = run.command(modules, sample, seed, draws, workers, record, unread, practice)
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here")
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
