"""The registry of data sets, against a server on this machine and files that are cut or wrong."""

import functools
import gzip
import hashlib
import http.server
import threading

import pytest

from clcore import datasets
from clcore.datasets import DataError

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A registry of one packed file, two mirrors, the first of which does not have it."""
    served = tmp_path / "served"
    served.mkdir()
    packed = gzip.compress(CONTENT, mtime=0)
    (served / "a.gz").write_bytes(packed)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(served))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    entry = {
        "title": "Small",
        "source": base,
        "licence": "none",
        "mirrors": [base + "gone/", base],
        "files": [
            {
                "name": "a.gz",
                "size": len(packed),
                "md5": hashlib.md5(packed).hexdigest(),
                "content_md5": hashlib.md5(CONTENT).hexdigest(),
            }
        ],
    }
    monkeypatch.setattr(datasets, "registry", lambda: {"small": entry})
    monkeypatch.setenv("CLCORE_DATA", str(tmp_path / "data"))
    yield served
    server.shutdown()
    server.server_close()


def test_fetch_uses_the_mirror_that_answers(mirror):
    assert datasets.verify("small")[0].endswith("put it there by hand")
    folder = datasets.fetch("small")
    assert gzip.decompress((folder / "a.gz").read_bytes()) == CONTENT
    assert datasets.verify("small") == []
    assert datasets.present() == ["small"]
    assert "here" in datasets.overview()


def test_file_packed_again_is_the_same_data(mirror):
    folder = datasets.folder("small")
    folder.mkdir(parents=True)
    (folder / "a.gz").write_bytes(gzip.compress(CONTENT, compresslevel=1, mtime=9))
    assert datasets.verify("small") == []


@pytest.mark.parametrize("damage", [lambda b: b[:-30], lambda b: b[:50] + b"x" + b[51:]])
def test_damage_is_named_and_mended(mirror, damage):
    folder = datasets.fetch("small")
    (folder / "a.gz").write_bytes(damage((folder / "a.gz").read_bytes()))
    (problem,) = datasets.verify("small")
    assert "a.gz is damaged or another version" in problem
    assert "data fetch small" in problem
    datasets.fetch("small")
    assert datasets.verify("small") == []


def test_no_mirror_says_where_to_put_it(mirror):
    (mirror / "a.gz").unlink()
    told = r"no mirror gave a\.gz \(md5 [0-9a-f]{32}, \d+ bytes\)"
    with pytest.raises(DataError, match=told) as error:
        datasets.fetch("small")
    assert "gone/" in str(error.value)
    assert str(datasets.folder("small")) in str(error.value)


def test_wrong_file_from_a_mirror_is_not_kept(mirror):
    (mirror / "a.gz").write_bytes(b"something else")
    with pytest.raises(DataError, match="no mirror gave"):
        datasets.fetch("small")
    assert not (datasets.folder("small") / "a.gz").exists()


def test_unknown_name():
    with pytest.raises(DataError, match=r"expected a data set of digits, mnist.*got 'cifar'"):
        datasets.folder("cifar")


def test_real_registry_is_complete():
    for entry in datasets.registry().values():
        assert {"title", "source", "licence", "files"} <= set(entry)
        for file in entry["files"]:
            assert len(file["md5"]) == 32
            assert file["size"] > 0
            assert entry["mirrors"]
