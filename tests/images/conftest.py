"""A data set of images that is registered for one test."""

import hashlib
import signal

import pytest
from image_files import CLASSES

from clcore.images import datasets


@pytest.fixture
def place(tmp_path, monkeypatch):
    """`place(kind, files, shape, splits)` registers the set "small" and puts its files there."""
    monkeypatch.setenv("CLCORE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "build"))

    def put(kind, files, shape, splits, **more):
        entry = {"title": "Small (set)", "source": "", "licence": "", "kind": kind}
        entry |= {"shape": shape, "classes": CLASSES, "splits": splits, "mirrors": []} | more
        entry["files"] = [
            {"name": n, "size": len(c), "md5": hashlib.md5(c).hexdigest()} for n, c in files.items()
        ]
        known = {"small": entry}
        monkeypatch.setattr(datasets, "registry", lambda: known)
        folder = tmp_path / "data" / "small"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    return put


@pytest.fixture
def soon():
    """Fail a test that waits for what never ends, such as a pipe that nobody writes."""

    def late(*_):
        raise AssertionError("still reading after 10 s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
