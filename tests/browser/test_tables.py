"""Tables, code and formulas in a real browser: captions, cards on a phone, what is set when. That
every page has them is looked at with the pages: site_pages.look."""

import pytest
from browsing import Tab
from site_pages import BARE, LOOKS, WIDE

pytestmark = [pytest.mark.site, pytest.mark.browser]

PHONE = [pytest.param({"viewport": {"width": 390, "height": 844}}, id="phone")]


@pytest.mark.parametrize("tab", PHONE, indirect=True)
def test_a_box_that_is_too_narrow_and_a_bare_table_are_seen(tab: Tab) -> None:
    tab.open("chapters/0-start-here.html")
    assert tab.page.evaluate(WIDE) == [] == tab.page.evaluate(BARE)
    made = "const e = document.createElement('div'); e.innerHTML = "
    made += "'<pre style=\"white-space: pre\">' + 'x'.repeat(200) + '</pre>"
    made += "<table><tr><td>1</td></tr><tr><td>2</td></tr></table>'; "
    tab.page.evaluate(f"{made} document.querySelector('.bd-article').append(e)")
    assert [e[0] for e in tab.page.evaluate(WIDE)] == ["PRE"]
    assert len(tab.page.evaluate(BARE)) == 1


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
    last = tab.page.locator(".cl-erratum:not(details *)").last  # a fold waits until it opens
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


def test_formulas_that_are_not_set_yet_have_words_and_a_size(tab: Tab) -> None:
    tab.open("chapters/1-minmax.html")
    waiting = tab.page.locator("mjx-lazy")
    assert waiting.count() > 50
    told = "(all) => all.filter((e) => e.role !== 'img' || !e.ariaLabel || e.ariaHidden === 'true')"
    assert waiting.evaluate_all(f"{told}.length") == 0
    sized = "(all) => all.filter((e) => e.checkVisibility() && !e.getBoundingClientRect().height)"
    assert waiting.evaluate_all(f"{sized}.length") == 0


def test_a_link_into_a_chapter_leads_there_while_formulas_above_wait(tab: Tab) -> None:
    """A place in the middle, of a page some thirty screens long, comes to the top and stays."""
    tab.open("chapters/1-minmax.html")
    found = "(all) => all.map((e) => e.id)"
    places = tab.page.locator(".bd-article section[id]").evaluate_all(found)
    place = places[len(places) // 2]
    tab.page.goto("about:blank")
    tab.open(f"chapters/1-minmax.html#{place}")
    assert tab.page.locator("mjx-lazy").count() > 50
    top = f"document.getElementById({place!r}).getBoundingClientRect().top"
    tab.page.wait_for_function(f"{top} >= 0 && {top} < 200")
