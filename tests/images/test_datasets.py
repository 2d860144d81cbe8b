"""The registry of data sets, against a server on this machine and files that are cut or wrong."""

import contextlib
import functools
import gzip
import hashlib
import http.server
import os
import pathlib
import random
import re
import subprocess
import threading
import time

import pytest
import urllib3

from clcore.images import datasets
from clcore.images.datasets import DataError

CONTENT = random.Random(0).randbytes(300_000)


class Served(type(pathlib.Path())):
    """The folder that is served; tests read `asked`, the requests, and change `entry`."""


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A registry of one packed file, two mirrors, the first of which does not have it."""
    served = Served(tmp_path / "served")
    served.mkdir()
    packed = gzip.compress(CONTENT, mtime=0)
    (served / "a.gz").write_bytes(packed)

    asked = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            """Files, from where the client has them; `broken/` sends half and hangs up, `slow/`
            sends a hundred bytes a second."""
            asked.append((self.path, self.headers.get("Range")))
            path = served / self.path.split("/")[-1]
            if self.path.startswith("/gone") or not path.exists():
                self.send_error(404)
                return
            content = path.read_bytes()
            if self.path.startswith("/endless"):
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    for _ in range(1000):
                        self.wfile.write(content)
                        served.sent += len(content)
                return
            first = 0
            if self.headers.get("Range"):
                first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            if self.path.startswith("/slow"):
                with contextlib.suppress(OSError):
                    for byte in content[first:]:
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.01)
                return
            half = len(content) // 2 if self.path.startswith("/broken") else len(content)
            self.wfile.write(content[first:half])

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
    served.asked, served.entry, served.sent = asked, entry, 0
    yield served
    server.shutdown()
    server.server_close()


def test_fetch_uses_the_mirror_that_answers(mirror):
    assert datasets.verify("small")[0].endswith("put it there by hand")
    assert datasets.present() == []
    assert "not here" in datasets.overview()
    folder = datasets.fetch("small")
    assert gzip.decompress((folder / "a.gz").read_bytes()) == CONTENT
    assert datasets.verify("small") == []
    assert datasets.present() == ["small"]
    assert re.search(r"Small +0\.3 MB +here +none", datasets.overview())


def test_a_data_set_is_here_with_all_its_files(mirror):
    other = mirror.entry["files"][0] | {"name": "b.gz"}
    (mirror / "b.gz").write_bytes((mirror / "a.gz").read_bytes())
    mirror.entry["files"] = [*mirror.entry["files"], other]
    assert not datasets.here("small")
    folder = datasets.fetch("small")
    assert datasets.here("small")
    (folder / "b.gz").unlink()
    assert not datasets.here("small") and datasets.present() == ["small"]
    mirror.entry["files"] = []
    assert datasets.here("small")  # it comes with a package


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
    assert re.search(r"MB +damaged ", datasets.overview())
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


def test_a_download_stops_at_the_published_size(mirror):
    """From a server that does not say how much it sends: 300 MB here."""
    mirror.entry["mirrors"] = [mirror.entry["mirrors"][1] + "endless/"]
    with pytest.raises(DataError, match=r"sent more than the expected \d+ bytes"):
        datasets.fetch("small")
    assert list(datasets.folder("small").iterdir()) == []
    assert mirror.sent < 100 * mirror.entry["files"][0]["size"]


@pytest.mark.usefixtures("soon")
def test_a_pipe_in_place_of_a_file_is_told(mirror):
    pipe = datasets.folder("small") / "a.gz"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    assert "is a pipe or device" in datasets.verify("small")[0]
    with pytest.raises(DataError, match="is a pipe or device"):
        datasets.fetch("small")


def test_download_that_broke_off_is_carried_on(mirror, capfd):
    base = mirror.entry["mirrors"][1]
    mirror.entry["mirrors"] = [base + "broken/"]
    size = mirror.entry["files"][0]["size"]
    with pytest.raises(DataError, match="no mirror gave"):
        datasets.fetch("small")
    folder = datasets.folder("small")
    begun = (folder / "a.gz.part").stat().st_size
    assert size / 4 < begun <= size / 2  # all but the last block
    assert not (folder / "a.gz").exists()
    mirror.entry["mirrors"] = [base]
    datasets.fetch("small")
    assert mirror.asked[-1] == ("/a.gz", f"bytes={begun}-")
    assert datasets.verify("small") == []
    assert not (folder / "a.gz.part").exists()
    shown = capfd.readouterr()
    assert f"small: 1 file(s), {size / 1e6:.1f} MB" in shown.out
    assert "100%" in shown.err


def test_a_slow_mirror_is_left_for_the_next_which_carries_on(mirror, monkeypatch, capsys):
    monkeypatch.setattr(datasets, "PATIENCE", 0.3)
    base = mirror.entry["mirrors"][1]
    mirror.entry["mirrors"] = [base + "slow/", base]
    datasets.fetch("small")
    assert datasets.verify("small") == []
    (first, none), (second, rest) = mirror.asked
    assert (first, none, second) == ("/slow/a.gz", None, "/a.gz")
    assert 0 < int(rest.removeprefix("bytes=").removesuffix("-")) < 1000
    told = rf"{base}slow/: too slow: \d+ bytes in \d+ s, expected at least 5000 a second; .*later"
    assert re.search(
        rf"{told} carries on where it stopped\ntrying {base}\n", capsys.readouterr().out
    )


def test_all_mirrors_are_slow(mirror, monkeypatch):
    monkeypatch.setattr(datasets, "PATIENCE", 0.3)
    mirror.entry["mirrors"] = [mirror.entry["mirrors"][1] + "slow/"] * 2
    with pytest.raises(DataError, match=r"no mirror gave a\.gz .*:\n.*too slow.*\n.*too slow"):
        datasets.fetch("small")
    assert len(mirror.asked) == 2 and (datasets.folder("small") / "a.gz.part").exists()


def test_a_mirror_that_falls_silent_is_left():
    """The rate counts where bytes come; where none do, the socket's own wait ends."""

    class Silent:
        def read1(self, *_, **__):
            raise urllib3.exceptions.ReadTimeoutError(None, "/", "Read timed out.")

    with pytest.raises(OSError, match=r"the connection failed \(.*Read timed out"):
        next(datasets._arriving(Silent()))


@pytest.mark.parametrize("rate", [4_000, 6_000])
def test_the_rate_counts_over_every_stretch_of_time(monkeypatch, rate):
    """A mirror that begins fast and then slows down, by a clock of our own."""
    now = [0.0]
    monkeypatch.setattr(datasets.time, "monotonic", lambda: now[0])

    class Body:
        def read1(self, size, decode_content):
            now[0] += 1
            return bytes(60_000 if now[0] <= 21 else rate if now[0] < 100 else 0)

    blocks = datasets._arriving(Body())
    if rate > datasets.LEAST:
        assert sum(map(len, blocks)) == 21 * 60_000 + 78 * rate
        return
    with pytest.raises(OSError, match=r"too slow: 84000 bytes in 21 s"):
        list(blocks)
    assert now[0] == 42


def test_rest_of_another_file_is_not_believed(mirror):
    folder = datasets.folder("small")
    folder.mkdir(parents=True)
    (folder / "a.gz.part").write_bytes(b"x" * 20)
    with pytest.raises(DataError, match="hash"):
        datasets.fetch("small")
    datasets.fetch("small")
    assert datasets.verify("small") == []


def test_file_of_another_size_is_refused_at_once(mirror):
    (mirror / "a.gz").write_bytes(b"<html>Sorry</html>")
    told = rf"its file has 18 bytes, expected {mirror.entry['files'][0]['size']}"
    with pytest.raises(DataError, match=told):
        datasets.fetch("small")
    assert not (datasets.folder("small") / "a.gz.part").exists()


def test_set_without_mirrors_says_so(mirror):
    mirror.entry["mirrors"] = []
    with pytest.raises(DataError, match="it has none: it is no published file"):
        datasets.fetch("small")


def test_without_mirrors_nothing_is_to_be_deleted_or_fetched(mirror):
    mirror.entry |= {"mirrors": [], "title": "Small, a copy", "source": "made by hand"}
    md5, size = (mirror.entry["files"][0][name] for name in ("md5", "size"))
    path = datasets.folder("small") / "a.gz"
    what = r"is Small, a copy \(made by hand\): no mirror has it; put"
    (problem,) = datasets.verify("small")
    assert re.search(rf"{path} \(md5 {md5}, {size} bytes\) is not there\. It {what} it", problem)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    (other,) = datasets.verify("small")
    assert re.search(rf"\(14 bytes\), expected is md5 {md5}, .* {what} one with that md5", other)
    for text in (problem, other):
        assert "delete" not in text and "fetch" not in text
    path.write_bytes((mirror / "a.gz").read_bytes())
    assert datasets.verify("small") == []


def test_a_folder_in_a_files_place(mirror):
    path = datasets.folder("small") / "a.gz"
    path.mkdir(parents=True)
    assert datasets.present() == [] and "not here" in datasets.overview()
    assert "a.gz (not here" in datasets.where("small")
    told = r"small: .*a\.gz is a folder, expected is a file \(md5 .*; move the folder away$"
    assert re.search(told, datasets.verify("small")[0])
    with pytest.raises(DataError, match=told):
        datasets.fetch("small")
    assert mirror.asked == [] and path.is_dir()


def test_a_file_unpacked_by_hand_is_packed_again(mirror):
    path = datasets.folder("small") / "a.gz"
    path.parent.mkdir(parents=True)
    raw = path.with_suffix("")
    raw.write_bytes(CONTENT)
    (problem,) = datasets.verify("small")
    assert problem.endswith(f"a.gz is not there, but a is: `gzip {raw}` packs it again")
    subprocess.run(["gzip", str(raw)], check=True)
    assert datasets.verify("small") == []


def test_where(mirror):
    told = datasets.where("small")
    assert str(datasets.folder("small") / "a.gz") in told
    assert "not here" in told and mirror.entry["files"][0]["md5"] in told
    datasets.fetch("small")
    assert "(here;" in datasets.where("small")


def test_unknown_name():
    with pytest.raises(
        DataError, match=r"expected a data set of digits, photographs, mnist.*got 'cifar'"
    ):
        datasets.folder("cifar")


def test_real_registry_is_complete():
    for entry in datasets.registry().values():
        assert {"title", "source", "licence", "files"} <= set(entry)
        for file in entry["files"]:
            assert len(file["md5"]) == 32
            assert file["size"] > 0
            assert entry["mirrors"] or "copy_of" in entry
        if entry["kind"] != "embedded":
            assert len(entry["shape"]) == 3
            assert len(entry["classes"]) == 10
            assert entry["splits"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text + "mnist: {}\n", "duplicate key 'mnist'"),
        (lambda text: text.replace("md5: f68b3c", "md5_: f68b3c"), "at mnist/files/0: .*md5"),
        (lambda text: text.replace("md5: f68b3c", "md5: xyz"), "at mnist/files/0/md5: "),
        (
            lambda text: text.replace("kind: idx\n  shape:", "kind: idx\n  form:"),
            "at mnist: .*form",
        ),
        (lambda text: "", "at top: None is not of type 'object'"),
    ],
)
def test_a_damaged_registry_is_named(tmp_path, monkeypatch, change, told):
    text = (datasets._paths.root() / "data" / "datasets.yaml").read_text()
    assert change(text) != text
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "datasets.yaml").write_text(change(text))
    monkeypatch.setattr(datasets._paths, "root", lambda: tmp_path)
    datasets.registry.cache_clear()
    try:
        with pytest.raises(DataError, match=rf"datasets\.yaml.*{told}"):
            datasets.registry()
    finally:
        datasets.registry.cache_clear()
