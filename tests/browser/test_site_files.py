"""The files of the built site: its pages are there, and links lead somewhere."""

import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
import yaml
from site_pages import PAGES, parsed

from clcore import _paths, ledger
from clcore.book.site import code
from clcore.ledger import registry
from clcore.ledger.html import row_id

pytestmark = pytest.mark.site


def test_the_table_of_contents_is_all_there(site: Path) -> None:
    toc = yaml.safe_load((_paths.root() / "_toc.yml").read_text())
    listed = [c for part in toc["parts"] for c in part["chapters"]]
    names = [toc["root"], *(c["file"] for c in listed)]
    names += [s["file"] for c in listed for s in c.get("sections", [])]
    assert {f"{name}.html" for name in names} | {"search.html"} == set(PAGES)


def dead_links(site: Path, page: Path) -> list[str]:
    dead = []
    for link in parsed(page).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link == "#":
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        if not target.resolve().is_file():
            dead.append(f"{link}: no such page")
            continue
        place = unquote(parts.fragment)
        if place and target.suffix == ".html" and place not in parsed(target.resolve()).ids:
            dead.append(f"{link}: no such place")
    return dead


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(site: Path, name: str) -> None:
    assert dead_links(site, site / name) == []


def test_nothing_of_the_machine_that_built_it_is_in_the_site(site: Path) -> None:
    """No path of the clone, of the build, of Python or of a home, and no notes of papermill."""
    places = {_paths.root(), site.parent, Path(sys.prefix), Path(sys.base_prefix), Path.home()}
    needles = [f"{place}/".encode() for place in places if len(place.parts) > 1]
    python = site / "_static" / "python"  # compiled elsewhere, in somebody's /root
    for file in (p for p in site.rglob("*") if p.is_file() and p.parent != python):
        content = file.read_bytes()
        assert not [n for n in needles if n in content], file
        assert file.suffix != ".ipynb" or b'"papermill"' not in content, file


@pytest.mark.parametrize("name", PAGES)
def test_loads_nothing_from_another_host(site: Path, name: str) -> None:
    assert [url for url in parsed(site / name).loads if urlsplit(url).netloc] == []


def test_one_click_leads_from_a_claim_to_the_code_of_its_check(site: Path) -> None:
    links = set(parsed(site / "book/ledger.html").links)
    for place in registry.places():
        for claim in place.claims:
            page, anchor = code.page_of(place.file), row_id(claim)
            assert f"../{page}#{anchor}" in links, claim
            assert anchor in parsed(site / page).ids, claim


def test_links_of_the_pages_of_code_lead_somewhere(site: Path) -> None:
    for page in sorted((site / "code").rglob("*.html")):
        assert dead_links(site, page) == [], page.name


def test_links_of_the_pages_of_claims_lead_somewhere(site: Path) -> None:
    for page in sorted((site / "claims").glob("*.html")):
        assert dead_links(site, page) == [], page.name


def test_claims_json_of_the_site_keeps_its_schema(site: Path) -> None:
    document = json.loads((site / "claims.json").read_text())
    schema = json.loads((site / document["$schema"]).read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    assert [claim["id"] for claim in document["claims"]] == list(ledger.claims())
    for claim in document["claims"]:
        assert (site / claim["page"]).is_file()
