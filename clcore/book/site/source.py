"""A Sphinx extension that keeps Jupyter Book from making pages out of the book's bare source.

The build lays out a folder with executed chapters and generated pages, and runs Jupyter Book there.
In the source itself those are missing, and its pages would be empty.
"""

from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from clcore.book.site.links import CARDS


def _refuse(app: Any, config: Any) -> None:
    if not (Path(app.srcdir) / CARDS).exists():
        raise ExtensionError(
            "these are the book's sources, whose chapters have no results in them; `make book` "
            "runs the chapters and makes the site in _build/html (nothing was changed there)"
        )


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", _refuse)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
