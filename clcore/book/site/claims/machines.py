"""The claims for machines: claims.json, its schema, programs, and how a row is cited."""

import json
from functools import cache
from typing import Any

from clcore import __version__, _paths, ledger
from clcore._files import read_yaml
from clcore.book.proofs import programs
from clcore.book.provenance import encode
from clcore.book.site import code
from clcore.book.site.fragments import page_of, render
from clcore.ledger import findings, rungs
from clcore.ledger.html import row_id

PRINTED = ("id", "paper", "title", "where", "kind", "statement", "conditions", "chapter", "needs")
FOUND = ("verdict", "rung", "grade", "root", "added", "care", "open", "misprints", "blocked")
RUN = ("notebook", "profile", "device", "seconds")
CHECK = (
    *("part", "form", "setting", "evidence", "relation", "measured", "bound", "draws", "passed"),
    *("control", "shares", "proofs", "counterexample", "correction", "misprint", "note"),
)
"""Fields of a claim and of its checks in claims.json."""


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
        | {"open": findings.left_open(row["open"])}
        | near
        | {"uses": printed.get("uses", {}), "page": page_of(row["id"])}
        | {"code": [address for address, _ in code.links(row["id"])]}
        | {"citation": citation(row, book)}
        | {"checks": [_check(check) for check in row["checks"]]}
    )


def _check(check: dict) -> dict[str, Any]:
    return {name: check[name] for name in CHECK} | {"rung": rungs.of(check)}


def proof(row: dict) -> dict[str, Any] | None:
    """The program that proves what can be proved of a row, as `code.proof`."""
    return code.proof(row["id"]) if any(check["proofs"] for check in row["checks"]) else None


def files(rows: list[dict], book: dict) -> dict[str, str]:
    """Address from the site's root -> text of claims.json, its schema, and the programs that prove
    what can be proved.

    rows: every claim with its verdict (`ledger.rows`). book: the build's summary.
    """
    everything = {
        "$schema": "claims.schema.json",
        "version": __version__,
        "book": {name: book[name] for name in ("commit", "built", "profile", "device")},
        "claims": [record(row, book) for row in rows],
    }
    schema = _paths.root() / "data" / "claims" / "record.schema.json"
    proved = [found for row in rows if (found := proof(row))]
    made = {f"proofs/{found['name']}": found["source"] for found in proved}
    made |= {f"proofs/{found['module']}": programs.kernel() for found in proved[:1]}
    return made | {
        "claims.json": json.dumps(everything, ensure_ascii=False, indent=1),
        "claims.schema.json": schema.read_text(encoding="utf-8"),
    }
