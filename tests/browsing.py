"""The built site in a browser: where it is, and a page of it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from clcore import _paths


def site_folder() -> Path:
    """Where the built site is: $CLCORE_SITE, else the build's html folder."""
    return Path(os.environ.get("CLCORE_SITE") or _paths.build_dir() / "html").resolve()


@dataclass
class Tab:
    """A page of the site in the browser, and everything that went wrong in it."""

    page: object
    address: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Go to a page of the site and wait until nothing is loading and formulas are set."""
        self.page.goto(self.address + path)
        self.page.wait_for_load_state("networkidle")
        self.page.evaluate(
            "window.MathJax?.startup?.promise ?? Promise.resolve()"
            ".then(() => new Promise((go) => setTimeout(go, 250)))"
        )

    def resize(self, width: int) -> None:
        """Give the page another width; wait until what moves has come to rest, and until the theme
        has looked again at what scrolls, which it does 0.3 s after it is told."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.evaluate(
            """async () => {
              const pause = (ms) => new Promise((go) => setTimeout(go, ms));
              const soon = (one, ms) => Promise.race([one, pause(ms)]);  // a page that is not drawn
              const frame = () => soon(new Promise(requestAnimationFrame), 500);
              await frame(), await frame();
              const ends = (a) => a.effect?.getComputedTiming().endTime < Infinity;
              const moving = document.getAnimations().filter(ends);
              const ended = moving.map((a) => a.finished.catch(() => null));
              await soon(Promise.all(ended), 5000);
              await pause(400);
            }"""
        )
