"""Decks of slides on paper."""

from pathlib import Path

from clcore import _folders, _paths
from clcore._files import write_atomic
from clcore.book import browser


def decks(folder: Path, only: list[str] | None = None) -> list[Path]:
    """Print the decks of slides in a folder of ours next to them, one slide per page; the files.

    only: ids of sessions. Raises FileNotFoundError without decks, or without a Chromium, and
    ValueError for a session without one.
    """
    found = sorted(file for file in folder.glob("*.html") if file.stem != "index")
    if not found or not _folders.marked(folder):
        where = _paths.shown(folder)
        raise FileNotFoundError(f"there are no slides in {where} yet; run `make course`")
    known = [file.stem for file in found]
    if lost := [name for name in only or () if name not in known]:
        raise ValueError(f"expected sessions of {', '.join(known)}; got {', '.join(lost)}")
    found = [file for file in found if not only or file.stem in only]
    made = browser.apart(lambda: _printed(folder, [file.name for file in found]))
    for file, printed in zip(found, made, strict=True):
        write_atomic(file.with_suffix(".pdf"), printed)
    return [file.with_suffix(".pdf") for file in found]


def _printed(folder: Path, names: list[str]) -> list[bytes]:
    """The PDF of each deck."""
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
