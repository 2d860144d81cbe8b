"""Proofs that a reader runs on the pages of claims, in a real browser."""

from pathlib import Path

import programs
import pytest
from browsing import Tab
from playwright.sync_api import expect
from programs import MINUTES
from site_pages import LOOKS, accessible

from clcore.book.proofs import recorded
from clcore.ledger.html import row_id

pytestmark = [pytest.mark.site, pytest.mark.browser, pytest.mark.usefixtures("python")]

PAGE = "claims/acl-eq27.html"
KINDS = ("acl/lem5", "ddn/eq126", "nl/num1", "nl/thm1", "nl/rem24", "ncl/eq20", "ncl/thm2-mom")
"""Identities, intervals, a counterexample; short and long."""
KEPT = recorded.known()
SIXTY = list(dict.fromkeys([*KINDS, *sorted(KEPT, key=lambda claim: KEPT[claim]["seconds"])]))[:60]
"""Those and the shortest."""


def test_at_least_sixty_claims_offer_their_proof(site: Path) -> None:
    pages = [site / "claims" / f"{row_id(claim)}.html" for claim in KEPT]
    offered = [page for page in pages if '<details id="proof">' in page.read_text()]
    assert len(offered) >= 60
    assert all((site / "proofs" / f"{page.stem}.py").is_file() for page in offered)


def test_sixty_proofs_print_there_what_they_print_here(tab: Tab, site: Path) -> None:
    tab.open(PAGE)
    files = [site / "proofs" / f"{row_id(claim)}.py" for claim in SIXTY]
    texts = [(file.name, file.read_text()) for file in files]
    found = programs.run(tab, texts, "../proofs/exact.py")
    assert found == [[KEPT[claim]["prints"], ""] for claim in SIXTY]
    assert tab.problems == []


def test_a_reader_proves_it_and_sees_what_a_changed_sign_does(tab: Tab) -> None:
    tab.open(f"{PAGE}#proof")
    page, box = tab.page, tab.page.locator("#proof")
    expect(box.locator("summary")).to_contain_text("Prove it here, in a second or less")
    box.get_by_role("button", name="Prove it here").click()
    status = box.locator(".cl-run-status")
    expect(status).to_contain_text("as recorded", timeout=MINUTES)
    source = box.locator(".cl-run-source")
    before = source.input_value()
    changed = before.replace(
        "batch.inter(i, j) - batch.intra(i)", "batch.inter(i, j) + batch.intra(i)"
    )
    assert changed != before
    source.fill(changed)
    box.get_by_role("button", name="Run", exact=True).click()
    expect(status).to_contain_text("of your version is not as recorded", timeout=MINUTES)
    expect(box.locator(".cl-run-output")).to_contain_text("NOT SHOWN")
    assert page.evaluate("1 + 1") == 2 and tab.problems == []


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
def test_an_open_proof_is_accessible_and_fits(tab: Tab) -> None:
    tab.open(f"{PAGE}#proof")
    tab.page.locator("#proof .cl-run-start").click()
    status = tab.page.locator("#proof .cl-run-status")
    expect(status).to_contain_text("as recorded", timeout=MINUTES)
    assert tab.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    accessible(tab, PAGE)
