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
    parser.feed(path.read_text(encoding="utf-8"))
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


AXE = frozenset(
    [
        *("book/index.html", "book/ledger.html", "book/errata/nl.html", "book/glossary.html"),
        *("book/letters/nl.html", "book/notation.html", "book/api/losses.html"),
        *("book/checked.html", "code/checks/landscape/theorem1.html", "search.html"),
        *("chapters/1-minmax.html", "chapters/5-one-layer.html", "chapters/6-landscape.html"),
    ]
)
"""A page of each kind, and three chapters: axe looks at these in `make test`, at all others in
`make test-all`."""


# At the one width in light, at the other in dark: both themes and both layouts.
SIZES = {"dark": (390, 844), "light": (1280, 900)}


def _options(scheme: str) -> dict:
    width, height = SIZES[scheme]
    return {"color_scheme": scheme, "viewport": {"width": width, "height": height}}


LOOKS = [pytest.param(_options(scheme), id=scheme) for scheme in SIZES]
PHONE = pytest.mark.parametrize("tab", LOOKS[:1], indirect=True)


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

# Contrast is a matter of the colours, the ground and the letters: of visible texts that share all
# of these, a few are marked for it. So are links, which have to differ from the text around them.
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
function letters(e) {
  const style = getComputedStyle(e);
  return [style.color, style.fontSize, style.fontWeight, style.textShadow, ground(e)].join();
}
function block(e) {
  return getComputedStyle(e).display === 'inline' ? block(e.parentElement) : e;
}
function link(e) {
  const style = getComputedStyle(e);
  const line = [style.textDecorationLine, style.borderBottom, style.fontFamily];
  const around = block(e);
  const alone = around.textContent.trim() === e.textContent.trim();
  return ['link', letters(e), ...line, letters(around), around.tagName, alone].join();
}
function few(e, kind) {
  if ((seen.get(kind) ?? 0) >= 3 || !e.checkVisibility()) return false;
  seen.set(kind, (seen.get(kind) ?? 0) + 1);
  return true;
}
for (const e of document.querySelectorAll('[data-looked], [data-linked]')) {
  delete e.dataset.looked;
  delete e.dataset.linked;
}
for (const e of document.body.querySelectorAll('*')) {
  if (e.matches('a[href]') && few(e, link(e))) e.dataset.linked = '';
  if (![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
  if (few(e, letters(e))) e.dataset.looked = '';
}
return document.querySelectorAll('[data-looked]').length;
"""

RUN_AXE = """
async () => {
  axe.configure({rules: [
    {id: 'color-contrast', selector: '[data-looked]'},
    {id: 'link-in-text-block', selector: 'a[data-linked]'},
  ]});
  const {violations} = await axe.run(document, {resultTypes: ['violations']});
  const grave = violations.filter((v) => ['serious', 'critical'].includes(v.impact));
  return grave.map((v) => [v.id, v.nodes[0].html]);
}
"""


def violations(tab: Tab) -> list[tuple[str, str]]:
    """What axe finds grave in either look of the page that is open: rule and element."""
    from axe_playwright_python.sync_playwright import Axe

    page, found = tab.page, []
    page.mouse.move(0, 0)  # else it rests on what stands there at another width
    page.evaluate(FEWER)
    page.evaluate(Axe().axe_script)
    for scheme, (width, _) in SIZES.items():
        page.emulate_media(color_scheme=scheme)
        tab.resize(width)
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert page.evaluate(f"() => {{ {COLOURS} }}") > 5
        found += [(rule, html) for rule, html in page.evaluate(RUN_AXE)]
    return found


# What sticks out of its box sideways, of checks, code and links to the next page, with all folds
# open, but for drawings, which are wide, and statements that the ledger would fetch.
WIDE = """
async () => {
  const folds = [...document.querySelectorAll('details:not([open], :has(svg), .cl-more *)')];
  folds.forEach((e) => e.open = true);
  await new Promise((go) => setTimeout(go, 250));
  const boxes = '.cl-checks, .cl-scroll:has(.cl-stacked), pre, .prev-next-area a';
  const found = [...document.querySelectorAll(boxes)]
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


def opened(tab: Tab, name: str) -> None:
    """Nothing goes wrong, formulas are set, figures have texts, a phone is wide enough."""
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
    # A plot that a reader has to unfold is described in the prose beside it, and has no number.
    plain += ".filter((e) => !e.closest('figure, details')?.querySelector('figcaption, summary'))"
    assert page.evaluate(f"{plain}.map((e) => e.src)") == [], "a figure has no caption"
    assert page.viewport_size["width"] == 390
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} pixels stick out at a width of 390"
    assert page.evaluate(WIDE) == []
    if name.startswith(CAPTIONED):
        assert page.evaluate(BARE) == []


def accessible(tab: Tab, name: str) -> None:
    """axe is content with both looks of the page that is open; takes apart what is alike in it."""
    grave = violations(tab)
    if name.startswith("book/api/"):  # autodoc's <dl> has more in it than terms and their meanings
        grave = [(rule, html) for rule, html in grave if rule != "definition-list"]
    assert grave == []
