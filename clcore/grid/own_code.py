"""The user's own code: modules of no installed package, which may change at any time."""

import ast
import site
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import decode_source, find_spec
from pathlib import Path
from typing import Any

from clcore._imports import imported


@cache
def _installed() -> frozenset[Path]:
    """Folders of Python and of the packages installed for it."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [sysconfig.get_path(name) for name in names]
    places += [*site.getsitepackages(), site.getusersitepackages()]
    return frozenset(Path(place).resolve() for place in places)


def _is_installed(path: str) -> bool:
    place = Path(path).resolve()
    return not _installed().isdisjoint((place, *place.parents)) or bool(
        {"site-packages", "dist-packages"} & {*place.parts}
    )


def path() -> list[str]:
    """Folders of this process's import path that hold no installed packages: workers need them to
    find the modules next to a script."""
    places = [Path(place).resolve() for place in sys.path]
    return [str(place) for place in places if place.is_dir() and not _is_installed(str(place))]


def _is_own(spec: ModuleSpec) -> bool:
    places = [spec.origin] if spec.has_location else spec.submodule_search_locations or []
    return bool(places) and not any(_is_installed(place) for place in places if place)


def _found(name: str, home: str) -> list[ModuleSpec]:
    """The own modules that importing a dotted name runs, the packages around it first; a package
    `home` counts as own, though it may be installed.

    Finds without importing, which might run more than the function does.
    """
    first, *rest = name.split(".")
    if first == "clcore":  # `_imports` follows it
        return []
    try:
        spec = find_spec(first)
    except (ImportError, ValueError):
        return []
    found = []
    while spec is not None and (first == home or _is_own(spec)):
        found.append(spec)
        if not rest or spec.submodule_search_locations is None:
            break
        inside = f"{spec.name}.{rest.pop(0)}"
        spec = PathFinder.find_spec(inside, list(spec.submodule_search_locations))
    return found


_SEEN: dict[str, tuple[Any, bytes]] = {}


def content(module: str, file: str) -> bytes:
    """What a module's file held when it was first looked at after its import, or its reload.

    A process that goes on with a module whose file was edited runs the old code.
    """
    loaded = getattr(sys.modules.get(module), "__spec__", None)
    kept = _SEEN.get(file)
    if kept is None or loaded is None or kept[0] is not loaded:
        loader = getattr(loaded, "loader", None)
        read = getattr(loader, "get_data", None)  # a module may lie in a zip file
        kept = _SEEN[file] = (loaded, read(file) if read else Path(file).read_bytes())
    return kept[1]


def closure(module: str) -> dict[str, bytes]:
    """The user's own modules that a module needs, itself included: their files' content.

    Names are read from the imports without running them; a module whose name is put together while
    the program runs is not found.
    """
    todo, found, home = {module}, {}, module.partition(".")[0]
    while todo:
        for spec in _found(todo.pop(), home):
            if spec.name in found:
                continue
            file = spec.origin if spec.has_location else None
            found[spec.name] = content(spec.name, file) if file else b""
            todo |= imported(text(found[spec.name]), spec.parent or "")
    return found


def text(content: bytes) -> str:
    """A file's content as Python that can be parsed; "" for anything else, such as a compiled
    module, or one for another Python that is imported only there."""
    try:
        source = decode_source(content)
        ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    return source
