"""The worked examples of book/library.md and book/rerun.md, run as they stand: what they print is
what the page says."""

import contextlib
import io
import re

import pytest

from clcore import _paths

TEXT = (_paths.root() / "book" / "library.md").read_text()
SECTIONS = {part.split("\n")[0]: part for part in TEXT.split("\n## ")[1:]}
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)


def printed(code: str, names: dict) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "book/library.md", "exec"), names)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_there_are_three_with_results():
    assert len(SECTIONS) == 3
    for part in SECTIONS.values():
        blocks = BLOCK.findall(part)
        assert blocks and all("print(" in code and said for code, said in blocks)
        assert len(blocks) == part.count("```python") == part.count("```text")


@pytest.mark.parametrize("title", SECTIONS)
def test_an_example_prints_what_the_page_says(title, one_thread):
    names: dict = {}
    for code, said in BLOCK.findall(SECTIONS[title]):
        wanted = "\n".join(line.rstrip() for line in said.splitlines())
        assert printed(code, names) == wanted


def test_the_ledger_from_python_prints_what_the_page_says(one_thread):
    page = (_paths.root() / "book" / "rerun.md").read_text()
    ((code, said),) = BLOCK.findall(page)
    assert printed(code, {}) == said.rstrip("\n")


def test_another_number_would_be_seen():
    assert printed("print(2, '')", {}) == "2"
    assert printed("print(3)", {}) != "2"
