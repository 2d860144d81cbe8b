"""What a page of the built site costs a reader: bytes, requests, elements, and the time until it
can be used at a quarter of this CPU's speed. Headless Chromium, nothing cached; medians.

    python benchmarks/pages.py --site _build/smoke/html chapters/5-one-layer book/ledger
    python benchmarks/pages.py --site before --site after    # two sites, turn by turn in one run

Usable is when the last task of more than 50 ms before two quiet seconds has ended; blocked is what
such tasks take beyond 50 ms each. Both depend on what else the machine does; bytes (uncompressed),
requests and elements do not, and tests/browser/test_weight.py holds them.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

from clcore import _paths
from clcore.book import browser

PAGES = ("chapters/5-one-layer", "chapters/6-landscape", "book/ledger", "claims/nl-thm4")
COUNTS = ("requests", "elements")
_WATCH = """
window.clTasks = [];
new PerformanceObserver((list) => {
  for (const e of list.getEntries()) window.clTasks.push([e.startTime, e.duration]);
}).observe({ type: 'longtask', buffered: true });
"""
_QUIET = """
() => {
  const ends = window.clTasks.map(([start, time]) => start + time);
  const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity;
  return performance.now() > Math.max(paint, ...ends) + 2000;
}
"""
_FOUND = """
() => ({
  usable: Math.max(performance.getEntriesByName('first-contentful-paint')[0].startTime,
    ...window.clTasks.map(([start, time]) => start + time)) / 1000,
  blocked: window.clTasks.reduce((sum, [, time]) => sum + time - 50, 0) / 1000,
  elements: document.querySelectorAll('*').length,
})
"""


def measured(chromium: Any, address: str, slower: int = 1) -> dict[str, float]:
    """Bytes, requests, elements, seconds of one cold visit. slower: by what the CPU is divided."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(180_000)
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    sizes: list[float] = []
    devtools.on("Network.loadingFinished", lambda said: sizes.append(said["encodedDataLength"]))
    page.add_init_script(_WATCH)
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.evaluate("window.MathJax?.startup?.promise")
    page.wait_for_function(_QUIET)
    found = page.evaluate(_FOUND) | {"bytes": sum(sizes), "requests": len(sizes)}
    context.close()
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--site", type=Path, action="append")
    parser.add_argument("--visits", type=int, default=5)
    parser.add_argument("--slower", type=int, default=4)
    given = parser.parse_args()
    sites = given.site or [_paths.build_dir() / "html"]
    rows = []
    with browser.chromium() as chromium:
        for page in given.pages:
            visits: dict[Path, list[dict]] = {site: [] for site in sites}
            for _ in range(given.visits):
                for site in sites:
                    with browser.served(site) as address:
                        one = measured(chromium, f"{address}{page}.html", given.slower)
                    visits[site].append(one)
            for site, seen in visits.items():
                middle = {name: median(one[name] for one in seen) for name in seen[0]}
                made = [round(middle["bytes"] / 1000), *(int(middle[n]) for n in COUNTS)]
                rows.append([page, site.name, *made, middle["usable"], middle["blocked"]])
    head = ["page", "site", "kB", *COUNTS]
    timed = [f"{what}, s at 1/{given.slower}" for what in ("usable", "blocked")]
    print(tabulate(rows, [*head, *timed], floatfmt=".1f"))


if __name__ == "__main__":
    main()
