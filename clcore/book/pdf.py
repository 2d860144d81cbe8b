"""The book on paper: every page of the site printed by Chromium, put together with bookmarks."""

import io
from pathlib import Path
from typing import Any

from clcore import _folders, _paths
from clcore._files import write_atomic
from clcore.book import browser, contents

CREATOR = "clcore"
"""In the metadata of a printed book: by it one is known that may be written over."""
FOLDS = ("open", "closed", "solutions")
"""What becomes of what is folded on the pages: all of it is printed, none, or solutions alone."""

_PREPARE = """
async (folds) => {
  // A fold fades in when it is opened: printed at that moment, its place would be white.
  const still = document.createElement('style');
  still.textContent = '* { animation: none !important; transition: none !important; }';
  document.head.append(still);
  for (const fold of document.querySelectorAll('.bd-article details')) {
    const solution = Boolean(fold.closest('.solution, .cl-solution'));
    if (folds === 'open' || (folds === 'solutions' && solution)) fold.open = true;
    else fold.style.display = 'none';
  }
  for (const fold of document.querySelectorAll('.bd-article .toggle, .bd-article .dropdown')) {
    const open = folds !== 'closed';
    fold.classList.toggle('toggle-hidden', !open);
    if (!open && fold.closest('.solution')) fold.closest('.solution').style.display = 'none';
  }
  // What a reader gets as it comes into view, paper gets at once.
  await window.MathJax?.startup?.document?.lazyTypesetAll?.();
  for (const image of document.images) image.loading = 'eager';
  return Promise.all([...document.images].map((i) => i.decode().catch(() => null)));
}
"""


def pages() -> list[str]:
    """Addresses of the chapters in the site, in the order of the book, after the front page."""
    wanted = ("chapters/", "book/notation", "book/glossary", "book/judging")
    front, *files = contents.pages()
    return [front, *(file for file in files if file.startswith(wanted))]


def write(out: Path, folds: str = "closed", only: list[str] | None = None) -> Path:
    """Print the book, or some of its pages, to one file. The site has to be there.

    folds: one of `FOLDS`. Raises ValueError for another, for a page that is not in the book, for a
    file of somebody's in the place of `out`; FileNotFoundError without a site or a Chromium.
    """
    from pypdf import PdfReader, PdfWriter

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
    book = PdfWriter()
    for title, printed in browser.apart(lambda: _all_printed(site, chosen, folds)):
        first = len(book.pages)
        book.append(PdfReader(io.BytesIO(printed)), import_outline=False)
        book.add_outline_item(title=title, page_number=first)
    book.add_metadata({"/Creator": CREATOR})
    made = io.BytesIO()
    book.write(made)
    write_atomic(out, made.getvalue())
    return out


def _refuse_another(out: Path) -> None:
    """Raises NotOurs for a file that is no book of ours; in the build folder is nothing else."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    if not out.exists() or out.parent == _paths.build_dir():
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


def decks(folder: Path) -> list[Path]:
    """Print every deck of slides in a folder beside it, a slide a page; the files.

    Raises FileNotFoundError without decks, or without a Chromium.
    """
    found = sorted(file for file in folder.glob("*.html") if file.stem != "index")
    if not found:
        where = _paths.shown(folder)
        raise FileNotFoundError(f"there are no slides in {where} yet; run `make course`")
    made = browser.apart(lambda: _decks_printed(folder, [file.name for file in found]))
    for file, printed in zip(found, made, strict=True):
        write_atomic(file.with_suffix(".pdf"), printed)
    return [file.with_suffix(".pdf") for file in found]


def _decks_printed(folder: Path, names: list[str]) -> list[bytes]:
    found = []
    with browser.served(folder) as address, browser.chromium() as chromium:
        tab = chromium.new_page(viewport={"width": 1200, "height": 740})
        for name in names:
            print(f"{name}: printing", flush=True)
            tab.goto(f"{address}{name}?print-pdf")
            tab.wait_for_load_state("networkidle")
            tab.evaluate("window.MathJax?.startup?.promise")
            tab.wait_for_selector(".pdf-page")
            found.append(tab.pdf(prefer_css_page_size=True, print_background=True))
    return found


def _all_printed(site: Path, chosen: list[str], folds: str) -> list[tuple[str, bytes]]:
    found = []
    with browser.served(site) as address, browser.chromium() as chromium:
        tab = chromium.new_page(viewport={"width": 1100, "height": 1400}, color_scheme="light")
        for page in chosen:
            print(f"{page}: printing", flush=True)
            found.append(_printed(tab, f"{address}{page}.html", folds))
    return found


def _printed(tab: Any, address: str, folds: str) -> tuple[str, bytes]:
    tab.goto(address)
    tab.wait_for_load_state("networkidle")
    tab.evaluate("window.MathJax?.startup?.promise")
    tab.evaluate(_PREPARE, folds)
    tab.emulate_media(media="print", color_scheme="light")
    title = tab.evaluate("document.querySelector('h1').firstChild.textContent.trim()")
    footer = (
        '<div style="font-size:8px;width:100%;text-align:center;color:#555">'
        '<span class="title"></span>, page <span class="pageNumber"></span></div>'
    )
    margin = {"top": "16mm", "bottom": "18mm", "left": "14mm", "right": "14mm"}
    printed = tab.pdf(
        format="A4",
        margin=margin,
        scale=0.85,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=footer,
    )
    return title, printed
