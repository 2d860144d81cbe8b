"""The content security policy in a real browser: the site works under it, what was put into a page
does not run, from a server and from a disk."""

import re
from pathlib import Path

import pytest
from browsing import Tab

from clcore.book import browser, course
from clcore.book.site.policy import _HANDLERS

pytestmark = [pytest.mark.site, pytest.mark.browser]

PUT_IN = (
    "<script>window.ran = 'script'</script><img src='none' onerror=\"window.ran = 'handler'\">"
    "<a id='put' href=\"javascript:window.ran = 'link'\">x</a>"
    r"<p class='mathjax_process'>\(\href{javascript:window.ran = 1}{x^2}\)</p>"
)
REFUSED = "violates the following Content Security Policy directive"


def test_every_page_has_it_before_its_first_script(site: Path) -> None:
    pages = [p for p in site.rglob("*.html") if "_static" not in p.relative_to(site).parts]
    assert len(pages) > 100
    for page in pages:
        text = page.read_text()
        (begin,) = [m.start() for m in re.finditer('<meta http-equiv="Content-Security', text)]
        assert "<script" not in text[:begin], page
        for name, code in re.findall(r"<[^>]*\s(on[a-z]+)=\"([^\"]*)\"", text):
            assert code in _HANDLERS, f"{page}: {name}={code} does not run"


@pytest.mark.parametrize("name", ["chapters/2-deep-linear-pca.html", "claims/acl-thm1.html"])
def test_what_is_put_into_a_page_does_not_run(tab: Tab, name: str) -> None:
    def put(route: object) -> None:
        answer = route.fetch()
        body = answer.text().replace("</h1>", f"</h1>{PUT_IN}", 1)
        route.fulfill(response=answer, body=body)

    tab.page.route(f"**/{name}", put)
    tab.open(name)
    assert tab.page.locator("#put").count() == 1, "nothing was put in"
    tab.page.evaluate("document.querySelector('#put').click()")
    assert tab.page.evaluate("window.ran ?? 'nothing'") == "nothing"
    links = "[...document.querySelectorAll('mjx-container a')].map((e) => e.getAttribute('href'))"
    assert [link for link in tab.page.evaluate(links) if link and "javascript" in link] == []
    for _ in range(100):  # the browser tells of them in its own time
        refused = [problem for problem in tab.problems if REFUSED in problem]
        if len(refused) >= 3:
            break
        tab.page.wait_for_timeout(50)
    assert len(refused) == 3, tab.problems


def test_the_buttons_of_the_theme_run(tab: Tab) -> None:
    tab.open("book/index.html")
    tab.page.evaluate("window.print = () => (window.printed = true)")
    tab.page.evaluate("document.querySelector('[onclick=\"window.print()\"]').click()")
    assert tab.page.evaluate("window.printed")
    assert tab.problems == []


def _said(page: object) -> list[str]:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def test_the_site_works_from_a_disk(chromium: object, site: Path) -> None:
    page = chromium.new_page()
    said = _said(page)
    for name in ("chapters/2-deep-linear-pca.html", "book/ledger.html", "claims/acl-thm1.html"):
        page.goto((site / name).as_uri())
        page.evaluate("window.MathJax?.startup?.promise")
        page.locator("mjx-container").first.wait_for(state="attached")
        if name.startswith("chapters"):
            figure = page.locator(".cl-explore").first
            before = figure.locator("img").get_attribute("src")
            figure.locator("input").first.press("ArrowLeft")
            assert figure.locator("img").get_attribute("src") != before
    assert [one for one in said if REFUSED in one] == []
    page.close()


@pytest.mark.parametrize("served", [True, False], ids=["server", "disk"])
def test_slides_and_the_speakers_view_work(
    chromium: object, site: Path, tmp_path_factory, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    monkeypatch.setenv("CLCORE_BUILD", str(site.parent))
    folder = tmp_path_factory.getbasetemp() / "slides-under-policy"
    if not folder.exists():
        course.decks.write([course.sessions()["linear"]], folder)
    context = chromium.new_context()
    page = context.new_page()
    said = _said(page)
    with browser.served(folder) as address:
        page.goto(f"{address}linear.html" if served else (folder / "linear.html").as_uri())
        page.locator(".reveal.ready h1").wait_for()
        page.evaluate("window.MathJax.startup.promise")
        assert page.locator("mjx-container").count() > 10
        with page.expect_popup() as opened:
            page.keyboard.press("s")
        notes = opened.value.locator(".speaker-controls-notes .value")
        notes.filter(has_text="Chapters: 2-deep-linear-pca").wait_for()
    assert [one for one in said if REFUSED in one] == []
    context.close()
