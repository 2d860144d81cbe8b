"""The docstrings of clcore on the pages of its interface: plain prose made safe for Sphinx.

Our docstrings are written to be read where they stand: `x` is code, and x_i, |z| and z[i'] mean
themselves. For reStructuredText, which would take them for markup, they are escaped; sections
(Attributes, Raises, Examples) are left to sphinx.ext.napoleon. A table of summaries has the first
sentence of each, and "acl Eq. 1" does not end one.
"""

import re
from typing import Any

from sphinx.ext import autosummary

_CODE = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"([\\*|_])")
_ERRORS = re.compile(r"(?:^|(?<=[.)]) )Errors: ", re.M)

ABBREVIATIONS = ("Eq.", "Eqs.", "Sec.", "Secs.", "Fig.", "Figs.", "Thm.", "Thms.", "App.", "Lem.")
"""With which a reference of ours begins, and no sentence ends."""


def _prose(text: str) -> str:
    """Code in double quotes, everything else escaped."""
    parts = _CODE.split(text)  # prose and code in turn
    for i, part in enumerate(parts):
        parts[i] = f"``{part}``" if i % 2 else _MARKUP.sub(r"\\\1", part)
    return "".join(parts)


def restructured(text: str) -> str:
    """A docstring of clcore as reStructuredText. Examples are unchanged; the errors become a
    separate paragraph."""
    prose, found, examples = text.partition("\nExamples:\n")
    prose = _ERRORS.sub("\n\n**Errors:** ", _prose(prose))
    return prose + found + examples


def process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """What autodoc calls for every docstring, before napoleon."""
    lines[:] = restructured("\n".join(lines)).split("\n")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    known = autosummary.WELL_KNOWN_ABBREVIATIONS
    every: Any = (*known, *(a for a in ABBREVIATIONS if a not in known))
    autosummary.WELL_KNOWN_ABBREVIATIONS = every
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True}
