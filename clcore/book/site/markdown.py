"""Pieces from which generated pages of Markdown are assembled."""

import re


def raw(html: str) -> str:
    """HTML inside a Markdown page."""
    return fenced("{raw} html", f"\n{html}")  # without the blank line its first might be an option


def fenced(kind: str, text: str) -> str:
    """Text between fences that it cannot end, whatever is in it."""
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(4, ticks + 1)
    return f"{fence}{kind}\n{text}\n{fence}\n"
