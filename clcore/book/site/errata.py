"""The page book/errata: what does not stand as printed, by paper, then by weight, then by root."""

from collections import Counter

from markupsafe import Markup

from clcore import ledger
from clcore.book.site import code, fragments
from clcore.book.site.markdown import raw
from clcore.ledger.findings import GRADES

COPY = "of the text copy"
"""What a check says where its finding may not be one of the paper."""

SECTIONS = {
    "conclusion": "conclusions",
    "proof": "steps of proofs",
    "hypothesis": "missing hypotheses",
    "constant": "constants and indices",
    "misprint": "misprints",
}
"""Grade -> the heading over its entries."""

MEANING = {
    "conclusion": "what is asserted fails at generic inputs, and what holds instead asserts less",
    "proof": "what is proved stands, the printed step to it does not",
    "hypothesis": "true once a condition is added that is printed nowhere",
    "constant": "a factor, an exponent, a sign or an index; the rest stays",
    "misprint": "a slip that leaves one possible meaning, which holds",
}


def page(rows: list[dict]) -> str:
    """The page as Markdown. rows: every claim with its verdict (`clcore.ledger.rows`)."""
    wrong = [row for row in rows if row["verdict"] in ("corrected", "refuted")]
    slips = [row for row in rows if row["grade"] == "misprint" and row not in wrong]
    papers = dict.fromkeys(row["paper"] for row in (*wrong, *slips))
    sections = "\n".join(
        _paper(
            paper,
            [row for row in rows if row["paper"] == paper],
            [row for row in wrong if row["paper"] == paper],
            [row for row in slips if row["paper"] == paper],
        )
        for paper in ledger.papers()
        if paper in papers
    )
    return f"""# Errata

What does not stand as printed, ordered by how much hangs on it: by the rules on the page
[How we judge](judging.md), each entry has a grade and a root, the place where the error starts. Its
consequences are folded below it. A statement is listed when its measured error is $>$ its bound at
inputs that meet the printed conditions; the smallest change that makes it true was measured in the
same way, against the same bound, and every measurement has a control that fails. Slips that leave
one possible meaning are in a table by themselves: what they belong to holds. A run that gives
another number than the paper's is no erratum: those are in the ledger, "depends" and "differs".

{_summary(rows, wrong, slips)}

{sections}"""


def _summary(rows: list[dict], wrong: list[dict], slips: list[dict]) -> str:
    checked = sum(row["verdict"] not in ("todo", "blocked") for row in rows)
    if not wrong and not slips:
        return (
            f"There is nothing to correct: of the {checked} claims checked so far, none turned out "
            "false as printed."
        )
    words = f"Of the {checked} claims checked so far, {checked - len(wrong)} need no correction"
    words += f" (of these, {len(slips)} have a misprint). " if slips else ". "
    heavy = [row for row in wrong if row["grade"] in ("conclusion", "proof")]
    words += (
        f"The other {len(wrong)} come from {len(_roots(wrong))} errors; "
        f"{len(_roots(heavy))} of these touch a conclusion or a step of a proof, the rest are "
        "conditions to add and constants."
        if wrong
        else ""
    )
    texts = ("counterexample", "correction", "note")
    copied = sum(any(COPY in check[n] for check in row["checks"] for n in texts) for row in wrong)
    if copied:
        words += (
            f" In {copied} of them, as their notes say, the error may be one of the text copy that "
            "was read and not of the paper."
        )
    return f"{words}\n\n{raw(_table(wrong, slips))}"


def _roots(rows: list[dict]) -> set[str]:
    return {row["root"] for row in rows}


def _table(wrong: list[dict], slips: list[dict]) -> Markup:
    """Errors per grade and paper, with all the rows that they reach in brackets."""
    found = Counter((row["grade"], row["paper"]) for row in (*wrong, *slips))
    own = Counter(
        (row["grade"], row["paper"]) for row in (*wrong, *slips) if row["root"] == row["id"]
    )
    names = list(ledger.papers())

    def cell(grade: str, papers: list[str]) -> list[int]:
        return [sum(count[grade, p] for p in papers) for count in (own, found)]

    lines = [
        (grade, MEANING[grade], [cell(grade, papers) for papers in (*([n] for n in names), names)])
        for grade in GRADES
    ]
    return fragments.render("errata_totals.html", papers=names, rows=lines)


def _paper(paper: str, rows: list[dict], wrong: list[dict], slips: list[dict]) -> str:
    good = Counter(row["verdict"] for row in rows)
    stands = ", ".join(f"{good[v]} {v}" for v in ("holds", "reproduced") if good[v])
    text = f"## {paper}: {ledger.papers()[paper]['name']}\n\n"
    text += f"As printed, of {len(rows)} rows: {stands}.\n\n" if stands else ""
    present = {row["id"] for row in wrong}
    for grade in GRADES:
        # A consequence stands with its root, whatever its own grade; without it, by itself.
        heads = [
            row
            for row in wrong
            if row["grade"] == grade and (row["root"] == row["id"] or row["root"] not in present)
        ]
        if heads:
            text += f"### {paper}: {SECTIONS[grade]}\n\n"
        for row in heads:
            after = [r for r in wrong if r["root"] == row["id"] and r["id"] != row["id"]]
            links = {r["id"]: code.links(r["id"]) for r in (row, *after)}
            shown = {"code": links, "certificate": code.certificate(row["id"])}
            entry = fragments.render("erratum.html", row=row, after=after, **shown)
            text += f"#### {row['id']}\n\n{raw(entry)}\n"
    if slips:
        table = fragments.render("misprints.html", rows=slips)
        text += f"### {paper}: {SECTIONS['misprint']}\n\n{raw(table)}\n"
    return text
