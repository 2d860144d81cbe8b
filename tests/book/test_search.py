"""The index of the search: plain words, every claim by place and by what readers call it."""

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from made_rows import check, row, wrong

from clcore import _paths, ledger
from clcore.book.site import errata, search, terms


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"at $\tau=0.5$ and $\epsilon$", "at τ=0.5 and ε"),
        (r"$\frac{1}{2}$ of $\tfrac12$", "1/2 of 1/2"),
        (r"$\mathcal L_{nce}$ falls", "Lnce falls"),
        (r"$p_0p_1$ before $\mathrm{diag}^2(\Delta)$", "p₀p₁ before diag²(Δ)"),
        (r"$\rho_{0\mu}^2$, $N^{-1/2}$, $m^*$", "ρ0μ², N^(-1/2), m*"),
        (r"$(1,\dots,a)$, $w^\top\mathbb V[\tilde x]w$, $\max_kd_k$", "(1,…,a), wᵀV[x̃]w, max k dk"),
        (r"$2\,\mathbb E[\|\hat y\|^2]$", "2E[‖ŷ‖²]"),
        (r"$\{v_l\}_{l=0}^L$, $\tau\in\{1,2\}$", "{vl}l=0^L, τ∈{1,2}"),
        (r"$\overbrace{x}$ falls", "… falls"),
        (r"$a\le b$,  `code`" + "\n" + r"$$w_k^\top x$$", "a≤b, code wkᵀx"),
        (r"$\log x$", "log x"),
        (r"$\frac{\log d}{d}$, $\lambda_{\max}(X)$, $\exp(x)$", "(log d)/d, λmax(X), exp(x)"),
        (r"$\log\frac{1}{1+A^-/A^+}$", "log 1/(1+A⁻/A⁺)"),
    ],
)
def test_formulas_become_letters_or_dots(text, shown):
    assert search.plain(text) == shown


def test_no_entry_of_a_claim_shows_latex():
    for claim, printed in ledger.claims().items():
        about = {"id": claim, "paper": printed["paper"], "kind": printed["kind"]}
        about |= {n: printed[n] for n in ("where", "title", "statement", "conditions")}
        entry = search.of_claim(row(**about))
        for name in ("place", "title", "says", "text"):
            assert "$" not in entry[name] and "\\" not in entry[name], (claim, name)
        assert entry["place"].startswith(ledger.papers()[printed["paper"]]["cite"])


def test_a_claim_is_found_by_what_its_checks_say_and_by_other_words_for_it():
    checks = [check(note="A sticky weight", counterexample="$N$")]
    entry = search.of_claim(wrong(title="Lucky nodes") | {"checks": checks})
    assert "A sticky weight N" in entry["text"] and entry["address"] == "claims/acl-thm1.html"
    assert "lottery ticket" in entry["also"] and entry["verdict"] == "corrected"
    assert "lottery ticket" not in search.of_claim(row())["also"]


def test_a_paper_is_called_by_names_that_no_other_has():
    called = search.names()
    assert list(called) == list(ledger.papers())
    assert "Pokle" in called["ncl"] and "Tian" not in called["acl"] + called["nl"]
    assert {"ddn", "Tian et al. 2020", "Tian 2020"} <= set(called["ddn"])
    names = [name for of in called.values() for name in of]
    assert len(names) == len(set(names))


def test_what_readers_call_a_thing_stands_somewhere_in_the_claims_or_the_book():
    texts = [f"{r['title']} {r['statement']}" for r in ledger.claims().values()]
    texts += [f"{term} {e['says']}" for of in terms.known().values() for term, e in of.items()]
    texts += [p.read_text(encoding="utf-8") for p in (_paths.root() / "book").glob("*.md")]
    texts.append(errata.files([row(), wrong(id="acl/eq2")])["errata.md"])
    text = " ".join(" ".join(texts).lower().split())
    for said, forms in search.synonyms().items():
        assert [form for form in forms if form.lower() not in text] == [], said


PAGE = """
Title
=====

First words.

.. raw:: html

   <p>raw</p>

Part
----

Of a :math:`x^2` part::

    code
"""


def test_a_page_has_an_entry_for_each_section_of_its_own_words():
    doctree = publish_doctree(PAGE, settings_overrides={"doctitle_xform": False})
    assert list(doctree.findall(nodes.section))
    whole, part = search.of_page("book/x", doctree)
    assert (whole["kind"], whole["address"], whole["title"]) == ("page", "book/x.html", "Title")
    assert whole["text"] == "First words."
    assert (part["kind"], part["address"]) == ("section", "book/x.html#part")
    assert part["text"] == "Of a … part:" and part["place"] == "Title"
    assert part["says"] == "Of a x² part:"
