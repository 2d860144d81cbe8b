"""Captions of the tables of a chapter: said in a cell's metadata, put on what it shows."""

from clcore.book.build import captions, shown

FRAME = '<div><table border="1" class="dataframe">\n<tr><td>1</td></tr></table></div>'
STYLED = '<style></style><table id="T_a1b2">\n<tr><td>1</td></tr></table>'
OWN = '<table class="cl-check"><caption>Checks</caption><tr><td>1</td></tr></table>'
ROWS = "| a | b |\n|---|---|\n| 1 | 2 |\n"


def code(*tables: str, **metadata) -> dict:
    outputs = [{"output_type": "display_data", "data": {"text/html": t}} for t in tables]
    return {"cell_type": "code", "metadata": metadata, "source": "", "outputs": outputs}


def text(source: str, **metadata) -> dict:
    return {"cell_type": "markdown", "metadata": metadata, "source": source.splitlines(True)}


def found(cell: dict) -> list[str]:
    captions.add(cell)
    return [output["data"]["text/html"] for output in cell["outputs"]]


def test_each_table_has_its_own_and_the_last_is_for_all_that_follow():
    said = {"captions": ["First & <only>.", "The rest."]}
    one, two, own, three = found(code(FRAME, STYLED, OWN, STYLED, clcore=said))
    assert 'class="dataframe"><caption>First &amp; &lt;only&gt;.</caption>' in one
    assert two.count("<caption>The rest.</caption>") == 1 == three.count("The rest.")
    assert own == OWN


def test_without_words_an_output_stays_as_it_is():
    assert found(code(FRAME, STYLED)) == [FRAME, STYLED]


def test_a_table_of_the_text_gets_a_title():
    cell = text(f"Before.\n\n{ROWS}\nAfter.", clcore={"captions": ["What $a$ is."]})
    captions.add(cell)
    assert cell["source"] == f"Before.\n\n```{{table}} What $a$ is.\n{ROWS}```\n\nAfter."


def test_a_protocol_needs_no_words():
    cell = text("## Protocol\n\n| item | value | source |\n|---|---|---|\n| τ | 0.5 | paper |")
    captions.add(cell)
    assert f"```{{table}} {captions.PROTOCOL}\n| item" in cell["source"]
    plain = text(ROWS)
    captions.add(plain)
    assert plain["source"] == ROWS


def test_the_page_of_a_chapter_has_them_and_no_script_of_notebooks():
    slider = '<div class="cl-explore"></div>\n<script data-notebook>\nlet a = "</b>";</script>\n'
    book = {"cells": [code(FRAME, slider, clcore={"captions": ["A table."]})]}
    page = shown._as_shown(book, text(""), [])
    table, figure = (o["data"]["text/html"] for o in page["cells"][0]["outputs"])
    assert "<caption>A table.</caption>" in table
    assert figure == '<div class="cl-explore"></div>\n'
