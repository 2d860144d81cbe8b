"""Words of a statement as links: terms to the glossary, claims ("Eq. 12", each number of "Eqs. 12
and 14") to their pages. An id such as acl/eq12 becomes the claim's place."""

import re
from collections.abc import Callable
from functools import cache

from markupsafe import Markup, escape

from clcore import ledger
from clcore.book.site import terms
from clcore.ledger.html import cited, place_in, row_id
from clcore.ledger.tex import typeset

KINDS = {
    **{"Eq": "eq", "Theorem": "thm", "Lemma": "lem", "Corollary": "cor", "Definition": "def"},
    **{"Remark": "rem", "Table": "tab", "Fig": "fig", "Figure": "fig", "Proposition": "prop"},
    "Assumption": "ass",
}
"""What a paper calls a statement -> how its id begins; an assumption's row has another id."""

_MANY = {kind[:-1] + "ies" if kind.endswith("y") else kind + "s": kind for kind in KINDS}

# In formulas, code, links and tags nothing is linked.
_APART = re.compile(r"(\\\(.*?\\\)|\\\[.*?\\\]|<code.*?</code>|<a .*?</a>|<[^>]*>)", re.DOTALL)
_NUMBER = r"(?:\(\d+\)|\d+\b(?!\.\d))"
_CITES = {re.escape(paper["cite"]): key for key, paper in ledger.papers().items()}
_NAMED = re.compile(
    rf"(?:\b(?P<cite>{'|'.join(_CITES)}),\s)?\b(?:(?P<kind>{'|'.join(KINDS)})\.?\s{_NUMBER}"
    rf"|(?P<many>{'|'.join(_MANY)})\.?\s{_NUMBER}(?:(?:, and |, | and | to |-){_NUMBER})*)"
    r"|(?<![\w/])(?P<id>[a-z]+/[a-z][\w-]*)"
)
_EACH = re.compile(rf"(?:\b[A-Z][a-z]+\.?\s)?{_NUMBER}")


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
        html = str(typeset(cited(text, self._paper)))
        html = _outside(html, lambda said: _NAMED.sub(self._claim, said))
        return Markup(_outside(html, lambda said: terms.first_uses(said, self._seen, self._term)))

    def _term(self, term: str, said: str) -> str:
        address = f"{self._up}/{terms.PAGE}.html#{terms.key(term)}"
        return f'<a class="cl-term" href="{address}">{said}</a>'

    def _claim(self, named: re.Match) -> str:
        if named["id"]:
            row = ledger.claims().get(named["id"])
            return self._link(named["id"], place_in(row, self._paper) if row else named[0])
        kind = KINDS[named["kind"] or _MANY[named["many"]]]
        paper = _CITES[re.escape(named["cite"])] if named["cite"] else self._paper
        if named["kind"]:
            return self._numbered(paper, kind, named[0])
        cite, many, rest = named[0].partition(named["many"])
        return cite + _EACH.sub(lambda one: self._numbered(paper, kind, one[0]), many + rest)

    def _numbered(self, paper: str, kind: str, said: str) -> str:
        number = re.findall(r"\d+", said)[-1]  # the last: a year may stand before it
        claim = f"{paper}/{kind}{number}"
        return self._link(_assumptions().get(claim, claim), said)

    def _link(self, claim: str, said: str) -> str:
        if claim in self._seen or claim not in ledger.claims():
            return said
        self._seen.add(claim)
        title = escape(ledger.claims()[claim]["title"])
        return f'<a href="{self._up}/claims/{row_id(claim)}.html" title="{title}">{said}</a>'


@cache
def _assumptions() -> dict[str, str]:
    """ "nl/ass1" -> the row whose place in the paper begins with "Assumption 1"."""
    named = re.compile(r"Assumption (\d+)")
    rows = ledger.claims()
    places = {claim: named.match(row["where"]) for claim, row in rows.items()}
    return {f"{claim.split('/')[0]}/ass{at[1]}": claim for claim, at in places.items() if at}


def _outside(html: str, change: Callable[[str], str]) -> str:
    """HTML with its running text changed."""
    pieces = _APART.split(html)
    return "".join(p if at % 2 else change(p) for at, p in enumerate(pieces))
