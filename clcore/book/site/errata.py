"""The page book/errata: what does not stand as printed, by paper, then by weight, then by root."""

from collections import Counter
from html import escape

from clcore.book.site import fragments
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


def raw(html: str) -> str:
    """HTML inside a Markdown page."""
    return f"````{{raw}} html\n{html}\n````\n"


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
        for paper in fragments.PAPERS
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


def _table(wrong: list[dict], slips: list[dict]) -> str:
    """Errors per grade and paper, with all the rows that they reach in brackets."""
    found = Counter((row["grade"], row["paper"]) for row in (*wrong, *slips))
    own = Counter(
        (row["grade"], row["paper"]) for row in (*wrong, *slips) if row["root"] == row["id"]
    )

    def cell(grade: str, papers: list[str]) -> str:
        roots, reached = (sum(c[grade, p] for p in papers) for c in (own, found))
        more = f" ({reached})" if reached != roots else ""
        return f'<td class="cl-num">{roots}{more}</td>'

    names = list(fragments.PAPERS)
    body = "".join(
        f'<tr><th scope="row">{grade}</th><td>{MEANING[grade]}</td>'
        + "".join(cell(grade, papers) for papers in (*([n] for n in names), names))
        + "</tr>"
        for grade in GRADES
    )
    heads = ("Grade", "What it says", *names, "all")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return fragments.scrolling(
        "Errors per grade and paper; in brackets the rows that they reach",
        f'<table class="cl-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
    )


def _paper(paper: str, rows: list[dict], wrong: list[dict], slips: list[dict]) -> str:
    good = Counter(row["verdict"] for row in rows)
    stands = ", ".join(f"{good[v]} {v}" for v in ("holds", "reproduced") if good[v])
    text = f"## {paper}: {fragments.PAPERS[paper]}\n\n"
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
            text += f"#### {row['id']}\n\n{raw(_entry(row) + _consequences(after))}\n"
    if slips:
        text += f"### {paper}: {SECTIONS['misprint']}\n\n{raw(_misprints(slips))}\n"
    return text


def _consequences(rows: list[dict]) -> str:
    if not rows:
        return ""
    items = "".join(
        f'<li><details id="{fragments.anchor(row["id"])}"><summary>{row["id"]}, '
        f"{escape(row['where'])} ({row['grade']})</summary>{_entry(row)}</details></li>"
        for row in rows
    )
    return f'<p>What follows from it:</p><ul class="cl-consequences">{items}</ul>'


def _misprints(rows: list[dict]) -> str:
    body = "".join(
        f'<tr><th scope="row"><a href="ledger.html#{fragments.anchor(row["id"])}">{row["id"]}</a>'
        f"</th><td>{escape(row['where'])}</td>"
        f'<td class="mathjax_process">{fragments.misprints(row)}</td></tr>'
        for row in rows
    )
    head = "".join(f'<th scope="col">{n}</th>' for n in ("Claim", "Where", "Printed and meant"))
    return fragments.scrolling(
        "Misprints",
        f'<table class="cl-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
    )


def _entry(row: dict) -> str:
    def block(name: str, html: str) -> str:
        return f'<dt>{name}</dt><dd class="cl-statement mathjax_process" tabindex="0">{html}</dd>'

    items = [block("As printed", fragments.typeset(row["statement"]))]
    if row["conditions"].strip():
        items.append(block("Under", fragments.typeset(row["conditions"])))
    if row["added"]:
        items.append(block("Added by us", fragments.typeset(row["added"])))
    for check in row["checks"]:
        part = f" ({fragments.typeset(check['part'])})" if check["part"] else ""
        names = {"counterexample": "Counterexample", "correction": "What holds"}
        if check["counterexample"] and not check["correction"]:
            names |= {"note": "Note"}
        for name, title in names.items():
            if check[name]:
                items.append(block(title + part, fragments.typeset(check[name])))
    if row["misprints"]:
        items.append(block("Misprint", fragments.misprints(row)))
    if row["verdict"] == "refuted":
        items.append(block("What holds", "No correction has been found."))
    key = fragments.anchor(row["id"])
    return (
        f"<p>{fragments.badge(row['verdict'])} <b>{row['grade']}</b> · {escape(row['where'])}</p>"
        f'<dl class="cl-erratum">{"".join(items)}</dl>'
        f'<div class="mathjax_process">{fragments.checks_table(row["checks"])}</div>'
        f'<p><a href="../{row["anchor"]}">The cell that checks {row["id"]}</a> · '
        f'<a href="ledger.html#{key}">its row in the ledger</a></p>'
    )
