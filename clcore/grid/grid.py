"""A grid: the requested runs, the finished ones, and the launcher of the others."""

import logging
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from clcore._device import usable
from clcore._files import read_json, write_json
from clcore.grid import lent, own_code
from clcore.grid.address import address, canonical, name_of, needs, plain
from clcore.grid.launchers import Launcher, Serial
from clcore.grid.store import Store, Stored
from clcore.grid.work import Outcome, Task
from clcore.sweep import Result, Stopped
from clcore.sweep.configs import Config, group

log = logging.getLogger(__name__)


class GridFailed(RuntimeError):
    """Runs that failed; the results of others are kept. `files`: their settings, for `repeat`.

    Examples:
        >>> try:
        ...     raise GridFailed("1 of 8 runs failed", [])
        ... except GridFailed as failed:
        ...     print(failed, failed.files)
        1 of 8 runs failed []
    """

    def __init__(self, words: str, files: Sequence[Path]) -> None:
        super().__init__(words)
        self.files = list(files)


@dataclass(frozen=True)
class Request:
    """Runs of one function.

    function: takes a list of configurations, `device`, `progress`, the options and, if it has such
    a parameter, `checkpoint`; returns a `sweep.Result` or a table with a column `run`. It stands in
    a module. configs: one per run, as for `sweep.train`; static, chunk: which runs are one tensor,
    as there; options: what else decides the results of all runs; free: what does not; shared:
    larger arguments (arrays, tensors and objects that hold them); inputs: of these, what decides
    results, such as digests; tensors: whether parameters and setup are kept. NumPy's scalars among
    settings and options count as plain numbers.

    Examples:
        >>> import pandas as pd
        >>> def powers(configs, device, progress, exponent):
        ...     values = [c["x"] ** exponent for c in configs]
        ...     return pd.DataFrame({"run": range(len(configs)), "power": values})
        >>> asked = Request(powers, [{"x": 2}, {"x": 3}], options={"exponent": 3})
        >>> [result.table.power.tolist() for result in Grid(progress=False).gather([asked])]
        [[8, 27]]
    """

    function: Callable
    configs: Sequence[Config]
    static: Sequence[str] = ()
    chunk: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    tensors: bool = False


@dataclass
class Grid:
    """The folder of results and the launcher that computes them.

    folder: of the results, which all workers must see; None computes in this process and keeps
    nothing. launcher: who computes, by name from `launcher`; this process if none is given.
    device: "cpu", "cuda" (one task per GPU) or "cuda:N".

    Examples:
        >>> import pandas as pd
        >>> def squares(configs, device, progress):
        ...     values = [c["x"] ** 2 for c in configs]
        ...     return pd.DataFrame({"run": range(len(configs)), "square": values})
        >>> grid = Grid(progress=False)  # Grid(Path("found"), launcher("local:4")) keeps results
        >>> grid.run(squares, [{"x": 2}, {"x": 3}]).table.square.tolist()
        [4, 9]
    """

    folder: Path | None = None
    launcher: Launcher = field(default_factory=Serial)
    device: str | torch.device = "cpu"
    progress: bool = True

    def run(self, function: Callable, configs: Sequence[Config], **parts: Any) -> Result:
        """The result of one `Request`, as if the function had been called with all of the runs."""
        return self.gather([Request(function, configs, **parts)])[0]

    def gather(self, requests: Iterable[Request]) -> list[Result]:
        """The result of each request; runs that have a result in the folder are not run again.

        Raises GridFailed for runs that failed, after all others ended; Stopped where a function's
        time was over; GridBusy, Unreachable; ValueError for a request that cannot be run.
        """
        requests = list(requests)
        with ExitStack() as stack:
            stack.callback(lent.HERE.clear)
            folder = self.folder
            if folder is None:
                if isinstance(self.launcher, Serial):
                    return [_here(r, usable(self.device), self.progress) for r in requests]
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clcore-")))
            return self._gather(requests, Store(folder))

    def _gather(self, requests: list[Request], store: Store) -> list[Result]:
        kind = torch.device(usable(self.device)).type
        keys = [_keys(r, kind) for r in requests]
        found = {key: store.read(key) for key in dict.fromkeys(k for ks in keys for k in ks)}
        if None in found.values():  # to read what is finished needs no lock, and writes nothing
            with store.locked():
                self._complete(requests, keys, found, store)
        return [_joined(r, [found[k] for k in ks]) for r, ks in zip(requests, keys, strict=True)]

    def _complete(
        self,
        requests: list[Request],
        keys: list[list[str]],
        found: dict[str, Stored | None],
        store: Store,
    ) -> None:
        """Compute what `found` lacks."""
        missing = [key for key, stored in found.items() if stored is None]
        # Another launcher may have computed some meanwhile.
        found |= {key: store.read(key, tell=False) for key in missing}
        missing = [key for key in missing if found[key] is None]
        for key in missing:  # damaged, or not there
            store.file(key).unlink(missing_ok=True)
        mark, todo = store.mark(make=True) or "", {*missing}
        tasks = [
            task
            for r, ks in zip(requests, keys, strict=True)
            for task in self._tasks(r, ks, todo, store, mark)
        ]
        self._launch(tasks, store, len(found))
        found |= store.late(missing)
        if lost := [key for key in missing if found[key] is None]:
            raise GridFailed(
                f"{len(lost)} results vanished: their runs are done, and {store.folder} does not "
                "show them a minute later",
                [],
            )

    def _tasks(
        self, r: Request, keys: list[str], missing: set[str], store: Store, mark: str
    ) -> list[Task]:
        """Stacks of the runs that are missing and in no task yet, which `missing` keeps."""
        fresh = {key: run for run, key in reversed([*enumerate(keys)]) if key in missing}
        runs = sorted(fresh.values())
        if not runs:
            return []
        missing -= fresh.keys()
        name, shared = name_of(r.function), self._lent(r, store) if r.shared else None
        path = own_code.path()
        parts = group([r.configs[run] for run in runs], r.static, r.chunk)
        return [
            Task(
                name,
                [plain(r.configs[runs[i]]) for i in part],
                [keys[runs[i]] for i in part],
                plain(r.options),
                dict(r.free),
                shared,
                needs(name),
                path,
                str(store.folder),
                mark,
                str(self.device),
                0,
                r.tensors,
            )
            for part in parts
        ]

    def _lent(self, r: Request, store: Store) -> bytes:
        """A request's larger arguments, as tasks name them."""
        if not isinstance(self.launcher, Serial):
            return lent.write(store.folder, dict(r.shared))
        here = uuid.uuid4().bytes
        lent.HERE[here] = dict(r.shared)
        return here

    def _launch(self, tasks: list[Task], store: Store, total: int) -> None:
        todo = sum(len(task.keys) for task in tasks)
        failed: list[tuple[Task, Outcome]] = []
        bar = tqdm(
            total=total,
            initial=total - todo,
            desc="grid",
            unit="run",
            file=sys.stdout,
            mininterval=1.0,
            disable=not self.progress,
        )
        with bar, ExitStack() as stack:
            while tasks:
                again: list[Task] = []
                ended = self.launcher.launch(tasks)
                # Whatever interrupts this, a launcher that handed work away calls it back.
                stack.callback(getattr(ended, "close", lambda: None))
                for task, outcome in ended:
                    if outcome.state == "memory" and len(task.keys) > 1:
                        half = len(task.keys) // 2
                        runs = range(len(task.keys))
                        again += [task.only([*runs[:half]]), task.only([*runs[half:]])]
                        log.warning("out of memory with %d runs at a time; halved", len(runs))
                    elif outcome.state == "done":
                        bar.update(len(task.keys))
                    else:
                        failed.append((task, outcome))
                        bar.set_postfix(failed=sum(len(t.keys) for t, _ in failed))
                tasks = again
        if failed:
            _tell(failed, store, total)


def _here(request: Request, device: str, progress: bool) -> Result:
    """The request in this process, nothing kept."""
    options = {**request.options, **request.free, **request.shared}
    if request.chunk is not None:
        options["chunk"] = request.chunk
    found = request.function(list(request.configs), device=device, progress=progress, **options)
    return found if isinstance(found, Result) else _result(found)


def _result(table: pd.DataFrame) -> Result:
    return Result(table, [], {}, float("nan"), False, float("nan"))


def _keys(request: Request, kind: str) -> list[str]:
    if not request.configs:
        raise ValueError("configs: expected at least one run, got none")
    name = name_of(request.function)
    options = {"options": request.options, "inputs": request.inputs, "tensors": request.tensors}
    return [address(name, config, options, kind) for config in request.configs]


def _joined(request: Request, parts: Sequence[Stored | None]) -> Result:
    """One result of all runs, as the function would have returned it."""
    known = [part for part in parts if part is not None]
    tables = [part.table.assign(run=run) for run, part in enumerate(known)]
    table = pd.concat(tables, ignore_index=True)
    # Runs of other sizes may have other measures: all of them, as tables that are joined have.
    columns = list(dict.fromkeys(name for part in known for name in part.columns))
    for name in columns:
        if name not in table:  # a setting: as it is given now, not as a file spells it
            table[name] = [request.configs[run][name] for run in table["run"]]
    stacked = [
        ([run], _stack_of_one(p.tensors, "params"), _stack_of_one(p.tensors, "setup"))
        for run, p in enumerate(known)
        if request.tensors
    ]
    diverged = {run: p.diverged for run, p in enumerate(known) if p.diverged is not None}
    seconds = sum(part.seconds for part in known)
    return Result(table[["run", *columns]], stacked, diverged, seconds, False, float("nan"))


def _stack_of_one(
    tensors: dict[str, dict[str, torch.Tensor]], kind: str
) -> dict[str, torch.Tensor]:
    """What a run kept of a kind, each tensor [*s] as [1, *s]."""
    return {name: tensor[None] for name, tensor in tensors.get(kind, {}).items()}


def _tell(failed: list[tuple[Task, Outcome]], store: Store, total: int) -> None:
    """Raise an error that lists which runs failed, why, and how to repeat each."""
    if all(outcome.state == "stopped" for _, outcome in failed):
        lost = sum(len(task.keys) for task, _ in failed)
        raise Stopped(f"{total - lost} of {total} runs are finished; repeat the call to resume")
    lines, files = [], []
    for task, outcome in failed:
        file = store.folder / "failed" / f"{task.name}.json"
        settings = {"function": task.function}
        settings |= canonical({"options": task.options, "configs": task.configs})
        write_json(file, settings | {"error": outcome.error, "where": outcome.where})
        files.append(file)
        seeds = ", ".join(str(c.get("seed", "?")) for c in task.configs)
        first = (outcome.error.splitlines() or ["?"])[0]
        lines.append(f"- seeds {seeds} of {task.function}: {outcome.state}: {first} ({file})")
    count = sum(len(task.keys) for task, _ in failed)
    more = [f"- and {len(lines) - 10} more"] if len(lines) > 10 else []
    raise GridFailed(
        "\n".join(
            [
                f"{count} of {total} runs failed; the others are kept in {store.folder}, and the "
                "same call computes what is missing. `clcore.grid.repeat(FILE, FUNCTION)` runs "
                "a failed stack again, here, by its settings:",
                *lines[:10],
                *more,
            ]
        ),
        files,
    )


def repeat(file: Path | str, function: Callable, **options: Any) -> Any:
    """Run a stack that failed again, in this process, by the file that `GridFailed` names.

    function: the one that the grid ran; for safety, the file alone never chooses it.
    options: more arguments, such as those that were shared. Returns what the function returns.
    Raises ValueError for a file that no grid wrote, or that names another function.

    Examples:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> file = Path(tempfile.mkdtemp(), "failed.json")
        >>> failed = {"function": "builtins:len", "options": {}, "configs": [{"x": 2}, {"x": 3}]}
        >>> _ = file.write_text(json.dumps(failed))
        >>> repeat(file, len)  # of a function that counts what it is given
        2
    """
    given = read_json(Path(file), "give a file that GridFailed names")
    if not isinstance(given, dict) or not {"function", "options", "configs"} <= given.keys():
        raise ValueError(f"{file}: expected a file that GridFailed names, got something else")
    if (name := name_of(function)) != given["function"]:
        raise ValueError(f"{file}: expected its function, {given['function']}, got {name}")
    return function(given["configs"], **given["options"], **options)
