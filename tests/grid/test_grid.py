"""A grid: its results are those of one call, whoever computes them, and are computed once."""

import contextlib
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
from grid_runs import fragile, runs, sweep, table

from clcore.grid import Grid, GridBusy, GridFailed, Request, launcher, repeat, seats
from clcore.grid.launchers import Local, Serial
from clcore.grid.store import Store
from clcore.sweep import Stopped

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The seeds that were worked at since it was asked last."""
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("GRID_NOTES", str(folder))
    file = folder / "notes"

    def seen():
        found = [int(line) for line in file.read_text().split()] if file.exists() else []
        file.unlink(missing_ok=True)
        return sorted(found)

    return seen


@pytest.fixture
def grid(tmp_path):
    return Grid(tmp_path / "grid", progress=False)


def same(found, whole):
    pd.testing.assert_frame_equal(found.table, whole.table, check_exact=True)
    assert found.diverged == whole.diverged
    for run in range(len(whole.table.run.unique())):
        for mine, theirs in ((found.params, whole.params), (found.setup, whole.setup)):
            a, b = mine(run), theirs(run)
            assert set(a) == set(b) and all((a[n] == b[n]).all() for n in a)


def test_results_are_those_of_one_call_and_only_what_is_missing_is_computed(grid, notes):
    whole = sweep(runs(5))
    asked = {"options": {"steps": 6}, "tensors": True}
    notes()
    grid.run(sweep, runs(2), chunk=2, **asked)
    assert notes() == [0, 1]
    same(grid.run(sweep, runs(5), chunk=2, **asked), whole)
    assert notes() == [2, 3, 4]
    same(grid.run(sweep, runs(5), chunk=1, **asked), whole)
    assert notes() == []
    longer = grid.run(sweep, runs(2), options={"steps": 7}, tensors=True)
    assert notes() == [0, 1] and longer.table.step.max() == 7
    order = runs(5)[::-1]
    backward = grid.run(sweep, order, **asked).table
    assert notes() == [] and backward.seed.tolist() == [c["seed"] for c in order for _ in range(3)]


def test_requests_that_share_runs_compute_them_once(grid, notes):
    first, second = (Request(sweep, runs(n), options={"steps": 6}) for n in (2, 3))
    a, b = grid.gather([first, second])
    assert notes() == [0, 1, 2]
    pd.testing.assert_frame_equal(a.table, b.table[b.table.run < 2])


@pytest.mark.parametrize("change", ["seed", "lr", "options", "code", "torch", "device", "inputs"])
def test_an_address_counts_all_that_decides(grid, notes, monkeypatch, change):
    from clcore.grid import address

    configs, asked = runs(1), {"options": {"steps": 6}, "inputs": {"data": "a"}}
    grid.run(sweep, configs, **asked)
    before = address.address("m:f", {}, {}, "cpu") if change == "device" else ""
    notes()
    if change in ("seed", "lr"):
        configs = [configs[0] | {change: 7}]
    elif change == "options":
        asked["options"] = {"steps": 7}
    elif change == "inputs":
        asked["inputs"] = {"data": "b"}
    elif change == "device":
        assert address.address("m:f", {}, {}, "cuda") != before
        return
    else:
        own = address.needs
        monkeypatch.setattr(address, "needs", lambda name: own(name) | {change: "other"})
        monkeypatch.setattr("clcore.grid.grid.needs", address.needs)
        monkeypatch.setattr("clcore.grid.work.needs", address.needs)
    grid.run(sweep, configs, **asked)
    assert len(notes()) == 1


@pytest.fixture(autouse=True)
def _device_has_an_address(monkeypatch):
    """`m:f` above is no module."""
    from clcore.grid import address

    own = address.needs
    monkeypatch.setattr(address, "needs", lambda name: {} if name == "m:f" else own(name))


def test_the_code_that_counts_is_what_the_function_imports():
    from clcore.grid.address import needs

    assert needs("clcore.experiments.sparse_training:run") == needs(
        "clcore.experiments.sparse_training:metrics"
    )
    assert (
        needs("clcore.experiments.sparse_training:run")["code"]
        != needs("clcore.experiments.tree_contrast:run")["code"]
    )


@pytest.mark.parametrize("damage", ["cut", "flip", "swap", "empty"])
def test_a_damaged_file_is_named_and_its_run_computed_again(grid, notes, caplog, damage):
    whole = grid.run(sweep, runs(2), options={"steps": 6})
    first, second = sorted(grid.folder.glob("*.npz"))
    content = bytearray(first.read_bytes())
    if damage == "cut":
        first.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        losses = [np.float32(value).tobytes() for value in whole.table.loss]
        content[next(content.index(b) for b in losses if b in content)] ^= 1
        first.write_bytes(content)
    elif damage == "swap":
        first.write_bytes(second.read_bytes())
    else:
        first.write_bytes(b"")
    notes()
    with caplog.at_level(logging.WARNING):
        again = grid.run(sweep, runs(2), options={"steps": 6})
    assert str(first) in caplog.text and "computed again" in caplog.text
    assert len(notes()) == 1
    pd.testing.assert_frame_equal(again.table, whole.table, check_exact=True)


def test_a_function_that_returns_a_table_with_texts(grid):
    large = np.arange(10.0)
    found = grid.run(table, runs(3), chunk=2, shared={"shared": large}).table
    pd.testing.assert_frame_equal(found, table(runs(3), shared=large))
    assert grid.run(table, runs(3), shared={"shared": large}).table.equals(found)


def test_two_launchers_on_one_folder_are_told(grid):
    with Store(grid.folder).locked(), pytest.raises(GridBusy, match=f"process {os.getpid()} on"):
        grid.run(sweep, runs(1))
    grid.run(sweep, runs(1))  # the lock is gone with its holder


def test_a_run_that_fails_stops_no_other_and_is_named(grid, notes):
    options = {"options": {"how": "raise"}, "chunk": 1}
    with pytest.raises(GridFailed) as failed:
        grid.run(fragile, runs(5), **options)
    words = str(failed.value)
    assert words.startswith("1 of 5 runs failed; the others are kept in")
    assert "seeds 3 of grid_runs:fragile: failed: RuntimeError: seed 3 cannot be trained" in words
    assert notes() == [0, 1, 2, 3, 4] and len([*grid.folder.glob("*.npz")]) == 4
    (file,) = failed.value.files
    assert "Traceback" in words or "fragile" in json.loads(file.read_text())["error"]
    with pytest.raises(RuntimeError, match="seed 3 cannot be trained"):
        repeat(file, fragile)
    with pytest.raises(ValueError, match="expected its function, grid_runs:fragile, got grid_runs"):
        repeat(file, sweep)
    notes()
    with pytest.raises(GridFailed, match="1 of 5"):
        grid.run(fragile, runs(5), **options)
    assert notes() == [3]


def test_a_full_disk_is_a_failure_of_the_runs_it_met(grid, monkeypatch):
    written = Store.write

    def full(self, found):
        if any(c == 1 for c in [len(found)]) and not any(self.folder.glob("*.npz")):
            written(self, found)
        else:
            from clcore._files import DiskFull

            raise DiskFull(28, "no space left while writing x")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(GridFailed, match=r"2 of 3 runs failed(.|\n)*disk: .*no space left"):
        grid.run(table, runs(3), chunk=1)
    monkeypatch.setattr(Store, "write", written)
    assert len(grid.run(table, runs(3), chunk=1).table) == 3


def test_a_stack_too_large_for_the_memory_is_halved(grid, notes, caplog):
    found = grid.run(fragile, runs(4), options={"how": "memory"}).table
    assert found.value.tolist() == [0, 1, 2, 3] and "halved" in caplog.text
    assert notes() == [0, 0, 1, 1, 2, 2, 3, 3]  # one stack a kind, then each alone


def test_a_run_that_diverges_is_kept_as_such(grid):
    configs = [c | {"lr": 1e30 if c["seed"] == 1 else c["lr"]} for c in runs(3)]
    whole = sweep(configs)
    found = grid.run(sweep, configs, options={"steps": 6}, tensors=True)
    assert set(whole.diverged) == {1} and found.diverged == whole.diverged
    assert found.table.groupby("run").diverged.any().tolist() == [False, True, False]


def test_time_that_is_over_is_no_failure(grid):
    def stop(*a, **k):
        raise Stopped("over")

    from clcore.grid import work

    own = work.resolve
    work.resolve = lambda name: stop
    try:
        with pytest.raises(Stopped, match="0 of 2 runs are finished; repeat the call to resume"):
            grid.run(table, runs(2), chunk=1)
    finally:
        work.resolve = own


def test_processes_give_what_one_does_though_one_is_killed(tmp_path, notes):
    kept = Grid(tmp_path / "grid", Local(2), progress=False)
    options = {"options": {"how": "kill once", "folder": str(tmp_path)}, "chunk": 1}
    found = kept.run(fragile, runs(5), **options).table
    seen = notes()
    pd.testing.assert_frame_equal(found, table(runs(5)))
    assert set(seen) == {0, 1, 2, 3, 4} and seen.count(3) >= 2 and len(seen) <= 8


def test_a_grid_waits_for_the_seats_of_others_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CLCORE_SEATS", str(tmp_path / "seats"))
    count, held = max(2, joblib.cpu_count()), contextlib.ExitStack()
    numbers = [held.enter_context(seats.taken("cpu", count)) for _ in range(count)]
    assert sorted(numbers) == list(range(count)) and seats.free("cpu", count) == 0
    grid = Grid(tmp_path / "grid", Local(2), progress=False)
    with ThreadPoolExecutor(1) as other, held:
        asked = other.submit(grid.run, sweep, runs(2), chunk=1, options={"steps": 6})
        with pytest.raises(TimeoutError):
            asked.result(timeout=8)
        held.close()
        assert len(asked.result().table.run.unique()) == 2
    assert f"hold all {count} seats of this machine ({tmp_path / 'seats'})" in caplog.text
    assert seats.free("cpu", count) == count


def test_a_run_that_kills_its_process_is_named(tmp_path):
    kept = Grid(tmp_path / "grid", Local(2), progress=False)
    with pytest.raises(GridFailed, match=r"1 of 3 runs failed(.|\n)*seeds 3 .*killed twice"):
        kept.run(fragile, runs(5)[2:], options={"how": "kill", "folder": str(tmp_path)}, chunk=1)
    assert len([*kept.folder.glob("*.npz")]) == 2


def test_functions_that_workers_cannot_find_are_refused(grid):
    with pytest.raises(ValueError, match="expected a function that workers can import by its name"):
        grid.run(lambda configs: None, runs(1))
    with pytest.raises(ValueError, match=r"at /scale: expected numbers, .* got ndarray"):
        grid.run(sweep, [runs(1)[0] | {"scale": np.zeros(2)}])
    with pytest.raises(ValueError, match="expected at least one run, got none"):
        grid.run(sweep, [])


def test_launchers_by_name():
    pytest.importorskip("yaml", reason="the launcher of clusters needs an extra")
    assert isinstance(launcher("serial"), Serial)
    assert launcher("local").jobs is None and launcher("local:3").jobs == 3
    assert launcher("tcp://host:8786").address == "tcp://host:8786"
    slurm = launcher("slurm:timeout_min=60,slurm_partition=gpu")
    assert (slurm.cluster, slurm.given) == ("slurm", {"timeout_min": 60, "slurm_partition": "gpu"})
    for wrong in ("local:0", "local:x", "http://host", "dask", ""):
        with pytest.raises(ValueError, match="scheduler: expected one of serial, local, local:N"):
            launcher(wrong)
    with pytest.raises(ValueError, match=r"expected NAME=VALUE,\.\.\. after slurm:, got 'gpu'"):
        launcher("slurm:gpu")


def test_what_is_no_name_is_no_launcher(unchecked_shapes):
    with pytest.raises(ValueError, match=r"scheduler: expected one of serial, .*; got None"):
        launcher(None)


def test_runs_of_other_sizes_have_other_measures(grid):
    configs = [c | {"wide": bool(c["seed"] % 2)} for c in runs(3)]
    found = grid.run(table, configs, chunk=1).table
    pd.testing.assert_frame_equal(found, table(configs))
    assert list(found.columns) == ["run", "word", "value", "lost", "width"]
    assert found.width.isna().tolist() == [True, False, True]
