"""The frame of the book around pages that Sphinx does not make. A Sphinx extension.

Sphinx renders one empty page with sidebar, search and theme. Each of the 422 claims takes a copy of
it, which costs a replacement of text, not a rendering.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clcore._files import write_atomic

FOLDER = "claims"
FRAME = f"{FOLDER}/frame"
TITLE, BODY = "clcore-frame-title", "<!-- clcore-frame-body -->"
_TITLED = re.compile(r"<title>(.*?)</title>\n", re.DOTALL)


class FrameError(ValueError):
    """The theme's page has no place for what is to be put into it."""


def _empty(app: Any) -> Iterator[tuple[str, dict, str]]:
    """The empty page. It declares formulas, so that MathJax is loaded."""
    app.env.get_domain("math").data["has_equations"][FRAME] = True
    context = {"title": TITLE, "body": BODY, "meta": {"html_theme.sidebar_secondary.remove": True}}
    yield FRAME, context, "page.html"


def wrap(bodies: Path, site: Path) -> None:
    """Put every body in a folder into the frame of a site, below its folder claims/, in which the
    empty page is then gone.

    bodies: folder of HTML files that begin with a line <title>...</title>. Raises FrameError where
    the frame lacks its marks, or a body its title.
    """
    empty = site / f"{FRAME}.html"
    frame = empty.read_text(encoding="utf-8")
    for mark in (TITLE, BODY):
        if mark not in frame:
            raise FrameError(
                f"{FRAME}.html: expected the mark {mark!r} in what the theme made, found none; the "
                "theme has changed, see clcore/book/site/claims/frame.py"
            )
    empty.unlink()
    for file in sorted(bodies.glob("*.html")):
        body = file.read_text(encoding="utf-8")
        titled = _TITLED.match(body)
        if titled is None:
            raise FrameError(f"{file.name}: expected <title>...</title> as its first line")
        made = frame.replace(TITLE, titled[1]).replace(FRAME, f"{FOLDER}/{file.stem}")
        made = made.replace(BODY, body[titled.end() :])
        write_atomic(site / FOLDER / file.name, made.encode())


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("html-collect-pages", _empty)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
