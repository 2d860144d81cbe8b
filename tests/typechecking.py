"""The checker of signatures that the tests run clcore under: an int is a float, as in Python.

Run as a file, as the kernels of the build under test do first, it puts the rooms of clcore that the
checks call under it; the trainings have tests of their own under it. It notes, too, which files
such a kernel opens, for a test of the cache's keys.

To check a call takes as long as ten operations on a small tensor, to make a function's checker a
millisecond. So it is made at the first call, and a call is let through whose arguments are of the
types and shapes of one that passed. So what depends on values alone, as a result that has another
shape for other numbers, is asked at the first such call only.
"""

import dataclasses
import functools
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import torch
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
jaxtyped = jaxtyping.jaxtyped

CHECKED = ("checks", "images", "ledger", "losses", "nets", "random", "reference", "stats", "theory")

FEW = 8  # what holds more is a table or a text, and long to look through
LONG = 40  # a text that is longer is no choice

_passed: defaultdict[tuple, set] = defaultdict(set)
"""What each function has passed with. One inside another is made anew at each call of that one, but
its code is the same."""


def kind(value: Any) -> Any:
    """All that an annotation of clcore may ask of a value, hashable: types, shapes, the numbers and
    words that name sizes or choices; of what holds many, its type alone. Raises LookupError for a
    net, whose sizes an annotation may ask."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return type(value), tuple(value.shape), value.dtype
    if value is None or isinstance(value, bool | int) or (type(value) is str and len(value) < LONG):
        return type(value), value
    if isinstance(value, list | tuple) and len(value) <= FEW:
        return type(value), *map(kind, value)
    if isinstance(value, dict) and len(value) <= FEW:
        return type(value), *map(kind, value), *map(kind, value.values())
    if isinstance(value, torch.nn.Module):
        raise LookupError
    if getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False):
        fields = (getattr(value, field.name) for field in dataclasses.fields(value))
        return type(value), *map(kind, fields)
    return type(value)


def once(fn: Any = None, *, typechecker: Any = None) -> Any:
    """`jaxtyping.jaxtyped`, made at the first call, and asked once about arguments of one kind."""
    if fn is None:
        return functools.partial(once, typechecker=typechecker)
    if not inspect.isfunction(fn):
        return jaxtyped(fn, typechecker=typechecker)
    passed, made = _passed[fn.__module__, fn.__qualname__, fn.__code__], functools.cache(jaxtyped)

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            known = kind(args), kind(kwargs)
        except LookupError:
            known = None
        if known in passed or jaxtyping.config.jaxtyping_disable:
            return fn(*args, **kwargs)
        out = made(fn, typechecker=typechecker)(*args, **kwargs)
        if known is not None:
            passed.add(known)
        return out

    return called


def install(*names: str) -> None:
    """From now on, every import of these, all of clcore if none is named, checks shapes and types
    of every kind of call."""
    jaxtyping.jaxtyped = once  # which the hook puts before every function
    jaxtyping.install_import_hook([*names] or "clcore", "typechecking.check")


if __name__ == "<run_path>":
    sys.path.append(str(Path(__file__).parent))
    import opening

    opening.install()
    install(*(f"clcore.{name}" for name in CHECKED))
