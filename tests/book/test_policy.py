"""The content security policy of a page: which of its scripts it names."""

import base64
import hashlib

import pytest

from clcore.book.site import policy


def named(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


PAGE = (
    '<html><head><meta charset="utf-8"><script>own()</script></head><body>'
    '<script>other()</script><script type="application/json">{}</script>%s</body></html>'
)


def test_scripts_of_the_head_are_named_and_those_of_the_content_are_not():
    said = policy.policy(PAGE % "", "page.html")
    assert named("own()") in said
    assert named("other()") not in said and named("{}") not in said
    assert "'unsafe-inline'" not in said.partition("style-src")[0] and "unsafe-eval" not in said
    assert "default-src 'none'" in said and "://" not in said


def test_the_search_page_and_slides_have_scripts_of_their_makers_in_the_body():
    assert named("other()") in policy.policy(PAGE % "", "search.html")
    assert named("other()") not in policy.policy(PAGE % "", "chapters/search.html")
    reveal = '<script src="_static/revealjs/dist/reveal.js"></script>'
    page = PAGE % f"{reveal}<script>between()</script>{reveal}<script>begin()</script>"
    said = policy.policy(page, "deck.html", ["speaker()"], slides=True)
    assert named("begin()") in said and named("speaker()") in said
    assert named("other()") not in said and named("between()") not in said
    assert "frame-src 'self'" in said
    book = policy.policy(page, "deck.html")  # the same tags in the content of a page of the book
    assert named("begin()") not in book and "frame-src 'none'" in book


@pytest.mark.parametrize(
    "content",
    [
        "<p title='</head>'><script>evil()</script></p>",
        "<!-- <head> --><script>evil()</script>",
        "</body></html><head><script>evil()</script></head>",
        "<textarea><script>evil()</script></textarea><script>evil()</script>",
        "<SCRIPT >evil()</SCRIPT >",
    ],
)
def test_what_looks_like_the_theme_in_a_content_is_not_named(content):
    assert named("evil()") not in policy.policy(PAGE % content, "page.html")


def test_a_script_of_the_head_is_whole_whatever_it_says():
    code = 'a = "</he" + "ad>"; b = "<meta charset=x> <!-- </head> <body>"'
    page = f'<html><head><title>&lt;meta charset=y&gt;</title><meta charset="utf-8"><script>{code}'
    said = policy.policy(f"{page}</script></head><body></body></html>", "page.html")
    assert named(code) in said


def test_it_is_written_behind_the_charset_of_every_page(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.html").write_text(PAGE % "")
    policy.apply(tmp_path)
    text = (tmp_path / "a" / "b.html").read_text()
    begin = '<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src'
    assert begin in text and text.index("Content-Security") < text.index("<script")
    (tmp_path / "c.html").write_text("<html></html>")
    with pytest.raises(ValueError, match=r"c\.html: expected <meta charset"):
        policy.apply(tmp_path)
