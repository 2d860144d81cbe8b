"""Addresses of what moved when chapters were divided lead to its new place."""

import json
import re
from pathlib import Path

import pytest
from browsing import Tab
from site_pages import parsed

from clcore import _paths

pytestmark = [pytest.mark.site, pytest.mark.browser]


def moved() -> dict[str, dict[str, list[str]]]:
    """Page -> page -> ids, from the script."""
    script = (_paths.root() / "book/_static/moved.js").read_text(encoding="utf-8")
    table = re.search(r"(?s)const MOVED = (\{.*?\n  \});", script)
    return json.loads(table[1])


def test_what_moved_is_where_its_address_leads(site: Path) -> None:
    for old, pages in moved().items():
        there = parsed(site / "chapters" / old).ids
        for new, ids in pages.items():
            assert set(ids) <= set(parsed(site / "chapters" / new).ids), new
            assert not set(ids) & set(there), old  # a redirect from what is there is never followed


def test_an_old_address_is_followed(tab: Tab) -> None:
    tab.open("chapters/6-landscape.html#fig-noise-map")
    tab.page.wait_for_url("**/chapters/6-training.html#fig-noise-map")
    tab.open("chapters/6-dynamics.html#ex-dynamics-loss")
    tab.page.wait_for_url("**/chapters/6-warm-starts.html#ex-dynamics-loss")
    assert tab.problems == []
