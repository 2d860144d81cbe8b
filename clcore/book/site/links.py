"""Ids of claims on the pages of the site: links to their rows in the ledger, which carry the
claim's title and show a card. A Sphinx extension, and what the build writes for it.

In prose, an id in code becomes a link; of links that are there already, those to a row of the
ledger are marked. cards.js shows the card of a marked link.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from sphinx.transforms.post_transforms import SphinxPostTransform

from clcore._files import read_json, sha256, write_atomic, write_json
from clcore.book.site import terms
from clcore.book.site.fragments import render
from clcore.ledger.html import SHOWN, place, placed, row_id

CARDS = "cards.json"
LEDGER = "book/ledger"
BARE = (LEDGER, "book/errata")
"""How the pages begin that contain the cards' texts of all claims."""

_FORMULA = re.compile(r"(\$\$.+?\$\$|\$.+?\$)", re.DOTALL)
_LINK = re.compile(
    r'<a(?P<rest>\s[^>]*?href="[^"]*(?:(?:ledger|glossary)\.html#|claims/)(?P<key>[\w-]+)(?:\.html)?"[^>]*)>'
    r"(?P<text>.*?)</a>"
    r'(?P<titled>\s*<div class="cl-title">)?',
    re.DOTALL,
)


def opening(statement: str, limit: int = 200) -> str:
    r"""The first words of a statement, about `limit` characters, its formulas whole and in \(...\).

    Nothing of a statement in LaTeX without dollars: the end of its formulas cannot be determined.
    """
    text = " ".join(statement.split())
    if "$" not in text and "\\" in text:
        return ""
    said = ""
    for part in _FORMULA.split(text):
        formula = _FORMULA.fullmatch(part)
        room = limit - len(said)
        if len(part) > (room + limit // 2 if formula else room):
            said += "" if formula else part[: max(room, 0)].rpartition(" ")[0]
            return f"{said.rstrip()} …" if said.strip() else ""
        said += rf"\({part.strip('$')}\)" if formula else part
    return said


def write_cards(rows: Iterable[dict], stage: Path) -> None:
    """Write the cards' texts into the staging folder, by the HTML id of the claim's row.

    rows: every claim with its verdict (`clcore.ledger.rows`).
    """
    cards = {
        row_id(row["id"]): {
            "id": row["id"],
            "place": place(row),
            "title": row["title"],
            "verdict": SHOWN[row["verdict"]],
            "statement": opening(placed(row["statement"], row["paper"])),
        }
        for row in rows
    }
    write_json(Path(stage) / CARDS, cards | terms.cards())
    here = Path(__file__)  # Sphinx runs these modules: when they change, so does the site
    extensions = (here.with_name(f"{name}.py") for name in ("links", "statements", "terms"))
    own = (
        *extensions,
        *(here.parent / "templates" / name for name in ("claim_link.html", "cards.html")),
    )
    write_atomic(Path(stage) / "links.key", sha256(*(file.read_bytes() for file in own)).encode())


def marked(body: str, cards: dict[str, dict]) -> str:
    """The HTML of a page, its links to rows of the ledger marked, with the cards that they need.

    A link that shows nothing but the id, with no title behind it, gets the title as text for
    screen readers.
    """
    used = {}

    def mark(link: re.Match) -> str:
        key = link["key"]
        if key not in cards:
            return link[0]
        used[key] = cards[key]
        bare = Markup(link["text"]).striptags() == cards[key]["id"] and not link["titled"]
        title = cards[key]["title"] if bare else ""
        parts = {name: Markup(link[name] or "") for name in ("rest", "text", "titled")}
        return str(render("claim_link.html", key=key, title=title, **parts))

    body = _LINK.sub(mark, body)
    return body + str(render("cards.html", cards=htmlsafe_json_dumps(used))) if used else body


class LinkClaims(SphinxPostTransform):
    """An id of a claim in code, in running text, becomes a link to its row in the ledger."""

    default_priority = 400  # when references are resolved: what is a link then stays as it is

    def run(self, **kwargs: Any) -> None:
        """Called by Sphinx for each page."""
        page = self.env.docname
        if page.startswith(BARE) or self.app.builder.format != "html":
            return
        keys = {card["id"]: key for key, card in read_cards(self.app.srcdir).items()}
        ledger = self.app.builder.get_relative_uri(page, LEDGER)
        link_literals(self.document, keys, ledger)


def link_literals(document: nodes.document, keys: dict[str, str], ledger: str) -> None:
    """Turn each inline code that is an id into a link. keys: id -> HTML id of its row; ledger:
    address of the ledger. Code in links and headings is left alone, as are blocks of code."""
    for code in list(document.findall(nodes.literal)):
        key = keys.get(code.astext())
        if key is None or _inside(code, (nodes.reference, nodes.title)):
            continue
        link = nodes.reference("", "", internal=True, refuri=f"{ledger}#{key}")
        code.replace_self(link)
        link += code


def _inside(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


@cache
def read_cards(stage: str) -> dict[str, dict]:
    """What `write_cards` wrote into a staging folder."""
    return read_json(Path(stage) / CARDS, "`python -m clcore build` writes it")


def _mark_page(app: Any, page: str, template: str, context: dict, doctree: Any) -> None:
    if context.get("body") and not page.startswith(BARE):
        context["body"] = marked(context["body"], read_cards(app.srcdir))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(LinkClaims)
    app.connect("html-page-context", _mark_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
