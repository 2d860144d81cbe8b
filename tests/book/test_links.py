"""Ids of claims on the pages: which become links to the ledger, and what their cards say."""

import json
import re

import pytest
from docutils import nodes
from docutils.utils import new_document

from clcore import ledger
from clcore.book.site import links, terms
from clcore.ledger.html import place, row_id

CARDS = {
    row_id(i): {"id": i, "place": "p", "title": f"What {i} <says>", "verdict": "holds"}
    for i in ("ncl/thm1", "ncl/thm1a", "ncl/thm1a-max")
}
KEYS = {card["id"]: key for key, card in CARDS.items()}


def page(*inside: nodes.Node) -> nodes.document:
    document = new_document("page")
    document += inside
    return document


def code(text: str) -> nodes.literal:
    return nodes.literal(text, text)


def linked(document: nodes.document) -> list[tuple[str, str]]:
    links.link_literals(document, KEYS, "../book/ledger.html")
    return [(link["refuri"], link.astext()) for link in document.findall(nodes.reference)]


@pytest.mark.parametrize("claim", KEYS)
def test_an_id_in_prose_becomes_a_link_to_its_own_row(claim):
    document = page(nodes.paragraph("", "See ", code(claim), nodes.Text(".")))
    assert linked(document) == [(f"../book/ledger.html#{row_id(claim)}", claim)]
    assert document.astext() == f"See {claim}."


@pytest.mark.parametrize("text", ["ncl/thm9", "ncl/thm1a-", "where ncl/thm1", "ncl", "xncl/thm1"])
def test_other_code_is_left_alone(text):
    assert linked(page(nodes.paragraph("", "", code(text)))) == []


def test_blocks_of_code_and_bare_words_are_left_alone():
    block = nodes.literal_block("ncl/thm1", "ncl/thm1")
    assert linked(page(block, nodes.paragraph("ncl/thm1", "ncl/thm1"))) == []


def test_headings_and_links_are_left_alone():
    link = nodes.reference("", "", code("ncl/thm1"), refuri="other.html")
    title = nodes.title("", "", code("ncl/thm1a"))
    document = page(nodes.section("", title, nodes.paragraph("", "", link)))
    assert linked(document) == [("other.html", "ncl/thm1")]


def shown(html: str) -> dict:
    found = re.search(r'<script type="application/json" id="cl-cards">(.*?)</script>', html, re.S)
    return json.loads(found[1])


@pytest.mark.parametrize("key", CARDS)
def test_a_link_gets_its_title_and_the_page_its_card(key):
    claim = CARDS[key]["id"]
    html = links.marked(f'<p><a class="x" href="ledger.html#{key}">{claim}</a></p>', CARDS)
    assert f'<a data-claim="{key}" class="x" href="ledger.html#{key}">{claim}<span' in html
    assert f'<span class="cl-hidden">: What {claim} &lt;says&gt;</span></a></p>' in html
    assert shown(html) == {key: CARDS[key]}


def test_the_title_of_code_that_became_a_link():
    link = '<a href="#"></a><a href="ledger.html#ncl-thm1"><code><span>ncl/thm1</span></code></a>'
    html = links.marked(link, CARDS)
    assert html.startswith('<a href="#"></a><a data-claim="ncl-thm1"')
    assert "What ncl/thm1 &lt;says&gt;" in html.split("<script")[0]


def test_a_title_in_sight_is_not_said_twice():
    link = '<a href="ledger.html#ncl-thm1">ncl/thm1</a>\n<div class="cl-title">'
    html = links.marked(f"{link}T</div>", CARDS).split("<script")[0]
    assert 'data-claim="ncl-thm1"' in html and "cl-hidden" not in html


@pytest.mark.parametrize(
    "body",
    [
        "<p>ncl/thm1</p>",
        '<a href="ledger.html#ncl-thm9">x</a>',
        '<a href="ledger.html?paper=ncl#claims">x</a>',
        '<pre>a href="ledger.html#ncl-thm1"</pre>',
    ],
)
def test_a_page_without_links_to_claims_stays_as_it_is(body):
    assert links.marked(body, CARDS) == body


def test_what_a_card_says(tmp_path):
    row = ledger.claim("acl/thm3") | {"verdict": "todo"}
    links.write_cards([row], tmp_path)
    found = json.loads((tmp_path / links.CARDS).read_text())
    (key, card), *words = found.items()
    assert key == "acl-thm3" and dict(words) == terms.cards()
    assert card["place"] == "Tian 2022, Theorem 3" and card["title"] == row["title"]
    assert card["verdict"] == "not yet checked"


def test_a_statement_is_cut_between_formulas():
    assert links.opening("Let $x$\nbe $$y$$.") == r"Let \(x\) be \(y\)."
    assert links.opening("four words and more", 12) == "four words …"
    assert links.opening(f"See ${'x' * 300}$ there") == "See …"
    assert links.opening(r"\alpha without dollars") == ""
    for row in ledger.claims().values():
        said = links.opening(row["statement"])
        assert len(said) < 330 and "$" not in said
        assert said.count(r"\(") == said.count(r"\)")


def test_every_claim_has_a_place():
    places = {place(row) for row in ledger.claims().values()}
    assert place(ledger.claim("nl/eq101")) == "Tian 2023, Eq. (PI)"
    assert all(len(p) < 80 and p.count("(") == p.count(")") for p in places)
