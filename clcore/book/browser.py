"""Chromium, which prints the book and tries its pages; and a folder served to it."""

import functools
import http.server
import shutil
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",  # a container has no user namespaces
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the book needs no network
)


def program() -> str | None:
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Generator[str]:
    """A folder, served on this machine; its address, which ends in a slash."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:  # else the thread would look for requests of a server that is closed, for ever
            server.shutdown()


def apart(work: Callable[[], Any]) -> Any:
    """The result of `work`, run in a separate thread: Playwright rejects a thread whose event loop
    is already running, as a notebook's is."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@contextmanager
def chromium() -> Generator[Any]:
    """A running Chromium. Raises FileNotFoundError where there is none, with how to get it."""
    found = program()
    if found is None:
        raise FileNotFoundError(
            f"expected Chromium on the path ({', '.join(NAMES)}), found none; on Debian "
            "`apt-get install chromium`"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield browser
        browser.close()
