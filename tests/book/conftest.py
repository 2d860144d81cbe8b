"""A project of two chapters, to build."""

import contextlib

import pytest
from small_project import CHECK, make_project, notebook

from clcore import ledger
from clcore.book import keys
from clcore.book.site import stage


@contextlib.contextmanager
def _at(root):
    """With a project as the one that clcore works on, and no site."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLCORE_ROOT", str(root))
        patch.setenv("CLCORE_BUILD", str(root / "_build"))
        patch.setattr(stage, "build", lambda rows, book, chapters: "")
        # What tests before this one, of the same process, have read for another root.
        ledger.claims.cache_clear()
        keys.versions.cache_clear()
        yield
        ledger.claims.cache_clear()


@pytest.fixture(scope="session")
def at():
    return _at


@pytest.fixture
def project(tmp_path):
    """A project with two chapters, `good` and `other`."""
    root = tmp_path / "project"
    make_project(root, "good", "other")
    notebook(root / "chapters" / "good.ipynb", CHECK)
    notebook(root / "chapters" / "other.ipynb", "from clcore.book import plots")
    with _at(root):
        yield root
