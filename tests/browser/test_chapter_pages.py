"""The chapters of the built site in a real browser."""

import pytest
from browsing import Tab
from site_pages import LOOKS, PAGES, look

pytestmark = [pytest.mark.site, pytest.mark.browser]


@pytest.mark.parametrize("tab", LOOKS, indirect=True)
@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("chapters/")])
def test_page(tab: Tab, name: str) -> None:
    look(tab, name)
