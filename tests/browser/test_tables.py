"""Tables and code in a real browser: captions, and a phone that is wide enough for them."""

import pytest
from browsing import Tab
from site_pages import LOOKS, PAGES

pytestmark = [pytest.mark.site, pytest.mark.browser]

PHONE = [pytest.param({"viewport": {"width": 390, "height": 844}}, id="phone")]
CLAIMS = ["claims/ncl-tab2.html", "claims/acl-thm3.html"]

# All folds open, so that what is in them is laid out; the drawings aside, which are wide by nature.
OPENED = "document.querySelectorAll('details:not(:has(svg))').forEach((e) => e.open = true)"

# What sticks out of its box sideways, of checks and of code.
WIDE = """
() => [...document.querySelectorAll('.cl-checks, .cl-scroll:has(.cl-stacked), pre')]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map((e) => [e.className, e.scrollWidth, e.clientWidth, e.textContent.trim().slice(0, 80)])
"""

BARE = """
() => [...document.querySelectorAll('.bd-article table, main > article table')]
  .filter((e) => !e.caption?.textContent.trim() && e.rows.length > 1)
  .map((e) => e.className + ': ' + e.textContent.trim().slice(0, 80))
"""


@pytest.mark.parametrize("tab", PHONE, indirect=True)
@pytest.mark.parametrize("name", [*PAGES, *CLAIMS])
def test_checks_and_code_fit_a_phone(tab: Tab, name: str) -> None:
    tab.open(name)
    tab.page.evaluate(OPENED)
    tab.page.wait_for_timeout(250)  # a11y.js waits until all is quiet
    assert tab.page.evaluate(WIDE) == []


CAPTIONED = ("chapters/", "book/ledger", "book/errata", "book/notation", "claims/")


@pytest.mark.parametrize("name", [n for n in (*PAGES, *CLAIMS) if n.startswith(CAPTIONED)])
def test_every_table_says_what_it_is(tab: Tab, name: str) -> None:
    tab.open(name)
    assert tab.page.evaluate(BARE) == []


@pytest.mark.parametrize("tab", PHONE, indirect=True)
def test_a_row_of_checks_is_a_card_that_names_its_columns(tab: Tab) -> None:
    tab.open("chapters/1-minmax.html")
    tab.page.locator(".cl-fold > summary").first.click()
    table = tab.page.locator(".cl-check[role=table]").first
    table.wait_for()
    row = table.get_by_role("row").nth(1)
    assert row.get_by_role("rowheader").count() == 1
    told = "(e) => getComputedStyle(e, '::before').content.slice(1, -1)"
    cells = row.get_by_role("cell")
    assert [c.evaluate(told) for c in cells.all()] == ["outcome", "measured", "control", "evidence"]
    tops = [c.bounding_box()["y"] for c in cells.all()]
    assert tops == sorted(tops) and len(set(tops)) == len(tops)
    tab.resize(1280)
    assert row.bounding_box()["height"] > 0
    assert len({c.bounding_box()["y"] for c in cells.all()}) == 1


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_formulas_of_the_errata_are_set_as_they_come_into_view(tab: Tab) -> None:
    tab.open("book/errata/nl.html")
    waiting = tab.page.locator("mjx-container:has(mjx-lazy)")
    before = waiting.count()
    assert before > 100
    last = tab.page.locator(".cl-erratum").last
    last.scroll_into_view_if_needed()
    last.locator("mjx-container:not(:has(mjx-lazy))").first.wait_for()
    assert 0 < waiting.count() < before
    assert tab.problems == []


def test_a_page_is_printed_with_all_its_formulas(tab: Tab) -> None:
    tab.open("book/errata/ncl.html")
    waiting = tab.page.locator("mjx-container:has(mjx-lazy)")
    assert waiting.count() > 0
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.page.wait_for_function("!document.querySelector('mjx-lazy')")
    assert tab.page.locator("mjx-container mjx-math").count() > 100


def test_chapters_have_all_formulas_at_once(tab: Tab) -> None:
    tab.open("chapters/1-minmax.html")
    assert tab.page.locator("mjx-container").count() > 100
    assert tab.page.locator("mjx-lazy").count() == 0
