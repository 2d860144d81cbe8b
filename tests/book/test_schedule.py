"""Which chapters run side by side: the order, how many, how many threads; and their solutions."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest

from clcore import _device
from clcore.book import build, schedule, solutions


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Puts a finished run into the cache; the last one is the newest."""
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    count = iter(range(1, 100))

    def put(name: str, profile: str, seconds: float, mib: float = 500, text: str = "") -> None:
        entry = tmp_path / "cache" / f"{name}-{profile}-{next(count):020x}"
        entry.mkdir(parents=True)
        outcome = json.dumps({"seconds": seconds, "peak_mib": mib})
        (entry / "run.json").write_text(text or outcome)
        os.utime(entry, (next(count),) * 2)

    return put


def machine(monkeypatch, cores: int, free_mib: float) -> None:
    monkeypatch.setattr(schedule, "usable_cores", lambda: cores)
    free = SimpleNamespace(available=free_mib * 2**20)
    monkeypatch.setattr(schedule.psutil, "virtual_memory", lambda: free)


def test_the_longest_by_its_newest_run_is_begun_first(ran):
    ran("a", "book", 90)
    ran("a", "book", 10)
    ran("b", "book", 50)
    ran("c", "book", 20)
    ran("c", "smoke", 99)
    ran("b", "book", 0, text="{")  # a damaged entry says nothing
    assert schedule.longest_first(["a", "c", "b"], "book") == ["b", "c", "a"]


def test_what_has_not_run_here_comes_first_in_the_measured_order(ran):
    ran("1-minmax", "book", 1000)
    ran("6-dynamics", "smoke", 1)  # of another profile
    names = ["1-minmax", "5-two-layer-images", "6-dynamics", "6-landscape", "new"]
    wanted = ["new", "6-dynamics", "6-landscape", "5-two-layer-images", "1-minmax"]
    assert schedule.longest_first(names, "book") == wanted


def test_the_measured_order_knows_every_chapter():
    assert set(schedule.MEASURED) <= set(build.chapters())


def test_as_many_as_there_are_cores_and_memory_and_chapters(ran, monkeypatch):
    machine(monkeypatch, cores=4, free_mib=64 * 1024)
    names = [f"chapter-{i}" for i in range(6)]
    assert schedule.side_by_side("auto", "cpu", names, "book") == 4
    assert schedule.side_by_side("auto", "cpu", names[:3], "book") == 3
    assert schedule.side_by_side("auto", "cuda:0", names, "book") == 1
    assert schedule.side_by_side(2, "cuda", names, "book") == 2
    assert schedule.side_by_side(9, "cpu", names, "book") == 6
    assert schedule.side_by_side("auto", "cpu", [], "book") == 1
    # The two hungriest together, and one that has not run yet: 3000 + 1500 + 1024 MiB.
    ran("chapter-0", "book", 1, mib=3000)
    ran("chapter-1", "book", 1, mib=1500)
    for free, jobs in ((5600, 3), (5500, 2), (4400, 1), (100, 1)):
        machine(monkeypatch, cores=4, free_mib=free)
        assert schedule.side_by_side("auto", "cpu", names[:3], "book") == jobs


def test_threads_share_the_cores(monkeypatch):
    machine(monkeypatch, cores=8, free_mib=0)
    assert [schedule.threads(jobs) for jobs in (1, 2, 3, 8, 9)] == [None, 4, 2, 1, 1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_cores_are_those_that_this_process_may_use():
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    script += "from clcore.book import schedule; print(schedule.usable_cores())"
    call = [sys.executable, "-c", script]
    assert subprocess.run(call, capture_output=True, text=True).stdout == "1\n"


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "1.5"])
def test_other_jobs_are_refused(wrong):
    assert (schedule.asked("auto"), schedule.asked("3"), schedule.asked(2)) == ("auto", 3, 2)
    with pytest.raises(
        ValueError, match=f"--jobs to be auto or a whole number from 1; got '{wrong}"
    ):
        schedule.asked(wrong)


def test_the_build_asks_pytorch_for_a_gpu_only_where_one_may_be(monkeypatch):
    def driver(name):
        raise OSError("no such library")

    monkeypatch.setattr(_device.ctypes, "CDLL", driver)
    for version, told in (("2.0", True), ("2.0+cu130", True), ("2.0+rocm7", False)):
        monkeypatch.setattr(_device.importlib.metadata, "version", lambda _, v=version: v)
        assert _device.no_cuda() is told
    monkeypatch.setattr(_device.ctypes, "CDLL", lambda name: object())
    for version, told in (("2.0", False), ("2.0+cpu", True)):
        monkeypatch.setattr(_device.importlib.metadata, "version", lambda _, v=version: v)
        assert _device.no_cuda() is told


def test_the_builder_does_not_import_pytorch():
    script = "import sys, clcore.book.build, clcore.__main__ as m\n"
    script += "clcore.book.build.plan('smoke', None, 'cpu'); print('torch' in sys.modules)"
    call = [sys.executable, "-c", script]
    assert subprocess.run(call, capture_output=True, text=True).stdout == "False\n"


SOLUTION = (
    "```{solution} x\n```\n\n```python\nfrom clcore.book import plots\n```\ntext\n"
    "```python\ny = 2\n```"
)


def test_solutions_are_put_in_and_taken_out(tmp_path):
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell("x = 1"), nbformat.v4.new_markdown_cell(SOLUTION)]
    book.cells.append(nbformat.v4.new_code_cell("last"))
    path = tmp_path / "a.ipynb"
    nbformat.write(book, path)
    copy = json.loads(solutions.with_cells(path, tmp_path / "b.ipynb").read_text())
    assert [c["id"] for c in copy["cells"]][2:4] == ["solution-1", "solution-2"]
    assert "".join(copy["cells"][3]["source"]).strip() == "y = 2"
    assert "".join(copy["cells"][-1]["source"]) == "last"
    left = solutions.without_cells(copy)
    assert [c["id"] for c in left["cells"]] == [c.id for c in book.cells]
