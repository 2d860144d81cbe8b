"""The unit tests against mutants: does one fail?"""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forking
import pytest
import units
from units import Lines, Measured, Unit

ROOMS = ("losses", "theory", "images", "experiments")
"""Folders below tests/, each with the unit tests of that folder of clcore. That of the checks is no
such folder: its tests would ask the checks."""

# A forked child has no use for the watchdog of faulthandler: its lock may be held for ever.
PYTEST = ["-q", "-x", "--tb=no", "--no-header"]
PYTEST += [
    word for name in ("cacheprovider", "xdist", "faulthandler") for word in ("-p", f"no:{name}")
]


def of_repository(rooms: tuple[str, ...] = ROOMS) -> list[Unit]:
    """Every file of tests in these folders of tests/."""
    from clcore import _paths
    from clcore.book.keys import closure

    root = _paths.root()
    out = []
    for room in rooms:
        beside = sorted((root / "tests").glob("*.py")) + sorted(
            (root / "tests" / room).glob("*.py")
        )
        helpers = [p for p in beside if not p.name.startswith("test_")]
        for path in sorted((root / "tests" / room).glob("test_*.py")):
            needs = closure([p.read_text() for p in (path, *helpers)])
            name = path.relative_to(root).as_posix()
            key = units.digest([path, *helpers, *needs], name.encode())
            out.append(Unit(name, key, {"file": name}, frozenset(needs), f"{room}/"))
    return out


def warm() -> None:
    """Import what tests need, but nothing of clcore; hypothesis draws the same in every run, and
    remembers nothing, or a mutant would leave its counterexamples to the next."""
    import hypothesis

    units.warm()
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")


def refuses_any_change(error: BaseException) -> bool:
    """Whether it is that of a grid whose workers, processes of their own, import the file as it
    stands: it takes no result of other code, and would refuse a change that makes no difference."""
    return bool(re.search(r"\bcode \w+ where \w+ is asked for", str(error)))


class Watcher:
    """A plugin of pytest: order, time, and what fails."""

    def __init__(self, tell: forking.Tell, lines: Lines | None, first: set[str], out: set[str]):
        self.tell, self.lines, self.first, self.out = tell, lines, first, out
        self.seconds: dict[str, float] = {}
        self.by_test: dict[str, dict[str, list[int]]] = {}
        self.failed: list[str] = []
        self.allowed: dict[str, float] = {}
        self.stop = False

    def pytest_collection_modifyitems(self, items: list) -> None:
        items[:] = [item for item in items if item.nodeid not in self.out]
        files = list(dict.fromkeys(item.path for item in items))
        items.sort(key=lambda i: (files.index(i.path), i.nodeid not in self.first))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.lines is None:
            self.tell({"at": nodeid})
            forking.allow(10 + 4 * self.allowed.get(nodeid, 5))
        self.start = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.process_time() - self.start
        if self.lines is not None:
            self.by_test[nodeid] = self.lines.told()
            for seen in self.lines.seen.values():
                seen.clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call: Any) -> Iterator[None]:
        made = yield
        if call.excinfo and refuses_any_change(call.excinfo.value):
            report = made.get_result()
            report.outcome, report.longrepr = "skipped", ("", 0, "not asked: a grid's processes")

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        if refuses_any_change(call.excinfo.value):
            return
        self.failed.append(node.nodeid)
        if self.lines is None and not self.stop:
            self.stop = True
            judged = issubclass(call.excinfo.type, AssertionError | pytest.fail.Exception)
            why = call.excinfo.exconly().split("\n")[0][:200]
            how = "judgement" if judged else "crash"
            self.tell({"by": node.nodeid, "how": how, "why": why})


def _run(files: list[str], watcher: Watcher, more: list[str]) -> int:
    import swapped

    from clcore import _paths

    root = _paths.root()
    swapped.forget("clcore")  # it comes back with the tests' checks of signatures
    os.chdir(root)
    return int(pytest.main([*PYTEST, *more, "--rootdir", str(root), *files], plugins=[watcher]))


def measure(unit: Unit, tell: forking.Tell) -> None:
    """In a child: which lines each test of a file executes, and which fail by themselves."""
    from clcore import _paths

    forking.allow(600)
    lines = Lines(_paths.root())
    watcher = Watcher(tell, lines, set(), set())
    with _temporary() as folder, lines.on():
        code = _run([unit.about["file"]], watcher, ["--maxfail=1000", f"--basetemp={folder}/t"])
    if code not in (0, 1):
        raise ValueError(f"pytest ends with {code}: {watcher.failed}")
    every: dict[str, set[int]] = {}
    for found in watcher.by_test.values():
        for path, seen in found.items():
            every.setdefault(path, set()).update(seen)
    tell(
        {
            "lines": {path: sorted(seen) for path, seen in every.items()},
            "seconds": time.process_time(),
            "found": {
                "failed": watcher.failed,
                "seconds": watcher.seconds,
                "lines": watcher.by_test,
            },
        }
    )


def _temporary() -> Any:
    import tempfile

    return tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True)


def attack(job: tuple[Path, str, list[Measured], tuple[int, int]], tell: forking.Tell) -> None:
    """In a child: run files of tests against a mutant until one fails; of each, those that
    execute it come first.

    Tells {"at"} before each, then {"by", "how", "why"} or {"survived": how many were asked}.
    """
    import swapped

    from clcore import _paths

    path, source, against, (low, high) = job
    name = path.relative_to(_paths.root()).as_posix()
    swapped.swap(path, source)
    first, out, allowed = set(), set(), {}
    for one in against:
        out |= set(one.found["failed"])
        allowed |= one.found["seconds"]
        for test, lines in one.found["lines"].items():
            if any(low <= line <= high for line in lines.get(name, ())):
                first.add(test)
    watcher = Watcher(tell, None, first, out)
    watcher.allowed = allowed
    forking.allow(120)
    with _temporary() as folder:
        files = [one.unit.about["file"] for one in against]
        code = _run(files, watcher, [f"--basetemp={folder}/t"])
    if watcher.stop:
        return
    if code:
        tell({"by": f"pytest ends with {code}", "how": "crash", "why": ""})
    else:
        tell({"survived": len(watcher.seconds)})
