"""Where a name in a module of clcore comes from: the file, and the statement that it stands for.

Modules are read, and nothing is imported.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clcore import _paths

FAR = 5
"""Through so many modules a name that each takes from the next is followed."""


@dataclass(frozen=True)
class Constant:
    """A statement at the top of a module, and the value that it binds to this name. Of several
    names that one call unpacks, the value is the call."""

    name: str
    node: ast.stmt
    value: ast.expr


Stands = ast.FunctionDef | ast.ClassDef | Constant


@cache
def module(file: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def of(file: Path, node: ast.expr) -> tuple[Path, Stands] | None:
    """The file and the statement that a name, or an attribute of one, in a module stands for, if it
    is of clcore."""
    if isinstance(node, ast.Name):
        return named(file, node.id)
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    inner = _imported(file, node.value.id)
    return named(inner, node.attr) if inner else None


@cache
def _imported(file: Path, name: str) -> Path | None:
    """The file of the module of clcore that a module imports under a name."""
    whole = _imports(file).get(name)
    return _file(".".join(whole)) if whole else None


@cache
def named(file: Path, name: str, far: int = FAR) -> tuple[Path, Stands] | None:
    """What stands at the top of a module under a name, or of the module that it comes from."""
    if found := _at_top(file).get(name):
        return file, found
    origin = _imports(file).get(name)
    inner = _file(origin[0]) if origin and far else None
    return named(inner, origin[1], far - 1) if inner and origin else None


@cache
def _at_top(file: Path) -> dict[str, Stands]:
    """Name -> the first statement at the top of a module that binds it."""
    found: dict[str, Stands] = {}
    for node in module(file).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name, value in bound(node):
                found.setdefault(name, Constant(name, node, value))
    return found


def bound(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement binds, and to what; of several in a row each has its own value,
    or where a call is unpacked the call."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple):
            several = isinstance(node.value, ast.Tuple)
            values = node.value.elts if several else [node.value] * len(target.elts)
            pairs = list(zip(target.elts, values, strict=False))
        for one, value in pairs:
            if isinstance(one, ast.Name) and value is not None:
                yield one.id, value


@cache
def _imports(file: Path) -> dict[str, tuple[str, str]]:
    """Name in a module -> the module of clcore that it is imported from, and the name there."""
    return {
        one.asname or one.name: (str(node.module), one.name)
        for node in module(file).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clcore"
        for one in node.names
    }


def _file(name: str) -> Path | None:
    """The file of a module or a package of clcore."""
    plain = _paths.root() / Path(*name.split("."))
    return next((f for f in (plain.with_suffix(".py"), plain / "__init__.py") if f.is_file()), None)
