"""Execute one notebook with papermill in a process of its own, and say how it went.

`python -m clcore.book.execute JOB.json` reads {notebook, output, outcome, parameters, solutions,
progress, parent} and writes `outcome`: {status: ok|failed|dead, seconds, peak_mib, cell, source,
error, traceback}. solutions: whether to run those of the exercises, too; `output` is without them.
parent: the build's process, without which this one ends.
The parent learns of an out-of-memory kill of this process from its exit status.
"""

import contextlib
import itertools
import json
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from clcore._files import write_json
from clcore.book import solutions

_MEMORY = ("MemoryError", "OutOfMemoryError")


class _Watch(threading.Thread):
    """Follow the memory of the kernel (once a second: a look at all processes takes some ms), and
    end everything when the build itself is gone."""

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self._seen = 0
        self._parent = parent  # not os.getppid(): the build may be gone by now

    @property
    def peak(self) -> int:
        """Most bytes in use: of all processes at a time as seen, or of one that has ended, which
        the system knows however short its peak was."""
        unit = 1 if sys.platform == "darwin" else 2**10
        return max(self._seen, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)

    def run(self) -> None:
        me = psutil.Process()
        for beat in itertools.count():
            if os.getppid() != self._parent:
                _end()
            if beat % 10 == 0:
                with contextlib.suppress(psutil.Error):
                    children = me.children(recursive=True)
                    self._seen = max(self._seen, sum(c.memory_info().rss for c in children))
            time.sleep(0.1)


def _end() -> None:
    """End this process and its kernel at once."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


def main(job_file: str) -> int:
    """Run the notebook of a job (JSON, written by the build); the process's exit status."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.engines import NBClientEngine, papermill_engines
    from papermill.exceptions import PapermillExecutionError

    class WrittenOnce(NBClientEngine):
        """papermill's engine checks and writes the whole notebook before and after each cell."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, *given: Any, **more: Any) -> None:
            nb_man.save = lambda **_: None
            try:
                super().execute_managed_notebook(nb_man, *given, **more)
            finally:
                del nb_man.save  # it is written next, a run that failed or died, too

    papermill_engines.register("once", WrittenOnce)
    job = json.loads(Path(job_file).read_text())
    notebook, output = Path(job["notebook"]), Path(job["output"])
    folder = notebook.parent
    # Where the connection file goes, with the key to the kernel: after a kill all is tidied.
    tempfile.tempdir = str(output.parent)
    signal.signal(signal.SIGTERM, lambda *_: _end())
    watch = _Watch(job["parent"])
    watch.start()
    began = time.perf_counter()
    outcome: dict = {"status": "ok"}
    try:
        if job["solutions"]:
            notebook = solutions.with_cells(notebook, output.with_name("solved.ipynb"))
        papermill.execute_notebook(
            notebook,
            output,
            parameters=job["parameters"],
            engine_name="once",
            kernel_name="python3",
            language="python",
            cwd=folder,
            progress_bar=job["progress"],
            coalesce_streams=True,
        )
        if job["solutions"]:
            write_json(output, solutions.without_cells(json.loads(output.read_text())))
    except PapermillExecutionError as error:
        trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
        message = f"{error.ename}: {error.evalue}"
        if error.ename in _MEMORY:
            message += f"\nThe chapter ran out of memory: {_memory(watch.peak)}"
        outcome = {
            "status": "failed",
            "cell": _cell_id(notebook, error.source),
            "source": error.source,
            "error": message,
            "traceback": trace,
        }
    except (DeadKernelError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "died" not in str(error):
            raise
        cell, source = _last_started(output)
        message = (
            "The kernel died without an error of its own, most often because the system killed it "
            f"for memory: {_memory(watch.peak)}"
        )
        if cell is None:
            message = (
                f"The kernel died before its first cell ({error}); what it said is below. Does "
                "`python -m ipykernel --version` work here, and are enough open files allowed "
                "(ulimit -n)?"
            )
        outcome = {"status": "dead", "cell": cell, "source": source, "error": message}
    except OSError as error:
        outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    outcome |= {
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": round(watch.peak / 2**20),
    }
    write_json(Path(job["outcome"]), outcome)
    return 0 if outcome["status"] == "ok" else 1


def _memory(peak: int) -> str:
    total = psutil.virtual_memory().total
    return (
        f"it had {peak / 2**30:.1f} GiB in use at its highest, of {total / 2**30:.1f} GiB on this "
        "machine. Close other programs, use a smaller profile (--profile smoke), fewer --jobs, or "
        "a machine with more memory."
    )


def _cell_id(notebook: Path, source: str) -> str:
    """The stable id of the cell that failed; papermill's own cells shift its index."""
    cells = json.loads(notebook.read_text())["cells"]
    return next((c["id"] for c in cells if "".join(c["source"]) == source), "unknown")


def _last_started(output: Path) -> tuple[str | None, str]:
    """The cell that was running when the kernel died, from papermill's own notes in the output."""
    try:
        cells = json.loads(output.read_text())["cells"]
    except (OSError, ValueError):
        return None, ""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    begun = [c for c in code if c["metadata"].get("papermill", {}).get("start_time")]
    return (begun[-1]["id"], "".join(begun[-1]["source"])) if begun else (None, "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
