"""The front page: three doors without scrolling, a picture that moves and rests, cards."""

import pytest
from browsing import Tab
from site_pages import LOOKS

from clcore import ledger

pytestmark = [pytest.mark.site, pytest.mark.browser]

POINTS = """[...document.querySelectorAll('.cl-living circle[data-pair]')]
  .map((e) => e.getAttribute('cx'))"""
STILL = pytest.mark.parametrize("tab", [{"reduced_motion": "reduce"}], indirect=True)


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_three_doors_stand_on_the_first_screen(tab: Tab) -> None:
    tab.open("book/index.html")
    doors = tab.page.locator(".cl-doors a")
    assert doors.count() == 3
    for at in range(3):
        box = doors.nth(at).bounding_box()
        assert box["y"] + box["height"] <= tab.page.viewport_size["height"]
    links = doors.evaluate_all("(all) => all.map((e) => e.getAttribute('href'))")
    assert links == ["../chapters/0-start-here.html", "ledger.html", "rerun.html"]


def test_next_is_chapter_0(tab: Tab) -> None:
    tab.open("book/index.html")
    tab.page.locator(".prev-next-area a.right-next").click()
    tab.page.wait_for_url("**/chapters/0-start-here.html")


def test_each_paper_has_a_card_by_its_title(tab: Tab) -> None:
    tab.open("book/index.html")
    titles = tab.page.locator(".cl-paper h3").all_inner_texts()
    assert titles == [paper["title"] for paper in ledger.papers().values()]
    assert tab.page.locator(".cl-paper .cl-bar").count() == len(titles)


def test_the_picture_moves_and_rests_with_partners_side_by_side(tab: Tab) -> None:
    tab.open("book/index.html")
    tab.page.locator(".cl-living:not([data-moving])").wait_for()
    before = tab.page.evaluate(POINTS)
    tab.page.locator(".cl-living button").click()
    tab.page.locator(".cl-living[data-moving]").wait_for()
    tab.page.locator(".cl-living:not([data-moving])").wait_for()
    assert tab.page.evaluate(POINTS) != before
    apart = """() => {
      const at = (e) => Math.atan2(e.getAttribute('cy'), e.getAttribute('cx'));
      const all = [...document.querySelectorAll('.cl-living circle[data-pair]')].map(at);
      const gap = (a, b) => Math.abs(Math.atan2(Math.sin(a - b), Math.cos(a - b)));
      return [0, 2, 4, 6, 8, 10].map((i) => gap(all[i], all[i + 1]));
    }"""
    assert sorted(tab.page.evaluate(apart))[2] < 0.2, "most partners have met"


@STILL
def test_the_picture_is_still_where_motion_is_not_wanted(tab: Tab) -> None:
    tab.open("book/index.html")
    before = tab.page.evaluate(POINTS)
    assert len(before) == 12
    tab.page.wait_for_timeout(300)
    assert tab.page.evaluate(POINTS) == before
