"""The built site in a real browser: every page that its table of contents leads to."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml
from conftest import Tab, site_folder

from clcore import _paths, ledger

pytestmark = pytest.mark.site


class _Links(HTMLParser):
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
def _parsed(path: Path) -> _Links:
    parser = _Links()
    parser.feed(path.read_text())
    return parser


def _pages() -> list[str]:
    """The front page and every page of the book that it links to, and the search page."""
    root = site_folder()
    first = root / "book" / "index.html"
    if not first.exists():
        return ["index.html"]  # the site fixture says what is missing
    found = ["book/index.html"]
    for link in _parsed(first).links:
        path = urlsplit(urljoin("book/index.html", link)).path
        if path.startswith(("book/", "chapters/")) and path.endswith(".html"):
            found.append(path)
    return [*dict.fromkeys(found), "search.html"]


PAGES = _pages()


def test_the_table_of_contents_is_all_there(site: Path) -> None:
    toc = yaml.safe_load((_paths.root() / "_toc.yml").read_text())
    names = [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])]
    assert {f"{name}.html" for name in names} | {"search.html"} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(site: Path, name: str) -> None:
    dead = []
    for link in _parsed(site / name).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link == "#":
            continue
        target = (site / name).parent / unquote(parts.path) if parts.path else site / name
        if not target.resolve().is_file():
            dead.append(f"{link}: no such page")
            continue
        place = unquote(parts.fragment)
        if place and target.suffix == ".html" and place not in _parsed(target.resolve()).ids:
            dead.append(f"{link}: no such place")
    assert dead == []


@pytest.mark.parametrize("name", PAGES)
def test_loads_nothing_from_another_host(site: Path, name: str) -> None:
    assert [url for url in _parsed(site / name).loads if urlsplit(url).netloc] == []


# At the one width in light, at the other in dark: both themes and both layouts.
LOOKS = [
    pytest.param({"color_scheme": "light", "viewport": {"width": 1280, "height": 900}}, id="light"),
    pytest.param({"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}, id="dark"),
]


@pytest.mark.browser
@pytest.mark.parametrize("tab", LOOKS, indirect=True)
@pytest.mark.parametrize("name", PAGES)
def test_page(tab: Tab, name: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab.open(name)
    assert tab.problems == []
    page = tab.page
    assert page.evaluate("document.querySelectorAll('mjx-merror, [data-mjx-error]').length") == 0
    unset = "[...document.querySelectorAll('.bd-article .math')].filter((e) => "
    unset += "!e.querySelector('mjx-container')).map((e) => e.textContent)"
    assert page.evaluate(unset) == []
    bare = "[...document.querySelectorAll('.bd-article img')].filter((e) => !e.alt.trim())"
    assert page.evaluate(f"{bare}.map((e) => e.src)") == []
    plain = "[...document.querySelectorAll('.bd-article .cell_output img')]"
    plain += ".filter((e) => !e.closest('figure')?.querySelector('figcaption'))"
    assert page.evaluate(f"{plain}.map((e) => e.src)") == [], "a figure has no caption"

    found = Axe().run(page).response["violations"]
    grave = [v for v in found if v["impact"] in ("serious", "critical")]
    assert [(v["id"], v["nodes"][0]["html"]) for v in grave] == []

    tab.resize(390)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} pixels stick out at a width of 390"


@pytest.mark.browser
def test_front_page_opens_at_the_root(tab: Tab) -> None:
    tab.page.goto(tab.address)
    tab.page.wait_for_url("**/book/index.html")
    assert tab.problems == []


@pytest.mark.browser
def test_search_finds_a_theorem(tab: Tab) -> None:
    tab.open("search.html")
    field = tab.page.locator("main input[type=search]:visible").first
    field.fill("theorem")
    field.press("Enter")
    # Titles come first, the passage that was found is fetched after them.
    tab.page.locator("#search-results li").filter(has_text="theorem").first.wait_for()
    assert tab.problems == []


# ------------------------------------------------------------------------------------- the ledger

SHOWN = "[...document.querySelectorAll('.cl-claim')].filter((e) => e.checkVisibility())"


def _shown(tab: Tab, field: str) -> list[str]:
    return tab.page.evaluate(f"{SHOWN}.map((e) => e.dataset.{field})")


@pytest.mark.browser
def test_ledger_filters_and_keeps_them_in_the_address(tab: Tab) -> None:
    tab.open("book/ledger.html")
    everything = len(_shown(tab, "paper"))
    assert everything == len(ledger.claims())
    form = tab.page.locator(".cl-filters")

    form.get_by_label("Paper").select_option("ddn")
    assert set(_shown(tab, "paper")) == {"ddn"}
    form.get_by_label("Kind").select_option("theorem")
    assert set(_shown(tab, "kind")) == {"theorem"}
    count = len(_shown(tab, "kind"))
    assert form.get_by_role("status").inner_text() == f"{count} of {everything} claims"
    assert tab.page.url.endswith("?paper=ddn&kind=theorem")

    tab.page.reload()
    tab.page.wait_for_load_state("networkidle")
    assert len(_shown(tab, "kind")) == count
    assert form.get_by_label("Paper").input_value() == "ddn"

    form.get_by_label("Words").fill("no such words anywhere")
    assert _shown(tab, "paper") == []
    form.get_by_role("button", name="Show all").click()
    tab.page.wait_for_function("!location.search")
    assert len(_shown(tab, "paper")) == everything
    assert tab.problems == []


@pytest.mark.browser
def test_ledger_finds_words_of_a_statement(tab: Tab) -> None:
    tab.open("book/ledger.html?q=sticky+weight")
    text = tab.page.evaluate(f"{SHOWN}.map((e) => e.textContent.toLowerCase())")
    assert 0 < len(text) < 50
    assert all("sticky" in t and "weight" in t for t in text)


@pytest.mark.browser
def test_ledger_ignores_a_value_that_does_not_exist(tab: Tab) -> None:
    tab.open("book/ledger.html?verdict=nonsense")
    assert len(_shown(tab, "paper")) == len(ledger.claims())
    assert tab.problems == []


@pytest.mark.browser
def test_a_link_to_a_claim_opens_and_typesets_it(tab: Tab) -> None:
    tab.open("book/ledger.html?paper=ncl#acl-thm1")
    claim = tab.page.locator("#acl-thm1")
    claim.wait_for(state="visible")
    formulas = tab.page.locator(".cl-claim:has(#acl-thm1) details mjx-container")
    formulas.first.wait_for()
    assert tab.page.locator(".cl-claim details mjx-merror").count() == 0
    assert claim.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")
    assert tab.problems == []


@pytest.mark.browser
def test_ledger_by_keyboard(tab: Tab) -> None:
    tab.open("book/ledger.html")
    tab.page.locator(".cl-filters").get_by_label("Paper").focus()
    tab.page.keyboard.press("ArrowDown")
    assert set(_shown(tab, "paper")) == {"acl"}
    tab.page.locator("#acl-eq1 + tr summary").focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("#acl-eq1 + tr mjx-container").first.wait_for()


@pytest.mark.browser
def test_every_statement_can_be_typeset(tab: Tab) -> None:
    tab.page.set_default_timeout(120_000)
    tab.open("book/ledger.html")
    tab.page.evaluate(
        "document.querySelectorAll('.cl-claim details').forEach((e) => e.open = true)"
    )
    done = "!document.querySelector('.cl-claim details:not([data-typeset=done])')"
    tab.page.wait_for_function(done)
    wrong = "[...document.querySelectorAll('mjx-merror, mjx-mtext[style*=\"color: red\"]')]"
    wrong += ".map((e) => e.closest('.cl-claim').querySelector('tr').id)"
    assert tab.page.evaluate(wrong) == []
    tab.resize(390)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_ledger_without_scripts_shows_everything(tab: Tab) -> None:
    tab.page.goto(tab.address + "book/ledger.html?paper=acl")
    assert tab.page.locator(".cl-claim").count() == len(ledger.claims())
    assert tab.page.locator("#ncl-eq1").is_visible()
    assert not tab.page.locator(".cl-filters").is_visible()
