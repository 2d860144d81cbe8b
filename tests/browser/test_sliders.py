"""Figures with sliders, in a real browser: light, complete without a script, printed; folds.

That keys move every one of them is seen where its chapter is looked at (test_chapter_pages)."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from browsing import Tab
from playwright.sync_api import Page, expect

from clcore import _paths
from clcore.book import explore
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


@pytest.fixture
def narrow(chromium: object) -> Iterator[Page]:
    """An empty page as wide as a small phone."""
    context = chromium.new_context(viewport={"width": 320, "height": 600})
    yield context.new_page()
    context.close()


def figure(sliders: dict[str, list], monkeypatch: pytest.MonkeyPatch) -> str:
    """The HTML of a figure as a notebook shows it, its script included."""
    shown = []
    monkeypatch.setattr(explore, "_display", lambda html, *_: shown.append(html))
    monkeypatch.setattr(explore.chapter, "profile", lambda: "book")
    explore.frames(
        lambda *_: plt.subplots(figsize=(1, 1))[0],
        sliders,
        says=lambda *values: " ".join(str(value)[:1] for value in values),
        alt="A.",
        table=pd.DataFrame({"a": [1]}),
    )
    return shown[0]


def test_a_switch_with_long_names_fits_a_phone(narrow: Page, monkeypatch) -> None:
    css = (_paths.root() / "book" / "_static" / "chapters.css").read_text(encoding="utf-8")
    long = ["Gaussian in the difference of outputs, frozen", "one_name_" * 8]
    html = figure({"weights of the pairs": long}, monkeypatch)
    narrow.set_content(f"<style>{css}</style>{html}")
    for name in narrow.locator(".cl-switch label span").all():
        box = name.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 320
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_switch_shows_its_value_in_the_readers_own_colours(narrow: Page, monkeypatch) -> None:
    css = (_paths.root() / "book" / "_static" / "chapters.css").read_text(encoding="utf-8")
    narrow.emulate_media(forced_colors="active")
    narrow.set_content(f"<style>{css}</style>{figure({'kind': ['x', 'y']}, monkeypatch)}")
    names = "[...document.querySelectorAll('.cl-switch label span')]"
    there, here = narrow.evaluate(f"{names}.map((name) => getComputedStyle(name).color)")
    assert there != here


def test_a_figure_that_is_shown_twice_has_two_switches(narrow: Page, monkeypatch) -> None:
    html = figure({"a": [1, 2, 3], "kind": ["x", "y"]}, monkeypatch)
    narrow.set_content(html + html)
    figures = narrow.locator(".cl-explore")
    figures.nth(1).get_by_label("x").check()
    for one, words in ((figures.nth(0), "3 y"), (figures.nth(1), "3 x")):
        one.locator("input[type=range]").press("ArrowRight")
        expect(one.locator(".cl-says")).to_have_text(words)


def test_what_a_browser_kept_over_a_reload_is_not_chosen(narrow: Page, monkeypatch) -> None:
    html, _, script = figure({"a": [1, 2, 3], "b": [4, 5]}, monkeypatch).partition("<script data")
    narrow.set_content(html)
    narrow.evaluate("document.querySelector('[type=range]').value = 0")
    narrow.evaluate("document.querySelector('[type=radio]').checked = true")
    narrow.add_script_tag(content=script.partition(">")[2].partition("</script>")[0])
    assert narrow.locator("[type=range]").input_value() == "1"
    assert narrow.locator(":checked").input_value() == "1"
