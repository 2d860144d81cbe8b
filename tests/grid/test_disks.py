"""Disks as clusters have them: late, without locks, read only; and folders that others made."""

import errno
import json
import logging
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from grid_runs import fragile, runs, table

from clcore import _locks, _paths
from clcore.grid import Grid, GridBusy, GridFailed, repeat, seats, store, waiting, work
from clcore.grid.store import Store

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def grid(tmp_path):
    return Grid(tmp_path / "grid", progress=False)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only while somebody sleeps; the sleeps."""
    slept = []
    for module in (waiting, work):
        own = SimpleNamespace(monotonic=lambda: float(sum(slept)), sleep=slept.append)
        monkeypatch.setattr(module, "time", own)
    return slept


def test_results_that_a_disk_shows_late_are_waited_for(grid, clock, monkeypatch):
    real, asked = store._unpacked, []

    def late(path, key):
        asked.append(path)
        if len(clock) < 40:
            raise FileNotFoundError(path)
        return real(path, key)

    monkeypatch.setattr(store, "_unpacked", late)
    found = grid.run(table, runs(2)).table
    pd.testing.assert_frame_equal(found, table(runs(2)))
    assert len(clock) == 40


def test_results_that_do_not_come_are_told_after_a_minute(grid, clock):
    class Idle:
        def launch(self, tasks):
            for task in tasks:
                yield task, SimpleNamespace(state="done", error="", where="", seconds=0.0)

    grid.launcher = Idle()
    with pytest.raises(GridFailed, match="2 results vanished: their runs are done"):
        grid.run(table, runs(2))
    assert sum(clock) >= 60


def test_the_mark_is_written_once_and_waited_for(grid, clock, monkeypatch):
    grid.run(table, runs(1))
    mark = json.loads((grid.folder / "grid.json").read_bytes())
    grid.run(table, runs(2))
    assert json.loads((grid.folder / "grid.json").read_bytes()) == mark
    own = Store.mark
    monkeypatch.setattr(
        Store, "mark", lambda s, make=False: own(s, make) if make or len(clock) > 20 else "old"
    )
    assert len(grid.run(table, runs(3)).table) == 3
    assert 20 < len(clock) < 30


def test_a_worker_that_does_not_see_the_folder_waits_once(grid, clock, monkeypatch):
    own = Store.mark
    monkeypatch.setattr(Store, "mark", lambda s, make=False: own(s, make) if make else None)
    with pytest.raises(GridFailed, match="this worker does not see the grid's folder"):
        grid.run(table, runs(3), chunk=1)
    assert 60 <= sum(clock) < 62


def test_a_task_that_another_worker_holds_is_computed_all_the_same(grid, clock, caplog):
    (task,) = grid._tasks(_request(), ["a"], {"a"}, Store(grid.folder), "m")
    begun = work.begun(task)
    begun.parent.mkdir(parents=True)
    with _locks.opened(begun) as frozen:
        frozen.write("host, process 1")
        frozen.flush()
        assert _locks.take(frozen)
        with caplog.at_level(logging.WARNING), work._marked(task, "here"):
            assert begun.read_text() == "here"
    assert "host, process 1 has held its task for 30 s" in caplog.text and sum(clock) >= 30
    with work._marked(replace(task, keys=["c", "d"]), "here"):
        assert sum(clock) < 31  # nobody holds this one


def _request():
    from clcore.grid import Request

    return Request(table, runs(1))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_a_disk_without_locks_is_worked_on_and_named(grid, monkeypatch, caplog, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_locks.fcntl, "flock", flock)
    with caplog.at_level(logging.WARNING):
        assert len(grid.run(table, runs(2)).table) == 2
    assert f"no file locks ({errno.errorcode[number]}" in caplog.text
    assert f"start one launcher at a time in {grid.folder}" in caplog.text


def test_a_broken_disk_is_not_taken_for_another_launcher(grid, monkeypatch):
    def flock(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(_locks.fcntl, "flock", flock)
    with pytest.raises(OSError, match=r"failed \(EIO: broken\)"):
        grid.run(table, runs(1))


def test_what_is_finished_is_read_without_writing_or_a_lock(grid):
    whole = grid.run(table, runs(2)).table
    before = {path: path.stat().st_mtime_ns for path in grid.folder.rglob("*")}
    with Store(grid.folder).locked():
        (grid.folder / "lock").unlink()
        pd.testing.assert_frame_equal(grid.run(table, runs(2)).table, whole)
        assert not (grid.folder / "lock").exists()
    del before[grid.folder / "lock"]
    assert {path: path.stat().st_mtime_ns for path in grid.folder.rglob("*")} == before


def test_a_lock_holds_while_something_is_missing(grid):
    grid.run(table, runs(2))
    with Store(grid.folder).locked(), pytest.raises(GridBusy):
        grid.run(table, runs(3))


def test_a_folder_that_cannot_be_written_is_named(grid, monkeypatch):
    def opened(path):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(_locks, "opened", opened)
    with pytest.raises(PermissionError, match=r"expected results in .*grid or a folder to write"):
        grid.run(table, runs(1))


def test_numbers_of_numpy_are_the_numbers_that_they_hold(grid):
    plain = [{"seed": s, "kind": "a", "lr": float(np.float32(0.1))} for s in range(3)]
    seeds, word = np.arange(3, dtype="int32"), np.str_("a")
    given = [{"seed": s, "kind": word, "lr": np.float32(0.1)} for s in seeds]
    grid.run(table, plain)
    files = {*grid.folder.glob("*.npz")}
    found = grid.run(table, given, options={}).table
    assert {*grid.folder.glob("*.npz")} == files and found.value.tolist() == [0, 1, 2]
    other = [plain[0] | {"lr": 0.1}]
    grid.run(table, other)
    assert len({*grid.folder.glob("*.npz")}) == 4  # float32's 0.1 is another number
    for wrong in (np.longdouble(1), np.complex64(1), np.datetime64("2020-01-01"), np.zeros(1)):
        with pytest.raises(ValueError, match="at /lr: expected numbers"):
            grid.run(table, [plain[0] | {"lr": wrong}])


def test_numbers_of_numpy_stay_numbers_in_the_file_of_a_failure(grid):
    configs = [{"seed": s, "kind": "a", "rate": np.float64(0.5)} for s in np.arange(3, 4)]
    with pytest.raises(GridFailed) as failed:
        grid.run(fragile, configs, options={"how": np.str_("raise")})
    (file,) = failed.value.files
    assert json.loads(file.read_text())["configs"] == [{"seed": 3, "kind": "a", "rate": 0.5}]


@pytest.mark.parametrize("name", ["os:mkdir", "subprocess:run", "builtins:print"])
def test_a_file_names_no_function_to_call(tmp_path, name):
    file, mark = tmp_path / "failed.json", tmp_path / "made"
    file.write_text(json.dumps({"function": name, "options": {}, "configs": str(mark)}))
    with pytest.raises(ValueError, match=f"expected its function, {name}, got grid_runs:fragile"):
        repeat(file, fragile)
    assert not mark.exists()
    file.write_text("[]")
    with pytest.raises(ValueError, match="expected a file that GridFailed names"):
        repeat(file, fragile)
    with pytest.raises(ValueError, match="is not there; give a file that GridFailed names"):
        repeat(tmp_path / "none.json", fragile)


# ---------------------------------------------------------------------------------------- seats


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.delenv("CLCORE_SEATS", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path / f"clcore-seats-{os.getuid()}"


def test_seats_need_no_clone(temporary, monkeypatch):
    def none():
        raise FileNotFoundError("no clone")

    monkeypatch.setattr(_paths, "root", none)
    with seats.taken("cpu", 1) as number:
        assert number == 0 and seats.free("cpu", 1) == 0
    assert temporary.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["open to all", "a link", "another user's"])
def test_a_folder_of_seats_that_others_may_have_made_is_refused(temporary, monkeypatch, kind):
    if kind == "a link":
        (temporary.parent / "elsewhere").mkdir()
        temporary.symlink_to("elsewhere")
    else:
        temporary.mkdir(mode=0o700)
    if kind == "open to all":
        temporary.chmod(0o777)
    if kind == "another user's":
        own = os.getuid()
        monkeypatch.setattr("os.getuid", lambda: own + 1)
        temporary.rename(temporary.with_name(f"clcore-seats-{own + 1}"))
    with pytest.raises(PermissionError, match=r"a folder of this user .* or set CLCORE_SEATS"):
        seats.folder()


def test_a_pipe_among_the_seats_stops_nobody(temporary):
    temporary.mkdir(mode=0o700)
    os.mkfifo(temporary / "cpu-0")
    with pytest.raises(PermissionError, match=r"expected a plain file at .*cpu-0"):
        seats.free("cpu", 1)


def test_who_waits_for_a_seat_says_so_once_a_minute(temporary, monkeypatch, caplog):
    held = seats.taken("cpu", 1)
    held.__enter__()
    slept = []

    def sleep(pause):
        slept.append(30.0)
        if len(slept) == 9:
            held.__exit__(None, None, None)

    now = SimpleNamespace(monotonic=lambda: sum(slept), sleep=sleep)
    monkeypatch.setattr(seats, "time", now)
    monkeypatch.setattr(waiting, "time", now)
    with caplog.at_level(logging.WARNING), seats.taken("cpu", 1):
        pass
    assert caplog.text.count("waits for one of 1 seats") == 4  # 270 s
