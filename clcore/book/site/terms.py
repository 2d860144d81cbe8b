"""The words of the book: the glossary page, and each word's first use on a page as a link to it,
with a card. A Sphinx extension, and what the build writes for it. The words are data/glossary.yaml.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from clcore import _paths
from clcore._files import read_yaml

PAGE = "book/glossary"
LINKED = ("chapters/", "book/index", "book/teaching", "book/judging", "book/library")
"""How the pages begin whose words are linked."""

_SCHEMA = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "required": ["forms", "says"],
            "additionalProperties": False,
            "properties": {
                "forms": {"type": "array", "items": {"type": "string", "minLength": 2}},
                "says": {"type": "string", "minLength": 10},
            },
        },
    },
}
_APART = (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.raw, nodes.rubric)


class GlossaryError(ValueError):
    """A damaged data/glossary.yaml."""


@cache
def known() -> dict[str, dict[str, dict]]:
    """Section -> term -> {"forms": other forms of it, "says": its meaning}, in reading order.

    Raises GlossaryError for a damaged file, and for a form that two terms claim.
    """
    path = _paths.root() / "data" / "glossary.yaml"
    found = read_yaml(path, _SCHEMA, GlossaryError)
    taken: dict[str, str] = {}
    for entries in found.values():
        for term, entry in entries.items():
            for form in (term, *entry["forms"]):
                other = taken.setdefault(form.lower(), term)
                if other != term:
                    raise GlossaryError(
                        f"{_paths.shown(path)}: {form!r} is a form of both {other} and {term}; "
                        "remove one"
                    )
    return found


def key(term: str) -> str:
    """The HTML id of a term on the glossary page, as Sphinx makes it."""
    return "term-" + re.sub(r"[^a-zA-Z0-9]+", "-", term)


def cards() -> dict[str, dict]:
    """The text of each term's card, by its HTML id."""
    entries = {term: entry for section in known().values() for term, entry in section.items()}
    return {
        key(term): {
            "id": f"glossary:{term}",
            "place": "Glossary",
            "title": term,
            "verdict": "",
            "statement": re.sub(r"\$([^$]+)\$", r"\\(\1\\)", entry["says"]),
        }
        for term, entry in entries.items()
    }


def page() -> str:
    """The glossary as Markdown."""
    text = (
        "# Glossary\n\nThe words that the chapters take for granted after their first use. "
        "[Notation](notation.md) lists the letters with their shapes, and those that two papers "
        "use differently.\n"
    )
    for section, entries in known().items():
        text += f"\n## {section}\n\n````{{glossary}}\n"
        text += "\n".join(f"{term}\n  {e['says']}\n" for term, e in entries.items())
        text += "````\n"
    return text


@cache
def _pattern() -> tuple[re.Pattern, dict[str, str]]:
    """What finds any form of any term, the longest first, and form -> term."""
    forms = {
        form.lower(): term
        for section in known().values()
        for term, entry in section.items()
        for form in (term, *entry["forms"])
    }
    words = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), forms


def first_uses(text: str, seen: set[str], link: Callable[[str, str], str]) -> str:
    """Text in which the first use of each term is what `link` makes of it.

    seen: terms that were used before; those that are used here are added. link: of a term and the
    form in which it stands.
    """
    pattern, forms = _pattern()

    def one(found: re.Match) -> str:
        term = forms[found[0].lower()]
        if term in seen:
            return found[0]
        seen.add(term)
        return link(term, found[0])

    return pattern.sub(one, text)


def link_terms(document: nodes.document, glossary: str) -> None:
    """Make the first use of each term in running text a link. glossary: address of that page."""
    pattern, forms = _pattern()
    seen: set[str] = set()
    for text in list(document.findall(nodes.Text)):
        if _apart(text):
            continue
        pieces, at = [], 0
        for found in pattern.finditer(text.astext()):
            term = forms[found[0].lower()]
            if term in seen:
                continue
            seen.add(term)
            link = nodes.reference("", found[0], internal=True, refuri=f"{glossary}#{key(term)}")
            link["classes"].append("cl-term")
            pieces += [nodes.Text(text.astext()[at : found.start()]), link]
            at = found.end()
        if pieces:
            rest = nodes.Text(text.astext()[at:])
            text.parent.replace(text, [p for p in (*pieces, rest) if p.astext()])


def _apart(node: nodes.Node) -> bool:
    """Whether a text is no running text: in a heading, a link, code, a formula, a table's head, or
    what opens a fold, in which a link would be a control in a control."""
    while node.parent is not None:
        node = node.parent
        if "sd-summary-title" in node.get("classes", ()):
            return True
        if isinstance(node, (*_APART, nodes.math, nodes.math_block, nodes.thead, nodes.caption)):
            return True
    return False


class LinkTerms(SphinxPostTransform):
    """The first use of a term on a page becomes a link to the glossary."""

    default_priority = 410  # after the links to the ledger, and when references are resolved

    def run(self, **kwargs: Any) -> None:
        """Called by Sphinx for each page."""
        if self.env.docname.startswith(LINKED) and self.app.builder.format == "html":
            glossary = self.app.builder.get_relative_uri(self.env.docname, PAGE)
            link_terms(self.document, glossary)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(LinkTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
