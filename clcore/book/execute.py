"""Execute one notebook with papermill in its own process, and report the outcome.

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
import traceback
from pathlib import Path
from typing import Any

import psutil

from clcore import _paths
from clcore._files import read_json, read_notebook, write_json
from clcore.book import solutions

STARTING = 600
"""Seconds for a kernel to start: a loaded machine, a cold network disk."""
ARRIVING = 3600
"""Seconds for a cell's outputs to arrive after its reply: as long as they may take to be worked
through. One that was lost on the way would else be waited for without end."""
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
        """Peak memory in bytes: of all processes together, as sampled, or of one that has ended,
        for which the system records even a short peak."""
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


def main(job_file: str, parent: int | None = None, manager: type | None = None) -> int:
    """Run the notebook of a job (JSON, written by the build); the process's exit status.

    parent: the process that forked this one, if it is not the build; manager: jupyter_client's
    class, if it is not its own that starts the kernel.
    """
    job = read_json(Path(job_file), "run the build again")
    notebook, output = Path(job["notebook"]), Path(job["output"])
    temporary = tempfile.gettempdir()
    # Where the connection file goes, with the key to the kernel: after a kill all is tidied.
    tempfile.tempdir = str(output.parent)
    signal.signal(signal.SIGTERM, lambda *_: _end())
    watch = _Watch(parent or job["parent"])
    watch.start()
    began = time.perf_counter()
    outcome: dict = {"status": "ok"}
    try:
        if job["solutions"]:
            notebook = solutions.with_cells(notebook, output.with_name("solved.ipynb"))
        _run(notebook, output, job, temporary, manager)
        if job["solutions"]:
            executed = json.loads(output.read_bytes())
            write_json(output, solutions.without_cells(executed))
    except Exception as error:
        outcome = _failed(error, notebook, output, watch.peak)
        if "traceback" in outcome:
            outcome["traceback"] = without_places(outcome["traceback"], temporary)
    outcome |= {
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": round(watch.peak / 2**20),
    }
    write_json(Path(job["outcome"]), outcome)
    return 0 if outcome["status"] == "ok" else 1


def _run(
    notebook: Path, output: Path, job: dict, temporary: str, manager: type | None = None
) -> None:
    """Execute a notebook and write it with its outputs, whatever becomes of it."""
    import papermill
    from papermill.engines import NBClientEngine, papermill_engines

    class WrittenOnce(NBClientEngine):
        """papermill's engine checks and writes the whole notebook before and after each cell."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, *given: Any, **more: Any) -> None:
            nb_man.save = lambda **_: None
            try:
                super().execute_managed_notebook(nb_man, *given, **more)
            finally:
                del nb_man.save  # it is written next, a run that failed or died, too
                for cell in nb_man.nb.cells:
                    if "outputs" in cell:
                        cell.outputs = put_together(cell.outputs)
                        for out in cell.outputs:
                            if out["output_type"] == "stream":
                                out["text"] = without_places(out["text"], temporary)

    papermill_engines.register("once", WrittenOnce)
    papermill.execute_notebook(
        notebook,
        output,
        parameters=job["parameters"],
        engine_name="once",
        kernel_name="python3",
        language="python",
        cwd=Path(job["notebook"]).parent,
        progress_bar=job["progress"],
        start_timeout=STARTING,
        iopub_timeout=ARRIVING,
        **({"kernel_manager_class": manager} if manager else {}),
    )


def _failed(error: Exception, notebook: Path, output: Path, peak: int) -> dict:
    """The outcome of a run that ended with an error."""
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        message = f"{error.ename}: {error.evalue}"
        if error.ename in _MEMORY:
            message += f"\nThe chapter ran out of memory: {_memory(peak)}"
        return {
            "status": "failed",
            "cell": _cell_id(notebook, error.source),
            "source": error.source,
            "error": message,
            "traceback": re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)),
        }
    cell, source = _last_started(output)
    place = {"cell": cell, "source": source} if cell else {}
    died = isinstance(error, RuntimeError) and "died" in str(error)
    if not died and not isinstance(error, DeadKernelError):
        trace = {} if isinstance(error, OSError) else {"traceback": traceback.format_exc()}
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"} | place | trace
    message = (
        "The kernel died without an error of its own, most often because the system killed it "
        f"for memory: {_memory(peak)}"
    )
    if cell is None:
        message = (
            f"The kernel died before its first cell ({error}); what it said is below. Does "
            "`python -m ipykernel --version` work here, and are enough open files allowed "
            "(ulimit -n)?"
        )
    return {"status": "dead", "error": message} | place


def _memory(peak: int) -> str:
    total = psutil.virtual_memory().total
    return (
        f"it had {peak / 2**30:.1f} GiB in use at its highest, of {total / 2**30:.1f} GiB on this "
        "machine. Close other programs, use a smaller profile (--profile smoke), fewer --jobs, or "
        "a machine with more memory."
    )


def _cell_id(notebook: Path, source: str) -> str:
    """The stable id of the cell that failed; papermill's own cells shift its index."""
    cells = read_notebook(notebook)["cells"]
    return next((c["id"] for c in cells if "".join(c["source"]) == source), "unknown")


def _last_started(output: Path) -> tuple[str | None, str]:
    """The cell that was running when the kernel died, from papermill's own notes in the output."""
    try:
        cells = json.loads(output.read_bytes())["cells"]
    except (OSError, ValueError):
        return None, ""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    begun = [c for c in code if c["metadata"].get("papermill", {}).get("start_time")]
    return (begun[-1]["id"], "".join(begun[-1]["source"])) if begun else (None, "")


def put_together(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of a cell with each stream's pieces in one, at the place of its first.

    Text overwritten by a carriage return or a backspace is left out; stdout comes before stderr
    where they meet, since their order of arrival is random. Its time grows with the length of the
    text, where nbclient's own goes with the square of a line's.
    """
    made: list[dict[str, Any]] = []
    pieces: dict[str, list[str]] = {}
    for output in outputs:
        if output["output_type"] != "stream":
            made.append(output)
            continue
        name = output["name"]
        if name not in pieces:
            pieces[name] = []
            made.append(output)
        pieces[name].append("".join(output["text"]))
    streams = [output for output in made if output["output_type"] == "stream"]
    for output in streams:
        output["text"] = _as_seen("".join(pieces[output["name"]]))
    if [output["name"] for output in streams] == ["stderr", "stdout"]:
        late, early = (made.index(output) for output in streams)
        if early == late + 1:
            made[late], made[early] = made[early], made[late]
    return made


def _as_seen(text: str) -> str:
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    """A line without what was written over: up to its last carriage return that something follows;
    a letter before each backspace."""
    line = line[line.rfind("\r", 0, max(0, len(line) - 1)) + 1 :]
    if "\b" not in line:
        return line
    kept: list[str] = []
    for letter in line:
        if letter != "\b":
            kept.append(letter)
        elif kept:
            kept.pop()
    return "".join(kept)


def without_places(text: str, temporary: str) -> str:
    """A text of warnings or a traceback with paths from the root of the project; the file that a
    kernel thinks a cell is in is "cell". temporary: the kernel's folder for such files."""
    cell = re.escape(str(Path(temporary) / "ipykernel_"))
    text = re.sub(rf"{cell}\d+[/\\]\d+\.py", "cell", text)
    for folder in (_paths.root(), Path(sys.prefix)):
        text = text.replace(f"{folder}{os.sep}", "")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
