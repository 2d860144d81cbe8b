"""The chapters of the built site in a real browser, each opened once and looked at as a whole."""

import json

import pytest
from browsing import Tab
from playwright.sync_api import Locator, expect
from site_pages import AXE, PAGES, PHONE, accessible, opened

pytestmark = [pytest.mark.site, pytest.mark.browser]

HEIGHT = 15_000
"""Most pixels of a chapter at a width of 1400, folds closed: seventeen screens."""


@PHONE
@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("chapters/")])
def test_page(tab: Tab, name: str) -> None:
    opened(tab, name)
    tab.page.set_viewport_size({"width": 1400, "height": 1000})
    is_read_at_a_sitting(tab)
    checks_take_little(tab)
    every_slider_moves_by_keys_and_says_what_it_shows(tab)
    assert tab.problems == []
    if name in AXE:
        accessible(tab, name)


def is_read_at_a_sitting(tab: Tab) -> None:
    high = tab.page.evaluate("document.querySelector('.bd-article').scrollHeight")
    assert high <= HEIGHT, f"{high} pixels: fold what few need, or divide the chapter"


def checks_take_little(tab: Tab) -> None:
    """At most eight per cent of its height as loaded; picture and statement stand near the top."""
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
    assert share <= 0.08
    assert picture <= 1500 and statement <= 1500


def every_slider_moves_by_keys_and_says_what_it_shows(tab: Tab) -> None:
    for figure in tab.page.locator(".cl-explore").all():
        frames = json.loads(figure.locator("script").text_content())
        image, said = figure.locator("img"), figure.locator(".cl-says")
        first = int(figure.get_attribute("data-first"))
        assert image.get_attribute("src") == frames[first]["source"]
        assert image.get_attribute("alt").endswith(frames[first]["says"])
        controls = figure.locator("input[type=range], .cl-switch").all()
        sizes, chosen = zip(*map(size_and_value, controls), strict=True)
        chosen = list(chosen)
        for i, control in enumerate(controls):
            slider = control.get_attribute("type") == "range"
            part = control if slider else control.locator("input:checked")
            part.focus()
            before = chosen[i]
            part.press("ArrowLeft" if before else "ArrowRight")
            chosen[i] += -1 if before else 1
            place = 0
            for size, value in zip(sizes, chosen, strict=True):
                place = place * size + value
            assert image.get_attribute("src") == frames[place]["source"]
            if slider:
                words = json.loads(control.get_attribute("data-words"))
                assert control.get_attribute("aria-valuetext") == words[chosen[i]]
            else:
                assert size_and_value(control) == (2, chosen[i])
            # Said once the slider rests, which takes longer on a busy machine.
            expect(said).to_have_text(frames[place]["says"])
            assert said.get_attribute("aria-live") == "polite"


def size_and_value(control: Locator) -> tuple[int, int]:
    """Of a slider, or of a switch: how many values it has, and which is chosen."""
    if control.get_attribute("type") == "range":
        return int(control.get_attribute("max") or 0) + 1, int(control.input_value())
    return control.locator("input").count(), int(control.locator(":checked").input_value())
