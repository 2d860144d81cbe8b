"""What the chapters of the built site are made of, page by page, in headless Chromium: height, the
shares of it that checks and code take, where the first picture and the first statement stand,
words, figures, weight.

    python benchmarks/page_shares.py --site _build/smoke/html --width 1400

Heights are in CSS pixels as the page is loaded, folds closed. Checks are the lines that the tables
are folded to, code the cells that show it and the lines that it is folded to. Words are those in
sight without code, tables and formulas. Weight is all that the page loads, in kB on disk.
"""

import argparse
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tabulate import tabulate

from clcore import _paths
from clcore.book import browser

_LOOK = """
() => {
  const page = document.querySelector('.bd-article');
  const height = (e) => e.getBoundingClientRect().height;
  const seen = (names) => [...page.querySelectorAll(names)].filter((e) => e.checkVisibility());
  const sum = (names) => seen(names).map(height).reduce((a, b) => a + b, 0);
  const top = (e) => e ? Math.round(e.getBoundingClientRect().top + scrollY) : null;
  const found = {
    height: Math.round(height(page)),
    checks: 100 * sum('.cl-fold') / height(page),
    code: 100 * sum('.cell > .cell_input, .cell > details.hide') / height(page),
    picture: top(page.querySelector('figure')),
    statement: top(page.querySelector('div.proof')),
    figures: seen('figure, .cl-explore').length,
    wide: document.documentElement.scrollWidth - innerWidth,
  };
  for (const e of page.querySelectorAll('pre, table, mjx-container, .cl-fold, details'))
    e.style.display = 'none';
  found.words = page.innerText.split(/\\s+/).filter((w) => /\\w/.test(w)).length;
  return found;
}
"""


def measured(tab: Any, site: Path, address: str, name: str) -> dict[str, Any]:
    """One page: what `_LOOK` sees, and the bytes on disk of all that it asked for."""
    asked: set[str] = set()

    def note(request: Any) -> None:
        asked.add(unquote(urlsplit(request.url).path))

    tab.on("request", note)
    tab.goto(f"{address}chapters/{name}.html")
    tab.wait_for_load_state("networkidle")
    tab.evaluate("window.MathJax?.startup?.promise")
    tab.wait_for_timeout(300)
    tab.remove_listener("request", note)
    files = [site / path.lstrip("/") for path in asked]
    weight = sum(file.stat().st_size for file in files if file.is_file())
    return {"chapter": name} | tab.evaluate(_LOOK) | {"kB": round(weight / 1000)}


def main() -> None:
    """Print one line per chapter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", type=Path, default=_paths.build_dir() / "html")
    parser.add_argument("--width", type=int, default=1400, help="of the window, CSS pixels")
    given = parser.parse_args()
    names = sorted(page.stem for page in (given.site / "chapters").glob("*.html"))
    with browser.served(given.site) as address, browser.chromium() as chromium:
        tab = chromium.new_page(viewport={"width": given.width, "height": 1000})
        rows = [measured(tab, given.site, address, name) for name in names]
    print(tabulate(rows, headers="keys", floatfmt=".1f", missingval="-"))


if __name__ == "__main__":
    main()
