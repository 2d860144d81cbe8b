"""For a terminal: where a claim is checked, and what its check finds now."""

import textwrap

from clcore.ledger import findings, registry
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
    found += [
        f"run in   chapters/{c.notebook}.ipynb, code cell {c.number} (id {c.cell})" for c in cells
    ]
    found += [
        f"page     chapters/{name}.html#{anchor(claim_id)}"
        for name in dict.fromkeys(c.notebook for c in cells)
    ]
    paper = claim_id.split("/")[0]
    return [*found, f"words    data/findings/{paper}.yaml", f"claim    data/claims/{paper}.yaml"]


def where(claim_id: str) -> str:
    """Statement and places of a claim. Raises LedgerError with near misses for an unknown id."""
    return "\n".join([*_statement(claim_id), *_lines(claim_id)])


def tried(claim_id: str, draws: int, seed: int) -> str:
    """Run the check of a claim and say what it found: measured, bound, controls, verdict, place.

    Raises LedgerError for an unknown id, a check that the ledger refuses, and a claim that is not
    checked on draws, with the place where it is.
    """
    import torch

    places = registry.of(claim_id)
    drawn = [p for p in places if p.on == "draws"]
    if not drawn:
        raise LedgerError(
            f"{claim_id} is not checked on random draws but in a chapter, on its runs:\n"
            + "\n".join(_lines(claim_id))
        )
    torch.set_num_threads(1)
    book = Ledger("terminal")
    book.run([drawn[0].function()], draws, seed)
    own = [r for r in book.records if r["claim"] == claim_id]
    lines = _statement(claim_id)
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
    computed, known = verdict(own), findings.verdicts()[claim_id]
    lines += ["", f"verdict  {computed}" + ("" if computed == known else f" (known: {known})")]
    if len(places) > len(drawn):
        lines.append(
            "         of the parts on draws alone; others are judged on runs, in a chapter"
        )
    return "\n".join([*lines, *_lines(claim_id)])
