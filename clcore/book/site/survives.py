"""What survives: a page for each paper, one page for all, and the front page's cards."""

from clcore import ledger
from clcore.book.site import fragments
from clcore.book.site.markdown import raw
from clcore.ledger import headlines
from clcore.ledger.verdicts import heard_first

INTRO = (
    "The claims are worded as readers remember them. Each has the worst verdict among the rows "
    "that decide it, computed in this build: a row holds if every error that we measured is "
    "$\\leq$ its bound. We chose the claims and the words; what the paper states, our checks and "
    "the smallest counterexample are one click away."
)
"""Begins every page; without a formula that Sphinx sees, it leaves MathJax out."""


def files(rows: list[dict]) -> dict[str, str]:
    """Name below book/ -> Markdown: survives.md, survives/<paper>.md, and the front page's cards.

    rows: claims with their verdicts (`clcore.ledger.rows`); a headline without any is left out.
    """
    found = {row["id"]: row for row in rows}
    entries = {paper: _entries(known, found) for paper, known in headlines.known().items()}
    made = {f"survives/{paper}.md": _page(paper, of) for paper, of in entries.items()}
    return made | {"survives.md": _overview(entries), "_generated/papers.md": _front(entries, rows)}


def _entries(known: dict, found: dict[str, dict]) -> dict:
    """A paper's headlines with their rows, the first of those with the worst verdict, which the
    badge shows, and whether the text still fits."""
    out = []
    for entry in known["claims"]:
        about = [found[claim] for claim in entry["rows"] if claim in found]
        fits = all(row["verdict"] == entry["rows"][row["id"]] for row in about)
        if about:
            worst = heard_first(row["verdict"] for row in about)
            lead = next(row for row in about if row["verdict"] == worst)
            out.append(entry | {"about": about, "lead": lead, "fits": fits})
    return known | {"claims": out}


def _page(paper: str, known: dict) -> str:
    of = ledger.papers()[paper]
    html = fragments.render("survives_paper.html", paper=paper, claims=known["claims"])
    text = f"# {of['cite']}: what survives\n\n**{of['name']}.** {known['in_short']}\n\n"
    return f"{text}{INTRO}\n\n{raw(html)}"


def _overview(entries: dict[str, dict]) -> str:
    text = f"# What survives\n\n{INTRO} Questions that no paper answers "
    text += "are [listed apart](outside.md).\n\n"
    for paper, known in entries.items():
        html = fragments.render("survives.html", paper=paper, claims=known["claims"])
        of = ledger.papers()[paper]
        title = f"[{of['cite']}: {of['name']}](survives/{paper}.md)"
        text += f"## {title}\n\n{known['in_short']}\n\n{raw(html)}\n"
    return text


def _front(entries: dict[str, dict], rows: list[dict]) -> str:
    """A card for each paper: its description, the verdicts of its claims, one plain sentence."""
    cards = {}
    for paper, known in ledger.papers().items():
        own = [row for row in rows if row["paper"] == paper]
        bar, shares = fragments.bar(own), fragments.shares(own)
        card = {"rows": len(own), "bar": bar, "shares": shares}
        cards[paper] = known | card | {"in_short": entries[paper]["in_short"]}
    return raw(fragments.render("papers.html", papers=cards))
