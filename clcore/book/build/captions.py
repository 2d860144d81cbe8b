"""Captions of the tables that a chapter shows. A cell has them in its metadata, in the order of
its tables, the last one for all that follow: {"clcore": {"captions": ["Where descent ended."]}}.

Tables of checks, those behind sliders and the provenance have theirs from their templates; that of
a protocol is the same in every chapter.
"""

import re

from markupsafe import escape

PROTOCOL = "What was run, with which settings, and who chose them."

_SHOWN = re.compile(r"<table\b[^>]*(?:class=\"dataframe|id=\"T_)[^>]*>")
_WRITTEN = re.compile(r"(?:^\|.*\|[ \t]*(?:\n|\Z)){3,}", re.MULTILINE)
_PROTOCOL = re.compile(r"\|\s*item\s*\|\s*value\s*\|\s*source\s*\|")


def add(cell: dict) -> None:
    """Give the tables of an executed cell their captions: those of its outputs, or of its text."""
    said = list(cell["metadata"].get("clcore", {}).get("captions", []))

    def words() -> str:
        return said.pop(0) if len(said) > 1 else said[0]

    def titled(table: re.Match) -> str:
        return f"```{{table}} {words()}\n{table[0].rstrip()}\n```\n"

    def captioned(table: re.Match) -> str:
        return f"{table[0]}<caption>{escape(words())}</caption>"

    if cell["cell_type"] == "markdown":
        text = "".join(cell["source"])
        said = said or [PROTOCOL] * bool(_PROTOCOL.search(text))
        cell["source"] = _WRITTEN.sub(titled, text) if said else text
    for output in cell.get("outputs", []) if said else []:
        shown = "".join(output.get("data", {}).get("text/html", ""))
        if _SHOWN.search(shown):
            output["data"]["text/html"] = _SHOWN.sub(captioned, shown)
