"""A grid on a real Dask cluster: workers and the scheduler die, and the table is the same."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pandas as pd
import pytest
from distributed import CancelledError
from distributed.comm import CommClosedError
from grid_runs import runs, sweep
from waits import LONGEST, eventually

from clcore import _paths
from clcore.grid import Grid, Unreachable, dask, launcher, work, workers

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
        # Where the functions are, the launcher tells.
        own = {
            "PYTHONPATH": str(_paths.root()),
            "OMP_NUM_THREADS": "1",
            "GRID_NOTES": str(self.folder / "notes"),
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{LONGEST} s",
        }
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
        """Wait for so many; for none, until the scheduler knows of none."""
        from distributed import Client

        with Client(self.address, timeout=LONGEST, set_as_default=False) as client:
            if count:
                client.wait_for_workers(count, timeout=LONGEST)
            eventually(lambda: count or not client.scheduler_info()["workers"])

    def notes(self) -> list[int]:
        file = self.folder / "notes" / "notes"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def reached(self, count: int) -> None:
        """Wait until so many runs were begun."""
        try:
            eventually(lambda: len(self.notes()) >= count)
        except TimeoutError:
            pytest.fail((self.folder / "log").read_text()[-3000:])


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster whose machine may be busy: nobody who is only slow is given up."""
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", str(LONGEST))
    monkeypatch.setattr(workers, "SILENT", 1e9)
    for module, names in ((workers, ("FEW", "MANY", "ASK")), (dask, ("ASK",))):
        for name in names:
            monkeypatch.setattr(module, name, LONGEST)
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
        thread.join(2 * LONGEST)
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
    assert "gets no task: torch 1.0.0 where" in caplog.text
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
@pytest.mark.parametrize("lost", [CancelledError, TimeoutError])
def test_who_goes_between_two_questions_has_lost_the_task(status, lost):

    def gone(timeout):
        raise lost("gone")

    assert dask._ended(SimpleNamespace(status=status, result=gone, exception=gone)) is None


def test_who_does_not_answer_and_who_cannot_work_is_named(cluster, monkeypatch):
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", "0.5")
    with pytest.raises(Unreachable, match=rf"answered at {cluster.address} within 0.5 s"):
        begun(cluster)()
    cluster.scheduler()
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", str(LONGEST))
    cluster.workers(0)
    with monkeypatch.context() as patience:
        patience.setattr(dask.Dask, "_wait_for_workers", lambda *_: None)
        with pytest.raises(Unreachable, match=r"has no workers; start some with `dask worker"):
            begun(cluster)()
    cluster.worker(NO_CLCORE)
    cluster.workers(1)
    lacks = r"can do the work: .*ModuleNotFoundError.* Install the same clcore, torch"
    with pytest.raises(Unreachable, match=lacks):
        begun(cluster)()
    monkeypatch.setenv("CLCORE_SCHEDULER_WAIT", "soon")
    with pytest.raises(ValueError, match="expected a number of seconds, got 'soon'"):
        begun(cluster)()
    assert not cluster.notes()


def test_a_worker_that_is_frozen_before_holds_nobody_up(cluster, monkeypatch, caplog):
    monkeypatch.setattr(workers, "FEW", 1.0)
    cluster.scheduler()
    _, frozen = cluster.worker(), cluster.worker()
    cluster.workers(2)
    frozen.send_signal(signal.SIGSTOP)
    found = begun(cluster, 3, 0.0)()
    pd.testing.assert_frame_equal(found, sweep(runs(3)).table, check_exact=True)


IMPATIENT = "from clcore.grid import work\nwork.LOCK_WAIT = 1.0\n"


def test_a_worker_that_freezes_over_a_task_loses_it_to_another(cluster, monkeypatch, caplog):
    """The scheduler has not given it up, and it holds its task's lock."""
    cluster.scheduler()
    both = [cluster.worker(IMPATIENT), cluster.worker(IMPATIENT)]
    cluster.workers(2)
    with caplog.at_level(logging.WARNING):
        ended = begun(cluster, 4, 2.0)
        cluster.reached(1)
        both[0].send_signal(signal.SIGSTOP)
        monkeypatch.setattr(workers, "FEW", 10.0)
        monkeypatch.setattr(workers, "SILENT", 10.0)
        found = ended()
    pd.testing.assert_frame_equal(found, sweep(runs(4)).table, check_exact=True)
    assert "gave no sign for 10 s and gets no task until it does" in caplog.text


def test_when_no_worker_is_left_it_is_said_and_ends(cluster, monkeypatch, caplog):
    cluster.scheduler()
    both = [cluster.worker(), cluster.worker()]
    cluster.workers(2)
    with caplog.at_level(logging.WARNING):
        ended = begun(cluster, 6, 2.0)
        cluster.reached(1)
        monkeypatch.setattr(dask.Dask, "_wait_for_workers", lambda *_: cluster.workers(0))
        for worker in both:
            worker.kill()
        with pytest.raises(Unreachable, match=r"has no workers; .* Finished runs are kept"):
            ended()
    assert "is left that can work" in caplog.text


class Restarted:
    """A client and its `Workers`: the one worker dies or freezes, and another takes its place."""

    status, silent = "running", ()

    def __init__(self, frozen):
        self.lost, self.frozen = 0, frozen

    @property
    def fit(self):
        return {f"w{self.lost}": 1}

    @property
    def there(self):
        return {f"w{n}": {} for n in range(0 if self.frozen else self.lost, self.lost + 1)}

    def due(self):
        return True

    def look(self):
        """Nothing is to be asked: `first` and `close`, too."""

    first = close = look


@pytest.mark.parametrize("frozen", [False, True])
def test_a_task_that_workers_die_over_is_named_and_no_other(
    tmp_path, monkeypatch, unchecked_shapes, frozen
):
    """Each time its nanny starts a worker under a new address, which the scheduler cannot know."""
    at = Restarted(frozen)
    light, heavy = (SimpleNamespace(name=n, device="cpu", folder=str(tmp_path)) for n in "ab")
    work.begun(heavy).parent.mkdir()

    def submit(client, task, fit):
        lost = task is heavy and at.lost < 5
        if lost:
            work.begun(heavy).touch()
            at.lost += 1
        status = "pending" if lost else "finished"
        return Mock(status=status, result=lambda timeout: work.Outcome("done"))

    monkeypatch.setattr(dask, "_submit", submit)
    monkeypatch.setattr(dask, "Workers", lambda *_: at)
    monkeypatch.setattr(dask.Dask, "_client", lambda self: contextlib.nullcontext(at))
    found = {t.name: o.state for t, o in dask.Dask("tcp://host:1").launch([light, heavy])}
    assert found == {"a": "done", "b": "done" if frozen else "killed"}
    assert at.lost == (5 if frozen else 3) and work.begun(heavy).exists() == frozen


def test_who_waits_for_workers_says_so_once_a_minute(monkeypatch, caplog):
    passed = []

    def wait(count, timeout):
        passed.append(timeout)
        raise TimeoutError

    now = SimpleNamespace(monotonic=lambda: sum(passed))
    monkeypatch.setattr(dask, "time", now)
    client = SimpleNamespace(wait_for_workers=wait)
    with caplog.at_level(logging.WARNING):
        dask.Dask("tcp://host:1")._wait_for_workers(client, 150.0)
    assert passed == [60, 60, 30] and caplog.text.count("has no workers after") == 3


def test_an_encrypted_address_without_certificates_is_explained(unchecked_shapes):
    with pytest.raises(Unreachable, match=r"tls://.* cannot be reached: .*certificates"):
        next(launcher("tls://127.0.0.1:1").launch([SimpleNamespace(name="a")]))


def test_a_worker_whose_connection_broke_is_asked_again(unchecked_shapes):
    task = SimpleNamespace(function="a:b", needs={"torch": "1"}, path=[], device="cpu")
    asked = []

    def run(function, text, workers, on_error):
        asked.extend(workers)
        found = [{"torch": "1"}] if len(asked) > 1 else CommClosedError("in a broadcast")
        return asyncio.sleep(0, {"w": found})

    identity = Mock(side_effect=lambda n_workers: asyncio.sleep(0, {"workers": {"w": {}}}))
    client = SimpleNamespace(scheduler=SimpleNamespace(identity=identity), run=run)

    def sync(function, *given, callback_timeout):
        """As a client's, in a thread of its own: in this one the loop of a browser may run."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, function(*given)).result()

    client.sync = sync
    found = workers.Workers(client, "tcp://host:1", [task])
    found.look(LONGEST)
    assert found.cut == {"w"} and not (found.able or found.unfit)
    found.look(LONGEST)
    assert found.able == {"w"} and asked == ["w", "w"] and not found.cut


@pytest.mark.parametrize(
    ("module", "advice"),
    [("torch", "Install the same clcore, torch"), ("mine.part", "Put the module mine where")],
)
def test_what_a_worker_lacks_is_named_with_what_to_do(module, advice):
    error = ModuleNotFoundError(f"No module named {module!r}", name=module)
    assert advice in workers._lacks(error)
    assert workers._lacks(ValueError("no")) == "ValueError: no"
