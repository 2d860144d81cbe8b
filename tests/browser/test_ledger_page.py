"""The ledger in a real browser: filters, addresses, keyboard, formulas, no scripts."""

import pytest
from conftest import Tab

from clcore import ledger
from clcore.ledger import map as claim_map

pytestmark = [pytest.mark.site, pytest.mark.browser]

SHOWN = "[...document.querySelectorAll('.cl-claim')].filter((e) => e.checkVisibility())"


def _shown(tab: Tab, field: str) -> list[str]:
    return tab.page.evaluate(f"{SHOWN}.map((e) => e.dataset.{field})")


def test_ledger_filters_and_keeps_them_in_the_address(tab: Tab) -> None:
    tab.open("book/ledger.html")
    everything = len(_shown(tab, "paper"))
    assert everything == len(ledger.claims())
    form = tab.page.locator(".cl-filters")

    form.get_by_label("Paper").select_option("ddn")
    assert set(_shown(tab, "paper")) == {"ddn"}
    form.get_by_label("Kind").select_option("theorem")
    assert set(_shown(tab, "kind")) == {"theorem"}
    count = len(_shown(tab, "kind"))
    assert form.get_by_role("status").inner_text() == f"{count} of {everything} claims"
    assert tab.page.url.endswith("?paper=ddn&kind=theorem")

    tab.page.reload()
    tab.page.wait_for_load_state("networkidle")
    assert len(_shown(tab, "kind")) == count
    assert form.get_by_label("Paper").input_value() == "ddn"

    form.get_by_label("Words").fill("no such words anywhere")
    assert _shown(tab, "paper") == []
    form.get_by_role("button", name="Show all").click()
    tab.page.wait_for_function("!location.search")
    assert len(_shown(tab, "paper")) == everything
    assert tab.problems == []


def test_ledger_finds_words_of_a_statement(tab: Tab) -> None:
    tab.open("book/ledger.html?q=sticky+weight")
    text = tab.page.evaluate(f"{SHOWN}.map((e) => e.textContent.toLowerCase())")
    assert 0 < len(text) < 50
    assert all("sticky" in t and "weight" in t for t in text)


def test_ledger_ignores_a_value_that_does_not_exist(tab: Tab) -> None:
    tab.open("book/ledger.html?verdict=nonsense")
    assert len(_shown(tab, "paper")) == len(ledger.claims())
    assert tab.problems == []


def test_a_link_to_a_claim_opens_and_typesets_it(tab: Tab) -> None:
    tab.open("book/ledger.html?paper=ncl#acl-thm1")
    claim = tab.page.locator("#acl-thm1")
    claim.wait_for(state="visible")
    formulas = tab.page.locator(".cl-claim:has(#acl-thm1) details mjx-container")
    formulas.first.wait_for()
    assert tab.page.locator(".cl-claim details mjx-merror").count() == 0
    assert claim.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")
    assert tab.problems == []


def test_the_ledger_shows_what_a_claim_rests_on(tab: Tab) -> None:
    tab.open("book/ledger.html?below=nl/thm1")
    wanted = claim_map.below("nl/thm1") | {"nl/thm1"}
    assert set(_shown(tab, "id")) == wanted
    form = tab.page.locator(".cl-filters")
    told = f"{len(wanted)} of {len(ledger.claims())} claims: nl/thm1 and what it rests on"
    assert form.get_by_role("status").inner_text() == told
    tab.page.locator("#nl-thm1 + tr summary").click()
    tab.page.locator("#nl-thm1 + tr .cl-near a", has_text="at any distance: used by").click()
    tab.page.wait_for_url("**?above=nl/thm1#claims")
    tab.page.locator("#nl-thm1").wait_for()
    assert set(_shown(tab, "id")) == claim_map.above("nl/thm1") | {"nl/thm1"}
    form.get_by_role("button", name="Show all").click()
    tab.page.wait_for_function("!location.search")
    assert len(_shown(tab, "id")) == len(ledger.claims())
    assert tab.problems == []


def test_ledger_by_keyboard(tab: Tab) -> None:
    tab.open("book/ledger.html")
    tab.page.locator(".cl-filters").get_by_label("Paper").focus()
    tab.page.keyboard.press("ArrowDown")
    assert set(_shown(tab, "paper")) == {"acl"}
    tab.page.locator("#acl-eq1 + tr summary").focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("#acl-eq1 + tr mjx-container").first.wait_for()


# MathJax parses every formula that an opened statement would show, without laying it out.
UNREADABLE = r"""
async () => {
  await MathJax.startup.promise;
  const wrong = [], seen = new Set();
  for (const claim of document.querySelectorAll('.cl-claim')) {
    for (const [, inline, block] of claim.textContent.matchAll(/\\\((.*?)\\\)|\\\[(.*?)\\\]/gs)) {
      const tex = inline ?? block;
      if (seen.has(tex)) continue;
      seen.add(tex);
      const mathml = await MathJax.tex2mmlPromise(tex);
      if (/<merror|mathcolor="red"/.test(mathml)) wrong.push([claim.querySelector('tr').id, tex]);
    }
  }
  return [seen.size, wrong];
}
"""


def test_every_statement_can_be_typeset(tab: Tab) -> None:
    tab.open("book/ledger.html")
    for broken in (r"\\frac{a", r"\\nosuchmacro"):
        mathml = tab.page.evaluate(f"MathJax.tex2mmlPromise('{broken}')")
        assert "<merror" in mathml or 'mathcolor="red"' in mathml
    formulas, wrong = tab.page.evaluate(UNREADABLE)
    assert formulas > 2000
    assert wrong == []


def test_opened_statements_fit_a_phone(tab: Tab) -> None:
    tab.open("book/ledger.html?paper=acl&kind=theorem")
    opened = "[...document.querySelectorAll('.cl-claim:not([hidden]) details')]"
    tab.page.evaluate(f"{opened}.forEach((e) => e.open = true)")
    tab.page.wait_for_function(f"{opened}.every((e) => e.dataset.typeset === 'done')")
    tab.resize(390)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_ledger_without_scripts_shows_everything(tab: Tab) -> None:
    tab.page.goto(tab.address + "book/ledger.html?paper=acl")
    assert tab.page.locator(".cl-claim").count() == len(ledger.claims())
    assert tab.page.locator("#ncl-eq1").is_visible()
    assert not tab.page.locator(".cl-filters").is_visible()
