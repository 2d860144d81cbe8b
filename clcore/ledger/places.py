"""For a terminal: where a claim is checked, and what its check finds now."""

import textwrap

from clcore.ledger import findings, registry, words
from clcore.ledger import map as claim_map
from clcore.ledger.outcomes import anchor, number, outcome
from clcore.ledger.printed import LedgerError, claim
from clcore.ledger.recorder import Ledger
from clcore.ledger.rungs import evidence
from clcore.ledger.verdicts import verdict


def _statement(claim_id: str) -> list[str]:
    row = claim(claim_id)
    return [f"{claim_id}: {row['title']}", row["where"], *textwrap.wrap(row["statement"], 96), ""]


def _lines(claim_id: str) -> list[str]:
    found = [
        f"check    {p.path}:{p.first} ({p.name}, lines {p.first} to {p.last}, on {p.on})"
        for p in registry.of(claim_id)
    ]
    cells = registry.cells(claim_id)
    if not found and not cells:
        found.append(f"check    {_unchecked(claim_id)}")
    if not cells:
        found.append(f"run in   {_unnamed(claim_id)}")
    found += [
        f"run in   chapters/{c.notebook}.ipynb, code cell {c.number} (id {c.cell})" for c in cells
    ]
    found += [
        f"page     chapters/{name}.html#{anchor(claim_id)}"
        for name in dict.fromkeys(c.notebook for c in cells)
    ]
    paper = claim_id.split("/")[0]
    about = f"data/findings/{paper}.yaml"
    if claim_id not in findings.of_paper(paper):
        about = findings.no_entry(claim_id)
    return [*found, f"words    {about}", f"claim    data/claims/{paper}.yaml"]


def _unchecked(claim_id: str) -> str:
    return (
        f'has no check yet: write @check("{claim_id}") in a file of clcore/checks/<chapter> '
        "(step 1 of book/contributing.md)"
    )


def _unnamed(claim_id: str) -> str:
    """The message on a claim whose id no cell of a chapter has. For a table of runs a chapter
    makes the ids itself: then the metadata have them."""
    homes = registry.homes(claim_id)
    if homes:
        return f"chapters/{', '.join(homes)} by the metadata; no code cell has its id written out"
    return "no chapter: neither a code cell nor metadata name it (step 3 of book/contributing.md)"


def where(claim_id: str) -> str:
    """Statement and places of a claim.

    Raises LedgerError with near misses for an unknown id, its own or one that a row rests on, and
    FindingsError for a damaged file of findings of its paper.
    """
    statement = _statement(claim_id)
    claim_map.validate()
    return "\n".join([*statement, *_lines(claim_id)])


def tried(claim_id: str, draws: int, seed: int) -> str:
    """Run the check of a claim and print its result: measured, bound, controls, verdict, place.

    Raises LedgerError for what `where` refuses, a check that the ledger refuses, and a claim that
    is not checked on draws, with the place where it is.
    """
    statement = _statement(claim_id)
    claim_map.validate()
    places = registry.of(claim_id)
    drawn = [p for p in places if p.on == "draws"]
    if not drawn:
        told = "is not checked on random draws but in a chapter, on its runs:"
        if not places and not registry.cells(claim_id):
            told = _unchecked(claim_id)
        raise LedgerError("\n".join([f"{claim_id} {told}", *_lines(claim_id)]))
    import torch

    torch.set_num_threads(1)
    book = Ledger("terminal")
    book.run([drawn[0].function()], draws, seed)
    own = [r for r in book.records if r["claim"] == claim_id]
    lines = statement
    for r in own:
        lines.append(f"{r['part'] or 'whole statement'} ({r['form']}): {outcome(r)}")
        lines.append(
            f"    measured {number(r['measured'])} {r['relation']} {number(r['bound'])}, "
            f"{evidence(r)}"
        )
        for what, value in r["control"].items():
            share = r["shares"].get(what)
            fails = "" if share is None else f", fails in {share:.0%} of draws"
            lines.append(f"    control  {what}: {number(value)}{fails}")
    computed = verdict(own)
    known = findings.verdicts().get(claim_id)
    said = f" ({findings.no_entry(claim_id)})" if known is None else f" (known: {known})"
    lines += ["", f"verdict  {computed}{'' if computed == known else said}"]
    if len(places) > len(drawn):
        lines.append(
            "         of the parts on draws alone; others are judged on runs, in a chapter"
        )
    else:
        none = "refused  data/findings names a part that no check has"
        lines += [f"{none}: {u}" for u in words.unsaid(own)]
    if any(r["draws"] > draws for r in own):
        lines.append(
            f"draws    {draws} asked for; the settings of a part share them, rounded up, and each "
            "error counts"
        )
    return "\n".join([*lines, *_lines(claim_id)])
