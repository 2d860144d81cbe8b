"""All that needs a CUDA device, one after another within a limit of time.

The CUDA tests, then the chapters by papermill, then the image tables at full size. What each step
found is written as it comes, so that it is there whenever the time runs out: `summary.json`, and
what the step names. It needs no Sphinx; the site is built elsewhere.
"""

import contextlib
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabulate import tabulate

from clcore import _paths
from clcore._device import NoDevice, usable
from clcore._files import write_json
from clcore.book import schedule
from clcore.book.gpu import chapters, cuda_tests, tables
from clcore.book.provenance import made


class TimeUp(BaseException):
    """A step's time is over: no error of what is running, which must not take it for one."""


@dataclass
class Plan:
    """What the steps share. end: of all, on the monotonic clock; rows: of the table at the end, to
    which a step adds as it goes."""

    out: Path
    device: str
    jobs: int
    rehearse: bool
    compile: bool
    end: float
    rows: list[dict[str, Any]] = field(default_factory=list)

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()

    def found(self, step: str, what: str, result: str, seconds: float, fine: bool) -> None:
        """Add a row to the table, print and keep it."""
        row = {"step": step, "what": what, "result": result, "seconds": round(seconds, 1)}
        self.rows.append(row | {"fine": fine})
        print(f"{step}: {what}: {result} ({seconds:.1f} s)", flush=True)
        write_json(self.out / "summary.json", {**machine(self.device), "rows": self.rows})


STEPS: dict[str, tuple[float, Callable[[Plan], None]]] = {
    "tests": (0.25, cuda_tests.run),
    "chapters": (0.6, chapters.run),
    "tables": (1.0, tables.run),
}
"""Each step by its name, with its share of the time that is left when it begins."""


def machine(device: str) -> dict[str, Any]:
    """The device by its name, and the versions that decide what it computes."""
    import torch

    about: dict[str, Any] = {"device": device, "card": "none", "cores": schedule.usable_cores()}
    if device != "cpu":
        properties = torch.cuda.get_device_properties(device)
        about |= {
            "card": properties.name,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return about | {"system": platform.platform(), **made()}


def command(
    out: Path,
    device: str = "cuda",
    minutes: float = 60.0,
    only: list[str] | None = None,
    jobs: int | str = "auto",
    rehearse: bool = False,
    compile: bool = False,
) -> int:
    """Run the steps, print a table; the exit status: 1 if one failed or did not come to its end.

    jobs: chapters at a time, "auto" for one for two cores, at most eight. rehearse: the same steps
    at tiny sizes. compile: the image runs through torch.compile, too. Errors: no such device, an
    unknown step, no time.
    """
    try:
        device = usable(device)
    except NoDevice as error:
        raise NoDevice(f"{error}; --device cpu --rehearse goes through the same steps") from None
    if device == "cpu" and not rehearse:
        raise NoDevice(
            "expected a CUDA device, got cpu; --device cpu --rehearse goes through the same steps "
            "at tiny sizes"
        )
    for name in only or []:
        if name not in STEPS:
            raise ValueError(f"expected --only in {', '.join(STEPS)}; got {name!r}")
    if not minutes > 0:
        raise ValueError(f"expected --minutes above 0, got {minutes}")
    asked = schedule.asked(jobs)
    at_once = max(1, min(8, schedule.usable_cores() // 2)) if asked == "auto" else int(asked)
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    plan = Plan(out.resolve(), device, at_once, rehearse, compile, end)
    about = machine(device)
    print(f"{about['card']}, PyTorch {about['torch']}, {minutes:g} minutes", flush=True)
    with _decoding(plan, only):
        for name, (share, step) in STEPS.items():
            if not only or name in only:
                _within(plan, name, share, step)
    shown = [[row[key] for key in ("step", "what", "result", "seconds")] for row in plan.rows]
    print(f"\n{tabulate(shown, ['step', 'what', 'result', 'seconds'], disable_numparse=True)}")
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    return 0 if all(row["fine"] for row in plan.rows) else 1


def _within(plan: Plan, name: str, share: float, step: Callable[[Plan], None]) -> None:
    """A step in its share of the time; whatever goes wrong with it, the next one has its turn."""
    began = time.monotonic()
    try:
        with limited(share * plan.left()):
            step(plan)
    except TimeUp:
        plan.found(name, "all", "its time was over", time.monotonic() - began, False)
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        plan.found(name, "all", f"failed: {words:.300}", time.monotonic() - began, False)


@contextlib.contextmanager
def limited(seconds: float) -> Generator[None, None, None]:
    """Raise TimeUp in the main thread, where it must be entered, after so many seconds."""

    def over(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _decoding(plan: Plan, only: list[str] | None) -> Generator[None, None, None]:
    """The images of the tables are decoded during the preceding steps, by a separate process."""
    if plan.rehearse or (only and "tables" not in only):
        yield
        return
    code = "from clcore.images import image_sets as s; [s.load('cifar10-jpeg', p) for p in "
    code += "('train', 'test')]"
    path = os.pathsep.join(filter(None, [str(_paths.root()), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
