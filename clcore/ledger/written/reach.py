"""The functions of clcore/checks that make up a check: its own, and the helpers that it reaches."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clcore import _paths
from clcore.ledger.registry import Place
from clcore.ledger.written import places


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


@cache
def named(function: Function, node: ast.expr) -> Function | None:
    """The function of clcore/checks that an expression in another one names, if it does."""
    found = _as_function(places.of(function.file, node))
    return found if found and of_checks(found.file) else None


@cache
def of_checks(file: Path) -> bool:
    """Whether a file is one of clcore/checks."""
    return _paths.root() / "clcore" / "checks" in file.parents


def _as_function(found: tuple[Path, places.Stands] | None) -> Function | None:
    """What was found, if it is a function or a class."""
    if not found or isinstance(found[1], places.Constant):
        return None
    return Function(found[0], found[1])


def text(function: Function, node: ast.expr) -> str | None:
    """The text that an expression in a function is, as a constant or by the name of one that
    stands at the top of a module of clcore, if it is one."""
    if not isinstance(node, ast.Constant):
        found = places.of(function.file, node)
        if not found or not isinstance(found[1], places.Constant):
            return None
        node = found[1].value
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else None


def function(file: Path, name: str) -> Function:
    """The function of this name at the top of a module of checks."""
    if found := _as_function(places.named(file, name)):
        return found
    raise KeyError(f"expected a function {name} at the top of {file}, there is none")


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
