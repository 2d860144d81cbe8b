"""The glossary: its page, its links, its cards."""

import pytest
from docutils import nodes
from docutils.utils import new_document

from clcore.book.site import terms


def linked(*inside: nodes.Node) -> list[tuple[str, str]]:
    document = new_document("page")
    document += inside
    text = document.astext()
    terms.link_terms(document, "g.html")
    assert document.astext() == text
    return [
        (r.astext(), r["refuri"])
        for r in document.findall(nodes.reference)
        if "cl-term" in r["classes"]
    ]


def test_the_first_use_of_a_word_is_linked_and_only_that():
    one = nodes.paragraph("", "Two Views, and views of a lucky node; LMEs. A view.")
    assert linked(one, nodes.paragraph("", "More views.")) == [
        ("Views", "g.html#term-view"),
        ("lucky node", "g.html#term-lucky-node"),
        ("LMEs", "g.html#term-locally-maximal-eigenvector"),
    ]


@pytest.mark.parametrize("text", ["overview", "re-view", "reviews", "viewer"])
def test_parts_of_words_are_not(text):
    assert linked(nodes.paragraph("", text)) == []


def test_headings_links_code_and_formulas_are_left_alone():
    inside = [
        nodes.title("", "A view"),
        nodes.literal("", "view"),
        nodes.literal_block("", "view"),
        nodes.reference("", "view", refuri="x"),
        nodes.math("", "view"),
    ]
    assert linked(nodes.section("", inside[0], nodes.paragraph("", "", *inside[1:]))) == []


def test_what_opens_a_fold_has_no_link():
    opens = nodes.TextElement("", "Every view", classes=["sd-summary-title", "sd-card-header"])
    fold = nodes.container("", opens, nodes.paragraph("", "A view."))
    assert linked(fold) == [("view", "g.html#term-view")]
    assert not [*opens.findall(nodes.reference)]


def test_every_term_has_a_card_and_a_line_on_the_page():
    cards, page = terms.cards(), terms.page()
    every = [term for section in terms.known().values() for term in section]
    assert len(every) > 50 and len(cards) == len(every)
    for term in every:
        assert f"\n{term}\n  " in page and cards[terms.key(term)]["title"] == term
    assert "$" not in "".join(card["statement"] for card in cards.values())


def test_a_form_of_two_terms_is_refused(monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "glossary.yaml"
    says = "says: long enough"
    path.write_text(f"A:\n  view: {{forms: [crop], {says}}}\n  cut: {{forms: [Crop], {says}}}\n")
    monkeypatch.setattr(terms._paths, "root", lambda: tmp_path)
    terms.known.cache_clear()
    with pytest.raises(terms.GlossaryError, match="'Crop' is a form of both view and cut"):
        terms.known()
    path.write_text("A:\n  view: {says: 'long enough'}\n")
    with pytest.raises(terms.GlossaryError, match="forms"):
        terms.known()
    terms.known.cache_clear()


def test_ids_keep_capitals_as_sphinx_does():
    assert terms.key("NT-Xent") == "term-NT-Xent"
    assert terms.key("symmetric ReLU") == "term-symmetric-ReLU"
