"""A letter to the authors of each paper: what stands, errata by weight with the command that
repeats each, what could not be settled, how to answer. As a page of the book, and as a text."""

import re
import textwrap
from typing import Any

from clcore import _paths, ledger
from clcore.book import provenance
from clcore.book.programs import pyodide
from clcore.book.site import errata, fragments
from clcore.book.site.markdown import raw
from clcore.ledger import findings
from clcore.ledger.findings import GRADES
from clcore.ledger.html import place_in, placed, row_id

NO_BREAK = "\u00a0"


def files(rows: list[dict]) -> dict[str, str]:
    """Name below book/ -> Markdown: letters/<paper>.md. rows: every claim with its verdict."""
    return {f"letters/{paper}.md": _page(paper, rows) for paper in ledger.papers()}


def texts(rows: list[dict]) -> dict[str, str]:
    """Address in the site -> the same letters as text: letters/<paper>.txt."""
    return {f"letters/{paper}.txt": text(paper, rows) for paper in ledger.papers()}


def text(paper: str, rows: list[dict]) -> str:
    """The letter to the authors of `paper` as plain text, with formulas in LaTeX."""
    return str(fragments.render("letter.txt", **_contents(paper, rows)))


def _page(paper: str, rows: list[dict]) -> str:
    html = fragments.render("letter.html", **_contents(paper, rows))
    title = f"{ledger.papers()[paper]['cite']}: a letter to the authors"
    return f"# {title}\n\n{errata.RULE}\n\n{raw(html)}"


def _contents(paper: str, rows: list[dict]) -> dict[str, Any]:
    own = [row for row in rows if row["paper"] == paper]
    wrong, _ = errata.split(own)
    sections = [
        (errata.SECTIONS[grade], errata.MEANING[grade], [_entry(row, wrong) for row in heads])
        for grade in GRADES
        if (heads := errata.leading(wrong, grade))
    ]
    good = [row for row in own if row["verdict"] in ("holds", "reproduced")]
    return {
        "paper": paper,
        "home": provenance.repository(),
        "wrapped": wrapped,
        "known": ledger.papers()[paper],
        "held": fragments.held(own),
        "rows": len(own),
        "blocked": sum(row["verdict"] == "blocked" for row in own),
        "statements": [row for row in good if row["kind"] in fragments.STATEMENTS],
        "sections": sections,
        "slips": [row for row in own if row["misprints"]],
        "runs": pyodide.here() is not None,
        "withdrawn": errata.withdrawn(own),
        "questions": _questions(own),
        "open": [
            (row, placed(row["in_short"], paper), errata.impossible(row))
            for row in own
            if row["verdict"] in errata.UNSETTLED
        ],
    }


def wrapped(text: str, width: int) -> str:
    """Text in lines of at most `width` characters, broken neither at hyphens nor within a formula
    that is shorter than a line."""

    def whole(formula: re.Match) -> str:
        return formula[0].replace(" ", NO_BREAK) if len(formula[0]) < width else formula[0]

    said = re.sub(r"\$[^$]+\$", whole, " ".join(text.split()))
    lines = textwrap.wrap(said, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(NO_BREAK, " ")


def _questions(rows: list[dict]) -> list[tuple[str, list[tuple[dict, str]]]]:
    """What the print leaves open, each with its rows and their places; those of most rows first.
    A place that several of these rows share has the id beside it."""
    found: dict[str, list[dict]] = {}
    for row in rows:
        for text in row["open"].get("unprinted", ()) if row["open"] else ():
            found.setdefault(" ".join(text.split()), []).append(row)

    def places(asked: list[dict]) -> list[tuple[dict, str]]:
        at = [place_in(row, row["paper"]) for row in asked]
        return [
            (row, f"{where} ({row['id']})" if at.count(where) > 1 else where)
            for row, where in zip(asked, at, strict=True)
        ]

    most = sorted(found.items(), key=lambda one: -len(one[1]))
    return [(text, places(asked)) for text, asked in most]


def _entry(row: dict, wrong: list[dict]) -> dict[str, Any]:
    """A root with its checks' findings and the rows that it reaches."""

    def said(name: str) -> list[tuple[str, str]]:
        return [(of, text) for heading, of, text in errata.told(row) if heading == name]

    script = _paths.root() / "data" / "certificates" / f"{row_id(row['id'])}.py"
    return {
        "row": row,
        "counterexamples": said("Counterexample"),
        "corrections": said("What holds"),
        "after": [r for r in wrong if r["root"] == row["id"] and r["id"] != row["id"]],
        "certificate": script.name if script.exists() else None,
        "since": findings.known()[row["id"]].get("since"),
    }
