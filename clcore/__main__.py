"""The command line: python -m clcore build | claims | where | check | clean | compare | course |
data | doctor | golden | gpu | grade | launch | letter | pdf | pretrain | publish | serve."""

import json
import sys
from pathlib import Path
from typing import Annotated

from clcore._extras import extra

with extra("book"):
    import typer

from clcore import _folders, _paths, _streams

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
data_app = typer.Typer(
    no_args_is_help=True, help="The data sets: what they are, get them, verify them."
)
app.add_typer(data_app, name="data")


@app.command()
def build(
    profile: Annotated[str, typer.Option(help="smoke, book or paper")] = "book",
    only: Annotated[list[str] | None, typer.Option(help="a chapter; may be repeated")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N")] = "auto",
    jobs: Annotated[str, typer.Option(help="chapters at a time, or auto: one per core")] = "auto",
    force: Annotated[bool, typer.Option(help="execute again what is in the cache")] = False,
) -> None:
    """Execute the chapters that changed, write ledger and errata, build the site."""
    from clcore.book import build as builder

    raise typer.Exit(builder.build(profile, only, device, jobs, force))


@app.command()
def claims(
    paper: Annotated[str | None, typer.Option(help="a paper, such as acl")] = None,
    verdict: Annotated[str | None, typer.Option(help="such as holds, corrected, todo")] = None,
    grade: Annotated[str | None, typer.Option(help="such as conclusion, misprint")] = None,
    rung: Annotated[str | None, typer.Option(help="how sure, such as proved, sampled")] = None,
    rests_on: Annotated[str | None, typer.Option(help="a claim: what rests on it")] = None,
    used_by: Annotated[str | None, typer.Option(help="a claim: what it rests on")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="every field, for scripts")] = False,
) -> None:
    """The claims and their verdicts, as the last build found them."""
    from tabulate import tabulate

    from clcore import ledger
    from clcore.book.site.serve import rows_file
    from clcore.ledger import findings, rungs
    from clcore.ledger import map as claim_map

    for value, allowed, name in (
        (paper, tuple(ledger.papers()), "--paper"),
        (verdict, ledger.VERDICTS, "--verdict"),
        (grade, findings.GRADES, "--grade"),
        (rung, tuple(rungs.RUNGS), "--rung"),
    ):
        if value is not None and value not in allowed:
            raise ValueError(f"expected {name} in {', '.join(allowed)}; got {value!r}")
    last = rows_file()
    kept = [
        reach(ledger.claim(claim)["id"])
        for claim, reach in ((rests_on, claim_map.above), (used_by, claim_map.below))
        if claim is not None
    ]
    rows = [
        row
        for row in last["rows"]
        if paper in (None, row["paper"])
        and verdict in (None, row["verdict"])
        and grade in (None, row["grade"])
        and rung in (None, row["rung"])
        and all(row["id"] in reached for reached in kept)
    ]
    if as_json:
        json.dump(rows, sys.stdout, indent=1)  # ASCII, whatever the terminal has
        print()
        return
    if last["book"] is None:
        print("No build yet, so every verdict is todo; `make book` computes them.\n")
    table = [
        [
            *(r["id"], r["verdict"], r["grade"], r["rung"]),
            *(ledger.number(_float(r["measured"])), r["draws"], r["where"], r["title"]),
        ]
        for r in rows
    ]
    heads = ["claim", "verdict", "grade", "evidence", "measured", "draws", "place", "title"]
    print(tabulate(table, heads, disable_numparse=True))
    for field, values in (("verdict", ledger.VERDICTS), ("grade", findings.GRADES)):
        counts = {v: sum(r[field] == v for r in rows) for v in values}
        found = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
        if field == "verdict":
            print(f"\n{len(rows)} claims: {found or 'none'}")
        elif found:
            print(f"of these by grade: {found}")


def _float(value: float | str | None) -> float | None:
    return None if value is None else float(value)


@app.command()
def where(claim: Annotated[str, typer.Argument(help="such as nl/thm4")]) -> None:
    """Where a claim is checked: file and line, notebook cell, page."""
    from clcore.ledger import places

    print(places.where(claim))


@app.command()
def check(
    claim: Annotated[str, typer.Argument(help="such as nl/thm4")],
    draws: Annotated[int, typer.Option(min=1, help="settings share them, rounded up")] = 60,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Run the check of one claim: measured, bound, controls, verdict, place."""
    from clcore.ledger import places

    print(places.tried(claim, draws, seed))


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="the ledger.json of a build")],
    new: Annotated[Path, typer.Argument(help="the ledger.json of another build")],
    words: Annotated[
        bool, typer.Option("--words", help="compare notes and corrections, too")
    ] = False,
) -> None:
    """Compare two builds bit for bit; status 1 when anything differs."""
    from clcore.book import compare as beside

    found = beside.differences(old, new, words)
    print("\n".join(found) if found else "every record is the same to the bit")
    raise typer.Exit(1 if found else 0)


@app.command()
def course(
    only: Annotated[list[str] | None, typer.Option(help="a session; may be repeated")] = None,
    out: Annotated[Path | None, typer.Option(help="a folder, by default _build/course")] = None,
    otter: Annotated[bool, typer.Option("--otter", help="assignments for Otter, too")] = False,
    key: Annotated[Path | None, typer.Option(help="a file with a key of yours, see grade")] = None,
    own: Annotated[Path | None, typer.Option(help="a folder with slides of yours")] = None,
) -> None:
    """Slides, notebooks for students and instructors, a handout and plans, from the last build."""
    from clcore.book import course as kit

    secret = kit.read_key(_paths.home(key)) if key else ""
    place, mine = (_paths.home(path) if path else None for path in (out, own))
    print("\n".join(kit.make(place, only, otter, secret, mine)))


@app.command()
def grade(
    folder: Annotated[Path, typer.Argument(help="with the submitted notebooks")],
    out: Annotated[Path | None, typer.Option(help="the table, by default grades.csv there")] = None,
    key: Annotated[Path | None, typer.Option(help="the key file given to `course`")] = None,
    minutes: Annotated[float, typer.Option(help="for a notebook")] = 10,
    seconds: Annotated[float, typer.Option(help="for one of its cells")] = 120,
    memory: Annotated[int, typer.Option(help="for a notebook, in MiB (Linux)")] = 4096,
    jobs: Annotated[int, typer.Option(help="notebooks at a time")] = 1,
) -> None:
    """Run and judge the notebooks of a course, one row each: points, minutes, messages.

    Every notebook runs in its own process, but as you: grade work of people you do not trust
    in a container or as another user. A key, any line of text in a file, gives the exercises that
    ask for a number other constants; make the notebooks with it and grade with it.
    """
    from clcore.book.course import read_key
    from clcore.book.grading.folder import grade_folder
    from clcore.book.grading.mark import Limits

    folder = _paths.home(folder)
    table = _paths.home(out) if out else folder / "grades.csv"
    secret = read_key(_paths.home(key)) if key else ""
    grade_folder(folder, table, Limits(minutes, seconds, memory), secret, max(1, jobs))
    print(f"the table is in {table}")


@app.command()
def doctor() -> None:
    """Versions, device, threads; what is missing here and how to get it."""
    from clcore.book.doctor import examine

    raise typer.Exit(examine())


@app.command()
def golden(
    write: Annotated[bool, typer.Option(help="keep what was found for the site")] = False,
) -> None:
    """Compare our training with recorded runs of the authors' programs: the largest differences."""
    from clcore.experiments import golden_replay

    raise typer.Exit(0 if golden_replay.command(write) else 1)


@app.command()
def gpu(
    out: Annotated[Path, typer.Option(help="a folder for what is found")] = Path("_build/gpu"),
    device: Annotated[str, typer.Option(help="cuda or cuda:N; cpu to rehearse")] = "cuda",
    minutes: Annotated[float, typer.Option(help="for all steps together")] = 60.0,
    only: Annotated[
        list[str] | None, typer.Option(help="tests, chapters or tables; may be repeated")
    ] = None,
    jobs: Annotated[str, typer.Option(help="chapters at a time, or auto")] = "auto",
    rehearse: Annotated[bool, typer.Option("--rehearse", help="tiny sizes")] = False,
    compile: Annotated[bool, typer.Option("--compile", help="compile the image runs")] = False,
) -> None:
    """Run what needs a CUDA device, within a time limit: tests, chapters, image tables."""
    from clcore.book import gpu as steps

    raise typer.Exit(steps.command(out, device, minutes, only, jobs, rehearse, compile))


@app.command()
def letter(paper: Annotated[str, typer.Argument(help="such as ncl")]) -> None:
    """Print the letter to the authors of a paper, from the last build: errata, most serious
    first, each with the command that repeats it."""
    from clcore import ledger
    from clcore.book.site import letters
    from clcore.book.site.serve import rows_file

    if paper not in ledger.papers():
        raise ValueError(f"expected a paper of {', '.join(ledger.papers())}; got {paper!r}")
    last = rows_file()
    if last["book"] is None:
        raise ValueError("expected a build, found none; run `make book` first")
    print(letters.text(paper, last["rows"]))


@app.command()
def pdf(
    only: Annotated[list[str] | None, typer.Option(help="a page or deck; may be repeated")] = None,
    folds: Annotated[str, typer.Option(help="folded parts: open, closed or solutions")] = "closed",
    out: Annotated[Path | None, typer.Option(help="the file; of decks the course")] = None,
    decks: Annotated[bool, typer.Option("--decks", help="the slides of `course` instead")] = False,
) -> None:
    """The last build's site on paper, by Chromium, in _build/book.pdf; or a course's slides."""
    from clcore.book import pdf as paper

    if decks:
        folder = _paths.home(out) if out else _paths.build_dir() / "course"
        made = paper.decks(folder / "slides", only)
        print("\n".join(_paths.shown(file) for file in made))
        return
    place = _paths.home(out) if out else _folders.build() / "book.pdf"
    print(f"the book is in {paper.write(place, folds, only)}")


@app.command()
def publish(
    remote: Annotated[str, typer.Option(help="of this repository")] = "origin",
    branch: Annotated[str, typer.Option(help="that the hosting serves")] = "gh-pages",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="commit, but do not push")] = False,
    replace: Annotated[
        str | None,
        typer.Option(help="the branch again, if its content is no site of ours"),
    ] = None,
    unfinished: Annotated[
        bool,
        typer.Option("--unfinished", help="a site of the profile smoke, or with chapters missing"),
    ] = False,
) -> None:
    """Put the last build's site on a branch, for static hosting."""
    from clcore.book.publish import publish as put

    print(put(remote, branch, dry_run, replace, unfinished))


@app.command()
def clean() -> None:
    """Delete files made by builds; other files stay, and are listed."""
    left = _folders.clean()
    for path in left:
        print(f"left, for it is not ours: {_paths.shown(path)}", file=sys.stderr)
    raise typer.Exit(1 if left else 0)


@app.command()
def launch(
    out: Annotated[Path, typer.Option(help="a folder for the notebooks")],
    repository: Annotated[str, typer.Option(help="the repository's address")],
) -> None:
    """Write the chapters as notebooks that install what they need; Binder calls this."""
    from clcore.book import build
    from clcore.book.site import launch as elsewhere

    notebooks = [_paths.root() / "chapters" / f"{name}.ipynb" for name in build.chapters()]
    print(elsewhere.write(notebooks, _paths.home(out), repository))


@app.command()
def serve(port: Annotated[int, typer.Option(min=0, max=65535)] = 8000) -> None:
    """Serve the built site on this machine."""
    from clcore.book.site import serve as site

    site.serve(port)


@app.command()
def pretrain(
    data: Annotated[str, typer.Argument(help="a data set of `data list`, or an image folder")],
    out: Annotated[Path, typer.Option(help="where checkpoint and table go")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="a setting of pretraining.Settings, such as loss=nce"),
    ] = None,
    record: Annotated[list[int] | None, typer.Option(help="an epoch; may be repeated")] = None,
    train: Annotated[str, typer.Option(help="split to train on")] = "train",
    test: Annotated[str, typer.Option(help="split to evaluate on")] = "test",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N")] = "auto",
) -> None:
    """One pretraining run; the same command resumes it. For several GPUs:
    torchrun --nproc-per-node 4 -m clcore pretrain cifar10 --out runs --set loss=nce
    """
    from clcore.book.parameters import check_device
    from clcore.experiments import pretraining

    device = check_device(device)
    file = pretraining.command(data, _paths.home(out), set_ or [], record, train, test, device)
    if file is not None:
        print(f"the table is in {file}")


@data_app.command("list")
def data_list() -> None:
    """Every data set, its size, licence and whether it is here."""
    from clcore.images import datasets

    print(datasets.overview())


@data_app.command("fetch")
def data_fetch(name: str) -> None:
    """Download one data set (its size is shown first) and verify it."""
    from clcore.images import datasets

    print(f"{name} is ready in {datasets.fetch(name)}")


@data_app.command("where")
def data_where(name: str) -> None:
    """Where the files of one data set are or belong, with their checksums."""
    from clcore.images import datasets

    print(datasets.where(name))


@data_app.command("verify")
def data_verify(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """Compare the files that are here with their known checksums."""
    from clcore.images import datasets

    names = [name] if name else datasets.present()
    if not names:
        print("No data set is here; `python -m clcore data list` shows what can be fetched.")
    problems = [problem for n in names for problem in datasets.verify(n)]
    for problem in problems:
        print(problem, file=sys.stderr)
    for n in names:
        if not any(p.startswith(f"{n}:") for p in problems):
            print(f"{n}: every file is as published")
    raise typer.Exit(1 if problems else 0)


def main() -> int:
    """Run a command; an error that explains itself is shown without a traceback."""
    _streams.prepare()
    try:
        # Without its stand-alone mode, the status that a command exits with is returned.
        status = app(standalone_mode=False) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read, as `head`, has enough
        _streams.abandon()
        return 1
    except (KeyboardInterrupt, typer.Abort):
        print("\nInterrupted. Finished runs are kept: run the same command again to resume.")
        return 130
    except Exception as error:
        if callable(show := getattr(error, "show", None)):  # a usage error of the command line
            show()
            return 2
        if isinstance(error, ModuleNotFoundError) and error.name in ("fcntl", "resource"):
            print("error: Windows has no file locks of this kind; use WSL", file=sys.stderr)
            return 2
        if isinstance(error, ValueError | OSError | RuntimeError):
            print(f"error: {error}", file=sys.stderr)
            return 2
        raise


if __name__ == "__main__":
    sys.exit(main())
