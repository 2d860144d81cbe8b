"""The build: execute the chapters, gather what they found, write the ledger, make the site.

Everything that is made lies in _build/ and is written whole or not at all:
cache/<chapter>-<key>/ (executed.ipynb, run.json), ledger.json, html/.
"""

import sys
from datetime import UTC, datetime

from clcore import _git, _paths, ledger
from clcore._files import write_json
from clcore.book import parameters, schedule
from clcore.book.build import seal
from clcore.book.build.cache import from_cache
from clcore.book.build.housekeeping import lock, tidy
from clcore.book.build.planning import BuildError, Run, plan
from clcore.book.build.running import execute_all
from clcore.book.build.shown import failure, page, report, title
from clcore.book.contents import chapters
from clcore.book.provenance import commit, encode, repository
from clcore.ledger import findings, words
from clcore.ledger import map as claim_map


def build(
    profile: str = "book",
    only: list[str] | None = None,
    device: str = "auto",
    jobs: int | str = "auto",
    force: bool = False,
) -> int:
    """Execute what has changed, write ledger and site, print a table. Returns the exit status.

    jobs: chapters at a time, or "auto" (see `schedule.side_by_side`); the longest first.
    """
    from clcore.book.site import stage  # which needs Sphinx; chapters are executed without

    jobs = schedule.asked(jobs)
    repository()  # a wrong address is told before anything runs
    made_from = seal.inputs(profile, parameters.check_device(device))
    whole = not only and not force
    if whole and (last := seal.unbroken(made_from)):
        report(last["book"], last["rows"])
        print("\nNothing has changed since the last build.", _where(), sep="\n")
        return 0
    runs = plan(profile, only, device)
    claim_map.validate()
    findings.complete()
    with lock():
        tidy()
        _tell_unknown()
        wanted = [run for run in runs if not only or run.name in only]
        for run in runs:
            if run.status == "failed" or (not (force and run in wanted) and from_cache(run)):
                continue
            run.status = "waiting" if run in wanted else "missing"
        execute_all([run for run in wanted if run.status == "waiting"], jobs)
        found = ledger_of(profile, device, runs)
        book, rows = found["book"], found["rows"]
        _refuse_unsaid(runs)
        write_json(_paths.build_dir() / "ledger.json", encode(found))
        problem = stage.build(rows, book, [page(run, rows) for run in runs])
        failed = [run for run in wanted if run.status != "ok"]
        if whole and not failed and not problem:
            now = seal.inputs(profile, book["device"])
            if now == made_from:  # else a file was edited meanwhile
                seal.put(made_from, [run.entry for run in runs])
    report(book, rows, {run.name for run in runs if run.status == "ok" and not run.cached})
    if problem:
        print(problem, file=sys.stderr)
    else:
        print(f"\n{_where()}")
    for run in failed:
        print(failure(run), file=sys.stderr)
    return 1 if failed or problem else 0


def ledger_of(profile: str, device: str, runs: list[Run]) -> dict:
    """What ledger.json holds: `book`, of this build, and `rows`, of the claims."""
    rows = list(ledger.rows(run.result for run in runs if run.result))
    return {"book": _book(profile, device, runs), "rows": rows}


def _where() -> str:
    return f"The site: {_paths.build_dir() / 'html' / 'index.html'}"


def _tell_unknown() -> None:
    """Why the pages cannot name their commit."""
    try:
        _git.commit()
    except _git.GitError as error:
        print(f"the commit of this build is unknown: {error}", flush=True)


def _refuse_unsaid(runs: list[Run]) -> None:
    """Words of data/findings that no check takes up would be lost without a sound."""
    if any(run.status != "ok" for run in runs):
        return  # the part may be in the chapter that is missing
    records = [record for run in runs for record in run.result["records"]]
    # Of a table whose full-size runs are not there yet, some parts are not there either.
    partial = {r["claim"] for r in records if r.get("evidence") == "partial" or "blocked" in r}
    left = words.unsaid(r for r in records if r["claim"] not in partial)
    if left:
        raise BuildError(
            f"data/findings has words or steps of proofs for parts that no check has: "
            f"{', '.join(left)}; give the part that name (words: or `words=` that name), or take "
            "them out"
        )


def _book(profile: str, device: str, runs: list[Run]) -> dict:
    return {
        "profile": profile,
        "device": parameters.check_device(device),
        # The day of the newest run, not today: a book in which nothing changed is not made again.
        "built": max(
            (run.result["started"][:10] for run in runs if run.result),
            default=datetime.now(UTC).date().isoformat(),
        ),
        "commit": commit(),
        "repository": repository(),
        "chapters": [
            {
                "name": run.name,
                "title": title(run.notebook),
                "status": run.status,
                "seconds": run.outcome.get("seconds"),
                "peak_mib": run.outcome.get("peak_mib"),
            }
            for run in runs
        ],
    }


__all__ = ["BuildError", "build", "chapters", "ledger_of", "plan"]
