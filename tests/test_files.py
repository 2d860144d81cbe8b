"""Files are there whole or not at all, and a full disk says so."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from clcore import _files


def test_write_replaces_whole(tmp_path):
    path = tmp_path / "deep" / "a.json"
    _files.write_json(path, {"x": 1})
    _files.write_json(path, {"x": 2})
    assert _files.read_json(path, "") == {"x": 2}
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_failing_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    _files.write_atomic(path, b"old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(_files.DiskFull, match=r"no space left.*run the same command again"):
        _files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_other_errors_stay_what_they_are(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        _files.write_atomic(tmp_path / "file" / "below", b"")


def test_quota(tmp_path):
    """A real limit on file size, in a process of its own."""
    script = (
        "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path; from clcore import _files as files\n"
        f"path = Path({str(tmp_path / 'a')!r})\n"
        "files.write_atomic(path, b'x' * 100)\n"
        "try: files.write_atomic(path, b'y' * 10000)\n"
        "except files.DiskFull as error: print('told:', error)\n"
    )

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(_files.__file__).parents[1],
    )
    assert "told: " in run.stdout, run.stderr
    assert (tmp_path / "a").read_bytes() == b"x" * 100
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b'{"x": ', b"", b"\xff\xfe"])
def test_cut_json_is_named_with_its_remedy(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"results\.json is damaged or cut short.*run it again"):
        _files.read_json(path, "run it again")
    path.unlink()
    with pytest.raises(ValueError, match=r"results\.json is not there; run it again"):
        _files.read_json(path, "run it again")


BOMB = b"a: [1, 2]\n" + b"".join(
    b"%c: &%c [%s]\n"
    % (name, name, b"1" if name == ord("b") else b", ".join([b"*%c" % (name - 1)] * 9))
    for name in range(ord("b"), ord("k"))
)
"""Nine values that name the one before nine times each: 43 million."""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: 1\na: 2\n", r"a\.yaml is not valid YAML: duplicate key 'a'"),
        (b"a: &x [*x]\n", r"a\.yaml is not valid YAML: an alias inside what it names"),
        (BOMB, r"a\.yaml is not valid YAML: .*more than 1,000,000 values"),
        (b"a: \xff\n", r"a\.yaml is not valid YAML: .*utf-8"),
    ],
)
def test_yaml_that_says_two_things_is_refused_by_name(tmp_path, content, told):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=told):
        _files.read_yaml(path, {}, ValueError)


@pytest.mark.parametrize("value", ["acl/eq1\n", "acl/eq1\nx", "x acl/eq1"])
def test_a_pattern_ends_where_the_text_does(tmp_path, value):
    path = tmp_path / "a.yaml"
    schema = {"additionalProperties": {"pattern": "^[a-z]+/[a-z0-9]+$"}}
    path.write_text(f"id: {json.dumps(value)}\n")
    with pytest.raises(ValueError, match=r"a\.yaml, at id: .*does not match"):
        _files.read_yaml(path, schema, ValueError)
    path.write_text("id: acl/eq1\n")
    assert _files.read_yaml(path, schema, ValueError) == {"id": "acl/eq1"}
    named = {"propertyNames": {"pattern": "^[a-z]+$"}}
    path.write_text('"acl\\n": 1\n')
    with pytest.raises(ValueError, match="does not match"):
        _files.read_yaml(path, named, ValueError)


def test_digest_counts_borders():
    assert _files.sha256(b"ab", b"c") != _files.sha256(b"a", b"bc")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[" * 200_000 + b"]" * 200_000, "nested more than 100 deep at line 1"),
        (b"".join(b" " * i + b"-\n" for i in range(2000)), "nested more than 100 deep at line 101"),
        (b"on: 2026-02-30\n", "day is out of range for month at line 1, column 5"),
        (b"x: !!int one\n", "invalid literal.* at line 1"),
        (b"x: " + b"9" * 5000, "Exceeds the limit.* at line 1"),
        (b"a:\n\t- 1\n", "cannot start any token at line 2"),
    ],
)
def test_yaml_that_cannot_be_read_is_named_with_its_line(tmp_path, content, told):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.yaml is not valid YAML: .*{told}"):
        _files.read_yaml(path, {}, ValueError)


def test_deep_json_is_damaged(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ValueError, match=r"a\.json is damaged"):
        _files.read_json(path, "run it again")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", r"a\.ipynb is not a notebook"),
        ('{"cells": [], "metad', r"a\.ipynb is not a notebook"),
        ("[" * 100_000 + "]" * 100_000, r"a\.ipynb is not a notebook"),
        ("[]", r"a\.ipynb, at top: .*not of type 'object'"),
        ('{"cells": [1], "metadata": {}}', r"a\.ipynb, at cells/0: .*not of type 'object'"),
        (
            '{"cells": [{"cell_type": "code", "metadata": {}, "source": 3}], "metadata": {}}',
            r"a\.ipynb, at cells/0/source: ",
        ),
    ],
)
def test_a_damaged_notebook_is_named(tmp_path, content, told):
    path = tmp_path / "a.ipynb"
    path.write_text(content)
    with pytest.raises(ValueError, match=told):
        _files.read_notebook(path)
