"""Pieces of HTML for the generated pages. Every string that comes from a claim is escaped here."""

from collections import Counter
from html import escape
from urllib.parse import urlencode

from clcore.ledger import VERDICTS, comparison, number, outcome
from clcore.ledger.findings import GRADES
from clcore.ledger.tex import typeset

PAPERS = {
    "acl": "Deep contrastive learning is (almost) PCA",
    "ddn": "Dual deep networks",
    "nl": "The role of nonlinearity",
    "ncl": "Contrastive and non-contrastive landscapes",
}
SHOWN = {verdict: verdict for verdict in VERDICTS} | {"todo": "not yet checked"}
COLUMNS = ("Claim", "Where", "Kind", "Verdict", "Measured", "Control", "Draws", "Seconds")


def anchor(claim_id: str) -> str:
    """The HTML id of a claim's row in the ledger: acl/thm1 -> acl-thm1."""
    return claim_id.replace("/", "-")


def badge(verdict: str) -> str:
    """A verdict as a coloured label; the colour repeats what the word says."""
    return f'<span class="cl-verdict cl-{verdict}">{SHOWN[verdict]}</span>'


def controls(row: dict) -> str:
    """What was broken, and what was measured then."""
    pairs = (row["control"] or {}).items()
    return "<br>".join(f"{typeset(name)}: {number(value)}" for name, value in pairs)


def nearest_control(row: dict) -> str:
    """The control that came closest to passing, and how many others there are."""
    if not row["control"]:
        return ""
    name, value = min(row["control"].items(), key=lambda pair: abs(pair[1] - row["bound"]))
    more = f" (+{len(row['control']) - 1})" if len(row["control"]) > 1 else ""
    return f"{number(value)}, {typeset(name)}{more}"


def misprints(row: dict) -> str:
    """What is printed and what is meant, a line each."""
    lines = (
        (f"{typeset(slip['part'])}: " if slip["part"] else "") + typeset(slip["misprint"])
        for slip in row["misprints"]
    )
    return "<br>".join(lines)


def scrolling(label: str, table: str) -> str:
    """A table that scrolls sideways in its own box, which the keyboard can reach."""
    return f'<div class="cl-scroll" role="region" tabindex="0" aria-label="{label}">{table}</div>'


def _head(names: tuple[str, ...]) -> str:
    cells = "".join(f'<th scope="col" role="columnheader">{name}</th>' for name in names)
    return f'<thead role="rowgroup"><tr role="row">{cells}</tr></thead>'


def checks_table(checks: list[dict]) -> str:
    """All checks of one claim: form, outcome, measured against bound, controls, draws."""
    body = "".join(
        f'<tr><th scope="row">{typeset(c["part"]) or "whole statement"}</th><td>{c["form"]}</td>'
        f'<td>{typeset(outcome(c))}</td><td class="cl-measured">{comparison(c)}</td>'
        f'<td class="cl-control">{controls(c)}</td><td>{c["draws"]}</td></tr>'
        for c in checks
    )
    names = ("Part", "Form", "Outcome", "Measured", "Control", "Draws")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return scrolling(
        f"Checks of {checks[0]['claim']}",
        f'<table class="cl-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
    )


def _details(row: dict) -> str:  # noqa: C901 (one branch a field that may be empty)
    lines = [f'<p class="cl-statement">{typeset(row["statement"])}</p>']
    if row["conditions"].strip():
        lines.append(f'<p class="cl-statement"><b>Under</b> {typeset(row["conditions"])}</p>')
    if row["added"]:
        lines.append(f'<p class="cl-statement"><b>Added by us</b> {typeset(row["added"])}</p>')
    if row["misprints"]:
        lines.append(f'<p class="cl-statement"><b>Misprint</b> {misprints(row)}</p>')
    if row["open"]:
        lines.append(
            f'<p class="cl-statement"><b>Left open by the print</b> {typeset(row["open"])}</p>'
        )
    if row["root"] and row["root"] != row["id"]:
        root = row["root"]
        lines.append(f'<p>Follows from <a href="ledger.html#{anchor(root)}">{root}</a>.</p>')
    if row["needs"]:
        lines.append(f"<p><b>Needs</b> {escape(', '.join(row['needs']))}</p>")
    if row.get("blocked"):
        lines.append(f"<p><b>Blocked:</b> {typeset(row['blocked'])}</p>")
    for check in row["checks"]:
        for name in ("counterexample", "correction", "note"):
            if check[name]:
                of = "; ".join(filter(None, (check["part"], check.get("setting"))))
                of = f" ({typeset(of)})" if of else ""
                lines.append(f"<p><b>{name.capitalize()}{of}:</b> {typeset(check[name])}</p>")
    if row["checks"]:
        lines.append(checks_table(row["checks"]))
    if row["profile"]:
        lines.append(f"<p>Run with profile {row['profile']} on {escape(str(row['device']))}.</p>")
    return "".join(lines)


def ledger_row(row: dict) -> str:
    """One claim: a row of the ledger table, and its statement and checks folded below it."""
    key = anchor(row["id"])
    verdict = badge(row["verdict"])
    if row["anchor"]:
        label = f"{SHOWN[row['verdict']]}: the cell that checked {row['id']}"
        verdict = f'<a href="../{row["anchor"]}" aria-label="{label}">{verdict}</a>'
    if row["grade"]:
        verdict += f' <span class="cl-grade">{row["grade"]}</span>'
    cells = (
        escape(row["where"]),
        row["kind"],
        verdict,
        comparison(row) if row["measured"] is not None else "",
        nearest_control(row),
        "" if row["draws"] is None else str(row["draws"]),
        "" if row["seconds"] is None else f"{row['seconds']:.2g}",
    )
    cells = "".join(
        f'<td role="cell" data-label="{name}"{"" if cell else " class=cl-none"}>'
        # Formulas here are few and in sight, so MathJax may have them at once.
        f"<div{' class=mathjax_process' if chr(92) + '(' in cell else ''}>{cell}</div></td>"
        for name, cell in zip(COLUMNS[1:], cells, strict=True)
    )
    data = "".join(
        f' data-{name}="{row[name] or ""}"'
        for name in ("paper", "chapter", "kind", "verdict", "grade")
    )
    return (
        f'<tbody class="cl-claim" role="rowgroup"{data}>'
        f'<tr id="{key}" role="row"><th scope="row" role="rowheader">'
        f'<a href="#{key}">{row["id"]}</a></th>{cells}</tr>'
        f'<tr role="row" class="cl-more"><td role="cell" colspan="{len(COLUMNS)}"><details>'
        f'<summary>Statement<span class="cl-hidden"> of {row["id"]}</span></summary>'
        f"{_details(row)}</details></td></tr></tbody>"
    )


def ledger_table(rows: list[dict]) -> str:
    """Every claim as a table that ledger.js filters. Works, unfiltered, without it."""
    return (
        '<div class="cl-ledger" id="claims">'
        '<table role="table" class="cl-claims" aria-label="All claims">'
        f"{_head(COLUMNS)}{''.join(ledger_row(row) for row in rows)}</table></div>"
    )


def filters(rows: list[dict]) -> str:
    """The form that ledger.js reads. Hidden until the script runs."""

    def choice(name: str, label: str, options: dict[str, str]) -> str:
        items = "".join(f'<option value="{k}">{escape(v)}</option>' for k, v in options.items())
        return (
            f'<label>{label}<select name="{name}"><option value="">all</option>{items}</select>'
            "</label>"
        )

    def seen(name: str) -> dict[str, str]:
        return {row[name]: row[name].replace("-", " ") for row in rows}

    return (
        '<form class="cl-filters" role="search" aria-label="Filter the ledger" hidden>'
        + choice("paper", "Paper", {k: f"{k}: {v}" for k, v in PAPERS.items()})
        + choice("chapter", "Chapter", seen("chapter"))
        + choice("kind", "Kind", seen("kind"))
        + choice("verdict", "Verdict", {v: SHOWN[v] for v in VERDICTS})
        + choice("grade", "Grade", {g: g for g in GRADES})
        + '<label>Words<input type="search" name="q" autocomplete="off" spellcheck="false"></label>'
        + '<button type="reset">Show all</button>'
        + f'<p class="cl-count" role="status" aria-live="polite">{len(rows)} claims</p></form>'
    )


def totals_table(rows: list[dict], ledger: str) -> str:
    """Claims per verdict and paper; each number links to those rows of the page `ledger`."""
    count = Counter((row["paper"], row["verdict"]) for row in rows)

    def cell(paper: str | None, verdict: str | None) -> str:
        n = sum(v for k, v in count.items() if paper in (None, k[0]) and verdict in (None, k[1]))
        if not n:
            return '<td class="cl-zero">0</td>'
        query = urlencode({k: v for k, v in (("paper", paper), ("verdict", verdict)) if v})
        target = escape(f"{ledger}?{query}#claims") if query else f"{ledger}#claims"
        words = f"{n}: {paper or 'all papers'}, {SHOWN.get(verdict, 'all verdicts')}"
        return f'<td><a href="{target}" aria-label="{words}">{n}</a></td>'

    body = ""
    for verdict in (*VERDICTS, None):
        cells = "".join(cell(paper, verdict) for paper in (*PAPERS, None))
        body += f'<tr><th scope="row">{badge(verdict) if verdict else "all"}</th>{cells}</tr>'
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Verdict", *PAPERS, "all"))
    return scrolling(
        "Claims per verdict and paper",
        f'<table class="cl-table cl-totals"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>",
    )


def bar(rows: list[dict]) -> str:
    """The shares of the verdicts as one bar. Says nothing that the table does not."""
    count = Counter(row["verdict"] for row in rows)
    parts = "".join(
        f'<span class="cl-{v}" style="flex-grow:{count[v]}"></span>' for v in VERDICTS if count[v]
    )
    return f'<div class="cl-bar" aria-hidden="true">{parts}</div>'
