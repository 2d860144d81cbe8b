"""Docstrings, plain prose as they are, on the pages of the interface."""

import inspect
import re
from importlib import import_module
from types import SimpleNamespace

import pytest
from docutils.core import publish_doctree
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from docutils.utils import Reporter, new_document
from sphinx.ext import autosummary

from clcore import _paths
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


# -------------------------------------------------------------------------------------- summaries

CUT = re.compile(r"\b(Eqs?|Secs?|Figs?|Thms?|App|Lem|al|e\.g|i\.e)\.$")


@pytest.fixture
def hooked(monkeypatch):
    """The extension, set up as Sphinx does, and undone."""
    monkeypatch.setattr(autosummary, "WELL_KNOWN_ABBREVIATIONS", ("et al.", "e.g.", "i.e."))
    api.setup(SimpleNamespace(connect=lambda *args, **settings: None))


def summary(text: str) -> str:
    document = new_document("", get_default_settings(Parser()))
    return autosummary.extract_summary(api.restructured(text).split("\n"), document)


def summarised() -> dict[str, str]:
    """Of every name in a table of summaries on the pages of the interface, its docstring."""
    found = {}
    for page in (_paths.root() / "book" / "api").glob("*.md"):
        text = page.read_text()
        for room, names in re.findall(
            r"currentmodule:: (\S+)\n\n\.\. autosummary::\n   :nosignatures:\n\n((?:   \w+\n)+)",
            text,
        ):
            for name in names.split():
                found[f"{room}.{name}"] = getattr(import_module(room), name).__doc__
    return found


def test_summaries_are_whole_sentences(hooked):
    docs = summarised()
    pages = [page.read_text() for page in (_paths.root() / "book" / "api").glob("*.md")]
    assert len(docs) > 75 and sum(page.count("autosummary::") for page in pages) == 16
    for name, text in docs.items():
        said = summary(inspect.cleandoc(text))
        assert said and not CUT.search(said), f"{name}: {said}"


def test_an_abbreviation_is_no_end_of_a_sentence(hooked):
    assert summary("L of acl Eq. 1, the sum. Another.") == "L of acl Eq. 1, the sum."
    assert (
        summary("As in acl Eqs. 1 and 2 (nl Sec. 3). More.")
        == "As in acl Eqs. 1 and 2 (nl Sec. 3)."
    )
    api.setup(SimpleNamespace(connect=lambda *args, **settings: None))
    assert len(set(autosummary.WELL_KNOWN_ABBREVIATIONS)) == len(
        autosummary.WELL_KNOWN_ABBREVIATIONS
    )


def test_without_the_hook_they_would_be_cut(monkeypatch):
    monkeypatch.setattr(autosummary, "WELL_KNOWN_ABBREVIATIONS", ("et al.", "e.g.", "i.e."))
    assert CUT.search(summary("L of acl Eq. 1, the sum. Another."))
