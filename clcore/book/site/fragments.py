"""Pieces of HTML for the generated pages, which fill the templates next to this file."""

from collections import Counter
from functools import partial
from urllib.parse import urlencode

from markupsafe import Markup

from clcore.book.site import code
from clcore.ledger import VERDICTS, html, papers
from clcore.ledger import map as claim_map
from clcore.ledger.findings import GRADES
from clcore.ledger.html import SHOWN
from clcore.ledger.rungs import RUNGS
from clcore.ledger.table import CARE

COLUMNS = ("Claim", "Where", "Kind", "Verdict", "Measured", "Control")

STATEMENTS = ("theorem", "lemma", "corollary")
"""Kinds of claims that a paper proves by name."""

render = partial(html.render, "clcore.book.site")
"""A template of this folder, filled: see `clcore.ledger.html.render`."""


def page_of(claim_id: str) -> str:
    """Address of a claim's page in the site, from its root: claims/acl-thm3.html."""
    return f"claims/{html.row_id(claim_id)}.html"


def nearest_control(row: dict) -> dict | None:
    """The control that came closest to passing: its name, value and how many others there are."""
    if not row["control"]:
        return None
    name, value = min(row["control"].items(), key=lambda pair: abs(pair[1] - row["bound"]))
    return {"name": name, "value": value, "others": len(row["control"]) - 1}


def ledger_row(row: dict) -> Markup:
    """One claim: a row of the ledger table."""
    claim = row["id"]
    near, links = nearest_control(row), code.links(claim)
    return render("row.html", row=row, nearest=near, code=links, rests_on=claim_map.rests_on(claim))


def ledger_table(rows: list[dict]) -> Markup:
    """Every claim as a table that ledger.js filters. Works, unfiltered, without it."""
    return render("ledger.html", columns=COLUMNS, rows=[ledger_row(row) for row in rows])


def filters(rows: list[dict]) -> Markup:
    """The form that ledger.js reads. Hidden until the script runs."""

    def seen(name: str) -> dict[str, str]:
        return {row[name]: row[name].replace("-", " ") for row in rows}

    choices = (
        ("paper", "Paper", {k: f"{v['cite']}: {v['name']}" for k, v in papers().items()}),
        ("chapter", "Chapter", seen("chapter")),
        ("kind", "Kind", seen("kind")),
        ("verdict", "Verdict", SHOWN),
        ("grade", "Grade", {g: g for g in GRADES}),
        ("rung", "Evidence", {r: r for r in RUNGS}),
    )
    return render("filters.html", choices=choices, count=len(rows))


def totals_table(rows: list[dict], ledger: str) -> Markup:
    """Claims per verdict and paper; each number links to those rows of the page `ledger`."""
    count = Counter((row["paper"], row["verdict"]) for row in rows)
    cited = {paper: of["cite"] for paper, of in papers().items()}

    def cell(paper: str | None, verdict: str | None) -> dict:
        n = sum(v for k, v in count.items() if paper in (None, k[0]) and verdict in (None, k[1]))
        query = urlencode({k: v for k, v in (("paper", paper), ("verdict", verdict)) if v})
        return {
            "n": n,
            "link": f"{ledger}?{query}#claims" if query else f"{ledger}#claims",
            "label": f"{n}: {cited.get(paper, 'all papers')}, {SHOWN.get(verdict, 'all verdicts')}",
        }

    lines = [
        (verdict, [cell(paper, verdict) for paper in (*papers(), None)])
        for verdict in (*VERDICTS, None)
    ]
    return render("totals.html", papers=list(cited.values()), rows=lines)


def held(rows: list[dict]) -> str:
    """How many rows hold as printed, hold if read with care, and are reproduced, in words."""
    good = [row for row in rows if row["verdict"] == "holds"]
    careful = [row["care"] for row in good if row["care"]]
    reasons = [
        f"{n} with {said}"
        for reason, said in CARE.items()
        if (n := sum(reason in care for care in careful))
    ]
    again = sum(row["verdict"] == "reproduced" for row in rows)
    plain = len(good) - len(careful)
    words = [f"{plain} {html.several('holds', plain)} as printed"] if plain or not careful else []
    if careful:
        verb = html.several("holds", len(careful))
        twice = sum(len(care) > 1 for care in careful)
        why = ", ".join(reasons) + (f"; {twice} for two of these reasons" if twice else "")
        words += [f"{len(careful)} {verb} if read with care ({why})"]
    words += [f"{again} {'is' if again == 1 else 'are'} reproduced"] if again else []
    return ", ".join(words[:-1]) + (" and " if words[1:] else "") + words[-1]


def bar(rows: list[dict]) -> Markup:
    """The shares of the verdicts as one bar. It repeats the words next to it."""
    return render("bar.html", shares=shares(rows))


def shares(rows: list[dict]) -> dict[str, int]:
    """Verdict -> how many rows have it, in the order of the verdicts, of those that occur."""
    count = Counter(row["verdict"] for row in rows)
    return {verdict: count[verdict] for verdict in VERDICTS if count[verdict]}
