"""The locks: all that is installed is pinned, by the hashes of its files, and nothing else is."""

import base64
import hashlib
import importlib.metadata as metadata
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from clcore import _paths

ROOT = _paths.root()
MAKEFILE = (ROOT / "Makefile").read_text()
LOCKS = ("cpu", "everything", "cuda")
NAMED = [
    {"sys_platform": system, "platform_machine": machine, "python_version": version}
    | {"python_full_version": f"{version}.9", "implementation_name": "cpython"}
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
    for version in ("3.11", "3.12", "3.13")
]
"""The platforms that the book names."""


def pins(name: str, where: dict[str, str] | None = None) -> dict[str, str]:
    """Package -> pinned version of the lines of a file that count on a platform, or on this one."""
    text = re.sub(r"\s*\\\n\s*--hash=\S+", "", (ROOT / name).read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "-e "))]
    found = {}
    for line in lines:
        one = Requirement(line)
        (pin,) = one.specifier
        assert pin.operator == "==", line
        assert canonicalize_name(one.name) not in found, line
        if one.marker is None or one.marker.evaluate(where):
            found[canonicalize_name(one.name)] = pin.version
    return found


@pytest.mark.parametrize("where", NAMED, ids=lambda where: "-".join([*where.values()][:3]))
def test_the_lock_is_the_list(where):
    assert pins("locks/everything.txt", where) == pins("requirements.txt", where)


@pytest.mark.parametrize("name", ["everything", "cuda", "cpu", "lab", "uv"])
def test_every_package_has_hashes_and_no_lock_names_an_index(name):
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    assert "://" not in text and "-index" not in text and "find-links" not in text
    body = re.sub(r"^#.*\n", "", text, flags=re.M)
    entries = re.split(r"\n(?=[a-z])", body.strip())
    assert entries
    for entry in entries:
        head, *hashes = [part.strip() for part in entry.split("\\\n")]
        assert "==" in head and hashes, entry
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), head


def test_the_other_locks_belong_to_what_they_are_made_from():
    everything, cuda = pins("requirements.txt"), pins("locks/cuda.txt", NAMED[0])
    assert {re.match("cuda|nvidia|triton", name)[0] for name in cuda} == {
        "cuda",
        "nvidia",
        "triton",
    }
    assert not set(cuda) & set(everything) and not pins("locks/cuda.txt", NAMED[-1])
    assert pins("locks/cpu.txt") == {"torch": f"{everything['torch']}+cpu"}
    assert pins("binder/lab.txt").items() <= pins("locks/lab.txt").items()
    assert pins("locks/uv.in") == pins("locks/uv.txt")


def test_what_is_installed_is_what_is_pinned():
    for name, version in pins("requirements.txt").items():
        assert metadata.version(name).partition("+")[0] == version, name


def test_the_back_end_of_the_build_is_the_pinned_one():
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert backend["requires"] == [f"setuptools=={pins('requirements.txt')['setuptools']}"]


def options(name: str) -> list[str]:
    """A variable of the Makefile, those in it put in, as words."""
    (text,) = re.findall(rf"^{name} := (.*)$", MAKEFILE, re.M)
    return shlex.split(re.sub(r"\$\((\w+)\)", lambda m: " ".join(options(m[1])), text))


@pytest.fixture
def wheel(tmp_path):
    """A wheel of a package without content."""
    folder, info = tmp_path / "files", "nothing-1.dist-info"
    folder.mkdir()
    parts = {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: nothing\nVersion: 1\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    record = ""
    for name, content in parts.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(content)}\n"
    with zipfile.ZipFile(folder / "nothing-1-py3-none-any.whl", "w") as made:
        for name, content in (parts | {f"{info}/RECORD": record.encode()}).items():
            made.writestr(name, content)
    return folder / "nothing-1-py3-none-any.whl"


@pytest.mark.parametrize(
    ("digest", "told"),
    [("", ""), ("0" * 64, "DO NOT MATCH THE HASHES"), (None, "Hashes are required")],
    ids=["right", "tampered", "none"],
)
def test_the_set_up_refuses_a_file_that_is_not_the_locked_one(wheel, tmp_path, digest, told):
    lock = tmp_path / "lock.txt"
    own = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text("nothing==1" + ("" if digest is None else f" --hash=sha256:{digest or own}"))
    command = [sys.executable, *options("LOCKED"), str(lock), "--no-index", "--dry-run"]
    run = subprocess.run(
        [*command, "--find-links", str(wheel.parent)], capture_output=True, text=True
    )
    assert (run.returncode == 0) == (not told), run.stderr
    assert told in run.stderr


def test_the_set_up_links_the_book_without_a_look_at_the_index_and_stamps_last():
    recipe = MAKEFILE.split("$(VENV)/.ready: ")[1].split("\n\n")[0]
    for lock in LOCKS:
        assert f"$(LOCKED) locks/{lock}.txt" in recipe
        assert f"locks/{lock}.txt" in recipe.splitlines()[0], "a new lock is a new set-up"
    (editable,) = [line for line in recipe.splitlines() if " -e " in line]
    assert {"--no-deps", "--no-build-isolation"} <= set(editable.split())
    assert recipe.splitlines()[-1].strip() == "@touch $@"


def test_of_two_set_ups_that_begin_at_once_one_waits(tmp_path):
    log, lock = tmp_path / "log", tmp_path / "lock"
    alone = [sys.executable, str(ROOT / "locks" / "alone.py"), str(lock), "sh", "-c"]
    work = f"echo begins >> {log}; sleep 0.3; echo ends >> {log}"
    runs = [subprocess.Popen([*alone, work], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [run.communicate()[1].count("waiting for it") for run in runs].count(1) >= 1
    assert log.read_text().split() == ["begins", "ends"] * 3
    assert subprocess.run([*alone, "exit 3"]).returncode == 3
    assert "locks/alone.py .venv.lock $(MAKE)" in MAKEFILE.split("\nsetup:")[1].split("\n\n")[0]


LATER = """#!/bin/sh
case "$*" in
  *venv*) mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
  *everything.txt*) echo "ERROR: No matching distribution found for numpy==2" >&2; exit 1;;
  *cpu.txt*) exit 1;;
  *python_version*) echo 3.99.0;;
esac
"""


def test_a_python_that_came_after_the_locks_is_told_what_to_do(tmp_path):
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "locks").mkdir()
    for name in ("requirements.txt", "pyproject.toml", *(f"locks/{n}.txt" for n in LOCKS)):
        (tmp_path / name).write_text("")
    (tmp_path / "later").write_text(LATER)
    (tmp_path / "later").chmod(0o755)
    made = subprocess.run(
        ["make", "PYTHON=./later", ".venv/.ready"], cwd=tmp_path, capture_output=True, text=True
    )
    assert made.returncode != 0 and not (tmp_path / ".venv" / ".ready").exists()
    last = made.stderr[made.stderr.index("No matching distribution") :]
    assert "under Python 3.99.0" in last and "rm -r .venv; make PYTHON=python3.11" in last
