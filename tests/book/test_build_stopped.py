"""The build stopped in the middle: killed, interrupted, on a full disk; the lock."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_project import BEGIN, CHECK, CLOSE, REPOSITORY, last, notebook

from clcore import _folders
from clcore.book import build
from clcore.book.build.housekeeping import tidy

LONG = 600
"""Seconds after which something that is waited for will not come: on no machine in use."""


def start_build(
    only: str = "['good']",
    profile: str = "smoke",
    stderr: bool = True,
    **environment: str,
) -> subprocess.Popen:
    """stderr: whether it has one, which some supervisors do not give."""

    def prepare() -> None:
        # A shell starts background jobs with Ctrl-C ignored, and children inherit that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not stderr:
            os.close(2)

    script = (
        "from clcore.book import build\nfrom clcore.book.site import stage\n"
        "stage.build = lambda *a: ''\n"
        f"raise SystemExit(build.build({profile!r}, only={only}, jobs=2))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=prepare,
    )


def wait_for(path: Path, seconds: float = LONG) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.05)


def test_killed_build_carries_on_and_a_second_one_waits(project, tmp_path):
    """SIGKILL in the middle of a chapter: nothing is left running, and training resumes, here and
    with papermill alone: the paper profile without a folder of its own in the environment."""
    mark = tmp_path / "begun"
    cell = (
        "import os, time\nfrom pathlib import Path\n"
        "state = here.checkpoint('training')\n"
        "resumed = state.exists()\n"
        "state.parent.mkdir(parents=True, exist_ok=True)\nstate.write_text('half way')\n"
        f"Path({str(mark)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(0 if resumed else 3000)\n"
        "here.ledger.check('acl/thm1', float(not resumed), 0.5, {'broken': 1.0})"
    )
    alone = (
        "of_build = os.environ.pop('CLCORE_CHECKPOINTS')\n"
        "alone = chapter.start('good', {'In': In} | dict(profile='paper', device='auto', seed=0))\n"
        "same = str(alone.checkpoint('x').parent) == of_build\n"
        "here.ledger.check('acl/thm2', float(not same), 0.5, {'broken': 1.0})"
    )
    notebook(project / "chapters" / "good.ipynb", cell, alone)
    places = tmp_path / "temporary"
    places.mkdir()
    first = start_build(profile="paper", TMPDIR=str(places))
    wait_for(mark)
    with pytest.raises(build.BuildError, match=r"another build is running in .*process \d+"):
        build.build("smoke", only=["good"])
    first.send_signal(signal.SIGKILL)
    first.wait()
    kernel = int(mark.read_text())
    end = time.monotonic() + LONG
    while Path(f"/proc/{kernel}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{kernel}").exists(), "the kernel outlived its build"
    again = start_build(profile="paper", stderr=False, TMPDIR=str(places))
    said, _ = again.communicate(timeout=LONG)
    assert again.returncode == 0, said
    verdicts = {r["id"]: r["verdict"] for r in last(project)["rows"]}
    assert verdicts["acl/thm1"] == "holds", "the second run did not find the first's checkpoint"
    assert verdicts["acl/thm2"] == "holds", "a chapter alone looks for it elsewhere"
    assert not list((project / "_build" / "checkpoints").glob("*-*")), "kept after it was of use"
    assert not (project / "_build" / "work").exists() or not any(
        (project / "_build" / "work").glob("*-*")
    )
    litter = [path.name for path in places.iterdir() if path.name.startswith(("clcore-", "tmp"))]
    assert not litter, "the kernel's key among it"


def test_what_a_kill_left_is_removed_and_what_others_do_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    day, month = 86400, 31 * 86400
    key, decoded = f"{1:020x}", f"digits-train-{1:016x}"
    old = {".ledger.json.12345678": 0, f"decoded/.{decoded}.12345678/b": 2 * day}
    old |= {f"checkpoints/a-paper-{key}/c.pt": month}
    young = {
        "ledger.json": month,
        f"decoded/.{decoded}.abcdefgh/b": 0,
        f"decoded/{decoded}/b": month,
    }
    young |= {f"checkpoints/b-paper-{key}/c.pt": day, _folders.MARK: month}
    for name, age in (old | young).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
        for path in (file, file.parent) if file.parent != tmp_path else (file,):
            os.utime(path, (time.time() - age,) * 2)
    # A long training writes into its folder, whose own time stays.
    os.utime(tmp_path / "checkpoints" / f"b-paper-{key}", (0, 0))
    tidy()
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    marks = {f"{name}/{_folders.MARK}" for name in ("cache", "checkpoints", "decoded", "work")}
    assert left == set(young) | marks
    assert f"checkpoints/a-paper-{key}: removed" in capsys.readouterr().out


def test_a_kernel_that_does_not_start_is_told_as_that(project):
    # From the root alone of all folders that are not installed something reaches a kernel.
    (project / "ipykernel_launcher.py").write_text("raise OSError('too many open files')")
    run = start_build()
    said, _ = run.communicate(timeout=LONG)
    assert run.returncode not in (0, None)
    assert "died before its first cell" in said and "for memory" not in said
    assert "too many open files" in said, "what the kernel said itself"


def test_a_runner_whose_build_is_gone_already_ends(project, tmp_path):
    """Killed before the runner has looked who its parent is."""
    mark = tmp_path / "begun"
    chapter = project / "chapters" / "good.ipynb"
    notebook(chapter, f"open({str(mark)!r}, 'w')\nimport time\ntime.sleep(3000)", frame=False)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    job = {
        "notebook": str(chapter),
        "output": str(tmp_path / "executed.ipynb"),
        "outcome": str(tmp_path / "run.json"),
        "parameters": {"profile": "smoke", "device": "cpu"},
        **{"solutions": False, "progress": False, "parent": gone.pid},
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    command = [sys.executable, "-m", "clcore.book.execute", str(tmp_path / "job.json")]
    assert subprocess.run(command, cwd=REPOSITORY, timeout=LONG).returncode == 1
    assert not mark.exists()


def test_interrupt_ends_everything(project, tmp_path):
    """Ctrl-C that reaches the build alone: it ends the kernels of both chapters, and soon."""
    marks = [tmp_path / name for name in ("good", "other")]
    for mark in marks:
        cell = (
            "import os, time\nfrom pathlib import Path\n"
            f"Path({str(mark)!r}).write_text(str(os.getpid()))\ntime.sleep(3000)"
        )
        notebook(project / "chapters" / f"{mark.name}.ipynb", cell, frame=False)
    run = start_build(only="None")
    for mark in marks:
        wait_for(mark)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=LONG)
    assert run.returncode not in (0, None)
    assert " after " not in said, "what was ended is told as if it had failed"
    for mark in marks:
        kernel = Path("/proc") / mark.read_text()
        assert not kernel.exists() or "zombie" in (kernel / "status").read_text()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 KB, where mounting one is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError as error:
        pytest.skip(f"no mount here: {error}")
    if done.returncode:
        pytest.skip("mounting a small file system needs more rights than this test has")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_is_told_and_nothing_is_lost(project, small_disk):
    cells = ("print(4_000 * (99 * 'x' + '\\n'))", BEGIN.format(name="good"), CHECK, CLOSE)
    notebook(project / "chapters" / "good.ipynb", *cells, frame=False)
    run = start_build(CLCORE_BUILD=str(small_disk))
    said = run.communicate(timeout=LONG)[0]
    assert run.returncode not in (0, -9), said
    assert "no space left (or quota reached) while writing" in said
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    again = start_build(CLCORE_BUILD=str(small_disk))
    said = again.communicate(timeout=LONG)[0]
    assert again.returncode == 0, said
    assert "acl/thm1" in (small_disk / "ledger.json").read_text()
