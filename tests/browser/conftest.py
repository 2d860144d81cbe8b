"""Python for the reader's browser, which the site has where it could be fetched."""

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def python(site: Path) -> None:
    """The site has Python for its pages; where npm is, it must."""
    if not (site / "_static" / "python" / "files.json").exists():
        if os.environ.get("CI") == "true" and shutil.which("npm"):
            pytest.fail("the site has no Python for the browser; `make setup` fetches it")
        pytest.skip("no Python for the browser")
