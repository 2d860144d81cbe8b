"""The notation on two sheets of paper: the page of the site, printed small."""

import io
from pathlib import Path

from clcore import _paths
from clcore._files import write_atomic
from clcore.book import browser

MISSING = (
    "handout: left out, for there is no Chromium; on Debian `apt-get install chromium`, then again"
)
_KEEP = """
() => {
  const page = document.querySelector('.bd-article');
  for (const section of page.querySelectorAll('section#symbols-of-one-paper')) section.remove();
  document.body.replaceChildren(page);
  const style = document.createElement('style');
  style.textContent = `
    body { margin: 0; }
    h1 { font-size: 15pt !important; margin: 0 0 4pt !important; }
    h2 { font-size: 11pt !important; margin: 6pt 0 3pt !important; }
    p { font-size: 7.5pt; margin: 0 0 4pt; }
    table { font-size: 7.5pt !important; line-height: 1.25 !important; }
    table { width: 100% !important; margin: 0 !important; }
    .bd-article :is(th, td) { padding: 1.2pt 4pt !important; }
    .bd-article td p { margin: 0; }
    .pst-scrollable-table-container { overflow: visible; margin: 0 !important; }
    .headerlink { display: none; }
    mjx-container { font-size: 100% !important; }`;
  document.head.append(style);
}
"""


def write(out: Path) -> Path | None:
    """Print the first parts of the notation page on two A4 sheets; None without a Chromium.

    Raises ValueError when they take more than two.
    """
    if browser.program() is None:
        return None
    from pypdf import PdfReader

    printed = browser.apart(_printed)
    pages = len(PdfReader(io.BytesIO(printed)).pages)
    if pages > 2:
        raise ValueError(
            f"expected the handout on two pages, it takes {pages}; shorten notation.md"
        )
    write_atomic(out, printed)
    return out


def _printed() -> bytes:
    site = _paths.build_dir() / "html"
    with browser.served(site) as address, browser.chromium() as chromium:
        tab = chromium.new_page(viewport={"width": 1000, "height": 1400}, color_scheme="light")
        tab.goto(f"{address}book/notation.html")
        tab.wait_for_load_state("networkidle")
        tab.evaluate("window.MathJax?.startup?.promise")
        tab.evaluate(_KEEP)
        margin = dict.fromkeys(("top", "bottom", "left", "right"), "9mm")
        return tab.pdf(format="A4", margin=margin)
