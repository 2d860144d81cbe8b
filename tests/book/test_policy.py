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
    slides = '<script src="_static/revealjs/dist/reveal.js"></script><script>begin()</script>'
    said = policy.policy(PAGE % slides, "deck.html", ["speaker()"])
    assert named("begin()") in said and named("speaker()") in said
    assert named("other()") not in said


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
