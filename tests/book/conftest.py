"""A project of two chapters, to build."""

import json
import shutil

import pytest
from small_project import CHECK, REPOSITORY, notebook

from clcore import ledger
from clcore.book import keys
from clcore.book.site import stage


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of clcore and the claims with two chapters, `good` and `other`, and no site."""
    root = tmp_path / "project"
    ignore = shutil.ignore_patterns("__pycache__", "cache", "recorded")
    shutil.copytree(REPOSITORY / "clcore", root / "clcore", ignore=ignore)
    shutil.copytree(REPOSITORY / "data", root / "data", ignore=ignore)
    shutil.copy(REPOSITORY / "requirements.txt", root)
    entries = [{"file": "chapters/good"}, {"file": "chapters/other"}]
    toc = {"format": "jb-book", "root": "book/index", "chapters": entries}
    (root / "_toc.yml").write_text(json.dumps(toc))
    notebook(root / "chapters" / "good.ipynb", CHECK)
    notebook(root / "chapters" / "other.ipynb", "from clcore.book import plots")
    monkeypatch.setenv("CLCORE_ROOT", str(root))
    monkeypatch.setenv("CLCORE_BUILD", str(root / "_build"))
    monkeypatch.setattr(stage, "build", lambda rows, book, chapters: "")
    # What tests before this one, of the same process, have read for another root.
    ledger.claims.cache_clear()
    keys._versions.cache_clear()
    yield root
    ledger.claims.cache_clear()
