"""The ledger in a real browser: filters, addresses, keyboard, formulas, no scripts."""

import html
import re
from pathlib import Path

import pytest
from browsing import Tab
from playwright.sync_api import expect
from site_pages import PHONE, accessible, opened

from clcore import ledger
from clcore.ledger import map as claim_map

pytestmark = [pytest.mark.site, pytest.mark.browser]

SHOWN = "[...document.querySelectorAll('.cl-claim')].filter((e) => e.checkVisibility())"


def _shown(tab: Tab, field: str) -> list[str]:
    return tab.page.evaluate(f"{SHOWN}.map((e) => e.dataset.{field})")


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
    tab.page.wait_for_url(lambda url: "?" not in url)
    assert len(_shown(tab, "paper")) == everything
    assert tab.problems == []


@pytest.mark.parametrize("name", ["book/ledger.html", "chapters/2-deep-linear-pca.html"])
def test_an_address_that_is_no_text_points_nowhere(tab: Tab, name: str) -> None:
    tab.open(f"{name}#%E0%A4%A")
    assert tab.problems == []


@pytest.mark.parametrize("name", ["words", "q"])
def test_ledger_finds_words_of_a_statement(tab: Tab, name: str) -> None:
    """By the address of today, and by that of old, whose name the theme's search reads, too."""
    tab.open(f"book/ledger.html?{name}=sticky+weight")
    tab.page.locator(".cl-filters[data-searched]").wait_for()
    assert tab.page.url.endswith("?words=sticky+weight")
    found = _shown(tab, "id")
    entries = tab.page.evaluate("clFind('sticky weight')")
    wanted = {entry["id"] for entry in entries if entry["kind"] == "claim"}
    assert 0 < len(wanted) < 50
    assert found == [claim for claim in ledger.claims() if claim in wanted]
    in_statement = {i for i, r in ledger.claims().items() if "sticky" in r["statement"].lower()}
    assert in_statement & set(found)
    assert tab.problems == []


def test_ledger_ignores_a_value_that_does_not_exist(tab: Tab) -> None:
    tab.open("book/ledger.html?verdict=nonsense")
    assert len(_shown(tab, "paper")) == len(ledger.claims())
    assert tab.problems == []


def test_a_link_to_a_claim_opens_and_typesets_it(tab: Tab) -> None:
    tab.open("book/ledger.html?paper=ncl#acl-thm1")
    claim = tab.page.locator("#acl-thm1")
    claim.wait_for(state="visible")
    formulas = tab.page.locator(".cl-claim:has(#acl-thm1) details mjx-container")
    formulas.first.wait_for()
    assert tab.page.locator(".cl-claim details mjx-merror").count() == 0
    assert claim.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")
    assert tab.problems == []


def test_a_statement_that_cannot_be_fetched_leads_to_its_page(tab: Tab) -> None:
    tab.open("book/ledger.html")
    tab.page.route("**/claims/acl-eq1.html", lambda route: route.abort())
    tab.page.locator("#acl-eq1 + tr summary").click()
    told = tab.page.locator("#acl-eq1 + tr").get_by_role("status")
    expect(told).to_contain_text("could not be loaded", timeout=60_000)
    expect(told.get_by_role("link")).to_have_attribute("href", "../claims/acl-eq1.html")


def test_the_ledger_is_light(site: Path) -> None:
    assert (site / "book" / "ledger.html").stat().st_size < 400_000


def test_the_ledger_shows_what_a_claim_rests_on(tab: Tab) -> None:
    tab.open("book/ledger.html?below=nl/thm1")
    wanted = claim_map.below("nl/thm1") | {"nl/thm1"}
    assert set(_shown(tab, "id")) == wanted
    form = tab.page.locator(".cl-filters")
    told = f"{len(wanted)} of {len(ledger.claims())} claims: nl/thm1 and what it rests on"
    assert form.get_by_role("status").inner_text() == told
    tab.page.locator("#nl-thm1 + tr summary").click()
    tab.page.locator("#nl-thm1 + tr summary", has_text="Used by").click()
    tab.page.locator("#nl-thm1 + tr .cl-near a", has_text="at any distance: used by").click()
    tab.page.wait_for_url("**?above=nl/thm1#claims")
    tab.page.locator("#nl-thm1").wait_for()
    assert set(_shown(tab, "id")) == claim_map.above("nl/thm1") | {"nl/thm1"}
    form.get_by_role("button", name="Show all").click()
    tab.page.wait_for_url(lambda url: "?" not in url)
    assert len(_shown(tab, "id")) == len(ledger.claims())
    assert tab.problems == []


def test_ledger_by_keyboard(tab: Tab) -> None:
    tab.open("book/ledger.html")
    tab.page.locator(".cl-filters").get_by_label("Paper").focus()
    tab.page.keyboard.press("ArrowDown")
    assert set(_shown(tab, "paper")) == {"acl"}
    tab.page.locator("#acl-eq1 + tr summary").focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("#acl-eq1 + tr mjx-container").first.wait_for()


# MathJax parses every formula of the claims' pages, without laying it out.
UNREADABLE = r"""
async (formulas) => {
  await MathJax.startup.promise;
  const wrong = [];
  for (const tex of formulas) {
    const mathml = await MathJax.tex2mmlPromise(tex);
    if (/<merror|mathcolor="red"/.test(mathml)) wrong.push(tex);
  }
  return wrong;
}
"""


def test_every_statement_can_be_typeset(site: Path, tab: Tab) -> None:
    tab.open("claims/acl-thm1.html")
    broken = [r"\frac{a", r"\nosuchmacro"]
    assert tab.page.evaluate(UNREADABLE, [*broken, r"\bm x"]) == broken
    formulas = set()
    for page in (site / "claims").glob("*.html"):
        text = html.unescape(re.sub(r"<pre.*?</pre>", "", page.read_text(), flags=re.DOTALL))
        found = re.findall(r"\\\((.*?)\\\)|\\\[(.*?)\\\]", text, re.DOTALL)
        formulas |= {inline or block for inline, block in found}
    assert len(formulas) > 2000
    assert tab.page.evaluate(UNREADABLE, sorted(formulas)) == []


@PHONE
@pytest.mark.parametrize("claim", ["acl-thm3", "ncl-tab2"])
def test_a_claim_has_a_page_of_its_own(tab: Tab, claim: str) -> None:
    page = f"claims/{claim}.html"
    opened(tab, page)
    assert tab.page.locator("article mjx-container").count() >= 3
    tab.page.locator("summary", has_text="Cite this row").click()
    assert tab.page.get_by_text(f"@misc{{clcore-{claim},").is_visible()
    accessible(tab, page)


def test_opened_statements_fit_a_phone(tab: Tab) -> None:
    tab.open("book/ledger.html?paper=acl&kind=theorem")
    folds = ".cl-claim:not([hidden]) .cl-more > td > details"
    tab.page.evaluate(f"document.querySelectorAll('{folds}').forEach((e) => e.open = true)")
    expect(tab.page.locator(f"{folds}:not([data-typeset=done])")).to_have_count(0, timeout=60_000)
    tab.resize(390)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [1500, 1300, 1280, 1000, 390])
def test_the_ledger_with_an_open_row_fits_the_window(tab: Tab, width: int) -> None:
    tab.open("book/ledger.html#nl-thm4")
    fold = tab.page.locator("#nl-thm4 + tr details[open][data-typeset=done]")
    fold.wait_for(timeout=60_000)
    tab.resize(width)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.page.evaluate("scrollX") == 0
    box = fold.bounding_box()
    assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_ledger_without_scripts_shows_everything(tab: Tab) -> None:
    tab.page.goto(tab.address + "book/ledger.html?paper=acl")
    assert tab.page.locator(".cl-claim").count() == len(ledger.claims())
    assert tab.page.locator("#ncl-eq1").is_visible()
    assert not tab.page.locator(".cl-filters").is_visible()
