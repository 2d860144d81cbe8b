"""Chapters whose kernels a warm process forks."""

import json
import os
import subprocess
import sys
import time

import nbformat
import psutil
import pytest

from clcore.book import surroundings
from clcore.book.build.planning import Run
from clcore.book.warm import ask

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux")

# What a result or a page might depend on, if it is not what the chapter itself asks for.
LOOK = """
import json, os, signal, sys
state = {"path": sys.path, "flags": str(sys.flags), "argv": sys.argv[0], "cwd": os.getcwd()}
state["environment"] = sorted(os.environ)
state["files"] = len(os.listdir("/proc/self/fd"))
state["group"] = os.getpgid(0) == os.getsid(0) == os.getpid()
state["clcore"] = [name for name in sys.modules if name.startswith("clcore")]
state["signals"] = [str(signal.getsignal(s)).split(" at ")[0] for s in signal.valid_signals()]
import matplotlib, numpy, pandas, warnings
state["options"] = {n: str(pandas.get_option(n)) for n in ("display.max_columns", "display.width")}
state["figures"] = {n: str(v) for n, v in matplotlib.rcParams.items()}
state["backend"] = matplotlib.get_backend()
state["errors"] = numpy.geterr()
state["shown"] = [f[0] for f in warnings.filters if f[2] is DeprecationWarning]
state["random"] = numpy.random.rand()
print(json.dumps(state))
"""


def job(folder, source, parameters=None):
    """A run of a notebook, and the file that its runner reads."""
    name = f"chapter-{len(list(folder.glob('*.ipynb')))}"
    work = folder / f"work-{name}"
    work.mkdir()
    cells = [nbformat.v4.new_code_cell(s) for s in ("x = 1", source.replace("{work}", str(work)))]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
    told = {"notebook": folder / f"{name}.ipynb", "output": work / "out.ipynb"}
    told = {n: str(path) for n, path in told.items()} | {"outcome": str(work / "run.json")}
    told |= {"parameters": {}, "solutions": False, "progress": False, "parent": os.getpid()}
    (work / "job.json").write_text(json.dumps(told))
    given = parameters or {"profile": "book", "device": "cpu"}
    return Run(name, folder / f"{name}.ipynb", given), work


def environment():
    inline = "module://matplotlib_inline.backend_inline"
    return surroundings.environment(MPLBACKEND=inline, OMP_NUM_THREADS="1")


def runner(door, work):
    with (work / "log").open("wb") as log:
        return ask.Runner(door, work / "job.json", {"IPYTHONDIR": str(work)}, [log.fileno()] * 2)


def seen(work):
    assert json.loads((work / "run.json").read_text())["status"] == "ok"
    outputs = nbformat.read(work / "out.ipynb", 4).cells[-1].outputs
    assert [out.name for out in outputs] == ["stdout"], outputs
    return json.loads(outputs[0].text)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(ask, "STACK", ("pandas", "matplotlib.pyplot"))


def test_a_forked_kernel_finds_what_a_fresh_one_does(tmp_path, small):
    (one, work), (two, other), (_, fresh) = (job(tmp_path, LOOK) for _ in range(3))
    with ask.door([one, two], environment()) as door:
        begun = [runner(door, work), runner(door, other)]
        assert [process.wait() for process in begun] == [0, 0]
    command = [sys.executable, "-m", "clcore.book.execute", str(fresh / "job.json")]
    subprocess.run(command, env=environment() | {"IPYTHONDIR": str(fresh)}, check=True)
    forked, again, alone = seen(work), seen(other), seen(fresh)
    assert len({state.pop("random") for state in (forked, again, alone)}) == 3
    assert forked == again == alone
    assert alone["clcore"] == []


def test_what_two_chapters_need_is_imported(tmp_path):
    runs = [job(tmp_path, source)[0] for source in ("import torch.nn", "import torch, sympy")]
    assert ask.needed(runs) == ["torch"]
    runs.append(job(tmp_path, "from scipy import stats\nfrom sympy import exp")[0])
    assert ask.needed(runs) == ["torch", "sympy"]
    runs.append(job(tmp_path, "from clcore.book import plots")[0])
    assert ask.needed(runs) == ["torch", "sympy"]
    runs.append(job(tmp_path, "import seaborn as sns")[0])
    assert "seaborn" in ask.needed(runs) and "scipy.stats" not in ask.needed(runs)


def test_where_nobody_forks(tmp_path):
    one, two = (job(tmp_path, "")[0] for _ in range(2))
    gpu = job(tmp_path, "", {"profile": "book", "device": "cuda"})[0]
    for runs in ([one], [one, gpu]):
        with ask.door(runs, environment()) as door:
            assert door is None
    with ask.door([one, two], environment() | {"OMP_NUM_THREADS": "2"}) as door:
        assert door is None
    (tmp_path / "pandas.py").touch()  # which a kernel here would import
    with ask.door([one, two], environment()) as door:
        assert door is None


@pytest.mark.parametrize(
    "source",
    [
        "raise ImportError",
        "print('hello')",
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=[9], daemon=True).start()",
    ],
)
def test_what_cannot_be_forked_is_not(tmp_path, monkeypatch, source):
    (one, work), (two, _) = (job(tmp_path, "import odd") for _ in range(2))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "odd.py").write_text(source)
    monkeypatch.setattr(ask, "STACK", ("odd",))
    path = os.pathsep.join([environment()["PYTHONPATH"], str(tmp_path / "elsewhere")])
    with ask.door([one, two], environment() | {"PYTHONPATH": path}) as door:
        with pytest.raises(ChildProcessError):
            runner(door, work)
        with pytest.raises(OSError):  # and again, when it is known to be gone
            runner(door, work)


def ended(*pids):
    until = time.monotonic() + 60
    while any(map(psutil.pid_exists, pids)):
        assert time.monotonic() < until, "it still runs"
        time.sleep(0.05)
    return True


def kernel_of(work):
    """The process of a kernel that waits, once it does."""
    while not (work / "pid").is_symlink():
        time.sleep(0.05)
    return int(str((work / "pid").readlink()))


WAIT = """
import os, time
os.symlink(str(os.getpid()), "{work}/pid")
time.sleep(600)
"""


def test_a_runner_that_is_killed_takes_its_kernel_along(tmp_path, small):
    (one, work), (two, other) = job(tmp_path, WAIT), job(tmp_path, WAIT)
    with ask.door([one, two], environment()) as door:
        first, second = runner(door, work), runner(door, other)
        kernels = kernel_of(work), kernel_of(other)
        first.terminate()
        assert first.wait() == 1 and ended(kernels[0])
        os.kill(kernels[1], 9)
        assert second.wait() == 1
    assert json.loads((other / "run.json").read_text())["status"] == "dead"


def test_without_the_process_that_forks_its_children_end(tmp_path, small):
    (one, work), (two, _) = job(tmp_path, WAIT), job(tmp_path, "")
    with ask.door([one, two], environment()) as door:
        process = runner(door, work)
        kernel = kernel_of(work)
    assert process.wait() == -9  # its parent was ended with the door
    assert ended(process.pid, kernel)
