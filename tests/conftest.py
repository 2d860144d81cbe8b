"""Fixtures: seeds, shape checks, and the built site in a browser."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import jaxtyping
import pytest
import torch
import typechecking

# Every test checks the shapes and types in the signatures of clcore: hence before its import.
typechecking.install()

from browsing import Tab, site_folder  # noqa: E402

pytest.register_assert_rewrite("site_pages")

torch.manual_seed(0)  # for what modules draw when they are read

CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What a test draws from torch's own generator is the same in every run."""
    torch.manual_seed(0)


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """For tests of clcore's own errors: without the hook, wrong shapes reach the function."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For tests on tiny tensors, where threads cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _absent(reason: str) -> None:
    """Skip; but where everything ought to be there, a skipped test would hide a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site."""
    if not (site_folder() / "index.html").exists():
        _absent(f"no built site in {site_folder()}; run `make book` first")
    return site_folder()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The site, served on this machine; ends in a slash."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """A running Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        _absent("no Chromium on the path; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: object, address: str, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A fresh page. `indirect` parameters are options of the browser context."""
    context = chromium.new_context(**getattr(request, "param", {}))
    page = context.new_page()
    page.set_default_timeout(60_000)
    tab = Tab(page, address)
    host = urlsplit(address).netloc

    def route(route: object) -> None:
        url = urlsplit(route.request.url)
        if url.scheme in ("http", "https") and url.netloc != host:
            tab.problems.append(f"request to another host: {route.request.url}")
            route.abort()
        else:
            route.continue_()

    def response(answer: object) -> None:
        # Browsers ask for this by themselves where a page names no icon.
        if answer.status >= 400 and not answer.url.endswith("/favicon.ico"):
            tab.problems.append(f"{answer.status} for {answer.url}")

    def console(message: object) -> None:
        if message.type == "error" and "favicon.ico" not in str(message.location):
            tab.problems.append(f"console: {message.text}")

    page.route("**/*", route)
    page.on("response", response)
    page.on("console", console)
    page.on("pageerror", lambda error: tab.problems.append(f"script: {error}"))
    yield tab
    context.close()
