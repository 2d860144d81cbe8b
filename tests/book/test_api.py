"""Docstrings, plain prose as they are, on the pages of the interface."""

import pytest
from docutils.core import publish_doctree
from docutils.utils import Reporter

from clcore.book import api

PROSE = "|z[i] - z[j]|^2 / 2, r_+ and x_ of *b; `*b n d`, `a_`. Errors: tau <= 0, n * m < 2."


def rendered(text: str) -> str:
    """The text of a document; anything that docutils complains of is an error."""
    settings = {"halt_level": Reporter.INFO_LEVEL, "report_level": Reporter.SEVERE_LEVEL}
    return publish_doctree(text, settings_overrides=settings).astext()


def test_prose_means_itself():
    wanted = PROSE.replace("`", "").replace(" Errors:", "\n\nErrors:")
    assert rendered(api.restructured(PROSE)) == wanted
    with pytest.raises(Exception, match=r"substitution|Unknown target"):
        rendered(PROSE)


def test_code_is_code_and_errors_are_a_paragraph():
    found = api.restructured("`x_i` of *b.\nErrors: none.")
    assert found == "``x_i`` of \\*b.\n\n\n**Errors:** none."


def test_examples_stay_as_they_are():
    examples = "\nExamples:\n    >>> f(*x) | `y`\n"
    assert api.restructured("A |b|.\n" + examples) == "A \\|b\\|.\n" + examples


def test_lines_are_changed_in_place():
    lines = ["a *b", "", "Examples:", "    >>> 2 * 3"]
    api.process(None, "function", "f", None, None, lines)
    assert lines == ["a \\*b", "", "Examples:", "    >>> 2 * 3"]
