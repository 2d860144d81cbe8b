"""The pages around the chapters in a real browser, the ledger and the errata among them."""

import pytest
from browsing import Tab
from site_pages import AXE, PAGES, PHONE, accessible, opened, violations

pytestmark = [pytest.mark.site, pytest.mark.browser]


CODE = "code/checks/landscape/theorem1.html"


@PHONE
@pytest.mark.parametrize("name", [*(n for n in PAGES if not n.startswith("chapters/")), CODE])
def test_page(tab: Tab, name: str) -> None:
    opened(tab, name)
    if name in AXE:
        accessible(tab, name)


def test_axe_looks_at_pages_that_are_there() -> None:
    assert not AXE - {*PAGES, CODE}


@pytest.mark.slow
@PHONE
@pytest.mark.parametrize("name", [name for name in PAGES if name not in AXE])
def test_axe_is_content_with_all_other_pages(tab: Tab, name: str) -> None:
    tab.open(name)
    accessible(tab, name)


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


@PHONE
def test_grey_on_grey_a_nameless_button_and_a_link_like_its_text_are_seen(tab: Tab) -> None:
    tab.open("book/bibliography.html")
    tab.page.evaluate(
        """() => {
          const [grey, text] = [document.createElement('p'), document.createElement('p')];
          grey.textContent = 'grey';
          grey.style = 'color: #777; background: #888';
          text.style = 'color: #000; background: #fff';
          const plain = 'color: #444; text-decoration: none';
          text.innerHTML = `text around <a href="#" style="${plain}">a link</a> in it`;
          const main = document.querySelector('main');
          main.append(grey, text, document.createElement('button'));
        }"""
    )
    wanted = {"color-contrast", "button-name", "link-in-text-block"}
    found = violations(tab)
    assert {rule for rule, _ in found} == wanted and len(found) == 2 * len(wanted), "in both looks"
