"""The configurations of a sweep: checked, grouped by what must agree, turned into vectors."""

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from clcore.sweep.optim import DEFAULTS

log = logging.getLogger(__name__)

Config = dict[str, Any]

# Names from other programs that would be read as a parameter of the model and change nothing.
_MEANT = {"learning_rate": "lr", "wd": "weight_decay", "beta1": "betas", "beta2": "betas"}
_UNSUPPORTED = ("nesterov", "dampening", "amsgrad")


def check(configs: Sequence[Config], optimizer: str, static: Sequence[str]) -> None:
    """Raise ValueError unless every configuration can be trained by this optimiser."""
    _check_list(configs)
    if optimizer not in DEFAULTS:
        raise ValueError(f"optimizer: expected one of {', '.join(DEFAULTS)}, got {optimizer!r}")
    names = set(configs[0])
    for needed in ("seed", "lr"):
        if needed not in names:
            raise ValueError(f"configs: every run needs {needed!r}; run 0 has {sorted(names)}")
    for run, config in enumerate(configs):
        if set(config) != names:
            odd = sorted(names ^ set(config))
            raise ValueError(f"configs: run {run} differs from run 0 in having or missing {odd}")
        for name, value in config.items():
            _check_value(run, name, value)
    for name in names:
        _check_name(name, optimizer)
    if isinstance(static, str):
        raise ValueError(f"static: expected a list of names, got {static!r}; write ({static!r},)")
    for name in static:
        if name not in names:
            raise ValueError(f"static: {name!r} is no key of configs, which have {sorted(names)}")


def _check_list(configs: Any) -> None:
    if not isinstance(configs, Sequence) or isinstance(configs, str):
        mend = "write [config]" if isinstance(configs, Mapping) else "write list(configs)"
        got = type(configs).__name__
        raise ValueError(f"configs: expected a list of dicts, one per run, got a {got}; {mend}")
    if not configs:
        raise ValueError("configs: expected at least one configuration, got none")
    for run, config in enumerate(configs):
        if not isinstance(config, Mapping):
            raise ValueError(f"configs: run {run} is a {type(config).__name__}; expected a dict")


def _check_name(name: str, optimizer: str) -> None:
    if name in _MEANT:
        raise ValueError(f"configs: {name!r} is not a key of the optimiser; use {_MEANT[name]!r}")
    if name in _UNSUPPORTED:
        raise ValueError(f"configs: {name!r} is not supported")
    for other, own in DEFAULTS.items():
        if name in own and name not in DEFAULTS[optimizer]:
            raise ValueError(
                f"configs: {name!r} belongs to optimizer={other!r}, but this sweep has "
                f"optimizer={optimizer!r}, which takes lr, {', '.join(DEFAULTS[optimizer])}"
            )


_LONG = [n for n in {n: n for own in DEFAULTS.values() for n in own} if len(n) >= 8]
_NEAR = 0.87
"""Names of the optimisers that are long enough, and what is near enough, for a slip: a model may
well have a beta, a step or moments, but hardly a momentumm."""


def warn_of_slips(names: Iterable[str], functions: Iterable[Callable | None]) -> None:
    """Log a warning for a key that is nearly one of the optimiser's and that no function names."""
    near = {name: difflib.get_close_matches(name, _LONG, 1, _NEAR) for name in names}
    slips = {name: meant[0] for name, meant in near.items() if meant and name not in _LONG}
    if not slips:
        return
    read = set().union(*map(_texts, functions))
    for name, meant in slips.items():
        if name not in read:
            log.warning(
                "configs: no function names the key %r, which the optimiser does not know; if %r "
                "is meant, it is without effect so far",
                name,
                meant,
            )


def _texts(function: Any) -> set[str]:
    """The texts in the code of a function, and of those inside it."""
    function = getattr(function, "func", function)  # of functools.partial
    found, left = set(), [getattr(function, "__code__", None)]
    while left:
        part = left.pop()
        if isinstance(part, CodeType):
            left += part.co_consts
        elif isinstance(part, str):
            found.add(part)
    return found


def _check_value(run: int, name: str, value: Any) -> None:
    if name == "betas":
        if not (isinstance(value, tuple) and len(value) == 2):
            raise ValueError(f"betas of run {run}: expected a tuple of two, got {value!r}")
    elif name == "seed":
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"seed of run {run}: expected an int, got {value!r}")
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"seed of run {run}: expected an int of 64 bits, got {value}")
    elif name == "lr" or any(name in own for own in DEFAULTS.values()):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"{name} of run {run}: expected a number, got {value!r}")
    elif not (value is None or isinstance(value, str | bool | Real)):
        raise ValueError(
            f"configs: {name!r} of run {run} is a {type(value).__name__}; expected a number, str, "
            "bool or None (tensors of a run are made by `setup`)"
        )


def static_part(config: Config, static: Sequence[str]) -> Config:
    """What must agree between runs trained as one tensor: texts, bools, None, and named keys."""
    return {
        name: value
        for name, value in config.items()
        if name in static or value is None or isinstance(value, str | bool)
    }


def group(configs: Sequence[Config], static: Sequence[str], chunk: int | None) -> list[list[int]]:
    """Indices of the runs to train together, in order of first appearance."""
    groups: dict[tuple, list[int]] = {}
    for run, config in enumerate(configs):
        part = sorted(static_part(config, static).items())
        # The type counts: True == 1, but they may not mean the same in a model.
        groups.setdefault(tuple((n, type(v), v) for n, v in part), []).append(run)
    size = chunk or len(configs)
    return [runs[i : i + size] for runs in groups.values() for i in range(0, len(runs), size)]


def per_run(
    configs: Sequence[Config], static: Sequence[str], device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The numeric values as vectors over the runs of one group; the seed as int64."""
    still = static_part(configs[0], static)
    columns = {n: [c[n] for c in configs] for n in configs[0] if n not in still and n != "betas"}
    return {
        name: torch.tensor(column, dtype=torch.int64 if name == "seed" else dtype, device=device)
        for name, column in columns.items()
    }


def require_count(name: str, value: Any, least: str) -> None:
    """Raise ValueError unless this is a whole number from 1 on, which `least` says."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name}: expected a whole number, {least}; got {value!r}")
    if value < 1:
        raise ValueError(f"{name}: expected {least}, got {value}")


def record_steps(record: int | Sequence[int] | None, steps: int) -> list[int]:
    """The steps to record: every k-th or those listed, always with 0 and `steps`."""
    require_count("steps", steps, "at least 1")
    if record is None:
        chosen = set()
    elif isinstance(record, str | float):
        raise ValueError(f"record: expected a number of steps, or a list of them, got {record!r}")
    elif isinstance(record, int | Integral):
        if record < 1:
            raise ValueError(f"record: expected a number of steps >= 1, got {record}")
        chosen = set(range(0, steps, record))
    else:
        chosen = set(record)
        if outside := sorted(s for s in chosen if not 0 <= s <= steps):
            raise ValueError(f"record: expected steps between 0 and {steps}, got {outside}")
    return sorted(chosen | {0, steps})


# Of torch on the CPU, of CUDA outside of torch's allocator, of cuBLAS and cuDNN.
_FULL = ("can't allocate memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")


def out_of_memory(error: Exception) -> bool:
    """Whether an error means that the memory of host or device is full."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _FULL)
