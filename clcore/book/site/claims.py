"""A page a claim, and the claims for machines: claims/<paper>-<id>.html, claims.json, its schema.

The ledger fetches what it shows below a row from the claim's page, and the words that it searches
from claims/words.json; so it is as light as its rows.
"""

import json
from functools import cache
from typing import Any

import yaml
from markupsafe import Markup

from clcore import __version__, _paths, ledger
from clcore._files import read_yaml
from clcore.book.proofs import programs
from clcore.book.provenance import encode
from clcore.book.site import code
from clcore.book.site.fragments import render
from clcore.ledger import findings, rungs
from clcore.ledger import map as claim_map
from clcore.ledger.html import row_id

PRINTED = ("id", "paper", "title", "where", "kind", "statement", "conditions", "chapter", "needs")
FOUND = ("verdict", "rung", "grade", "root", "added", "care", "open", "misprints", "blocked")
RUN = ("notebook", "profile", "device", "seconds")
CHECK = (
    *("part", "form", "setting", "evidence", "relation", "measured", "bound", "draws", "passed"),
    *("control", "shares", "proofs", "counterexample", "correction", "misprint", "note"),
)
"""Fields of a claim and of its checks in claims.json."""


def page_of(claim_id: str) -> str:
    """Address of a claim's page in the site, from its root: claims/acl-thm3.html."""
    return f"claims/{row_id(claim_id)}.html"


def citation(row: dict, book: dict) -> str:
    """BibTeX for one row: what the book found of a statement, and from which sources it was built.

    row: as from `ledger.rows`. book: the build's summary, with commit and built (ISO date).
    """
    return str(render("citation.bib", row=row, key=row_id(row["id"]), book=book, **_cff())).strip()


_CITATION = {
    "type": "object",
    "required": ["title", "authors"],
    "properties": {
        "title": {"type": "string"},
        "authors": {"items": {"required": ["name"], "properties": {"name": {"type": "string"}}}},
    },
}


@cache
def _cff() -> dict[str, str]:
    known = read_yaml(_paths.root() / "CITATION.cff", _CITATION, ValueError)
    return {
        "book_title": known["title"],
        "authors": " and ".join(f"{{{author['name']}}}" for author in known["authors"]),
    }


def record(row: dict, book: dict) -> dict[str, Any]:
    """A row of claims.json, by data/claims/record.schema.json."""
    printed = ledger.claims()[row["id"]]
    near = {name: printed.get(name, []) for name in ("stated_with", "proved_from")}
    return encode(
        {name: row[name] for name in (*PRINTED, *FOUND, *RUN)}
        | near
        | {"uses": printed.get("uses", {}), "page": page_of(row["id"])}
        | {"code": [address for address, _ in code.links(row["id"])]}
        | {"citation": citation(row, book)}
        | {"checks": [_check(check) for check in row["checks"]]}
    )


def _check(check: dict) -> dict[str, Any]:
    return {name: check[name] for name in CHECK} | {"rung": rungs.of(check)}


def files(rows: list[dict], book: dict, mathjax: dict) -> dict[str, str]:
    """Address from the site's root -> text of everything that this module adds to the site.

    rows: every claim with its verdict (`ledger.rows`). book: the build's summary. mathjax: the
    configuration of MathJax, as the book's other pages have it.
    """
    verdicts = {row["id"]: row["verdict"] for row in rows}
    made: dict[str, str] = {}
    words: dict[str, str] = {}
    for row in rows:
        proof = _proof(row)
        page = _page(row, verdicts, book, proof)
        made[page_of(row["id"])] = page
        words[row["id"]] = _words(page)
        if proof:
            made[f"proofs/{proof['name']}"] = proof["source"]
            made[f"proofs/{proof['module']}"] = programs.kernel()
    everything = {
        "$schema": "claims.schema.json",
        "version": __version__,
        "book": {name: book[name] for name in ("commit", "built", "profile", "device")},
        "claims": [record(row, book) for row in rows],
    }
    made["claims/mathjax.js"] = f"window.MathJax = {json.dumps(mathjax)};\n"
    made["claims/words.json"] = json.dumps(words, ensure_ascii=False)
    made["claims.json"] = json.dumps(everything, ensure_ascii=False, indent=1)
    schema = _paths.root() / "data" / "claims" / "record.schema.json"
    made["claims.schema.json"] = schema.read_text(encoding="utf-8")
    return made


def _page(row: dict, verdicts: dict[str, str], book: dict, proof: dict | None) -> Markup:
    claim = row["id"]
    numbers = ledger.claims()[claim]["numbers"]
    near = {"rests_on": claim_map.rests_on(claim), "used_by": claim_map.used_by(claim)}
    return render(
        "claim.html",
        up="..",
        row=row,
        verdicts=verdicts,
        claims=ledger.claims(),
        paper=ledger.papers()[row["paper"]],
        code=code.links(claim),
        certificate=code.certificate(claim),
        proof=proof,
        citation=citation(row, book),
        withdrawn=findings.known()[claim].get("withdrawn"),
        steps=findings.steps(claim),
        numbers=yaml.safe_dump(numbers, sort_keys=False, allow_unicode=True) if numbers else "",
        **near,
    )


def _proof(row: dict) -> dict[str, Any] | None:
    return code.proof(row["id"]) if any(check["proofs"] for check in row["checks"]) else None


def _words(page: Markup) -> str:
    """What a reader would search for: the text below the page's header and above programs, in small
    letters."""
    start = page.index("<h1>")
    ends = ('<details id="proof">', "<summary>Cite this row")
    end = min(at for mark in ends if (at := page.find(mark, start)) >= 0)
    text = Markup(page[start:end]).striptags()
    return text.lower()
