"""Figures with sliders, in a real browser: complete without a script, moved by keys, heard."""

import json
from pathlib import Path

import pytest
from browsing import Tab
from playwright.sync_api import expect

from clcore import _paths
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


def test_every_slider_moves_by_keys_and_says_what_it_shows(tab: Tab, site: Path) -> None:
    for name in chapters(site):
        tab.open(name)
        for figure in tab.page.locator(".cl-explore").all():
            frames = json.loads(figure.locator("script").text_content())
            image, said = figure.locator("img"), figure.locator(".cl-says")
            first = int(figure.get_attribute("data-first"))
            assert image.get_attribute("src") == frames[first]["source"]
            assert image.get_attribute("alt").endswith(frames[first]["says"])
            sliders = figure.locator("input")
            sizes = [int(s.get_attribute("max")) + 1 for s in sliders.all()]
            chosen = [int(s.input_value()) for s in sliders.all()]
            for i, slider in enumerate(sliders.all()):
                slider.focus()
                before = chosen[i]
                slider.press("ArrowLeft" if before else "ArrowRight")
                chosen[i] += -1 if before else 1
                place = 0
                for size, value in zip(sizes, chosen, strict=True):
                    place = place * size + value
                assert image.get_attribute("src") == frames[place]["source"], name
                words = json.loads(slider.get_attribute("data-words"))
                assert slider.get_attribute("aria-valuetext") == words[chosen[i]]
                # Said once the slider rests, which takes longer on a busy machine.
                expect(said).to_have_text(frames[place]["says"])
                assert said.get_attribute("aria-live") == "polite"
    assert not tab.problems


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
    row = tab.page.locator("#claim-acl-thm2")
    assert row.is_visible()
    assert tab.page.locator(".cl-fold").first.locator("table").is_hidden()


def test_checks_take_little_of_a_page(tab: Tab) -> None:
    """At most eight per cent of its height as loaded; picture and statement stand near the top."""
    tab.page.set_viewport_size({"width": 1400, "height": 1000})
    for path in sorted((_paths.root() / "chapters").glob("*.ipynb")):
        tab.open(f"chapters/{path.stem}.html")
        share, picture, statement = tab.page.evaluate(
            """() => {
              const page = document.querySelector('.bd-article');
              const height = (e) => e.getBoundingClientRect().height;
              const folds = [...page.querySelectorAll('.cl-fold')].map(height);
              const first = page.querySelector('figure, div.proof, table');
              const top = (e) => e ? e.getBoundingClientRect().top + scrollY : 0;
              const shown = folds.reduce((a, b) => a + b, 0) / height(page);
              return [shown, top(first), top(page.querySelector('div.proof'))];
            }"""
        )
        assert share <= 0.08, path.stem
        assert picture <= 1500 and statement <= 1500, path.stem
