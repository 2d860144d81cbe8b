"""How the checks are checked: the parts of that page that are made from the records of mutants and
of other seeds."""

from collections import Counter
from typing import Any

from clcore.book import fuzz, mutants, seeds
from clcore.book.site import fragments
from clcore.book.site.markdown import raw

MATHEMATICS = ("checks", "tests")

Row = dict[str, Any]


def files() -> dict[str, str]:
    """Name below book/ -> Markdown: scores, survivors and equivalents of the mathematics, lots of
    it that nobody had read, and the judge's own; what other seeds give, and corrected forms at many
    inputs.

    Raises `clcore.book.mutants.MutantsError` when data/mutants is damaged, `SeedsError` when
    data/seeds.json is, `FuzzError` when data/fuzz.json is.
    """
    found, judge = (mutants.recorded(n) for n in (mutants.MATHEMATICS, mutants.JUDGE))
    rows, judged, unread = found["mutants"], judge["mutants"], mutants.unread()
    every = [*rows, *judged, *(row for lot in unread for row in lot["mutants"])]
    return {
        "_generated/mutants-score.md": f"{_made(found)}\n\n{_scores(rows, MATHEMATICS)}",
        "_generated/mutants-survivors.md": _survivors(rows),
        "_generated/mutants-unread.md": _unread(unread),
        "_generated/mutants-equivalent.md": _equivalent(every),
        "_generated/seeds.md": _seeds(seeds.recorded()),
        "_generated/fuzz.md": _fuzz(fuzz.recorded()),
        "_generated/mutants-judge.md": (
            f"{_made(judge)}\n\n{_scores(judged, ('tests',))}\n\n{_listed(_left(judged))}"
        ),
    }


def _seeds(found: dict[str, Any]) -> str:
    """How many checks, at how many seeds, and where one says something else."""
    apart, many = found["apart"], found["seeds"]
    others = "one other seed" if many == 1 else f"{many} other seeds"
    said = (
        f"Recorded on {found['made']} at commit `{found['commit']}`: {found['checks']} checks at "
        f"{others}, {found['draws']} draws each, PyTorch {found['torch']}. "
    )
    if not apart:
        return f"{said}Every verdict, and whether each part passes, is there what it is at seed 0."
    return said + raw(fragments.render("seeds.html", rows=apart, runs=found))


def _fuzz(found: dict[str, Any]) -> str:
    """How many corrected forms, at how many inputs, and which failed."""
    failed = [row for lot in found["lots"] for row in lot["failed"]]
    said = " ".join(_lot(lot) for lot in found["lots"])
    if not failed:
        return f"{said} None failed."
    return f"{said} " + raw(fragments.render("fuzz.html", rows=failed))


def _lot(lot: dict[str, Any]) -> str:
    counts, asked = lot["counts"], lot["inputs"]
    many = sum(n >= asked for n in counts)
    return (
        f"Recorded on {lot['made']} at commit `{lot['commit']}`: {len(counts)} corrected forms "
        f"of {', '.join(lot['papers'])}, {many} of them at {asked} inputs or more, the others at "
        f"as many as they got in their time: half of all at {counts[len(counts) // 2]} or more, "
        f"the least at {counts[0]}."
    )


def _made(found: dict[str, Any]) -> str:
    drawn = f"a lot of {found['sample']}" if found["sample"] else "all there are"
    return (
        f"Recorded on {found['made']} at commit `{found['commit']}`: {len(found['mutants'])} "
        f"mutants of {len(found['modules'])} modules ({drawn}, seed {found['seed']}), "
        f"{found['draws']} draws a check, PyTorch "
        f"{found['torch']}, numpy {found['numpy']}, Python {found['python']}."
    )


def module(row: Row) -> str:
    """The module of a mutant, without what all have in common."""
    return row["path"].removeprefix("clcore/").removesuffix(".py")


def score(rows: list[Row], sides: tuple[str, ...]) -> dict[str, Any]:
    """What became of mutants: `n` that are not equivalent, of each side how many it was `asked`
    about and the outcomes, how many no side killed. Of the checks also `valueless`, how many give
    no value, and of those that give one, how many were asked about (`judgeable`) and killed
    (`stopped`)."""
    listed = mutants.equivalents()
    real = [row for row in rows if mutants.name_of(row) not in listed]
    told: dict[str, Any] = {"n": len(real), "equivalent": len(rows) - len(real)}
    for side in sides:
        count = Counter(row[side]["outcome"] for row in real)
        killed = sum(count[outcome] for outcome in mutants.KILLED)
        told[side] = {"asked": len(real) - count["unasked"], "killed": killed, **count}
    if "checks" in told:
        nothing = sum(map(mutants.valueless, real))
        asked, killed = (told["checks"][name] - nothing for name in ("asked", "killed"))
        told["checks"] |= {"valueless": nothing, "judgeable": asked, "stopped": killed}
    told["left"] = sum(not mutants.killed(row) for row in real)
    return told


def _scores(rows: list[Row], sides: tuple[str, ...]) -> str:
    """A table, a line a module, and what all of them come to."""
    by_module: dict[str, list[Row]] = {}
    for row in rows:
        by_module.setdefault(module(row), []).append(row)
    lines = {name: score(of, sides) for name, of in sorted(by_module.items())}
    every = score(rows, sides)
    return raw(fragments.render("mutants_score.html", lines=lines, every=every, sides=sides))


def _place(row: Row) -> tuple[str, int]:
    return row["path"], row["line"]


def _left(rows: list[Row]) -> list[Row]:
    return sorted(mutants.survivors(rows), key=_place)


def _survivors(rows: list[Row]) -> str:
    """Those that nobody noticed; then those that the unit tests alone did."""
    by_tests = [
        row for row in rows if row["checks"]["outcome"] == "survived" and mutants.killed(row)
    ]
    by_tests.sort(key=_place)
    moved = sum(bool(row["checks"].get("moved")) for row in by_tests)
    return (
        f"{_listed(_left(rows))}\n\nAnother {len(by_tests)} are executed by a check, leave every "
        f"verdict as it is, and fail a unit test; {moved} of them move a number that a check "
        f"measures or says.\n\n{_folded('Seen by the unit tests alone', by_tests)}"
    )


def _listed(rows: list[Row]) -> str:
    if not rows:
        return "None survives."
    return raw(fragments.render("mutants_list.html", rows=rows, title="", module=module))


def _folded(title: str, rows: list[Row]) -> str:
    return raw(fragments.render("mutants_list.html", rows=rows, title=title, module=module))


def _unread(lots: list[dict[str, Any]]) -> str:
    """A table, a line a lot; and of each, what the checks did not notice then."""
    if not lots:
        return "None is recorded."
    told = [(lot, score(lot["mutants"], MATHEMATICS)) for lot in lots]
    every = [raw(fragments.render("mutants_unread.html", lots=told))]
    for lot in lots:
        left = [row for row in lot["mutants"] if row["checks"]["outcome"] == "survived"]
        left = [row for row in left if mutants.name_of(row) not in mutants.equivalents()]
        left.sort(key=_place)
        if left:
            every.append(_folded(f"Not noticed by checks then, of seed {lot['seed']}", left))
    if practised := len(mutants.practised() - mutants.in_records()):
        drawn = f"Mutants drawn for practice that are in no record: {practised}."
        every.append(f"{drawn} Checks were improved by reading their survivors.")
    return "\n\n".join(every)


def _equivalent(rows: list[Row]) -> str:
    """The reviewed list: of what was drawn, every change that no test could tell, and why."""
    listed = mutants.equivalents()
    drawn = list({name: row for row in rows if (name := mutants.name_of(row)) in listed}.values())
    drawn.sort(key=_place)
    told = [row | {"reason": listed[mutants.name_of(row)]} for row in drawn]
    if not told:
        return "None of those drawn."
    return raw(fragments.render("mutants_list.html", rows=told, title="", module=module))
