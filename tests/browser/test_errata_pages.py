"""The errata in a real browser: old addresses, and certificates that are copied."""

from pathlib import Path

import pytest
from browsing import Tab
from playwright.sync_api import expect
from site_pages import parsed

from clcore import _paths, ledger
from clcore.ledger import findings
from clcore.ledger.html import row_id

pytestmark = [pytest.mark.site, pytest.mark.browser]


def test_every_entry_has_its_old_address_and_its_place(site: Path) -> None:
    front = parsed(site / "book/errata.html")
    for claim, row in findings.known().items():
        if "grade" in row:
            page = f"errata/{ledger.claims()[claim]['paper']}.html"
            assert row_id(claim) in front.ids, claim
            assert f"{page}#{row_id(claim)}" in front.links, claim
            assert row_id(claim) in parsed(site / "book" / page).ids, claim


def test_an_old_address_leads_to_the_line_of_its_entry(tab: Tab) -> None:
    tab.open("book/errata.html#nl-thm1")
    line = tab.page.locator("#nl-thm1")
    expect(line).to_be_visible()  # its fold is open
    line.locator("a").click()
    tab.page.wait_for_url("**/book/errata/nl.html#nl-thm1")
    assert tab.problems == []


ALLOWED = {"permissions": ["clipboard-read", "clipboard-write"]}


@pytest.mark.parametrize("tab", [ALLOWED], indirect=True)
def test_the_button_copies_the_code_of_a_certificate(tab: Tab) -> None:
    tab.open("book/errata/nl.html")
    certificate = tab.page.locator(".cl-certificate").first
    certificate.locator("summary").click()
    name = certificate.locator("a[download]").get_attribute("href").rsplit("/")[-1]
    certificate.locator(".highlight").hover()
    certificate.locator("button.copybtn").click()
    script = (_paths.root() / "data" / "certificates" / name).read_text()
    copied = "async (text) => (await navigator.clipboard.readText()).trim() === text"
    tab.page.wait_for_function(copied, arg=script.strip())
