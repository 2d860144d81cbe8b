"""The card of a claim beside a link to the ledger: by pointer and by keyboard, and away again."""

import re

import pytest
from browsing import Tab
from site_pages import LOOKS

pytestmark = [pytest.mark.site, pytest.mark.browser]

PAGE = "book/teaching.html"
ID = "acl-thm3"
CARD = "#cl-card"


def opened(tab: Tab) -> object:
    tab.open(PAGE)
    return tab.page.locator(f"a[data-claim={ID}]").first


def focus(tab: Tab, link: object) -> None:
    """By keyboard, from the link before it."""
    at = "(e) => { const all = [...document.querySelectorAll('a[data-claim]')];"
    link.evaluate(f"{at} all[all.indexOf(e) - 1].focus(); }}")
    tab.page.keyboard.press("Tab")


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_focus_shows_the_card_and_escape_hides_it(tab: Tab) -> None:
    from axe_playwright_python.sync_playwright import Axe

    link, card = opened(tab), tab.page.locator(CARD)
    assert not card.is_visible()
    focus(tab, link)
    card.wait_for(state="visible")
    tab.page.wait_for_selector(f"{CARD} mjx-container")
    text = card.inner_text()
    assert "Tian 2022, Theorem 3" in text and "Verdict: " in text
    assert link.get_attribute("aria-describedby") == CARD[1:]
    wide = tab.page.viewport_size["width"]
    box = card.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= wide
    assert tab.problems == []  # axe itself asks for style sheets at wrong addresses
    found = Axe().run(tab.page, CARD, {"resultTypes": ["violations"]}).response["violations"]
    assert [v["id"] for v in found] == []
    tab.page.keyboard.press("Escape")
    assert not card.is_visible()
    assert link.get_attribute("aria-describedby") is None
    assert link.evaluate("(e) => e === document.activeElement"), "the focus stays"
    focus(tab, link)
    card.wait_for(state="visible")
    tab.page.keyboard.press("Shift+Tab")
    assert "Tian 2022, Theorem 3" not in card.inner_text(), "the card left with the focus"


def test_the_pointer_shows_the_card_and_may_go_into_it(tab: Tab) -> None:
    link, card = opened(tab), tab.page.locator(CARD)
    link.hover()
    card.wait_for(state="visible")
    tab.page.wait_for_selector(f"{CARD} mjx-container")
    card.hover()
    tab.page.wait_for_timeout(600)
    assert card.is_visible(), "it stays as long as the pointer is on it"
    tab.page.keyboard.press("Escape")
    assert not card.is_visible()
    tab.page.mouse.move(1, 1)
    link.hover()
    card.wait_for(state="visible")
    tab.page.mouse.move(1, 1)
    card.wait_for(state="hidden")


@pytest.mark.parametrize("tab", [pytest.param({"java_script_enabled": False})], indirect=True)
def test_without_script_the_link_says_the_title(tab: Tab) -> None:
    tab.page.goto(tab.address + PAGE)
    link = tab.page.get_by_role("link", name=re.compile(r"^acl.thm3 ?: [A-Z]")).first
    assert link.get_attribute("href") == f"ledger.html#{ID}"


def test_an_id_in_a_chapters_prose_and_its_table(tab: Tab) -> None:
    tab.open("chapters/4-dual-networks.html")
    prose = tab.page.locator("p > a[data-claim=ddn-towers]").first
    assert prose.inner_text().startswith("ddn/towers")
    assert prose.get_attribute("href") == "../book/ledger.html#ddn-towers"
    row = tab.page.locator(".cl-check tr:has(a[data-claim=ddn-thm3]) .cl-title").first
    assert row.text_content().startswith("Tian et al. 2020, Theorem 3: ")  # folded
    assert tab.page.locator("pre a[data-claim]").count() == 0
