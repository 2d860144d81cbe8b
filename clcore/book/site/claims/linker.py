"""Words of a statement as links: terms to the glossary, "Eq. 12" and "acl/eq12" to the page of that
claim."""

import re
from collections.abc import Callable

from markupsafe import Markup, escape

from clcore import ledger
from clcore.book.site import terms
from clcore.ledger.html import row_id
from clcore.ledger.tex import typeset

KINDS = {
    **{"Eq": "eq", "Theorem": "thm", "Lemma": "lem", "Corollary": "cor", "Definition": "def"},
    **{"Remark": "rem", "Table": "tab", "Fig": "fig", "Figure": "fig", "Proposition": "prop"},
}
"""What a paper calls a statement -> how its id begins."""

# In formulas, code, links and tags nothing is linked.
_APART = re.compile(r"(\\\(.*?\\\)|\\\[.*?\\\]|<code.*?</code>|<a .*?</a>|<[^>]*>)", re.DOTALL)
_NAMED = re.compile(
    rf"\b(?P<kind>{'|'.join(KINDS)})\.?\s(?:\((?P<inner>\d+)\)|(?P<bare>\d+)\b(?!\.\d))"
    r"|(?<![\w/])(?P<id>[a-z]+/[a-z][\w-]*)"
)


class Linker:
    """Typesets the texts of one page. Each term and each claim is linked where it is first named.

    up: the way from the page to the site's root. own: the claim that the page is about, to which
    nothing links; it determines the paper that "Eq. 12" refers to.
    """

    def __init__(self, up: str, own: str) -> None:
        self._up, self._paper = up, own.split("/")[0]
        self._seen: set[str] = {own}

    def __call__(self, text: str) -> Markup:
        """Text with LaTeX as HTML, with its links."""
        html = _outside(str(typeset(text)), lambda said: _NAMED.sub(self._claim, said))
        return Markup(_outside(html, lambda said: terms.first_uses(said, self._seen, self._term)))

    def _term(self, term: str, said: str) -> str:
        address = f"{self._up}/{terms.PAGE}.html#{terms.key(term)}"
        return f'<a class="cl-term" href="{address}">{said}</a>'

    def _claim(self, named: re.Match) -> str:
        claim = named["id"]
        if not claim:
            claim = f"{self._paper}/{KINDS[named['kind']]}{named['inner'] or named['bare']}"
        if claim in self._seen or claim not in ledger.claims():
            return named[0]
        self._seen.add(claim)
        title = escape(ledger.claims()[claim]["title"])
        return f'<a href="{self._up}/claims/{row_id(claim)}.html" title="{title}">{named[0]}</a>'


def _outside(html: str, change: Callable[[str], str]) -> str:
    """HTML with its running text changed."""
    pieces = _APART.split(html)
    return "".join(p if at % 2 else change(p) for at, p in enumerate(pieces))
