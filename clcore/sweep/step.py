"""One optimiser step of one run, and of many: what `clcore.sweep` traces and repeats."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from clcore import random as cr
from clcore.sweep.configs import Config, per_run, static_part
from clcore.sweep.optim import UPDATES, Params, hyper_parameters, slots


@dataclass(frozen=True)
class Problem:
    """The functions of one run, and what all runs of a sweep share; `gradient`, `turns` and
    `ahead` as `engine.train` explains them."""

    init: Callable[[Tensor, Config], Params]
    data: Callable[[Tensor, Tensor, Config], Any]
    loss: Callable[[Params, Any, Config], Tensor]
    metrics: Callable[[Params, Config], dict[str, Tensor]] | None
    project: Callable[[Params, Config], Params] | None
    setup: Callable[[Tensor, Config], dict[str, Tensor]] | None
    schedule: Callable[[Tensor, Config], Tensor] | None
    optimizer: str
    static: tuple[str, ...]
    device: torch.device
    dtype: torch.dtype
    gradient: Callable[[Params, Any, Config], tuple[Tensor, Params]] | None = None
    turns: Callable[[Config], list[Config]] | None = None
    ahead: Callable[[Tensor, Tensor, Config], dict[str, Tensor]] | None = None


_VALUES = (
    "in {}: the numbers of a configuration arrive as tensors, one value per run; name those that "
    "set a size or choose a branch in static=(...), or choose with torch.where"
)
_RETURNED = "a value is no tensor: write torch.tensor(1.0), or torch.as_tensor of a number"
_RANDOM = (
    "in {}: torch's own generator is one for all runs; draw with clcore.random from the `key` that "
    "init, setup and data are given. A torch.nn.Module is made outside of them: init draws its "
    "weights, torch.func.functional_call applies it (an example is on the page The library on your "
    "own problem)"
)


def _advice(error: Exception) -> str:
    """What to do about an error of a function that met with tensors of runs; empty: unknown."""
    said = str(error)
    if "random operation" in said:
        return _RANDOM
    signs = (".item()", "data-dependent", "BatchedTensor", "data pointer of Tensor")
    return _VALUES if isinstance(error, TypeError) or any(s in said for s in signs) else ""


def explained(name: str, function: Any) -> Any:
    """The function, or None; what it raises has a note on what to do, where that is known."""
    if function is None:
        return function

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            trace = error.__traceback__
            # The call itself failed, as of a function with other arguments: no values are to blame.
            inside = trace is None or trace.tb_next is not None
            if inside and (advice := _advice(error)):
                error.add_note(advice.format(name))
            raise

    return called


@dataclass
class Chunk:
    """Runs trained as one tensor: all tensors but the step have the runs on the first axis."""

    runs: list[int]
    static: Config
    fixed: dict[str, Any]  # keys, per-run values, setup, hyper-parameters
    state: dict[str, Any]  # params, slots, stopped (step of divergence or -1), step
    records: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """Updates done so far."""
        return int(self.state["step"])


def _on_device(function: Callable) -> Callable:
    """With the device of the problem, its first argument, as that of new tensors.

    Only where functions of the problem are called: the trace of a step names the device of all that
    it makes, and to look out for more would take a fifth of a small step's time.
    """

    @functools.wraps(function)
    def called(problem: Problem, *args: Any) -> Any:
        with problem.device:
            return function(problem, *args)

    return called


@_on_device
def start(problem: Problem, runs: list[int], configs: Sequence[Config]) -> Chunk:
    """Draw the set-up and the initial parameters of some runs that can be trained together."""
    device = problem.device
    static = static_part(configs[0], problem.static)
    values = per_run(configs, problem.static, device, problem.dtype)
    keys = cr.split(cr.key(values["seed"]), 3)
    made = _drawn(problem.setup, "setup", keys[:, 0], values, static) if problem.setup else {}
    made = _cast(made, problem.dtype)
    params = _cast(_drawn(problem.init, "init", keys[:, 1], values | made, static), problem.dtype)
    _require_params(params)
    hyper = hyper_parameters(problem.optimizer, configs, device)
    state = {
        "params": params,
        "slots": slots(problem.optimizer, params, hyper),
        "stopped": torch.full((len(runs),), -1, device=device),
        "step": torch.zeros((), dtype=torch.int64, device=device),
    }
    fixed = {"keys": keys[:, 2], "values": values | made, "setup": made, "hyper": hyper}
    return Chunk(runs, static, fixed, state)


def _drawn(
    function: Callable, name: str, keys: Tensor, values: dict[str, Tensor], static: Config
) -> dict[str, Tensor]:
    try:
        made = vmap(lambda key, values: function(key, static | values))(keys, values)
    except Exception as error:
        if "must only return Tensors" in str(error):
            raise ValueError(f"{name}: expected a dict of tensors; {_RETURNED}") from error
        error.add_note((_advice(error) or _VALUES).format(name))
        raise
    if not isinstance(made, dict) or not all(isinstance(t, Tensor) for t in made.values()):
        raise ValueError(f"{name}: expected a dict of tensors, got {type(made).__name__}")
    return made


def _require_params(params: Params) -> None:
    """Raise ValueError for parameters that no gradient can change."""
    if not params:
        raise ValueError("init: expected a dict of tensors, got an empty one; nothing is trained")
    for name, value in params.items():
        if not value.is_floating_point():
            raise ValueError(
                f"init: expected floating-point parameters, got {value.dtype} for {name!r}; what "
                "is not trained is made by `setup`"
            )


def _cast(tree: Any, dtype: torch.dtype) -> Any:
    """Floating-point tensors of a nested structure in `dtype`, everything else as it is."""
    return tree_map(
        lambda t: t.to(dtype) if isinstance(t, Tensor) and t.is_floating_point() else t, tree
    )


def _loss(problem: Problem, params: Params, batch: Any, config: Config) -> Tensor:
    value = problem.loss(params, batch, config)
    if not isinstance(value, Tensor) or value.ndim:
        got = f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"loss: expected a scalar tensor, got {got}")
    return value


def _batch(problem: Problem, fixed: dict, step: Tensor, config: Config) -> Any:
    return _cast(problem.data(cr.fold_in(fixed["keys"], step), step, config), problem.dtype)


def _finite(tensors: Params, loss: Tensor) -> Tensor:
    """Whether a run's loss, its parameters and its optimiser's tensors are all finite."""
    ends = [end for t in tensors.values() for end in (t.amax(), t.amin())]  # both keep a NaN
    return torch.stack([loss, *(end.to(loss.dtype) for end in ends)]).abs().amax() < torch.inf


def _updated(
    problem: Problem,
    static: Config,
    state: dict,
    step: Tensor,
    fixed: dict,
    grads: Params,
    loss: Tensor,
) -> dict:
    """The state of one run after an update with these gradients."""
    config = static | fixed["values"]
    params, stopped, hyper = state["params"], state["stopped"], fixed["hyper"]
    if problem.schedule:
        hyper = hyper | {"lr": hyper["lr"] * problem.schedule(step, config)}
    new, kept = UPDATES[problem.optimizer](params, grads, state["slots"], hyper, step)
    if problem.project:
        new = problem.project(new, config)
        if not isinstance(new, dict) or set(new) != set(params):
            got = sorted(new) if isinstance(new, dict) else type(new).__name__
            raise ValueError(f"project: expected all parameters, {sorted(params)}, got {got}")
    fine = _finite(new | kept, loss)
    before = stopped < 0
    going = before & fine
    new = {name: torch.where(going, new[name], old) for name, old in params.items()}
    stopped = torch.where(before ^ going, step, stopped)
    # The optimiser's tensors of a frozen run may hold anything: nothing reads them again.
    return {"params": new, "slots": kept, "stopped": stopped}


def period(problem: Problem, part: Chunk) -> list[Config]:
    """What is known in advance of each step of a period: one empty entry where nothing is."""
    return problem.turns(part.static) if problem.turns else [{}]


def _values(fixed: dict) -> dict[str, Tensor]:
    """What the functions find in a run's configuration at one step, besides its static part."""
    return fixed["values"] | fixed["drawn"]


def _gradients(
    problem: Problem, static: Config, params: Params, step: Tensor, fixed: dict
) -> tuple[Params, Tensor]:
    """Gradients and losses of all runs; their tensors have the runs on the first axis."""

    def batch(fixed: dict) -> Any:
        return _batch(problem, fixed, step, static | _values(fixed))

    if problem.gradient:
        losses, grads = problem.gradient(params, vmap(batch)(fixed), static | _values(fixed))
        return grads, losses

    def one(params: Params, fixed: dict) -> tuple[Params, Tensor]:
        config, drawn = static | _values(fixed), batch(fixed)
        return grad_and_value(lambda p: _loss(problem, p, drawn, config))(params)

    return vmap(one)(params, fixed)


def flat_step(
    problem: Problem,
    part: Chunk,
    turn: Config | None = None,
    drawn: dict[str, Tensor] | None = None,
) -> tuple[Callable, list[Tensor], list[Tensor]]:
    """The step of all runs of a chunk on flat lists: function, state, fixed.

    `function(*state, *fixed)` returns `[*new state, losses]`. turn: one of `period`; drawn: what
    `Ahead` has for the step. The last tensors of `fixed` are those of `drawn`.
    """
    static = part.static | (turn or {})
    state, shape = tree_flatten(part.state)
    fixed, fixed_shape = tree_flatten(part.fixed | {"drawn": drawn or {}})

    def run(*tensors: Tensor) -> list[Tensor]:
        before = dict(tree_unflatten(tensors[: len(state)], shape))
        rest = tree_unflatten(tensors[len(state) :], fixed_shape)
        step = before.pop("step")
        with problem.device:
            grads, losses = _gradients(problem, static, before["params"], step, rest)
            after = vmap(lambda b, r, g, x: _updated(problem, static, b, step, r, g, x))(
                before, rest, grads, losses
            )
        return [*tree_flatten(after | {"step": step + 1})[0], losses]

    return run, state, fixed


@_on_device
def losses(problem: Problem, part: Chunk, turn: Config, drawn: dict[str, Tensor]) -> Tensor:
    """The loss of every run at the chunk's step, without an update."""
    static = part.static | turn

    def one(params: Params, fixed: dict) -> Tensor:
        config = static | _values(fixed)
        return _loss(problem, params, _batch(problem, fixed, part.state["step"], config), config)

    return vmap(one)(part.state["params"], part.fixed | {"drawn": drawn})


@_on_device
def measured(problem: Problem, part: Chunk) -> dict[str, Tensor]:
    """The metrics of every run at the chunk's parameters."""
    metrics = problem.metrics
    if metrics is None:
        return {}

    def one(params: Params, values: dict[str, Tensor]) -> dict[str, Tensor]:
        given = metrics(params, part.static | values)
        if not isinstance(given, dict):
            got = type(given).__name__
            raise ValueError(f"metrics: expected a dict of scalar tensors, got {got}")
        for name, value in given.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"metrics: {name!r} is {value!r}; {_RETURNED}")
        return given

    found = vmap(one)(part.state["params"], part.fixed["values"])
    for name, value in found.items():
        if name in ("loss", "diverged"):
            raise ValueError(f"metrics: {name!r} is taken by a column of the table; rename it")
        if value.shape != (len(part.runs),):
            raise ValueError(f"metrics: {name!r} is no scalar but {list(value.shape[1:])}")
    return found
