"""The table of contents: order, depth, and what is said of a damaged one."""

import json

import pytest

from clcore import _paths
from clcore.book import contents


@pytest.fixture
def toc(tmp_path, monkeypatch):
    """Write a table of contents into an empty project."""
    monkeypatch.setattr(_paths, "root", lambda: tmp_path)

    def write(content: bytes) -> None:
        (tmp_path / "_toc.yml").write_bytes(content)

    return write


def test_pages_come_in_order_from_any_depth(toc):
    parts = [
        {"chapters": [{"file": "chapters/a.ipynb"}, {"file": "book/b.md"}]},
        {"chapters": [{"file": "book/c", "sections": [{"file": "chapters/d"}]}, {"url": "x"}]},
    ]
    toc(json.dumps({"format": "jb-book", "root": "book/index", "parts": parts}).encode())
    assert contents.pages() == ["book/index", "chapters/a", "book/b", "book/c", "chapters/d"]
    assert contents.chapters() == ["a", "d"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "at top: None is not of type 'object'"),
        (b"- a\n", "at top: .* is not of type 'object'"),
        (b"format: jb-book\n", "'root' is a required property"),
        (b"format: jb-book\nroot: a\nchapters: x\n", "at chapters: 'x' is not of type 'array'"),
        (b"format: jb-book\nroot: a\n\t- x\n", "is not valid YAML: .*line 3"),
        (b"format: jb-book\nroot: \xe9\n", "is not valid YAML: .*utf-8"),
        (b"format: jb-book\nroot: a\nroot: b\n", "duplicate key 'root'"),
    ],
)
def test_a_damaged_table_is_named(toc, content, told):
    toc(content)
    with pytest.raises(contents.ContentsError, match=rf"_toc\.yml.*{told}"):
        contents.pages()
