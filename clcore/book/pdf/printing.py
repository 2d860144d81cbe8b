"""The site's pages, printed in the order of the book."""

from pathlib import Path
from typing import Any

from clcore import _folders, _paths
from clcore._files import write_atomic
from clcore.book import browser, contents
from clcore.book.pdf import binding, layout
from clcore.book.pdf.binding import CREATOR
from clcore.book.site import serve

FOLDS = ("open", "closed", "solutions")
"""Whether folded parts of the pages are printed: all of them, none, or only solutions."""


_PATIENCE = 120_000
"""Milliseconds for a page to load: a busy machine takes longer than the browser's own limit."""


def pages() -> list[str]:
    """Addresses of the chapters in the site, in the order of the book, after the front page."""
    wanted = ("chapters/", "book/notation", "book/glossary", "book/judging")
    front, *files = contents.pages()
    return [front, *(file for file in files if file.startswith(wanted))]


def write(out: Path, folds: str = "closed", only: list[str] | None = None) -> Path:
    """Print the book, or some of its pages, to one file. The site has to be there.

    folds: one of `FOLDS`. Raises ValueError for another, for a page that is not in the book, for a
    file of somebody's in the place of `out`; FileNotFoundError without a site, where it lacks a
    page, or without a Chromium.
    """
    _refuse_another(out)
    if folds not in FOLDS:
        raise ValueError(f"expected folds in {', '.join(FOLDS)}; got {folds!r}")
    chosen = [page for page in pages() if not only or page.rpartition("/")[2] in only]
    if only and len(chosen) != len(set(only)):
        names = [page.rpartition("/")[2] for page in pages()]
        raise ValueError(f"expected pages of {', '.join(names)}; got {', '.join(only)}")
    site = _paths.build_dir() / "html"
    if not (site / "index.html").exists():
        raise FileNotFoundError(f"there is no site in {_paths.shown(site)} yet; run `make book`")
    if lost := [page for page in chosen if not (site / f"{page}.html").exists()]:
        raise FileNotFoundError(
            f"expected {', '.join(lost)} in the site in {_paths.shown(site)}, which lacks them; "
            "run `make book`, or name the pages to print with --only"
        )
    write_atomic(out, browser.apart(lambda: _all_printed(site, chosen, folds)))
    return out


def _refuse_another(out: Path) -> None:
    """Raises NotOurs for a file that is no book of ours. The build's own may be older than the
    name in its metadata by which one is known."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    if not out.exists() or out == _paths.build_dir() / "book.pdf":
        return
    try:
        said = PdfReader(out).metadata
    except (OSError, PyPdfError):
        said = None
    if said is None or said.creator != CREATOR:
        raise _folders.NotOurs(
            f"expected no file at {out}, or a book that clcore printed there; found "
            "another file. Nothing was changed; name another file, or move this one away"
        )


def _all_printed(site: Path, chosen: list[str], folds: str) -> bytes:
    """The book, printed and bound."""
    with browser.served(site) as address, browser.chromium() as chromium:
        size = {"width": layout.WIDTH, "height": layout.HEIGHT}
        tab = chromium.new_page(viewport=size, color_scheme="light")
        tab.set_default_timeout(_PATIENCE)
        parts = []
        for page in chosen:
            print(f"{page}: printing", flush=True)
            parts.append(_printed(tab, address, page, folds))

        def paper(html: str) -> bytes:
            tab.goto("about:blank")
            tab.set_content(html)
            return tab.pdf(format="A4", prefer_css_page_size=True)

        return binding.bound(parts, serve.state(site), paper)


def _printed(tab: Any, address: str, page: str, folds: str) -> binding.Part:
    """One page of the site, printed."""
    tab.goto(f"{address}{page}.html")
    tab.wait_for_load_state("networkidle")
    tab.evaluate("window.MathJax?.startup?.promise")
    title = tab.evaluate("document.querySelector('h1').firstChild.textContent.trim()")
    if over := layout.prepare(tab, folds):
        print(f"{page}: wider than the paper, and cut off: {', '.join(over)}", flush=True)
    return binding.Part(page, title, layout.printed(tab))
