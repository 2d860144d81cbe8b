"""Jobs by submitit: processes that stand in for Slurm, and Slurm's commands played by scripts."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from grid_runs import fragile, runs, sweep, table
from waits import LONGEST, eventually

from clcore import _paths
from clcore.grid import Grid, GridFailed, Request, launcher, slurm
from clcore.grid.store import Store
from clcore.grid.work import begun

pytestmark = pytest.mark.usefixtures("one_thread")


def test_jobs_give_what_one_call_does_and_a_killed_one_is_named(tmp_path, monkeypatch):
    path = [str(_paths.root()), str(Path(__file__).parent)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    grid = Grid(tmp_path / "grid", launcher("submitit:timeout_min=10"), progress=False)
    found = grid.run(sweep, runs(3), chunk=2, options={"steps": 6}).table
    pd.testing.assert_frame_equal(found, sweep(runs(3)).table, check_exact=True)
    how = {"how": "kill", "folder": str(tmp_path)}
    with pytest.raises(GridFailed, match=r"1 of 2 runs failed(.|\n)*seeds 3 .*: killed: job"):
        grid.run(fragile, runs(4)[2:], options=how, chunk=1)
    assert len(grid.run(table, runs(2)).table) == 2
    assert (grid.folder / f"jobs-{os.getuid()}").stat().st_mode & 0o777 == 0o700


BESIDE = """
import os, sys, time
from pathlib import Path
import pandas as pd

def table(configs, device="cpu", progress=False, marks="", wait=0.0):
    if marks:
        Path(marks, str(os.getpid())).touch()
    time.sleep(wait)
    return pd.DataFrame({"run": range(len(configs)), "value": [c["seed"] for c in configs]})
"""
MAIN = """
import sys
import beside_runs
from clcore.grid import Grid, launcher

if __name__ == "__main__":
    free = {"marks": sys.argv[2], "wait": float(sys.argv[3])}
    grid = Grid(sys.argv[1], launcher("submitit:timeout_min=60"), progress=False)
    print(grid.run(beside_runs.table, [{"seed": 5}], free=free).table.value.tolist())
"""


@pytest.mark.parametrize("ends", ["by itself", "by Ctrl-C"])
def test_a_module_beside_the_script_is_found_and_ctrl_c_ends_jobs(tmp_path, ends):
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "beside_runs.py").write_text(BESIDE)
    (tmp_path / "main.py").write_text(MAIN)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    wait = 0 if ends == "by itself" else 10 * LONGEST
    run = subprocess.Popen(
        [sys.executable, "main.py", str(tmp_path / "grid"), str(marks), str(wait)],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if ends == "by Ctrl-C":
        eventually(lambda: [*marks.iterdir()] or run.poll() is not None)
        run.send_signal(signal.SIGINT)
    said, told = run.communicate(timeout=LONGEST)
    if ends == "by itself":
        assert said.strip() == "[5]", told
        return
    assert "1 jobs that have not ended are cancelled" in told
    (mark,) = marks.iterdir()
    eventually(lambda: not alive(int(mark.name)))


def alive(number):
    try:
        return "zombie" not in Path(f"/proc/{number}/status").read_text(encoding="utf-8")
    except OSError:
        return False


# ------------------------------------------------------------------------ Slurm's commands, played


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Commands of Slurm that note how they are called; what `sacct` tells of jobs 7_0, 7_1, ..."""
    from submitit import SlurmJob

    SlurmJob.watcher.clear()  # of what an earlier test told of the same jobs
    folder, log = tmp_path / "commands", tmp_path / "log"
    folder.mkdir()
    state = tmp_path / "sacct"
    state.write_text("")
    bodies = {
        "sbatch": f"grep -o 'array=0-[0-9]*' \"$1\" >> {log}; echo Submitted batch job 7",
        "srun": "",
        "sacct": f"echo sacct >> {log}; echo 'JobID|State|NodeList'; cat {state}",
        "scancel": f"echo scancel $* >> {log}",
        "scontrol": "echo 'MaxArraySize            = 3'",
    }
    for name, body in bodies.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return SimpleNamespace(
        folder=folder,
        noted=lambda: log.read_text().splitlines() if log.exists() else [],
        tell=lambda *rows: state.write_text("".join(f"{row}\n" for row in rows)),
    )


@pytest.fixture
def tasks(tmp_path):
    grid = Grid(tmp_path / "grid", launcher("slurm"), progress=False)
    store = Store(grid.folder)
    keys = [f"k{n}" for n in range(7)]
    request = Request(table, runs(7), chunk=1)
    return grid._tasks(request, keys, {*keys}, store, store.mark(make=True))


def test_an_array_is_within_slurms_limit_and_its_jobs_share_the_tasks(commands, tasks, tmp_path):
    place = tmp_path / "grid" / "ended" / "x"
    jobs = launcher("slurm")._submitted(tasks, place)
    assert commands.noted() == ["array=0-2"]
    assert sorted(map(len, jobs.values())) == [2, 2, 3]
    assert {task.name for part in jobs.values() for task in part} == {task.name for task in tasks}
    (commands.folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    assert slurm._most() == 1001


def follow(monkeypatch, look):
    """Call `look` in place of each pause."""
    now = SimpleNamespace(monotonic=time.monotonic, sleep=look)
    monkeypatch.setattr(slurm, "time", now)
    monkeypatch.setattr(slurm, "ASK", 0.0)


def places(tmp_path):
    return [*(tmp_path / "grid" / "ended").iterdir()]


def test_what_ended_is_seen_by_listing_one_folder(commands, tasks, tmp_path, monkeypatch):
    done = []

    def look(_):
        (place,) = places(tmp_path)
        if len(done) < len(tasks):
            slurm.job([tasks[len(done)]], str(place))
            done.append(tasks[len(done)].name)

    follow(monkeypatch, look)
    monkeypatch.setattr(slurm, "ASK", 1e9)
    found = [(task.name, outcome.state) for task, outcome in launcher("slurm").launch(tasks)]
    assert found == [(name, "done") for name in done] and len(found) == 7
    assert commands.noted() == ["array=0-2", "sacct"]  # nothing to cancel, and one question
    assert not places(tmp_path)


def test_ctrl_c_cancels_the_array_with_one_call(commands, tasks, tmp_path, monkeypatch, caplog):
    def interrupt(_):
        raise KeyboardInterrupt

    follow(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.WARNING):
        next(launcher("slurm").launch(tasks))
    assert commands.noted()[-1] == "scancel 7" and not places(tmp_path)
    assert "3 jobs that have not ended are cancelled" in caplog.text


def test_whoever_stops_reading_cancels_too(commands, tasks, tmp_path, monkeypatch):
    grid = Grid(tmp_path / "grid", launcher("slurm"), progress=False)

    def look(_):
        (place,) = places(tmp_path)
        slurm.job([tasks[0]], str(place))

    def stop(*_):
        raise KeyboardInterrupt

    follow(monkeypatch, look)
    monkeypatch.setattr("tqdm.tqdm.update", stop)
    with pytest.raises(KeyboardInterrupt):
        grid._launch(tasks, Store(grid.folder), len(tasks))
    assert commands.noted()[-1] == "scancel 7"


def test_tasks_behind_the_one_a_job_died_over_are_submitted_again(
    commands, tasks, tmp_path, monkeypatch
):
    """Job 7_0 has tasks 0, 3 and 6: it ends the first, and dies over the second."""
    monkeypatch.setattr(slurm, "PATIENCE", 0.0)
    rounds = []

    def look(_):
        (place,) = places(tmp_path)
        if place not in rounds:
            rounds.append(place)
            rest = [1, 2, 4, 5] if len(rounds) == 1 else [6]
            slurm.job([tasks[n] for n in [0, *rest]], str(place))
            if len(rounds) == 1:
                begun(tasks[3]).parent.mkdir(exist_ok=True)
                begun(tasks[3]).touch()
                commands.tell("7_0|OUT_OF_MEMORY|n1")

    follow(monkeypatch, look)
    found = {task.name: outcome for task, outcome in launcher("slurm").launch(tasks)}
    assert len(rounds) == 2 and len(found) == 7
    states = [found[task.name].state for task in tasks]
    assert states == ["done"] * 3 + ["killed"] + ["done"] * 3
    error = found[tasks[3].name].error
    assert error.startswith("job 7_0 ended over it (state OUT_OF_MEMORY): it wrote nothing")


def test_a_job_that_never_began_ends_all_of_its_tasks(commands, tasks, monkeypatch):
    monkeypatch.setattr(slurm, "PATIENCE", 0.0)
    commands.tell(*(f"7_{n}|NODE_FAIL|n1" for n in range(3)))
    follow(monkeypatch, lambda _: None)
    found = [outcome.state for _, outcome in launcher("slurm").launch(tasks)]
    assert found == ["killed"] * 7
