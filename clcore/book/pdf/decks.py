"""Decks of slides on paper."""

from pathlib import Path

from clcore import _paths
from clcore._files import write_atomic
from clcore.book import browser


def decks(folder: Path) -> list[Path]:
    """Print every deck of slides in a folder next to it, one slide per page; the files.

    Raises FileNotFoundError without decks, or without a Chromium.
    """
    found = sorted(file for file in folder.glob("*.html") if file.stem != "index")
    if not found:
        where = _paths.shown(folder)
        raise FileNotFoundError(f"there are no slides in {where} yet; run `make course`")
    made = browser.apart(lambda: _printed(folder, [file.name for file in found]))
    for file, printed in zip(found, made, strict=True):
        write_atomic(file.with_suffix(".pdf"), printed)
    return [file.with_suffix(".pdf") for file in found]


def _printed(folder: Path, names: list[str]) -> list[bytes]:
    found = []
    with browser.served(folder) as address, browser.chromium() as chromium:
        tab = chromium.new_page(viewport={"width": 1200, "height": 740}, color_scheme="light")
        tab.set_default_timeout(120_000)  # a busy machine takes longer than the browser's limit
        for name in names:
            print(f"{name}: printing", flush=True)
            tab.goto(f"{address}{name}?print-pdf")
            tab.wait_for_selector(".pdf-page", state="attached")
            tab.evaluate("window.MathJax?.startup?.promise")
            tab.evaluate("document.fonts.ready.then(() => true)")
            found.append(tab.pdf(prefer_css_page_size=True, print_background=True))
    return found
