"""The functions of clcore/checks that make up a check: its own, and the helpers that it reaches."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clcore import _paths
from clcore.ledger.registry import Place

CHECKS = "clcore.checks"


@dataclass(frozen=True)
class Function:
    """A function at the top of a module of checks. node: its syntax tree; of a class, the class."""

    file: Path
    node: ast.FunctionDef | ast.ClassDef

    @property
    def lines(self) -> int:
        """How many lines it has, decorators and docstring included."""
        return (self.node.end_lineno or self.node.lineno) - self.first + 1

    @property
    def first(self) -> int:
        """Its first line, that of a decorator if it has one."""
        return min([d.lineno for d in self.node.decorator_list] + [self.node.lineno])


@dataclass(frozen=True)
class _Module:
    functions: dict[str, ast.FunctionDef | ast.ClassDef]
    names: dict[str, tuple[str, str]]
    """Name in this module -> module of checks, and the name there ("": the module itself)."""
    texts: dict[str, str]
    """Name of a text at the top of the module -> the text."""


@cache
def _read(file: Path) -> _Module:
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    found = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(CHECKS):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                of = (inner, "") if _file(inner).is_file() else (str(node.module), alias.name)
                names[alias.asname or alias.name] = of
    return _Module(found, names, dict(_texts(tree)))


def _texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    yield target.id, node.value.value


def _file(module: str) -> Path:
    return _paths.root() / Path(*module.split(".")).with_suffix(".py")


def _place(function: Function, node: ast.expr) -> tuple[Path, str] | None:
    """The file of clcore and the name in it for which an expression in a function stands."""
    module = _read(function.file)
    if isinstance(node, ast.Name):
        target, name = module.names.get(node.id, ("", ""))
        if not target:
            return function.file, node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        target, inside = module.names.get(node.value.id, ("", ""))
        name = "" if inside else node.attr
    else:
        return None
    return (_file(target), name) if target and name and _file(target).is_file() else None


def named(function: Function, node: ast.expr) -> Function | None:
    """The function of clcore/checks that an expression in another one names, if it does."""
    place = _place(function, node)
    found = _read(place[0]).functions.get(place[1]) if place else None
    return Function(place[0], found) if place and found else None


def text(function: Function, node: ast.expr) -> str | None:
    """The text that an expression in a function is, as a constant or by the name of one that
    stands at the top of its module or of another one of checks, if it is one."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    place = _place(function, node)
    return _read(place[0]).texts.get(place[1]) if place else None


def function(file: Path, name: str) -> Function:
    """The function of this name at the top of a module of checks."""
    return Function(file, _read(file).functions[name])


def own(place: Place) -> Function:
    """The function of a check itself."""
    return function(place.file, place.name)


@cache
def reached(place: Place) -> tuple[Function, ...]:
    """A check's function, then every helper in clcore/checks that it names, directly or through
    others, in the order in which a reader comes upon them."""
    found = [own(place)]
    for function in found:
        for other in _named_in(function):
            if other not in found:
                found.append(other)
    return tuple(found)


@cache
def _named_in(function: Function) -> tuple[Function, ...]:
    nodes = [n for n in ast.walk(function.node) if isinstance(n, ast.Name | ast.Attribute)]
    nodes.sort(key=lambda n: (n.lineno, n.col_offset))
    return tuple(filter(None, (named(function, node) for node in nodes)))


@cache
def given(function: Function) -> frozenset[str]:
    """Names that a function gives to something of its own."""
    nodes = list(ast.walk(function.node))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    inside = (n for n in nodes if isinstance(n, ast.FunctionDef) and n is not function.node)
    return frozenset(names | {n.name for n in inside})
