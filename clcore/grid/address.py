"""The address of a run: a digest of everything that decides its result."""

import hashlib
import inspect
import json
import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clcore
from clcore import _imports
from clcore._files import sha256


def name_of(function: Any) -> str:
    """The "module:name" by which a worker finds a function. Errors: one that no import finds."""
    name = f"{function.__module__}:{function.__qualname__}"
    try:
        found = resolve(name)
    except (ImportError, AttributeError):
        found = None
    if function.__module__ == "__main__" or found is not function:
        raise ValueError(
            f"expected a function that workers can import by its name, got {name}; put it into a "
            "module of its own"
        )
    return name


def resolve(name: str) -> Callable:
    """The function of a "module:name". Errors: ImportError, AttributeError."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


@cache
def needs(name: str) -> dict[str, str]:
    """What the results of a function rest on besides its arguments: the digest of the code that it
    needs (its module, and all of clcore that this imports), and versions."""
    module = import_module(name.partition(":")[0])
    own = Path(inspect.getsourcefile(module) or "")
    root = Path(clcore.__file__).parents[1]
    files = _imports.closure([own.read_text(encoding="utf-8")], root)
    parts = [own.read_bytes()]
    for path in files:
        parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    return {
        "code": sha256(*parts)[:16],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def canonical(value: Any, where: str = "") -> Any:
    """A value as JSON has it: dicts with texts as keys, lists, texts, numbers, bools, None.

    Errors: anything else, with its place, since two values that look alike might share an address.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: canonical(v, f"{where}/{key}") for key, v in value.items()}
    if isinstance(value, list | tuple | range):
        return [canonical(v, f"{where}/{i}") for i, v in enumerate(value)]
    raise ValueError(
        f"settings of a run, at {where or 'top'}: expected numbers, texts, bools, None, lists and "
        f"dicts of them, got {type(value).__name__}"
    )


def address(name: str, config: Mapping[str, Any], options: Mapping[str, Any], kind: str) -> str:
    """The address of one run of a function: 32 hexadecimal digits.

    config: the run; options: what it shares with the runs of its stack; kind: "cpu" or "cuda",
    which round differently.
    """
    all_of_it = [name, needs(name), canonical(config), canonical(options), kind]
    return hashlib.sha256(json.dumps(all_of_it, sort_keys=True).encode()).hexdigest()[:32]
