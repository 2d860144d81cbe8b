"""Fixtures: seeds, shape checks, and the built site in a browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import jaxtyping
import pytest
import torch
import typechecking

# In a hook of git, every git that a test starts would work on the repository of the hook.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[name]

# Every test checks the shapes and types in the signatures of clcore: hence before its import.
typechecking.install()

import changed  # noqa: E402
from browsing import Tab, site_folder  # noqa: E402

from clcore.book import browser  # noqa: E402

pytest.register_assert_rewrite("site_pages")

torch.manual_seed(0)  # for what modules draw when they are read

# Begun first, as they take longest: else one of them runs alone at the end. Longest first.
LONGEST = (
    *("test_book_pages", "test_chapter_pages", "test_build", "test_site_build"),
    *("test_dask", "test_grid", "test_build_stopped", "test_sparse_runs", "test_slurm"),
    *("test_ledger_page", "test_keys", "test_sweep_runs", "test_pdf", "test_pretraining_many"),
    *("test_golden_files", "test_checks_acl_images", "test_sweep", "test_checks_operator"),
    *("test_policy_in_pages", "test_checks_tables", "test_course", "test_sides", "test_tables"),
    *("test_checks_ddn_images", "test_checks_tokens", "test_pretraining", "test_sparse_panels"),
    *("test_cards", "test_chapters", "test_sparse_training", "test_token_sequences"),
    *("test_trainer", "test_augmentations", "test_sparse_map", "test_sliders"),
)


SITE = ("test_chapters", "test_course", "test_keys", "test_licences", "test_pdf")
"""Files that look at the built site, besides those in tests/browser."""


FOLLOWING = ("test_dask", "test_slurm", "test_alter", "test_run", "test_sides")
"""Files of tests that take long and depend on few files: slow where none of these has changed."""


def _at_site(path: Path) -> bool:
    return path.parent.name == "browser" or path.stem in SITE


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Asked for what looks at the site, nothing else is imported, which takes long."""
    a_test = collection_path.match("test_*.py")
    of_site = config.option.markexpr.startswith("site")
    return (of_site and a_test and not _at_site(collection_path)) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what looks at the built site, and what can wait; put files that take longest first."""
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker("site")
        if item.get_closest_marker("site") and not _at_site(item.path):
            raise pytest.UsageError(f"{item.nodeid} looks at the site: name its file in {__file__}")
        if item.path.stem in FOLLOWING and not changed.touches(item.path):
            item.add_marker("slow")
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What a test draws from torch's own generator is the same in every run."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def seats_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test waits for a grid that runs on this machine for somebody else."""
    os.environ["CLCORE_SEATS"] = str(tmp_path_factory.mktemp("seats"))


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


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The site, served on this machine; ends in a slash."""
    with browser.served(site) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """A running Chromium."""
    if browser.program() is None:
        _absent("no Chromium on the path; on Debian: apt-get install chromium")
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)  # the default, 5 s, is too little on a busy machine
    with browser.chromium() as running:
        yield running


@pytest.fixture
def tab(chromium: object, address: str, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A fresh page. `indirect` parameters are options of the browser context."""
    context = chromium.new_context(**getattr(request, "param", {}))
    page = context.new_page()
    page.set_default_timeout(60_000)
    tab = Tab(page, address)
    host = urlsplit(address).netloc

    def asked(request: object) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("http", "https") and url.netloc != host:
            tab.problems.append(f"request to another host: {request.url}")

    def response(answer: object) -> None:
        # Browsers ask for this by themselves where a page names no icon.
        if answer.status >= 400 and not answer.url.endswith("/favicon.ico"):
            tab.problems.append(f"{answer.status} for {answer.url}")

    def console(message: object) -> None:
        if message.type == "error" and "favicon.ico" not in str(message.location):
            tab.problems.append(f"console: {message.text}")

    page.on("request", asked)
    page.on("response", response)
    page.on("console", console)
    page.on("pageerror", lambda error: tab.problems.append(f"script: {error}"))
    yield tab
    context.close()
