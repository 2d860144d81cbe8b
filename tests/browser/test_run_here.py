"""Programs that a reader runs on the pages, in a real browser, and what can go wrong."""

from pathlib import Path

import programs
import pytest
from browsing import Tab
from playwright.sync_api import Page, expect
from programs import MINUTES
from site_pages import LOOKS, accessible

from clcore import _paths

pytestmark = [pytest.mark.site, pytest.mark.browser, pytest.mark.usefixtures("python")]

PAGE = "claims/nl-eq163.html#program"
CERTIFICATES = sorted((_paths.root() / "data" / "certificates").glob("*.py"))


def status(page: Page, words: str) -> None:
    """Wait until the run says so."""
    expect(page.locator(".cl-run-status")).to_contain_text(words, timeout=MINUTES)


def begin(tab: Tab, program: str = "") -> Page:
    """Open a page, press the button; then run another program in the place of the page's."""
    tab.open(PAGE)
    tab.page.locator(".cl-run-start").click()
    if program:
        tab.page.get_by_role("button", name="Stop").click()
        again(tab.page, program)
    return tab.page


def again(page: Page, program: str) -> None:
    page.locator(".cl-run-source").fill(program)
    page.get_by_role("button", name="Run", exact=True).click()


def test_every_certificate_prints_there_what_it_prints_here(tab: Tab) -> None:
    tab.open(PAGE)
    found = programs.run(tab, [(p.name, p.read_text()) for p in CERTIFICATES])
    kept = {p.name: [p.with_suffix(".txt").read_text(), ""] for p in CERTIFICATES}
    assert {p.name: out for p, out in zip(CERTIFICATES, found, strict=True)} == kept
    assert tab.problems == []


def test_a_reader_runs_changes_and_resets_it(tab: Tab) -> None:
    page = begin(tab)
    status(page, "as recorded")
    kept = (_paths.root() / "data/certificates/nl-eq163.txt").read_text()
    assert page.locator(".cl-run-output").text_content() == kept
    source = page.locator(".cl-run-source")
    before = source.input_value()
    again(page, before.replace("assert", "print(1 + 1)\nassert", 1))
    status(page, "of your version is not as recorded")
    again(page, before.replace("assert ", "assert not ", 1))
    status(page, "error")
    expect(page.locator(".cl-run-output")).to_contain_text("AssertionError")
    page.get_by_role("button", name="Reset").click()
    assert source.input_value() == before
    source.press("Control+Enter")
    status(page, "as recorded")
    assert tab.problems == []


def test_an_endless_program_is_stopped_and_the_next_one_runs(tab: Tab) -> None:
    page = begin(tab, "while True:\n    pass\n")
    status(page, "Running")
    assert page.evaluate("1 + 1") == 2  # the page is alive
    page.get_by_role("button", name="Stop").click()
    status(page, "Stopped")
    again(page, "print('on it goes')")
    status(page, "not as recorded")
    expect(page.locator(".cl-run-output")).to_have_text("on it goes\n")


def test_too_much_output_and_errors_end_in_words(tab: Tab) -> None:
    page = begin(tab, "while True:\n    print('x' * 1000)\n")
    status(page, "error")
    output = page.locator(".cl-run-output")
    expect(output).to_contain_text("it printed more than 100,000 characters")
    assert len(output.text_content()) < 110_000
    again(page, "def halve(x):\n    return x / 0\n\nhalve(1)\n")
    status(page, "error")
    expect(output).to_contain_text("line 2, in halve\n    return x / 0")
    expect(output).to_contain_text("ZeroDivisionError")
    again(page, "print(1\n")
    expect(output).to_contain_text("SyntaxError", timeout=MINUTES)
    assert "pyodide" not in output.text_content()


def test_a_runtime_that_is_cut_short_or_another_is_refused(tab: Tab) -> None:
    def shorter(route: object) -> None:
        route.fulfill(status=200, body=route.fetch().body()[:-1])

    tab.page.route("**/python_stdlib.zip", shorter)
    status(begin(tab), "was cut short")
    tab.page.unroute("**/python_stdlib.zip")

    def other(route: object) -> None:
        body = route.fetch().body()
        route.fulfill(status=200, body=bytes([body[0] ^ 1]) + body[1:])

    tab.page.route("**/python_stdlib.zip", other)
    tab.page.reload()
    status(begin(tab), "is not the file that this site was built with")


def test_a_browser_without_it_says_so(tab: Tab) -> None:
    tab.page.add_init_script("delete window.WebAssembly")
    status(begin(tab), "WebAssembly, which this browser lacks")


def test_a_page_from_a_disk_says_so(chromium: object, site: Path) -> None:
    page = chromium.new_page()
    page.goto((site / PAGE.split("#")[0]).as_uri())
    page.locator("#program summary").click()
    page.locator(".cl-run-start").click()
    status(page, "from a server only")
    page.close()


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_an_open_program_is_accessible_and_fits(tab: Tab) -> None:
    page = begin(tab)
    status(page, "as recorded")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    accessible(tab, PAGE)


def test_letters_lead_straight_to_it(tab: Tab) -> None:
    tab.open("book/letters/nl.html")
    link = tab.page.locator("a[href*='claims/nl-eq163.html#program']")
    expect(link).to_have_text("run it here")
    link.click()
    expect(tab.page.locator(".cl-run-start")).to_be_visible()
