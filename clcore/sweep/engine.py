"""Many training runs as one tensor.

A run is written as mathematics for ONE run, on plain tensors: `init`, `data`, `loss` and, where
needed, `setup`, `metrics` and `project`. `train` stacks the parameters of all runs on a leading
axis and maps one whole optimiser step over it. Every run draws from its own random stream, so
its result does not depend on the runs that shared its batch.
"""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from tqdm import tqdm

from clcore._device import usable
from clcore.sweep.ahead import Ahead
from clcore.sweep.checkpoint import Keeper, Stopped
from clcore.sweep.configs import Config, check, group, record_steps, require_count, warn_of_slips
from clcore.sweep.lower import Flat, compiled, keep_freed_memory, trace
from clcore.sweep.optim import Params
from clcore.sweep.step import Chunk, Problem, explained, flat_step, losses, measured, period, start

__all__ = ["Result", "Stopped", "train"]

log = logging.getLogger(__name__)

# Steps that are not worth a trace. One of sparse coding, on a CPU, takes as long as 50 untraced
# steps and pays after about 90.
FEW = 5


@dataclass(frozen=True)
class Result:
    """What a sweep returns.

    Attributes:
        table: one row per run and recorded step: run, the configuration, step, loss (of the
            parameters before the update of that step, on that step's batch), metrics, diverged.
        stacked: per group (runs, params, setup), tensors with the runs on the first axis.
        diverged: run -> the step at which it was frozen.
        seconds: wall time of the whole sweep.
        compiled: True, False when not asked for, or the reason why not.
        ms_per_run_step: wall time of the training loop per run and step, without tracing.

    Examples:
        >>> found = train(
        ...     [{"seed": 0, "lr": 0.5}],
        ...     init=lambda key, c: {"w": torch.ones(2)},
        ...     data=lambda key, step, c: step,
        ...     loss=lambda params, batch, c: params["w"].square().sum() / 2,
        ...     steps=2,
        ...     progress=False,
        ... )
        >>> found.params(0)
        {'w': tensor([0.2500, 0.2500])}
        >>> found.table[["run", "seed", "step", "loss"]].values.tolist()
        [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 2.0, 0.0625]]
    """

    table: pd.DataFrame
    stacked: list[tuple[list[int], Params, dict[str, Tensor]]]
    diverged: dict[int, int]
    seconds: float
    compiled: bool | str
    ms_per_run_step: float

    def params(self, run: int) -> Params:
        """The last parameters of one run."""
        return self._of(run)[0]

    def setup(self, run: int) -> dict[str, Tensor]:
        """What `setup` drew for one run."""
        return self._of(run)[1]

    def _of(self, run: int) -> list[dict[str, Tensor]]:
        for runs, *parts in self.stacked:
            if run in runs:
                return [{n: t[runs.index(run)] for n, t in part.items()} for part in parts]
        last = max(run for runs, *_ in self.stacked for run in runs)
        raise KeyError(f"run {run} is not in this sweep, which has runs 0 to {last}")


def train(
    configs: Sequence[Config],
    init: Callable[[Tensor, Config], Params],
    data: Callable[[Tensor, Tensor, Config], Any],
    loss: Callable[[Params, Any, Config], Tensor],
    steps: int,
    *,
    metrics: Callable[[Params, Config], dict[str, Tensor]] | None = None,
    project: Callable[[Params, Config], Params] | None = None,
    setup: Callable[[Tensor, Config], dict[str, Tensor]] | None = None,
    schedule: Callable[[Tensor, Config], Tensor] | None = None,
    gradient: Callable[[Params, Any, Config], tuple[Tensor, Params]] | None = None,
    turns: Callable[[Config], list[Config]] | None = None,
    ahead: Callable[[Tensor, Tensor, Config], dict[str, Tensor]] | None = None,
    optimizer: str = "sgd",
    static: Sequence[str] = (),
    record: int | Sequence[int] | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    chunk: int | None = None,
    compile: bool = False,
    checkpoint: Path | str | None = None,
    checkpoint_every: float = 60.0,
    stop_after: float | None = None,
    progress: bool = True,
) -> Result:
    """Train one run per configuration.

    The functions see one run: `init(key, config)` gives the parameters, a dict of tensors;
    `data(key, step, config)` the batch of one step, from a key that is fresh for this run and
    step (`step` is an int64 scalar tensor); `loss(params, batch, config)` a scalar, where
    `detach` stops gradients; `metrics(params, config)` scalars to record; `project(params,
    config)` the parameters after each update; `setup(key, config)` tensors drawn once per run
    (a dictionary, a set of generators), which the other functions find in `config`;
    `schedule(step, config)` a factor on the learning rate, such as `cosine`. They must not branch
    on the value of a tensor, and draw from their keys alone (`clcore.random`), never by torch's
    generator. Floating-point tensors they return are cast to `dtype`.

    Three more are for speed, and change results by rounding at most. `gradient(params, batch,
    config)` gives the losses and gradients of all runs at once, written out by hand: every tensor
    has the runs on its first axis, and `loss` stays the definition. `turns(config)` lists what is
    known beforehand of the steps of a period, a few settings each (whose turn it is, the size of
    the batch), which the functions find in `config` at step t as entry t mod the length of the
    list. `ahead(key, period, config)` draws what is small for the steps of one period, from the
    key of the whole run: tensors with the steps on the first axis; `data` finds those of its step
    in `config`.

    A configuration holds `seed` and `lr`, optionally `momentum` and `weight_decay` (sgd) or
    `betas`, `eps` and `weight_decay` (adam, adamw), with torch's defaults, and keys of the model.
    Numbers reach the functions
    as scalar tensors; texts, bools, None and the keys named in `static` (sizes) as they are, and
    runs are trained together where these agree, at most `chunk` at a time. Runs with equal seeds
    have equal streams. It records steps 0 and `steps`, and the steps that `record` lists, or every
    `record`-th.

    A run whose loss or parameters stop being finite is frozen at its last finite parameters and
    reported; the others go on. With `checkpoint`, the state is written every `checkpoint_every`
    seconds and whenever training is interrupted, and the same call resumes from it; edits to the
    functions are not noticed, so delete the file after one. A file that is no checkpoint of this
    sweep is renamed to end in .old. `stop_after` seconds of training raise `Stopped`.

    Raises ValueError for configurations or settings that cannot be trained, with a remedy.
    Errors of the functions are passed on, with a note on what to do where they drew by torch's
    generator, branched on a number of the configuration, or took a size from one that is not
    `static`. A key that resembles `momentum` or `weight_decay`, and that no function uses,
    brings a warning.

    Examples:
        >>> def init(key, c):
        ...     return {"w": random.normal(key, 3)}
        >>> def data(key, step, c):
        ...     return random.normal(key, (8, 3))
        >>> def loss(params, x, c):
        ...     return (x @ params["w"]).square().mean()
        >>> runs = [{"seed": seed, "lr": lr} for seed in range(2) for lr in (0.0, 0.1)]
        >>> found = train(runs, init, data, loss, steps=50, progress=False)
        >>> (found.params(0)["w"].norm() > 0.5).item(), (found.params(1)["w"].norm() < 0.1).item()
        (True, True)
    """
    check(configs, optimizer, static)
    recorded = record_steps(record, steps)
    if chunk is not None:
        require_count("chunk", chunk, "at least 1 run")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"dtype: expected torch.float32 or torch.float64, got {dtype!r}")
    functions = (init, data, loss, metrics, project, setup, schedule, gradient, turns, ahead)
    warn_of_slips(set(configs[0]) - set(static), functions)
    problem = Problem(
        init,
        explained("data", data),
        explained("loss", loss),
        explained("metrics", metrics),
        explained("project", project),
        setup,
        explained("schedule", schedule),
        optimizer,
        tuple(static),
        torch.device(usable(device)),
        dtype,
        gradient,
        turns,
        explained("ahead", ahead),
    )
    groups = group(configs, static, chunk)
    settings = [list(configs), steps, optimizer, list(static), recorded, chunk, str(dtype)]
    keeper = Keeper(checkpoint, settings, checkpoint_every, stop_after, problem.device)
    loop = _Loop(problem, steps, recorded, compile, keeper)
    began = time.monotonic()
    bar = tqdm(
        total=steps * len(groups),
        desc=f"{len(configs)} runs",
        unit="step",
        file=sys.stdout,
        mininterval=1.0,
        disable=not progress,
    )
    keep_freed_memory()
    with bar, torch.no_grad():
        parts = []
        try:
            for number, runs in enumerate(groups):
                part = start(problem, runs, [configs[r] for r in runs])
                keeper.restore(number, part)
                parts.append(part)
                bar.update(part.step)
                if steps not in part.records:
                    loop.run(part, bar)
        except BaseException:
            keeper.save()
            raise
    keeper.save()
    return _result(configs, parts, loop, time.monotonic() - began)


class _Loop:
    """The training loop of one chunk after another, and what it cost."""

    def __init__(
        self, problem: Problem, steps: int, recorded: list[int], compile: bool, keeper: Keeper
    ) -> None:
        self.problem, self.steps, self.recorded = problem, steps, set(recorded)
        self.compile, self.keeper = compile, keeper
        self.seconds, self.run_steps, self.compiled = 0.0, 0, []

    def run(self, part: Chunk, bar: tqdm) -> None:
        state, shape = tree_flatten(part.state)
        drawn, first = Ahead(self.problem, part), part.step
        turns, fixed = period(self.problem, part), tree_flatten(part.fixed)[0]
        steps = self._steps(part, turns, drawn.at(first))
        self._synchronise()
        began = time.monotonic()
        try:
            for t in range(first, self.steps):
                *after, values = steps[t % len(turns)](*state, *fixed, *drawn.at(t).values())
                if t in self.recorded:
                    self._record(part, t, values)
                state = after
                part.state = tree_unflatten(state, shape)
                bar.update()
                self.keeper.tick()
        finally:
            self._synchronise()
            self.seconds += time.monotonic() - began
            self.run_steps += (part.step - first) * len(part.runs)
        turn, own = turns[self.steps % len(turns)], drawn.at(self.steps)
        self._record(part, self.steps, losses(self.problem, part, turn, own))

    def _steps(self, part: Chunk, turns: list[Config], drawn: dict[str, Tensor]) -> list[Flat]:
        """The step of every turn of a period, traced where that pays; of equal turns once."""
        made: list[Flat] = []
        for place, turn in enumerate(turns):
            if turn in turns[:place]:
                made.append(made[turns.index(turn)])
                continue
            step, state, fixed = flat_step(self.problem, part, turn, drawn)
            how: bool | str = False
            if self.compile or self.steps > FEW:
                step = trace(step, [*state, *fixed])
            if self.compile:
                step, how = compiled(step, [*state, *fixed])
            self.compiled.append(how)
            made.append(step)
        return made

    def _record(self, part: Chunk, t: int, values: Tensor) -> None:
        part.records[t] = {
            "loss": values,
            **measured(self.problem, part),
            "diverged": part.state["stopped"] >= 0,
        }

    def _synchronise(self) -> None:
        if self.problem.device.type == "cuda":
            torch.cuda.synchronize(self.problem.device)


def _result(configs: Sequence[Config], parts: list[Chunk], loop: _Loop, seconds: float) -> Result:
    table = pd.concat([_table(configs, part) for part in parts])
    diverged = {
        run: int(step)
        for part in parts
        for run, step in zip(part.runs, part.state["stopped"].tolist(), strict=True)
        if step >= 0
    }
    if diverged:
        run, step = min(diverged.items(), key=lambda item: item[1])
        log.warning(
            "%d of %d runs diverged and were frozen at their last finite parameters "
            "(run %d first, at step %d)",
            len(diverged),
            len(configs),
            run,
            step,
        )
    reasons = [how for how in loop.compiled if isinstance(how, str)]
    return Result(
        table=table.sort_values(["run", "step"], ignore_index=True),
        stacked=[(part.runs, part.state["params"], part.fixed["setup"]) for part in parts],
        diverged=dict(sorted(diverged.items())),
        seconds=seconds,
        compiled=reasons[0] if reasons else loop.compile,
        ms_per_run_step=1e3 * loop.seconds / loop.run_steps if loop.run_steps else float("nan"),
    )


def _table(configs: Sequence[Config], part: Chunk) -> pd.DataFrame:
    steps, runs = sorted(part.records), np.array(part.runs)
    columns: dict[str, Any] = {"run": np.tile(runs, len(steps))}
    for name in configs[0]:
        columns[name] = [configs[run][name] for run in columns["run"]]
    columns["step"] = np.repeat(steps, len(runs))
    for name in part.records[steps[0]]:
        if name in columns:
            raise ValueError(f"metrics: {name!r} is taken by a column of the table; rename it")
        columns[name] = torch.cat([part.records[step][name] for step in steps]).cpu().numpy()
    return pd.DataFrame(columns)
