"""How the checks are checked: the parts of that page that are made from the records of mutants and
of other seeds."""

from typing import Any

from clcore.book import fuzz, mutants, seeds
from clcore.book.site import fragments
from clcore.book.site.markdown import raw
from clcore.ledger import papers


def files() -> dict[str, str]:
    """Name below book/ -> Markdown: lots of mutants, what survived, and what makes no difference;
    what other seeds give, and corrected forms at many inputs.

    Raises `clcore.book.mutants.MutantsError` when data/mutants is damaged, `SeedsError` when
    data/seeds.json is, `FuzzError` when data/fuzz.json is.
    """
    lots = mutants.lots()
    survivors = [lot for lot in reversed(lots) if lot["survivors"]]
    return {
        "_generated/mutants-lots.md": raw(fragments.render("mutants_lots.html", lots=lots)),
        "_generated/mutants-survivors.md": "\n\n".join(map(_survivors, survivors)),
        "_generated/mutants-equivalent.md": _equivalent(mutants.equivalents()),
        "_generated/seeds.md": _seeds(seeds.recorded()),
        "_generated/fuzz.md": _fuzz(fuzz.recorded()),
    }


def _survivors(lot: dict[str, Any]) -> str:
    return _listed(f"Of the lot of seed {lot['seed']}, {lot['made']}", lot["survivors"])


def _equivalent(listed: dict[mutants.Name, str]) -> str:
    """The reviewed list: every change that no test could detect, and why."""
    names = ("path", "where", "statement", "old", "new", "nth")
    rows = [dict(zip(names, name, strict=True)) | {"why": why} for name, why in listed.items()]
    return _listed("Equivalent changes", sorted(rows, key=lambda row: row["path"]))


def _listed(title: str, rows: list[dict[str, Any]]) -> str:
    return raw(fragments.render("mutants_list.html", title=title, rows=rows, module=module))


def module(row: dict[str, Any]) -> str:
    """The module of a mutant, without what all have in common."""
    return row["path"].removeprefix("clcore/").removesuffix(".py")


def _seeds(found: dict[str, Any]) -> str:
    """Number of checks and of seeds, and where a check has another result."""
    apart, many = found["apart"], found["seeds"]
    others = "one other seed" if many == 1 else f"{many} other seeds"
    said = (
        f"Recorded on {found['made']} at commit `{found['commit']}`: {found['checks']} checks at "
        f"{others}, {found['draws']} draws each, PyTorch {found['torch']}. "
    )
    if not apart:
        return f"{said}Every verdict, and the outcome of each part, is the same there as at seed 0."
    return said + raw(fragments.render("seeds.html", rows=apart, runs=found))


def _fuzz(found: dict[str, Any]) -> str:
    """How many corrected forms, at how many inputs; which had fewer, which failed."""
    of = papers()
    lots = sorted(found["lots"], key=lambda lot: [*of].index(lot["papers"][0]))
    lots = [lot | {"cites": [of[p]["cite"] for p in lot["papers"]]} for lot in lots]
    few = [
        {"form": form.removesuffix(" ''"), "n": n}
        for lot in lots
        for form, n in lot["forms"].items()
        if n < lot["inputs"]
    ]
    few.sort(key=lambda row: row["n"])
    failed = [row for lot in lots for row in lot["failed"]]
    return raw(fragments.render("fuzz.html", lots=lots, few=few, failed=failed))
