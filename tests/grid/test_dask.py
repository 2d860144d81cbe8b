"""A grid on a real Dask cluster: workers and the scheduler die, and the table is the same."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from grid_runs import runs, sweep

from clcore import _paths
from clcore.grid import Grid, Unreachable, dask, launcher

pytestmark = pytest.mark.usefixtures("one_thread")
OTHER_TORCH = "import torch\ntorch.__version__ = '1.0.0'\n"
NO_CLCORE = "import sys\nsys.modules['clcore'] = None\n"


class Cluster:
    """A scheduler and workers as their users start them, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, []
        (folder / "notes").mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"

    def _start(self, *words: str) -> subprocess.Popen:
        path = os.pathsep.join([str(_paths.root()), str(Path(__file__).parent)])
        own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GRID_NOTES": str(self.folder / "notes")}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name("dask")), *words],
                env=os.environ | own,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process

    def scheduler(self) -> subprocess.Popen:
        own = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        return self._start("scheduler", *own)

    def worker(self, preload: str = "") -> subprocess.Popen:
        more = ()
        if preload:
            file = self.folder / f"preload{len(self.started)}.py"
            file.write_text(preload)
            more = ("--preload", str(file))
        return self._start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", *more
        )

    def workers(self, count: int) -> None:
        """Wait for so many."""
        from distributed import Client

        with Client(self.address, timeout=600, set_as_default=False) as client:
            if count:
                client.wait_for_workers(count, timeout=600)

    def notes(self) -> list[int]:
        file = self.folder / "notes" / "notes"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def reached(self, count: int) -> None:
        """Wait until so many runs were begun."""
        end = time.monotonic() + 120
        while len(self.notes()) < count:
            assert time.monotonic() < end, (self.folder / "log").read_text()[-3000:]
            time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    for process in made.started:
        process.kill()
    for process in made.started:
        process.wait()


def begun(cluster, count=6, pause=1.0):
    """A grid under way in a thread; call what is returned for its table."""
    grid = Grid(cluster.folder / "grid", launcher(cluster.address), progress=False)
    found = []

    def go():
        options = {"options": {"steps": 6, "pause": pause}, "chunk": 1}
        try:
            found.append(grid.run(sweep, runs(count), **options).table)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=go)
    thread.start()

    def ended():
        thread.join(240)
        assert not thread.is_alive()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    return ended


def test_a_killed_worker_and_one_of_another_version_change_nothing(cluster, caplog):
    whole = sweep(runs(6)).table
    cluster.scheduler()
    first, _, other = cluster.worker(), cluster.worker(), cluster.worker(OTHER_TORCH)
    cluster.workers(3)
    with caplog.at_level(logging.WARNING):
        ended = begun(cluster)
        cluster.reached(3)
        first.kill()
        found = ended()
    pd.testing.assert_frame_equal(found, whole, check_exact=True)
    assert "workers that get no task" in caplog.text and "torch 1.0.0 where" in caplog.text
    counts = Counter(cluster.notes())
    assert set(counts) == {*range(6)} and sum(counts.values()) <= 7  # what it was at, once more
    assert other.poll() is None


def test_a_scheduler_that_is_started_again_goes_on(cluster):
    scheduler = cluster.scheduler()
    cluster.worker()
    cluster.workers(1)
    ended = begun(cluster, 4, 0.7)
    cluster.reached(2)
    scheduler.kill()
    scheduler.wait()
    cluster.scheduler()
    cluster.worker()
    found = ended()
    pd.testing.assert_frame_equal(found, sweep(runs(4)).table, check_exact=True)
    counts = Counter(cluster.notes())
    assert set(counts) == {*range(4)} and sum(counts.values()) <= 5


@pytest.mark.parametrize("status", ["finished", "error"])
def test_a_scheduler_that_goes_between_two_questions_has_lost_the_task(status):
    from distributed import CancelledError

    def gone():
        raise CancelledError("scheduler-connection-lost")

    assert dask._ended(SimpleNamespace(status=status, result=gone, exception=gone)) is None


def test_who_does_not_answer_and_who_cannot_work_is_named(cluster, monkeypatch):
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", "0.5")
    with pytest.raises(Unreachable, match=rf"answered at {cluster.address} within 0.5 s"):
        begun(cluster)()
    cluster.scheduler()
    cluster.workers(0)  # it answers; how long it took to start is not what is asked
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", "15")
    with pytest.raises(
        Unreachable, match=r"has no workers after 15 s; start some with `dask worker"
    ):
        begun(cluster)()
    cluster.worker(NO_CLCORE)
    cluster.workers(1)
    with pytest.raises(Unreachable, match=r"can do the work: .*ModuleNotFoundError"):
        begun(cluster)()
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", "soon")
    with pytest.raises(ValueError, match="expected a number of seconds, got 'soon'"):
        begun(cluster)()
    assert not cluster.notes()
