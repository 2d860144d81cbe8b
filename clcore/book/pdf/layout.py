"""A page of the site made ready for paper: folds, formulas, widths, breaks.

Chromium shrinks a whole document for one element that is wider than the paper. Here the element is
shrunk, so that the text has one size in all chapters.
"""

from typing import Any

SCALE = 0.85
"""Of the site's pixels on paper."""
MARGIN = {"top": "16mm", "bottom": "18mm", "left": "14mm", "right": "14mm"}
WIDTH, HEIGHT = (int(mm / 25.4 * 96 / SCALE) for mm in (210 - 2 * 14, 297 - 16 - 18))
"""What is inside the margins of an A4 sheet, in the site's pixels."""
TALLEST = 0.38
"""Of the height of a sheet: how tall a picture may be, and what is not broken over two sheets. No
sheet has a larger gap at its foot."""

_STYLE = f"""
* {{ animation: none !important; transition: none !important; }}
html, body {{ min-width: 0 !important; }}
.bd-article :is(div, section, figure, details, pre, table, p) {{
  overflow: visible !important; max-height: none !important; }}
.bd-article :is(div, section, figure, details, table) {{ max-width: 100% !important; }}
.bd-article h1 {{ margin: 0 0 1.2rem !important; line-height: 1.25 !important; }}
.bd-article :is(h2, h3) {{ line-height: 1.3 !important; break-after: avoid; }}
.bd-article img, .bd-article figure svg {{
  max-width: 100% !important; max-height: {round(TALLEST * HEIGHT)}px !important;
  width: auto; height: auto; object-fit: contain; }}
.bd-article p {{ orphans: 3; widows: 3; }}
.bd-article tbody th {{ min-width: 5.5rem; }}
.bd-article thead {{ display: table-header-group; break-after: avoid; }}
"""

_PREPARE = """
async ({folds, style}) => {
  const sheet = document.createElement('style');
  sheet.textContent = style;
  document.head.append(sheet);
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
  await Promise.all([...document.images].map((i) => i.decode().catch(() => null)));
}
"""

_FIT = """
(limit) => {
  const article = document.querySelector('.bd-article');
  const seen = (e) => e.getClientRects().length > 0;
  const outer = (e) => !e.closest('mjx-assistive-mml, svg *');
  // A heading above nothing, as above what is folded, is not printed.
  const sections = [...article.querySelectorAll('section')].reverse();
  for (const section of sections) {
    const rest = [...section.children].filter((e) => !/^H[1-6]$/.test(e.tagName) && seen(e));
    const said = rest.some((e) => e.innerText.trim() || e.querySelector('img, svg, canvas'));
    if (!said && section.parentElement.closest('section')) section.style.display = 'none';
  }
  const box = article.getBoundingClientRect();
  const right = box.right - parseFloat(getComputedStyle(article).paddingRight);
  const kinds = 'table, pre, mjx-container, img, figure > svg, .highlight, div.cell_output';
  for (let round = 0; round < 3; round++) {
    for (const part of article.querySelectorAll(kinds)) {
      if (!seen(part) || !outer(part)) continue;
      const place = part.getBoundingClientRect();
      const wide = Math.max(place.right, place.left + part.scrollWidth * (+part.style.zoom || 1));
      if (wide <= right + 1) continue;
      const room = Math.max(right - place.left, 40);
      part.style.zoom = (+part.style.zoom || 1) * Math.min(1, room / (wide - place.left)) * 0.995;
    }
  }
  for (const part of article.querySelectorAll('figure, div.proof, .cl-opening, div.cell_input, pre,'
      + 'div.cell, div.cell_output, blockquote, .admonition, table, tr')) {
    if (part.getBoundingClientRect().height > limit) {
      part.style.setProperty('break-inside', 'auto', 'important');
    }
  }
  const over = [...article.querySelectorAll('*')].filter((e) => seen(e) && outer(e)
    && e.getBoundingClientRect().right > innerWidth + 1);
  for (const e of [document.documentElement, document.body]) e.style.overflowX = 'clip';
  return over.slice(0, 3).map((e) => `${e.tagName.toLowerCase()} ${e.className}`.trim());
}
"""


def prepare(tab: Any, folds: str) -> list[str]:
    """Make the page that a tab shows ready for paper; what is wider than the paper all the same,
    and will be cut off, at most three elements. The tab's viewport is `WIDTH` wide."""
    tab.emulate_media(media="print", color_scheme="light")
    tab.evaluate(_PREPARE, {"folds": folds, "style": _STYLE})
    return tab.evaluate(_FIT, TALLEST * HEIGHT)


def printed(tab: Any, outline: bool = True) -> bytes:
    """The page that a tab shows as a PDF, with its headings as an outline."""
    return tab.pdf(format="A4", margin=MARGIN, scale=SCALE, outline=outline, tagged=outline)
