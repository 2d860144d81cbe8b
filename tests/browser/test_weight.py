"""What a page of the built site weighs: bytes, requests and elements, which no machine's speed
changes. `benchmarks/pages.py` measures these and the times."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from clcore import _paths

pytestmark = [pytest.mark.site, pytest.mark.browser]

MOST = {
    "chapters/5-one-layer": {"bytes": 2_200_000, "requests": 25, "elements": 20_000},
    "book/ledger": {"bytes": 3_000_000, "requests": 25, "elements": 40_000},
    "claims/nl-thm4": {"bytes": 1_900_000, "requests": 25, "elements": 6_000},
}
SITE = 84_000_000
"""Most bytes of the whole site, 22 million of Python for the browser among them, and 6 of figures,
which as vectors travel compressed in a fifth of that."""


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """benchmarks/pages.py, which is no module of a package."""
    file = _paths.root() / "benchmarks" / "pages.py"
    spec = importlib.util.spec_from_file_location("page_costs", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", MOST)
def test_a_page_costs_little(chromium: object, address: str, benchmark, name: str) -> None:
    found = benchmark.measured(chromium, f"{address}{name}.html")
    assert found["elements"] > 500  # it is there
    over = {what: (found[what], most) for what, most in MOST[name].items() if found[what] > most}
    assert not over, f"{name}: {over}"


def test_the_site_is_small(site: Path) -> None:
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < SITE


def test_notebooks_for_download_have_no_outputs(site: Path) -> None:
    notebooks = sorted((site / "_sources" / "chapters").glob("*.ipynb"))
    assert notebooks
    for notebook in notebooks:
        assert '"output_type"' not in notebook.read_text(encoding="utf-8"), notebook.name
