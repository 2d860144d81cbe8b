"""The address of a run: a digest of everything that decides its result."""

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clcore
from clcore import _imports
from clcore._files import sha256
from clcore.grid import own_code


def name_of(function: Any) -> str:
    """The "module:name" by which a worker finds a function. Errors: one that no import finds."""
    module = getattr(function, "__module__", None)
    name = f"{module}:{getattr(function, '__qualname__', function)}"
    try:
        found = resolve(name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if module == "__main__" or found is not function:
        raise ValueError(
            f"expected a function that workers can import by its name, got {name}; put it into a "
            "separate module"
        )
    return name


def resolve(name: str) -> Callable:
    """The function of a "module:name". Errors: ImportError, AttributeError."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


_KNOWN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}


def _loaded(module: str) -> Any:
    """Another object after a module is imported, and after it is reloaded."""
    return getattr(sys.modules.get(module), "__spec__", None)


def needs(name: str) -> dict[str, str]:
    """What the results of a function rest on besides its arguments: the digest of the code that it
    needs (its module, the modules of the user's own that this imports, and of clcore what they
    import), and versions."""
    module = name.partition(":")[0]
    file = getattr(import_module(module), "__file__", None)
    if file is None:
        raise ValueError(
            f"{name}: expected a function of a module that is a file; {module} is none"
        )
    known = _KNOWN.get(name)
    if known and all(_loaded(part) is spec for part, spec in known[0].items()):
        return known[1]
    root = Path(clcore.__file__).parents[1]
    code = own_code.closure(module) or {module: own_code.content(module, file)}
    own = {part: _loaded(part) for part in code}
    for path in _imports.closure(map(own_code.text, code.values()), root):
        part = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        code[part] = own_code.content(part, str(path))
    parts = [part for one in sorted(code) for part in (one.encode(), code[one])]
    found = {
        "code": sha256(*parts)[:16],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    if all(own.values()):  # what is not imported yet may still be edited
        _KNOWN[name] = own, found
    return found


def plain(value: Any) -> Any:
    """A value with NumPy's scalars as Python's: `np.arange` and `np.logspace` give those."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(one) for one in value)
    return value


def canonical(value: Any, where: str = "") -> Any:
    """A value as JSON has it: dicts with texts as keys, lists, texts, numbers, bools, None.

    A NumPy scalar is the number that it holds. Errors: anything else, with its place, since two
    values that look alike might share an address.
    """
    if isinstance(value, np.generic):
        value = value.item()
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
