"""Addresses of what moved when chapters were divided lead to its new place."""

import json
import re
from pathlib import Path

import pytest
from browsing import Tab
from site_pages import parsed

from clcore import _paths

pytestmark = [pytest.mark.site, pytest.mark.browser]


def table(name: str) -> dict[str, dict[str, list[str]]]:
    """Page -> page or place -> ids, from the script."""
    script = (_paths.root() / "book/_static/moved.js").read_text(encoding="utf-8")
    found = re.search(rf"(?s)const {name} = (\{{.*?\n  \}});", script)
    return json.loads(found[1])


def test_what_moved_is_where_its_address_leads(site: Path) -> None:
    for old, pages in table("MOVED").items():
        there = parsed(site / "chapters" / old).ids
        for new, ids in pages.items():
            assert set(ids) <= set(parsed(site / "chapters" / new).ids), new
            assert not set(ids) & set(there), old  # a redirect from what is there is never followed


def test_what_has_another_name_is_where_its_old_one_leads(site: Path) -> None:
    for old, places in table("RENAMED").items():
        there = parsed(site / "chapters" / old).ids
        for place, ids in places.items():
            page, _, new = place.partition("#")
            assert new in parsed(site / "chapters" / (page or old)).ids, place
            assert not set(ids) & set(there), old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2-deep-linear-pca.html#traps-two", "2-arrival.html#traps-two"),
        ("3-relu-composition.html#thm-acl-6", "3-feature-composition.html#thm-acl-6"),
        ("4-dual-networks.html#fig-residue", "4-residue.html#fig-residue"),
        ("4-dual-networks.html#claim-ddn-thm4", "4-residue.html#claim-ddn-thm4"),
        ("4-hltm.html#fig-operators", "4-trained-trees.html#fig-operators"),
        ("4-hltm.html#do-the-lucky-ones-win", "4-trained-trees.html#luck-at-the-start-*"),
        ("6-landscape.html#fig-noise-map", "6-training.html#fig-noise-map"),
        ("6-dynamics.html#ex-dynamics-loss", "6-warm-starts.html#ex-dynamics-loss"),
        ("5-one-layer.html#thm-nl-3", "5-many-optima.html#thm-nl-3"),
        ("5-one-layer.html#fig-eight-explore", "5-one-layer.html#fig-eight"),
        ("5-one-layer.html#how-many-optima", "5-many-optima.html#a-layer-collects-*"),
    ],
)
def test_an_old_address_is_followed(tab: Tab, old: str, new: str) -> None:
    # Not `Tab.open`: it asks the page for something, which may be gone by then.
    tab.page.goto(f"{tab.address}chapters/{old}", wait_until="commit")
    tab.page.wait_for_url(f"**/chapters/{new}")
    assert tab.problems == []


def test_an_old_address_is_followed_from_its_own_page(tab: Tab) -> None:
    tab.open("chapters/5-one-layer.html")
    tab.page.evaluate("location.hash = 'how-many-optima'")
    tab.page.wait_for_url("**/chapters/5-many-optima.html#a-layer-collects-*")
    assert tab.problems == []
