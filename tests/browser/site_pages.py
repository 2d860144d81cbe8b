"""What the tests of single pages share: which pages there are, and how one is looked at."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from browsing import Tab, site_folder


class Links(HTMLParser):
    """All links, anchors and things that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(found["href"])


@cache
def parsed(path: Path) -> Links:
    parser = Links()
    parser.feed(path.read_text())
    return parser


def _pages() -> list[str]:
    """The front page and every page of the book that it links to, and the search page."""
    root = site_folder()
    first = root / "book" / "index.html"
    if not first.exists():
        return ["index.html"]  # the site fixture says what is missing
    found = ["book/index.html"]
    for link in parsed(first).links:
        path = urlsplit(urljoin("book/index.html", link)).path
        if path.startswith(("book/", "chapters/")) and path.endswith(".html"):
            found.append(path)
    return [*dict.fromkeys(found), "search.html"]


PAGES = _pages()


# At the one width in light, at the other in dark: both themes and both layouts.
LOOKS = [
    pytest.param({"color_scheme": "light", "viewport": {"width": 1280, "height": 900}}, id="light"),
    pytest.param({"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}, id="dark"),
]


# axe weighs every glyph, word of code and row of a table, which are alike by the thousand and take
# nine tenths of its time. The first few of each kind stay; it looks at these, and at all that is
# unlike.
FEWER = """
const inline = document.querySelectorAll('mjx-container:not([display])');
inline.forEach((e, at) => at < 20 || e.replaceChildren('x'));
const seen = new Map();
function over(kind, few) {
  seen.set(kind, (seen.get(kind) ?? 0) + 1);
  return seen.get(kind) > few;
}
for (const word of document.querySelectorAll('.highlight pre span[class]'))
  if (over(word.className, 5)) word.replaceWith(...word.childNodes);
const rows = '.cl-check tbody tr, .cl-claim, .cl-erratum + div tbody tr';
for (const row of document.querySelectorAll(rows)) {
  const marks = [...row.querySelectorAll('.cl-mark, .cl-verdict, .cl-grade')];
  if (over(marks.map((e) => e.className + e.textContent).join(), 3)) row.remove();
}
document.querySelectorAll('table:not(:has(> tbody > tr))').forEach((e) => e.remove());
"""

# Contrast is a matter of the colours, the ground and the letters: of texts that share all of these,
# a few are marked for it.
COLOURS = """
const seen = new Map();
const grounds = new Map([[null, '']]);
function ground(e) {
  if (!grounds.has(e)) {
    const style = getComputedStyle(e);
    const own = [style.backgroundColor, style.backgroundImage, style.opacity].join();
    const plain = own === 'rgba(0, 0, 0, 0),none,1';
    grounds.set(e, ground(e.parentElement) + (plain ? '' : own));
  }
  return grounds.get(e);
}
for (const e of document.body.querySelectorAll('*')) {
  if (![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
  const style = getComputedStyle(e);
  const kind = [style.color, style.fontSize, style.fontWeight, style.textShadow, ground(e)].join();
  seen.set(kind, (seen.get(kind) ?? 0) + 1);
  if (seen.get(kind) <= 3 && e.checkVisibility()) e.dataset.looked = '';
}
return document.querySelectorAll('[data-looked]').length;
"""


def violations(tab: Tab) -> list[tuple[str, str]]:
    """What axe finds grave: rule and element."""
    from axe_playwright_python.sync_playwright import Axe

    def grave(context: object, **options: object) -> list[tuple[str, str]]:
        options["resultTypes"] = ["violations"]
        found = Axe().run(tab.page, context, options).response["violations"]
        bad = [v for v in found if v["impact"] in ("serious", "critical")]
        return [(v["id"], v["nodes"][0]["html"]) for v in bad]

    tab.page.evaluate(FEWER)
    assert tab.page.evaluate(f"() => {{ {COLOURS} }}") > 5
    bad = grave({"include": [["[data-looked]"]]}, runOnly=["color-contrast"])
    return bad + grave(None, rules={"color-contrast": {"enabled": False}})


# What sticks out of its box sideways, of checks and of code, with all folds open, but for drawings,
# which are wide, and statements that the ledger would fetch.
WIDE = """
async () => {
  const folds = [...document.querySelectorAll('details:not([open], :has(svg), .cl-more *)')];
  folds.forEach((e) => e.open = true);
  await new Promise((go) => setTimeout(go, 250));
  const found = [...document.querySelectorAll('.cl-checks, .cl-scroll:has(.cl-stacked), pre')]
    .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
    .map((e) => [e.tagName, e.scrollWidth, e.clientWidth, e.textContent.trim().slice(0, 80)]);
  folds.forEach((e) => e.open = false);
  return found;
}
"""

CAPTIONED = ("chapters/", "book/ledger", "book/errata", "book/notation", "claims/")
"""How the pages begin all of whose tables say what they are."""

BARE = """
() => [...document.querySelectorAll('.bd-article table, main > article table')]
  .filter((e) => !e.caption?.textContent.trim() && e.rows.length > 1)
  .map((e) => e.className + ': ' + e.textContent.trim().slice(0, 80))
"""

# Errata and letters set their formulas as they come into view.
ALL_SET = "window.MathJax?.startup?.document?.lazyTypesetAll?.()"


def look(tab: Tab, name: str) -> None:
    """Nothing goes wrong, formulas are set, figures have texts, axe is content, a phone
    is wide enough."""
    tab.open(name)
    assert tab.problems == []
    page = tab.page
    page.evaluate(ALL_SET)
    assert page.evaluate("document.querySelectorAll('mjx-merror, [data-mjx-error]').length") == 0
    unset = "[...document.querySelectorAll('.bd-article .math')].filter((e) => "
    unset += "!e.querySelector('mjx-container')).map((e) => e.textContent)"
    assert page.evaluate(unset) == []
    raw = "[...document.querySelectorAll('.bd-article .mathjax_process, main > article')]"
    raw += ".filter((e) => /\\\\[([]/.test(e.innerText))"
    assert page.evaluate(f"{raw}.map((e) => e.innerText.slice(0, 200))") == []
    bare = "[...document.querySelectorAll('.bd-article img')].filter((e) => !e.alt.trim())"
    assert page.evaluate(f"{bare}.map((e) => e.src)") == []
    plain = "[...document.querySelectorAll('.bd-article .cell_output img')]"
    plain += ".filter((e) => !e.closest('figure')?.querySelector('figcaption'))"
    assert page.evaluate(f"{plain}.map((e) => e.src)") == [], "a figure has no caption"

    if page.viewport_size["width"] == 390:
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} pixels stick out at a width of 390"
        assert page.evaluate(WIDE) == []
    if name.startswith(CAPTIONED):
        assert page.evaluate(BARE) == []

    grave = violations(tab)
    if name.startswith("book/api/"):  # autodoc's <dl> has more in it than terms and their meanings
        grave = [(rule, html) for rule, html in grave if rule != "definition-list"]
    assert grave == []
