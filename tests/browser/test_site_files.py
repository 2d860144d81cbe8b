"""The files of the built site: its pages are there, and links lead somewhere."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from site_pages import PAGES, parsed

from clcore import _paths

pytestmark = pytest.mark.site


def test_the_table_of_contents_is_all_there(site: Path) -> None:
    toc = yaml.safe_load((_paths.root() / "_toc.yml").read_text())
    names = [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])]
    assert {f"{name}.html" for name in names} | {"search.html"} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(site: Path, name: str) -> None:
    dead = []
    for link in parsed(site / name).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link == "#":
            continue
        target = (site / name).parent / unquote(parts.path) if parts.path else site / name
        if not target.resolve().is_file():
            dead.append(f"{link}: no such page")
            continue
        place = unquote(parts.fragment)
        if place and target.suffix == ".html" and place not in parsed(target.resolve()).ids:
            dead.append(f"{link}: no such place")
    assert dead == []


@pytest.mark.parametrize("name", PAGES)
def test_loads_nothing_from_another_host(site: Path, name: str) -> None:
    assert [url for url in parsed(site / name).loads if urlsplit(url).netloc] == []
