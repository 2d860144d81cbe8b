"""What chapters cost before their first line, in CPU seconds: kernel, runner, and the set-up cell
with its imports. Each with processes of its own, then all forked from one that has imported.

    OMP_NUM_THREADS=1 python benchmarks/starts.py [chapter ...]
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

from clcore import _paths
from clcore.book import contents, surroundings
from clcore.book.build.planning import Run
from clcore.book.warm import ask

TOLD = "import time\nprint(time.process_time())"


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def begun(name: str, folder: Path) -> Run:
    """A run of a chapter that ends after its set-up cell."""
    book = nbformat.read(_paths.root() / "chapters" / f"{name}.ipynb", 4)
    code = [cell for cell in book.cells if cell.cell_type == "code"][:2]
    book.cells = [*code, nbformat.v4.new_code_cell(TOLD)]
    nbformat.write(book, folder / f"{name}.ipynb")
    return Run(name, folder / f"{name}.ipynb", {"profile": "smoke", "device": "cpu"})


def execute(run: Run, environment: dict[str, str], door: object) -> float:
    """CPU seconds of the kernel alone; those of its runner count in the sum."""
    work = run.notebook.parent / f"work-{run.name}"
    work.mkdir()
    given = {"notebook": run.notebook, "output": work / "out.ipynb", "outcome": work / "run.json"}
    job = {name: str(path) for name, path in given.items()}
    job |= {"parameters": run.parameters, "solutions": False, "progress": False}
    (work / "job.json").write_text(json.dumps(job | {"parent": os.getpid()}))
    own = {"IPYTHONDIR": str(work), "CLCORE_CHECKPOINTS": str(work)}
    with (work / "log").open("wb") as log:
        if door:
            process = ask.Runner(door, work / "job.json", own, [log.fileno()] * 2)
        else:
            command = [sys.executable, "-m", "clcore.book.execute", str(work / "job.json")]
            process = subprocess.Popen(command, env=environment | own, stdout=log, stderr=log)
        if process.wait():
            sys.exit(f"{run.name} failed: {(work / 'run.json').read_text()}")
    last = nbformat.read(work / "out.ipynb", 4).cells[-1]
    return float(last.outputs[-1].text)


def measure(names: list[str], forked: bool) -> dict[str, float]:
    environment = surroundings.environment(MPLBACKEND="module://matplotlib_inline.backend_inline")
    began, found = cpu(), {}
    with tempfile.TemporaryDirectory() as folder:
        runs = [begun(name, Path(folder)) for name in names]
        with ask.door(runs, environment) if forked else contextlib.nullcontext() as door:
            for run in runs:
                found[run.name] = execute(run, environment, door)
    return found | {"together, with runners": cpu() - began}


if __name__ == "__main__":
    chosen = sys.argv[1:] or contents.chapters()
    own, forked = (measure(chosen, way) for way in (False, True))
    print(f"{'CPU s':28}{'own':>8}{'forked':>8}")
    for name, seconds in own.items():
        print(f"{name:28}{seconds:8.2f}{forked[name]:8.2f}")
