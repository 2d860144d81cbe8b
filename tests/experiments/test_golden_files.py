"""Golden files that cannot be trusted are refused by name, and so is another checkout."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clcore import _paths
from clcore.experiments import golden

NAME = "nl-a"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MAKE = _paths.root() / "tests" / "golden" / "make.py"


def arrays() -> dict[str, np.ndarray]:
    return {
        "commit": np.array(COMMIT),
        "start/W": np.linspace(0, 1, 6).reshape(2, 3),
        "end/W": np.linspace(0, 2, 6).reshape(2, 3),
        "batch/tokens": np.zeros((4, 2, 3), dtype=np.uint8),
        "loss": np.array([3.0, 2.0, 1.5, 1.0]),
    }


def write(folder: Path, made: dict[str, np.ndarray], **told: object) -> Path:
    """A trace and an index that declares it."""
    path = folder / f"{NAME}.npz"
    np.savez_compressed(path, **made)
    data = path.read_bytes()
    trace = {"program": "p", "entry": ["main"], "settings": {}, "steps": 4, "dtype": "float64"}
    trace |= {"bytes": len(data), "sha256": golden.digest(data)} | told
    program = {"repository": "https://example.org/p", "commit": COMMIT, "files": []}
    index = {"programs": {"p": program}, "traces": {NAME: trace, "nl-b": trace}}
    (folder / "index.json").write_text(json.dumps(index))
    return path


def test_a_sound_trace_is_read(tmp_path: Path) -> None:
    write(tmp_path, arrays())
    trace = golden.load(NAME, tmp_path)
    assert (trace.family, trace.commit, trace.entry) == ("nl", COMMIT, ["main"])
    np.testing.assert_array_equal(trace.start["W"], arrays()["start/W"])
    assert trace.batch["tokens"].dtype == np.uint8 and trace.loss[-1] == 1.0


@pytest.mark.parametrize(
    ("changed", "told", "message"),
    [
        ({"commit": np.array("f" * 40)}, {}, f"declares commit {COMMIT} of https.*from ffff"),
        ({"commit": None}, {}, "the file was recorded from none"),
        ({"start/W": np.zeros((2, 3), np.float32)}, {}, "expected float64, but start/W is float32"),
        ({"loss": np.ones(4, np.float32)}, {}, "expected float64, but loss is float32"),
        ({"loss": np.arange(4)}, {}, "expected float64, but loss is int64"),
        ({"batch/views": np.ones(3, np.float16)}, {}, "batch/views is float16"),
        ({}, {"dtype": "float32"}, "the index declares float32"),
        ({"loss": None}, {}, "expected start, end and loss, got"),
        ({"end/W": None}, {}, "expected start, end and loss, got"),
        ({"start/W": np.array([{}], dtype=object)}, {}, "cannot be read as an npz of plain arrays"),
        (
            {},
            {"sha256": "0" * 64},
            "has another checksum than its index declares: expected sha256 0",
        ),
    ],
)
def test_what_is_not_as_declared_is_refused(
    tmp_path: Path, changed: dict, told: dict, message: str
) -> None:
    made = {n: a for n, a in (arrays() | changed).items() if a is not None}
    write(tmp_path, made, **told)
    with pytest.raises(golden.BadGolden, match=message) as error:
        golden.load(NAME, tmp_path)
    assert f"{NAME}.npz" in str(error.value)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [(cut, r"is cut short: expected \d+ bytes, got \d+"), (flipped, "has another checksum")],
)
def test_damage_is_told(tmp_path: Path, damage: Callable, message: str) -> None:
    path = write(tmp_path, arrays())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(golden.BadGolden, match=message) as error:
        golden.load(NAME, tmp_path)
    assert f"{NAME}.npz" in str(error.value) and "git checkout" in str(error.value)


@pytest.mark.parametrize("damage", [cut, lambda data: b"not a zip", lambda data: b""])
def test_an_index_that_declares_a_broken_file_does_not_help(
    tmp_path: Path, damage: Callable
) -> None:
    path = write(tmp_path, arrays())
    data = damage(path.read_bytes())
    write(tmp_path, arrays(), bytes=len(data), sha256=golden.digest(data))
    path.write_bytes(data)
    with pytest.raises(golden.BadGolden, match=r"nl-a\.npz cannot be read as an npz"):
        golden.load(NAME, tmp_path)


def test_a_missing_file_and_a_missing_index_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"index.json is not there; bring it back"):
        golden.load(NAME, tmp_path)
    write(tmp_path, arrays()).unlink()
    with pytest.raises(golden.BadGolden, match=r"nl-a.npz is not there; bring it back"):
        golden.load(NAME, tmp_path)
    (tmp_path / "index.json").write_text('{"programs": {')
    with pytest.raises(ValueError, match=r"index\.json is damaged or cut short"):
        golden.names(tmp_path)
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(golden.BadGolden, match=r"index\.json lists no traces"):
        golden.names(tmp_path)


def test_an_unknown_name_gets_near_ones() -> None:
    with pytest.raises(ValueError, match="got 'ncl-simclr-bm'; did you mean ncl-simclr-bn or"):
        golden.load("ncl-simclr-bm")
    with pytest.raises(ValueError, match="got 'zzz'; `python -m clcore golden` has all"):
        golden.load("zzz")


def test_measured_differences_are_of_the_traces_there_are(tmp_path: Path) -> None:
    write(tmp_path, arrays())
    with pytest.raises(ValueError, match=r"measured.json is not there; `python -m clcore golden"):
        golden.measured(tmp_path)
    (tmp_path / "measured.json").write_text(json.dumps({NAME: {}, "nl-c": {}}))
    with pytest.raises(golden.BadGolden, match=r"and the index differ in nl-b, nl-c; `python"):
        golden.measured(tmp_path)


def test_what_is_committed_is_whole_small_and_from_one_commit_each() -> None:
    files = {path.stem for path in golden.folder().glob("*.npz")}
    assert sorted(files) == golden.names()
    assert sum(path.stat().st_size for path in golden.folder().iterdir()) < 1.5e6
    for name in golden.names():
        trace = golden.load(name)
        assert re.fullmatch("[0-9a-f]{40}", trace.commit) and trace.entry and trace.settings
        assert all(np.isfinite(a).all() for a in (*trace.start.values(), *trace.end.values()))
        assert np.isfinite(trace.loss).all()
    assert set(golden.EXCEPTIONS) <= files
    text = (golden.folder() / "index.json").read_text()
    assert "/work" not in text and "/home" not in text and "/tmp" not in text


def make(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(MAKE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_tool_refuses_another_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "another")
    expected, got = golden.index()["programs"]["ncl"]["commit"], git(tmp_path, "rev-parse", "HEAD")
    run = make("ncl", tmp_path)
    assert run.returncode == 1 and "Traceback" not in run.stderr
    assert f"expected commit {expected} of https://github.com" in run.stderr
    assert f"got {got}; run `git -C" in run.stderr


def test_the_tool_refuses_a_file_that_was_changed(tmp_path: Path) -> None:
    """Even where the checkout is at the right commit."""
    git(tmp_path, "init", "-q")
    (tmp_path / "theirs.py").write_text("factor = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one file")
    script = f"""
import sys, pathlib
sys.path[:0] = [{str(MAKE.parent)!r}, {str(tmp_path)!r}]
import make, theirs
print(make.check_files(pathlib.Path({str(tmp_path)!r})))
"""
    same = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert same.stdout == "['theirs.py']\n"
    (tmp_path / "theirs.py").write_text("factor = 2\n")
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "theirs.py: expected the committed file (blob" in other.stderr
    assert "checkout HEAD -- theirs.py" in other.stderr


def test_the_tool_refuses_what_is_no_checkout(tmp_path: Path) -> None:
    run = make("luckmatters", tmp_path / "nothing")
    assert run.returncode == 1 and "is no usable checkout" in run.stderr
    assert make("acl", tmp_path).returncode == 2
