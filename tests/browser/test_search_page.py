"""Errands: what a reader types, and the page that is wanted, among the first three."""

import re

import pytest
from browsing import Tab

pytestmark = [pytest.mark.site, pytest.mark.browser]

ERRANDS = {
    "Theorem 3": "claims/acl-thm3.html",
    '"Theorem 3"': "claims/ddn-thm3.html",
    "acl Theorem 3": "claims/acl-thm3.html",
    "is Theorem 5 of the dual-networks paper true": "claims/ddn-thm5.html",
    "Tian 2023 lemma 4": "claims/nl-lem4.html",
    "Pokle Theorem 1": "claims/ncl-thm1.html",
    "nl/thm4": "claims/nl-thm4.html",
    "Table 2 CIFAR-10": "claims/acl-tab2a.html",
    "lottery ticket": "claims/ddn-thm5.html",
    "stop-gradient": "claims/ncl-eq4.html",
    "collapse": "claims/ncl-rem10.html",
    "sticky weights": "claims/acl-thm4.html",
    "temperature": "book/glossary.html#term-temperature",
    "infinitely many bad optima": "claims/ncl-thm1.html",
    "errata": "book/errata.html",
    "notation": "book/notation.html",
    "how we judge": "book/judging.html",
    "for teachers": "book/teaching.html",
    "re-run on a GPU": "book/rerun.html",
    "contrastive learning in twenty minutes": "chapters/0-start-here.html",
    # Whole questions: no page has all of their words.
    "does SimSiam collapse without a predictor": "claims/ncl-",
    "does batch normalization help when tokens differ in length": "claims/nl-",
    "lucky nodes number needed over-parameterization": "claims/ddn-",
    "does the deep linear network always converge to PCA": "claims/acl-",
    "is Theorem 1 of the minmax paper true for all losses": "claims/acl-thm1.html",
    "does a lower temperature help in CL of sparse codes": "chapters/6-training.html",
    "why do wider nets find more features": "claims/nl-rem12.html",
    "does weight decay matter": "chapters/5-two-layer.html",
    "does a negative beta train faster": "claims/ddn-rem14.html",
    "is Lemma 11 of the nonlinearity paper correct": "claims/nl-lem11.html",
    "do hard negatives help": "claims/acl-num18.html",
    "does BatchNorm matter for BYOL": "chapters/6-warm-starts.html#what-decides",
    "do more augmentations help": "claims/acl-num19.html",
    "does SimCLR learn PCA": "claims/acl-rem3.html",
    "do I need negatives at all": "chapters/6-landscape.html",
    "are negatives needed": "chapters/6-landscape.html",
    "does depth help": "chapters/2-deep-linear-pca.html#depth-buys-a-plateau",
    "do I need a predictor": "claims/ncl-rem6.html",
    "what happens at low temperature": "book/glossary.html#term-temperature",
    "which claims are refuted": "book/errata.html",
    "which theorems are wrong": "book/errata.html",
    "which lemmas are incorrect": "book/errata.html",
    "what mistakes are in the papers": "book/errata.html",
    "how many seeds": "book/judging.html",
    "what does depends mean": "book/glossary.html#term-verdict",
    "what does contrastive covariance mean": "book/glossary.html#term-contrastive-covariance",
    "what does the temperature mean": "book/glossary.html#term-temperature",
    # What the papers do not treat.
    "is EMA covered": "book/outside.html#is-a-momentum-encoder",
    "does a momentum encoder matter": "book/outside.html#is-a-momentum-encoder",
    "do large batches help": "book/outside.html#do-large-batches-help",
    "what batch size do I need": "book/outside.html#do-large-batches-help",
    "does the projection head matter": "book/outside.html#does-the-projection-head-matter",
    "which theorem says collapse cannot happen": "book/outside.html#which-theorem",
    "are the results true for transformers": "book/outside.html#do-the-results-hold",
    "is Barlow Twins covered": "book/outside.html#which-losses",
    # What a researcher asks.
    "how many negatives does InfoNCE need": "book/outside.html#do-large-batches-help",
    "number of negative samples": "book/outside.html#do-large-batches-help",
    "is stop-gradient necessary": "book/outside.html#is-the-stop-gradient",
    "does stop-gradient matter": "book/outside.html#is-the-stop-gradient",
    "does a larger predictor help": "book/outside.html#does-a-larger-predictor",
    "does a wider network help": "book/outside.html#does-a-wider-network",
    "does weight decay prevent collapse": "book/outside.html#does-weight-decay",
    "which temperature is best": "book/outside.html#which-temperature",
    "what is the optimal temperature": "book/outside.html#which-temperature",
    "is there a generalization bound": "book/outside.html#do-the-theorems-bound",
    "do the theorems guarantee downstream accuracy": "book/outside.html#do-the-theorems-bound",
    "is the spectral contrastive loss covered": "book/outside.html#which-losses",
    "can contrastive learning learn hierarchical latent variables": "claims/ddn-rem12.html",
    "are the CIFAR-10 numbers reproduced": "claims/acl-tab2a.html",
    "supervised contrastive loss": "claims/acl-rem1.html",
    "where can I get the code": "book/rerun.html#two-commands",
    "is the theory verified on ImageNet": "claims/ddn-num3.html",
    "why does BYOL not collapse": "book/outside.html#which-theorem",
    "vicreg variance term": "book/outside.html#which-losses",
    "does this apply to CLIP image text": "book/outside.html#is-clip",
    "simsiam predictor": "claims/ncl-rem6.html",
    "infonce gradient derivation": "chapters/1-minmax.html#descending-the-loss",
    "supcon": "claims/acl-rem1.html",
    # What a reader asks of the site itself.
    "how do I run just one theorem": "book/rerun.html#one-theorem",
    "I found a mistake": "book/challenge.html#report-a-mistake",
    "license": "book/licences.html",
    "can I use the figures in my slides": "book/licences.html#use-of-text",
    "download the raw data csv": "book/rerun.html#data-and-results",
    "google colab": "book/rerun.html#on-colab",
    "which results do not reproduce": "book/index.html#where-things-stand",
    "what does corrected mean": "book/glossary.html#term-verdict",
    # A paper by what it is called: the claims of the others are left out.
    "is Theorem 1 of the dual-networks paper true for the simple contrastive loss": (
        "claims/ddn-thm1.html"
    ),
    "is Figure 3 of the nonlinearity paper reproduced": "claims/nl-num2.html",
    "Remark 2 of the nonlinearity paper": "claims/nl-rem2.html",
    "is Corollary 1 of the coordinate-wise paper true": "claims/acl-cor1.html",
    "Figure 5 of Pokle, does training without negatives work": "claims/ncl-fig5.html",
    "can I replace the softmax pair weights and still maximise an energy": "claims/acl-num22.html",
    "Tian 2022 temperature": "claims/acl-",
    "the nonlinearity paper": "claims/nl-",
    "l2 normalisation conserves weight norms": "claims/acl-lem2.html",
}


def _found(tab: Tab, query: str) -> list[str]:
    tab.page.goto(f"{tab.address}search.html")
    field = tab.page.locator("main input[type=search]:visible")
    field.fill(query)
    field.press("Enter")
    tab.page.wait_for_url("**/search.html?q=*")
    tab.page.locator("#search-count:not(:empty)").wait_for()
    links = "[...document.querySelectorAll('#search-results li > a')]"
    return tab.page.evaluate(f"{links}.map((e) => e.href)")


@pytest.mark.parametrize("query", ERRANDS)
def test_an_errand_ends_among_the_first_three(tab: Tab, query: str) -> None:
    found = [link.removeprefix(tab.address) for link in _found(tab, query)]
    assert any(link.startswith(ERRANDS[query]) for link in found[:3]), found[:6]
    text = tab.page.locator("#search-results").inner_text()
    assert "$" not in text and "\\" not in text, "raw LaTeX"
    assert tab.problems == []


def test_few_with_all_words_are_followed_by_those_with_most(tab: Tab) -> None:
    found = [link.removeprefix(tab.address) for link in _found(tab, "Corollary 2 pairwise")]
    assert "claims/acl-cor2.html" in found[:2] and len(found) >= 5
    count = tab.page.locator("#search-count").inner_text()
    assert " with all words, " in count and count.endswith(" with most of them")
    assert not any(link.startswith(("book/teaching", "book/api")) for link in found[:3])


def test_of_a_named_paper_no_other_paper_answers(tab: Tab) -> None:
    found = [link.removeprefix(tab.address) for link in _found(tab, "Lemma 3 dual networks paper")]
    assert found[0] == "claims/ddn-lem3.html"
    assert not any(link.startswith(("claims/acl", "claims/nl", "claims/ncl")) for link in found)
    found = _found(tab, "Lemma 3 of the dual networks paper and of the nonlinearity paper")
    assert {"ddn-lem3", "nl-lem3"} <= {link.rpartition("/")[2].split(".")[0] for link in found}


def test_a_place_that_a_paper_has_not_is_said_to_be_absent(tab: Tab) -> None:
    assert _found(tab, "Table 3 of the min-max paper, setting alpha directly")
    count = tab.page.locator("#search-count").inner_text()
    assert count.startswith("Tian 2022 has no Table 3 in the ledger. ")


def test_what_is_nowhere_is_said_to_be(tab: Tab) -> None:
    assert _found(tab, "zyxwvut") == []
    assert "Nothing found for zyxwvut" in tab.page.locator("#search-count").inner_text()


def test_a_slip_of_the_keys_is_read_as_the_word_that_is_near(tab: Tab) -> None:
    for typed, meant in {
        "colapse": "collapse",
        "gradeint": "gradient",
        "momentem": "momentum",
    }.items():
        assert _found(tab, typed) == _found(tab, meant) != []
        _found(tab, typed)
        said = tab.page.locator("#search-count").inner_text()
        assert said.startswith(f"Nothing has {typed}; searched for {meant}. ")
    _found(tab, "negative mining")
    assert "searched for" not in tab.page.locator("#search-count").inner_text()


def test_the_search_of_every_page_leads_here(tab: Tab) -> None:
    tab.open("claims/acl-thm1.html")
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("sticky weights")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/search.html?q=sticky+weights")
    tab.page.locator("#search-results li").first.wait_for()
    assert tab.problems == []


def test_the_ledgers_box_finds_what_the_search_finds(tab: Tab) -> None:
    for query in ("lottery ticket", '"Theorem 3"'):
        tab.open("book/ledger.html")
        tab.page.locator(".cl-filters").get_by_label("Words").fill(query)
        tab.page.locator(".cl-filters[data-searched]").wait_for()
        shown = "[...document.querySelectorAll('.cl-claim')].filter((e) => e.checkVisibility())"
        rows = tab.page.evaluate(f"{shown}.map((e) => e.dataset.id)")
        found = tab.page.evaluate("(q) => clFind(q)", query)
        assert rows == [entry["id"] for entry in found if entry["kind"] == "claim"] != []
    assert {"acl/thm3", "ddn/thm3", "nl/thm3", "ncl/thm3"} <= {*rows} and len(rows) < 40
    tab.page.locator(".cl-filters").get_by_label("Words").fill("")
    assert tab.page.evaluate(f"{shown}.map((e) => e.dataset.id)")[:2] == ["acl/eq1", "acl/eq2"]


def test_of_a_question_the_ledgers_box_shows_the_nearest_claims(tab: Tab) -> None:
    tab.open("book/ledger.html")
    form = tab.page.locator(".cl-filters")
    form.get_by_label("Words").fill("non-contrastive loss has spurious minima?")
    tab.page.locator(".cl-filters[data-searched]").wait_for()
    told = form.get_by_role("status").inner_text()
    assert re.fullmatch(
        r"No claim has all these words; the nearest: ([1-9]|10) of \d+ claims", told
    )
    assert tab.page.locator("#ncl-thm1").is_visible()
    form.get_by_label("Words").fill("zyxwvut")
    tab.page.locator(".cl-filters[data-searched=zyxwvut]").wait_for()
    assert form.get_by_role("status").inner_text().startswith("0 of ")


def test_the_glass_stands_before_the_words(tab: Tab) -> None:
    tab.open("search.html?q=temperature")
    glass, words = tab.page.evaluate(
        """() => {
          const form = document.querySelector("main .bd-search");
          const input = form.querySelector("input");
          const inside = parseFloat(getComputedStyle(input).paddingLeft);
          const glass = form.querySelector("svg").getBoundingClientRect().right;
          return [glass, input.getBoundingClientRect().left + inside];
        }"""
    )
    assert glass < words
