"""Pages show text for people: no NaN, None or backtick, no number like 2e-14."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from clcore.ledger.tex import POWERED, written

_CODE = re.compile(r"`([^`<]+)`")
_CELL = re.compile(r"(?P<open><t[dh]\b[^>]*>)(?P<text>[^<]*)(?=</t[dh]>)")
_ARTICLE = re.compile(r'<article class="bd-article[^"]*">(.*)</article>', re.DOTALL)
# Programs, what they print, formulas and drawings are as they are.
_APART = re.compile(
    r"<(pre|code|script|style|textarea|svg|math)\b.*?</\1>|\\\(.*?\\\)|\\\[.*?\\\]"
    r'|<(span|div) class="math.*?</\2>|<!--.*?-->|<a class="headerlink.*?</a>'
    r'|<dt class="sig.*?</dt>',
    re.DOTALL,
)
_BLOCK = re.compile(r"<(/?)(td|th|p|li|dd|dt|h[1-6]|caption|figcaption|summary|div|table)\b[^>]*>")
_NOTHING = ("nan", "NaN", "None", "NaT", "<NA>")
_SHOWN = 12
"""Number of a site's faults that are listed; the others are counted."""


class LegibleError(ValueError):
    """A page would show what only a program can read."""


def cells(shown: str) -> str:
    """HTML of a table, its numbers as people write them and its backticks as code."""

    def one(cell: re.Match) -> str:
        return cell["open"] + _CODE.sub(r"<code>\1</code>", written(cell["text"]))

    return _CELL.sub(one, shown)


def faults(page: str) -> list[str]:
    """What of a page's HTML only a program can read, each with its place: the caption of its table,
    "cell" or "text", and the words."""
    found = _ARTICLE.search(page)
    return list(_faults(_APART.sub(" ", found[1]))) if found else []


def _faults(article: str) -> Iterator[str]:
    caption, at, inside = "", 0, ""
    for tag in _BLOCK.finditer(article):
        text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", article[at : tag.start()])).split())
        if inside == "caption":
            caption = text
        if inside == "table" and not text:
            caption = ""
        kind = "cell" if inside in ("td", "th") else "text"
        bad = kind == "cell" and text in _NOTHING
        if bad or "`" in text or POWERED.search(text):
            of = f"table {caption!r}, " if kind == "cell" and caption else ""
            yield f"{of}{kind} {text[:80]!r}"
        inside = "" if tag[1] else tag[2]
        at = tag.end()


def refuse(site: Path) -> None:
    """Raise LegibleError naming pages and cells, where a page of the book shows such a thing."""
    found = [
        f"{page.relative_to(site)}: {fault}"
        for page in sorted(site.rglob("*.html"))
        if page.relative_to(site).parts[0] not in ("_static", "code", "launch")
        for fault in faults(page.read_text(encoding="utf-8"))
    ]
    if found:
        more = f"\nand {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise LegibleError(
            "expected numbers and words that people read on every page, got\n"
            + "\n".join(found[:_SHOWN])
            + f"{more}\nformat the table (a column without values is left out) or its words"
        )
