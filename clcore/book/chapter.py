"""The frame of a chapter: its parameters, its ledger, its recorded results, its provenance."""

import logging
import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clcore import _folders, _paths
from clcore.book import keys
from clcore.book.parameters import ParameterError, check_device, of_cells, validate
from clcore.book.provenance import PROVENANCE_MIME, commit, encode
from clcore.ledger import RECORDS_MIME, Ledger
from clcore.ledger.html import render

if TYPE_CHECKING:
    import pandas as pd

    from clcore.grid import Grid

log = logging.getLogger(__name__)

_FIRST = ("profile", "device", "seed", "commit")
"""What the provenance is folded to."""
_LABELS = {"peak_mib": "peak memory (MiB)", "peak_device_mib": "peak device memory (MiB)"}


@dataclass
class Chapter:
    """A chapter that is being run. Made by `start`, ended by `close`."""

    name: str
    parameters: dict[str, Any]
    device: torch.device
    ledger: Ledger
    checkpoints: Path | None = None  # the folder for them, when this chapter is to see to it
    began: float = field(default_factory=time.perf_counter)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def profile(self) -> str:
        """smoke, book or paper."""
        return self.parameters["profile"]

    @property
    def seed(self) -> int:
        """The seed of everything random in this run."""
        return self.parameters["seed"]

    def pick(self, *, smoke: Any, book: Any, paper: Any) -> Any:
        """The value for this run's profile."""
        return {"smoke": smoke, "book": book, "paper": paper}[self.profile]

    def checkpoint(self, name: str) -> Path | None:
        """Where a long training keeps its state, or None.

        In the folder $CLCORE_CHECKPOINTS, which a build sets; without it, in the `paper` profile,
        in the one that a build would set, which `close` removes.
        """
        given = os.environ.get("CLCORE_CHECKPOINTS")
        folder = _paths.folder("CLCORE_CHECKPOINTS", "") if given else self.checkpoints
        return folder / f"{name}.pt" if folder else None

    def grid(self, jobs: int = 1) -> "Grid":
        """Who trains this chapter's runs, and where their results are kept.

        The parameter `scheduler`, else $CLCORE_SCHEDULER, names a launcher
        (`clcore.grid.launchers.LAUNCHERS`); "auto" is this process, or, in the `paper` profile,
        every core of this machine; `jobs` above 1 are so many processes, on a CPU. Results are
        kept below grid/ of the build folder where they outlive a chapter (`paper`, or another
        launcher), else with its checkpoints.
        """
        from clcore.grid import Grid, launcher

        name = self.parameters.get("scheduler", "auto")
        if name == "auto":
            here = "local" if self.profile == "paper" else "serial"
            here = f"local:{jobs}" if jobs > 1 and self.device.type == "cpu" else here
            name = os.environ.get("CLCORE_SCHEDULER") or here
        folder = self.checkpoint("grid")
        if self.profile == "paper" or name != "serial":
            folder = _folders.begin(_folders.build() / "grid") / self.name
        elif folder:
            folder = folder.with_suffix("")
        return Grid(folder, launcher(name), self.device)

    def record(self, name: str, table: "pd.DataFrame", of: str | None = None) -> None:
        """In the `paper` profile, keep a result with its provenance under data/recorded/.

        of: the folder there, if it is not the one of this chapter's name.

        Only with seed 0, so that trying another seed does not replace what is committed; and a
        present record that is larger, by its rows or by its last epoch or step, stays, with a
        warning, so that trying fewer seeds or epochs does not replace it either. Such a run's
        table goes where `keep` puts it.
        """
        if self.profile != "paper":
            return
        if self.seed != 0:
            self._set_aside(name, table)
            return
        base = _paths.root() / "data" / "recorded" / (of or self.name) / name
        if more := _more(_file(base, "csv"), table):
            log.warning(
                "%s stays, for it has %s; this run's table is in %s, to be put there by hand",
                _paths.shown(_file(base, "csv")),
                more,
                _paths.shown(self._set_aside(name, table)),
            )
            return
        self._write(base, table)

    def keep(self, name: str, table: "pd.DataFrame") -> Path | None:
        """In the `paper` profile, leave a result that is no record, with its provenance, under
        unrecorded/ of the build folder; where it is."""
        return self._set_aside(name, table) if self.profile == "paper" else None

    def _set_aside(self, name: str, table: "pd.DataFrame") -> Path:
        base = _folders.begin(_folders.build() / "unrecorded") / self.name / name
        self._write(base, table)
        return _file(base, "csv")

    def _write(self, base: Path, table: "pd.DataFrame") -> None:
        from clcore._files import write_atomic, write_json

        csv = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        write_json(_file(base, "json"), self.provenance() | {"parameters": self.parameters})
        write_atomic(_file(base, "csv"), csv.encode())

    def recorded(self, name: str, of: str | None = None) -> "tuple[pd.DataFrame, dict] | None":
        """A recorded full-size result and its provenance, or None when there is none yet.

        of: the folder under data/recorded/, if it is not the one of this chapter's name.
        """
        import pandas as pd

        from clcore._files import read_json

        base = _paths.root() / "data" / "recorded" / (of or self.name) / name
        if not _file(base, "csv").exists():
            return None
        remedy = "restore it from the repository, or run the chapter with profile=paper"
        return pd.read_csv(_file(base, "csv")), read_json(_file(base, "json"), remedy)

    def beside(
        self, name: str, table: "pd.DataFrame", on: "str | list[str]", of: str | None = None
    ) -> "pd.DataFrame":
        """Record a table, and return it with the recorded full-size run's columns next to its own.

        Rows are those of `table`, found by `on` (names, integers or short decimals, which a file of
        six digits keeps). Columns are (which run, name).

        of: the folder under data/recorded/, if it is not the one of this chapter's name.
        """
        import pandas as pd

        self.record(name, table, of)
        own = table.set_index(on)
        sides = {f"this build ({self.profile})": own}
        found = self.recorded(name, of)
        if found:
            kinds = table[[on] if isinstance(on, str) else on].dtypes
            sides["recorded (full size)"] = found[0].astype(kinds).set_index(on).reindex(own.index)
        return pd.concat(sides, axis=1)

    def provenance(self) -> dict[str, Any]:
        """Where, when, on what and from which state of the code this runs."""
        out = {
            "chapter": self.name,
            "profile": self.profile,
            "device": str(self.device),
            "seed": self.seed,
            "started": self.started,
            "seconds": round(time.perf_counter() - self.began, 1),
            "peak_mib": round(_peak_mib()),
            "machine": _machine(self.device),
            "threads": torch.get_num_threads(),
            "commit": commit(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        }
        # With several jobs, runs are in processes of their own, whose memory is not seen here.
        if self.device.type == "cuda" and self.parameters.get("jobs", 1) == 1:
            out["peak_device_mib"] = round(torch.cuda.max_memory_allocated(self.device) / 2**20)
        return out

    def close(self) -> None:
        """Show the provenance, and the claims of this chapter that nothing has checked; remove the
        checkpoints that are its own."""
        facts = self.provenance()
        todo = self.ledger.todo(keys.claimed(_paths.root() / "chapters" / f"{self.name}.ipynb"))
        rest = f"Not checked yet: {', '.join(todo)}." if todo else "Every claim has a verdict."
        shown = {_LABELS.get(name, name): value for name, value in facts.items()}
        html = str(render("clcore.book", "provenance.html", facts=shown, first=_FIRST, rest=rest))
        text = "\n".join([*(f"{k}: {v}" for k, v in facts.items()), rest])
        _display(html, text, PROVENANCE_MIME, facts)
        if self.checkpoints:
            shutil.rmtree(self.checkpoints, ignore_errors=True)


_started: list[Chapter] = []


def profile() -> str | None:
    """The profile of the chapter that this process runs; None where none was started."""
    return _started[-1].profile if _started else None


def start(name: str, namespace: dict[str, Any]) -> Chapter:
    """Begin a chapter: check its parameters, which its parameters cell assigns, and which a reader
    or papermill may have set to other values.

    To be called with `globals()` from a cell after the parameters cell; again as often as one
    likes. Raises ParameterError for an unknown profile, a device that is not here, a value of
    another type, and a parameter of papermill's that the chapter does not have, with the valid
    ones.
    """
    declared, injected = of_cells(namespace.get("In", ()))
    if not declared:
        raise ParameterError(
            f"expected the first code cell of {name} to assign profile, device and seed; run the "
            "parameters cell first"
        )
    # No other name is a parameter: readers try things out, and graders and hosts leave names, too.
    given = {k: namespace[k] for k in (*declared, *injected) if k in namespace}
    parameters = validate(given, declared, name)
    device = torch.device(check_device(parameters["device"]))
    ledger = Ledger(name, show=lambda h, t, r: _display(h, t, RECORDS_MIME, r))
    folder = None
    if parameters["profile"] == "paper" and not os.environ.get("CLCORE_CHECKPOINTS"):
        notebook = _paths.root() / "chapters" / f"{name}.ipynb"
        _folders.room("checkpoints")
        folder = keys.checkpoints(notebook, parameters | {"device": str(device)})
    here = Chapter(name, parameters, device, ledger, folder)
    _started[:] = [here]
    shell = _shell()
    if shell is not None:
        shell.events.register("pre_run_cell", lambda info: ledger.start_clock())
    return here


def _file(base: Path, kind: str) -> Path:
    """The file of a table; its name may have a point in it, as tokens-t0.5."""
    return base.with_name(f"{base.name}.{kind}")


def _more(present: Path, table: "pd.DataFrame") -> str:
    """What a recorded table has more of than a new one; "" when nothing, or when it is no table."""
    import pandas as pd

    try:
        old = pd.read_csv(present)
    except (FileNotFoundError, ValueError):
        return ""
    sizes = {"more rows": (len(old), len(table))}
    sizes |= {
        f"later {name}s": (old[name].max(), table[name].max())
        for name in ("epoch", "step")
        if name in old and name in table
    }
    found = [(what, was, now) for what, (was, now) in sizes.items() if was > now]
    return ", ".join(f"{what} ({was}, not {now})" for what, was, now in found)


def _shell() -> Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def _display(html: str, text: str, mime: str, data: Any) -> None:
    if _shell() is None:
        print(text)
        return
    from IPython.display import display

    display({"text/html": html, "text/plain": text, mime: encode(data)}, raw=True)


def _peak_mib() -> float:
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
            model = next(line.split(":")[1].strip() for line in info if "model name" in line)
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores"
