"""Figures with sliders, in a real browser: light, complete without a script, printed; folds.

That keys move every one of them is seen where its chapter is looked at (test_chapter_pages)."""

from pathlib import Path

import pytest
from browsing import Tab
from playwright.sync_api import expect

from clcore.book.explore import LIMIT

pytestmark = [pytest.mark.site, pytest.mark.browser]


def chapters(site: Path) -> list[str]:
    pages = sorted((site / "chapters").glob("*.html"))
    return [f"chapters/{page.name}" for page in pages if "cl-explore" in page.read_text()]


def test_there_are_at_least_twelve_and_none_is_heavy(site: Path) -> None:
    count = 0
    for name in chapters(site):
        parts = (site / name).read_text().split('<div class="cl-explore"')[1:]
        count += len(parts)
        for part in parts:
            whole, _, _ = part.partition("</script>")
            assert len(whole) <= LIMIT, name
    assert count >= 12


@pytest.mark.parametrize(
    "tab", [pytest.param({"java_script_enabled": False}, id="no script")], indirect=True
)
def test_without_a_script_the_figure_and_its_numbers_are_there(tab: Tab, site: Path) -> None:
    tab.page.goto(f"{tab.address}{chapters(site)[0]}")
    figure = tab.page.locator(".cl-explore").first
    assert figure.locator("img").is_visible()
    assert not figure.locator(".cl-sliders").is_visible()
    figure.locator("summary").click()
    assert figure.locator("td").first.is_visible()


def test_on_paper_the_first_frame_is_printed(tab: Tab, site: Path) -> None:
    tab.open(chapters(site)[0])
    figure = tab.page.locator(".cl-explore").first
    first = figure.locator("img").get_attribute("src")
    slider = figure.locator("input").last
    slider.focus()
    slider.press("ArrowLeft")
    assert figure.locator("img").get_attribute("src") != first
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert figure.locator("img").get_attribute("src") == first
    tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert figure.locator("img").get_attribute("src") != first


def test_a_link_into_folded_checks_opens_them(tab: Tab) -> None:
    tab.open("chapters/1-minmax.html#claim-acl-thm2")
    expect(tab.page.locator("#claim-acl-thm2")).to_be_visible()
    expect(tab.page.locator(".cl-fold").first.locator("table")).to_be_hidden()
