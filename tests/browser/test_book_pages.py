"""The pages around the chapters in a real browser, the ledger and the errata among them."""

import pytest
from browsing import Tab
from site_pages import LOOKS, PAGES, look, violations

pytestmark = [pytest.mark.site, pytest.mark.browser]


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
@pytest.mark.parametrize("name", [name for name in PAGES if not name.startswith("chapters/")])
def test_page(tab: Tab, name: str) -> None:
    look(tab, name)


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_a_page_of_code(tab: Tab) -> None:
    look(tab, "code/checks/landscape/theorem1.html")


def test_front_page_opens_at_the_root(tab: Tab) -> None:
    tab.page.goto(tab.address)
    tab.page.wait_for_url("**/book/index.html")
    assert tab.problems == []


def test_search_finds_a_theorem(tab: Tab) -> None:
    tab.open("search.html")
    field = tab.page.locator("main input[type=search]:visible").first
    field.fill("theorem")
    field.press("Enter")
    # Titles come first, the passage that was found is fetched after them.
    tab.page.locator("#search-results li").filter(has_text="theorem").first.wait_for()
    assert tab.problems == []


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_grey_on_grey_and_a_nameless_button_are_seen(tab: Tab) -> None:
    tab.open("book/bibliography.html")
    grey = "const e = document.createElement('p'); e.textContent = 'grey'; "
    grey += "e.style = 'color: #777; background: #888'; document.querySelector('main').append(e);"
    tab.page.evaluate(grey)
    tab.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert {rule for rule, _ in violations(tab)} == {"color-contrast", "button-name"}
