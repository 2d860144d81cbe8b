"""The errata: one page per paper, by weight, then by root; and book/errata, which leads to them."""

from collections import Counter

from markupsafe import Markup

from clcore import ledger
from clcore.book.site import code, fragments
from clcore.book.site.markdown import raw
from clcore.ledger import findings
from clcore.ledger import map as claim_map
from clcore.ledger.findings import GRADES
from clcore.ledger.html import placed

COPY = "of the text copy"
"""A check's words if its finding may not concern the paper itself."""

SECTIONS = {
    "conclusion": "Conclusions",
    "proof": "Steps of proofs",
    "hypothesis": "Missing hypotheses",
    "constant": "Constants and indices",
    "misprint": "Misprints",
}
"""Grade -> the heading over its entries."""

MEANING = {
    "conclusion": "the assertion fails at generic inputs, and the corrected one asserts something "
    "else, or less",
    "proof": "the statement holds, or what the paper uses it for does; the printed step fails",
    "hypothesis": "true under an added condition, neither printed with the statement nor announced "
    "for it",
    "constant": "a factor, an exponent, a sign or an index is wrong; the form stays",
    "misprint": "a slip with only one possible meaning, in which the statement holds",
}


UNSETTLED = ("depends", "differs", "partial", "blocked")
"""Verdicts of rows that no run here settles."""
LIGHT = ("hypothesis", "constant", "misprint")
"""Grades that leave the conclusion and the steps of the proof as they are, but for a condition."""


def files(rows: list[dict]) -> dict[str, str]:
    """Name below book/ -> Markdown: errata.md, and errata/<paper>.md for every paper.

    rows: every claim with its verdict (`clcore.ledger.rows`).
    """
    by_paper = {
        paper: paper_page(paper, [row for row in rows if row["paper"] == paper])
        for paper in ledger.papers()
    }
    return {"errata.md": front(rows)} | {f"errata/{p}.md": text for p, text in by_paper.items()}


def split(rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """Rows that do not stand as printed, and those that do but for a misprint."""
    wrong = [row for row in rows if row["verdict"] in ("corrected", "refuted")]
    return wrong, [row for row in rows if row["grade"] == "misprint" and row not in wrong]


def impossible(row: dict) -> list[dict]:
    """Checks of a row that show something printed to be impossible, whatever decides the row."""
    return [check for check in row["checks"] if check["counterexample"] and not check["passed"]]


def told(row: dict) -> list[tuple[str, str, str]]:
    """What the checks of a row say of its error: heading, parts, text. A text that several parts
    share is told once, with all their names. Claims are named by their places."""
    parts: dict[tuple[str, str], list[str]] = {}
    for check in row["checks"]:
        said = {"Counterexample": check["counterexample"], "What holds": check["correction"]}
        if check["counterexample"] and not check["correction"]:
            said["Note"] = check["note"]
        for about in said.items():
            if about[1] and check["part"] not in parts.setdefault(about, []):
                parts[about].append(check["part"])
    paper = row["paper"]
    return [(name, _named(of), placed(text, paper)) for (name, text), of in parts.items()]


def _named(parts: list[str]) -> str:
    """Parts by name; the one that has none is the whole statement, unless it is alone."""
    return "; ".join(part or "whole statement" for part in parts) if parts[1:] else parts[0]


def leading(wrong: list[dict], grade: str) -> list[dict]:
    """The rows of a grade that have a separate entry: a consequence is listed with its root,
    whatever its own grade; without a root, separately."""
    present = {row["id"] for row in wrong}
    return [
        row
        for row in wrong
        if row["grade"] == grade and (row["root"] == row["id"] or row["root"] not in present)
    ]


def withdrawn(rows: list[dict]) -> list[tuple[dict, dict]]:
    """Rows of which we retract something, with date and text."""
    known = findings.known()
    return [
        (row, ours | {"text": placed(ours["text"], row["paper"])})
        for row in rows
        if (ours := known[row["id"]].get("withdrawn"))
    ]


def front(rows: list[dict]) -> str:
    """The page book/errata: the rules, the counts, and one line per entry."""
    wrong, slips = split(rows)
    papers = [
        (
            paper,
            f"{known['cite']}: {known['name']}",
            [row for row in (*wrong, *slips) if row["paper"] == paper],
        )
        for paper, known in ledger.papers().items()
    ]
    return f"""# Errata

{_summary(rows, wrong, slips)}

{raw(fragments.render("errata_entries.html", papers=papers))}

By the rules on the page [How we judge](judging.md), each entry has a grade and a root, the place
where the error starts; its consequences are folded below it. A statement is listed when its
measured error is $>$ its bound at some inputs that meet the printed conditions, even if it holds
at all others; the smallest change that makes it true was measured in the same way, against the same
bound, and every measurement has a control that fails. Where a row that holds notes a regime in
which it fails, the note ends with the printed words that exclude this regime. Slips that leave one
possible meaning have their own table: the statements hold if read with care. A run whose number
differs from the paper's is no erratum: the ledger lists it under "depends" or "differs";
impossible numbers are at the end of their paper's page."""


def _summary(rows: list[dict], wrong: list[dict], slips: list[dict]) -> str:
    checked = sum(row["verdict"] not in ("todo", "blocked") for row in rows)
    if not wrong and not slips:
        return (
            f"There is nothing to correct: of the {checked} claims checked so far, none is "
            "false as printed."
        )
    good = sum(row["verdict"] in ("holds", "reproduced") for row in rows)
    words = f"Of the {checked} claims checked so far, {good} need no correction"
    words += f": {fragments.held(rows)}. " if good else ". "
    if wrong:
        own = [row for row in (*wrong, *slips) if row["root"] == row["id"]]
        light = sum(row["grade"] in LIGHT for row in own)
        words += f"{len(wrong)} are false as printed and come from {len(_roots(wrong))} errors. "
        if 2 * light > len(own):
            words += (
                f"Of these errors and the misprints together, {light} of {len(own)} are missing "
                "conditions, wrong constants or misprints. "
            )
    if unsettled := sum(row["verdict"] in ("depends", "differs", "partial") for row in rows):
        words += f"{unsettled} runs are unsettled (depends, differs, partial): see the ledger. "
    texts = ("counterexample", "correction", "note")
    copied = sum(any(COPY in check[n] for check in row["checks"] for n in texts) for row in wrong)
    if copied:
        words += (
            f"In {copied} of the false rows, as their notes say, the error may be an artefact of "
            "our text copy, not of the paper."
        )
    if back := withdrawn(rows):
        words += f" Of our own entries we withdrew {len(back)}: each paper's page ends with them."
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
    cited = [of["cite"] for of in ledger.papers().values()]
    return fragments.render("errata_totals.html", papers=cited, rows=lines)


RULE = (
    "An entry's measured error is $>$ its bound at inputs that meet the printed conditions; we "
    "tested each correction in the same way. Grades and roots: [how we judge](../judging.md)."
)
"""Begins every page; without a formula that Sphinx sees, it leaves MathJax out."""


def paper_page(paper: str, rows: list[dict]) -> str:
    """The page book/errata/<paper>. rows: all of this paper."""
    wrong, slips = split(rows)
    known = ledger.papers()[paper]
    text = f"# {known['cite']}: errata\n\n{known['name']}. {known['version']} {RULE}\n\n"
    good = [row for row in rows if row["verdict"] in ("holds", "reproduced")]
    stands = fragments.render(
        "errata_stands.html",
        paper=paper,
        count=Counter(row["verdict"] for row in good),
        held=fragments.held(rows),
        rows=len(rows),
        statements=[row for row in good if row["kind"] in fragments.STATEMENTS],
    )
    text += f"## What stands\n\n{raw(stands)}\n"
    about = findings.known()
    for grade in GRADES:
        heads = leading(wrong, grade)
        if heads:
            text += f"## {SECTIONS[grade]}\n\n"
        for row in heads:
            after = [r for r in wrong if r["root"] == row["id"] and r["id"] != row["id"]]
            links = {r["id"]: code.links(r["id"]) for r in (row, *after)}
            entry = fragments.render(
                "erratum.html",
                row=row,
                after=after,
                told={r["id"]: told(r) for r in (row, *after)},
                known=about,
                code=links,
                certificate=code.certificate(row["id"]),
                resting={r["id"]: len(claim_map.above(r["id"])) for r in (row, *after)},
            )
            text += f"### {row['id']}\n\n{raw(entry)}\n"
    if slips:
        table = fragments.render("misprints.html", rows=slips, known=about)
        text += f"## {SECTIONS['misprint']}\n\n{raw(table)}\n"
    if cannot := [(row, bad) for row in rows if row not in wrong and (bad := impossible(row))]:
        table = fragments.render("impossible.html", rows=cannot)
        text += f"## Impossible numbers\n\n{raw(table)}\n"
    if ours := withdrawn(rows):
        text += f"## Withdrawn\n\n{raw(fragments.render('withdrawn.html', withdrawn=ours))}\n"
    if not wrong and not slips:
        text += "Nothing checked so far needs correction.\n"
    return text
