"""Which calls of a function begin a part of a check, and which variables then hold it."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import TypeGuard

from clcore.ledger.written.reach import Function, named

MAKERS = ("part", "corrected", "both", "defines")
"""Methods of a trial that begin a part with its name."""
FEEDS = ("add", "breaks", "fails_by", "says", "confirms", "proves")
"""Methods of a part."""


@cache
def nodes(function: Function) -> tuple[ast.AST, ...]:
    """All nodes of a function."""
    return tuple(ast.walk(function.node))


@cache
def above(function: Function) -> dict[ast.AST, ast.AST]:
    """What each node of a function stands in."""
    return {child: node for node in nodes(function) for child in ast.iter_child_nodes(node)}


def names(node: ast.AST) -> Iterator[ast.Name]:
    """The names in a node."""
    return (n for n in ast.walk(node) if isinstance(n, ast.Name))


@cache
def _beginners(function: Function) -> frozenset[str]:
    """Variables that hold a method of MAKERS: alone, with some of its arguments (partial), or one
    after another (for form in (t.part, t.corrected))."""
    found: set[str] = set()

    def method(value: ast.AST) -> bool:
        if isinstance(value, ast.Call):
            partial = isinstance(value.func, ast.Name) and value.func.id == "partial"
            return partial and bool(value.args) and method(value.args[0])
        if isinstance(value, ast.Tuple | ast.List):
            return bool(value.elts) and all(map(method, value.elts))
        if isinstance(value, ast.Attribute):
            return value.attr in MAKERS
        return isinstance(value, ast.Name) and value.id in found

    for _ in range(2):  # a row of methods may have a name of its own
        for node in nodes(function):
            if isinstance(node, ast.Assign) and method(node.value):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.For | ast.comprehension) and method(node.iter):
                found |= {name.id for name in names(node.target)}
    return frozenset(found)


def _begin(function: Function, call: ast.AST) -> bool:
    """Whether a node is the call that begins a part: t.part(...), or of a variable for it."""
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in MAKERS
    return isinstance(call.func, ast.Name) and call.func.id in _beginners(function)


@cache
def makers(function: Function) -> list[ast.Call]:
    """The calls of a function that begin a part, in their order."""
    calls = (node for node in nodes(function) if isinstance(node, ast.Call))
    found = [call for call in calls if _begin(function, call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def first(call: ast.Call) -> object:
    """The name that a call gives to a part: a text, or the expression that makes it."""
    given = call.args[0] if call.args else ast.Constant("")
    return given.value if isinstance(given, ast.Constant) else given


def holds_part(function: Function, node: ast.AST) -> bool:
    """Whether a statement gives parts to variables, one by one or in a table."""
    return isinstance(node, ast.Assign) and any(
        _begin(function, one) for one in ast.walk(node.value)
    )


def span(function: Function, given: str, node: ast.expr) -> tuple[str, int, float]:
    """A variable, the line where it is given a part, and the next where it is given another."""
    stores = (n for n in nodes(function) if isinstance(n, ast.Name))
    at = [n.lineno for n in stores if isinstance(n.ctx, ast.Store) and n.id == given]
    first = max((line for line in at if line <= node.lineno), default=node.lineno)
    return given, first, min((line for line in at if line > node.lineno), default=float("inf"))


def _given(function: Function, node: ast.expr) -> list[str]:
    """The variables to which the part that a node begins is given: the call or its name. Both forms
    of a part may have a variable each."""
    up, value = above(function), node
    while isinstance(up[value], ast.expr | ast.keyword) and not begins(function, value):
        value = up[value]
    while isinstance(up[value], ast.Attribute | ast.Call) and begins(function, up[value]):
        value = up[value]
    outer, position = up[value], None
    if isinstance(outer, ast.Tuple):
        position = [id(one) for one in outer.elts].index(id(value))
        outer = up[outer]
    if not isinstance(outer, ast.Assign) or not begins(function, value):
        return []
    targets = []
    for target in outer.targets:
        if isinstance(target, ast.Tuple):
            targets += target.elts if position is None else [target.elts[position]]
        else:
            targets.append(target)
    return [target.id for target in targets if isinstance(target, ast.Name)]


def givens(function: Function, node: ast.expr) -> Iterator[tuple[str, bool]]:
    """The variables to which a name goes, and whether they then hold its part: the part's own; each
    of a row of parts that are begun one by one; a table of them; a variable for the name."""
    if given := _given(function, node):
        yield from ((name, True) for name in given)
        return
    up = above(function)
    inner, outer = node, up[node]
    place: list[int] = []  # of the name in a row of names, in a row of such rows
    while isinstance(outer, ast.Tuple | ast.List | ast.IfExp):
        if not isinstance(outer, ast.IfExp):
            place = [[id(one) for one in outer.elts].index(id(inner)), *place]
        inner, outer = outer, up[outer]
    if isinstance(outer, ast.Assign | ast.For) and inner is not getattr(outer, "target", None):
        if isinstance(outer, ast.For):
            yield from ((name, False) for name in _chosen(outer.target, place[1:]))
        else:
            yield from ((name, False) for name in _chosen(outer.targets[0], place))
        return
    loop = up.get(outer)
    if isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple) and _zips(outer):
        assert isinstance(outer, ast.Call) and isinstance(inner, ast.expr)
        target = loop.target.elts[outer.args.index(inner)]
        yield from ((name, False) for name in _chosen(target, place[1:]))
        return
    while isinstance(outer, ast.expr | ast.comprehension | ast.keyword):
        inner, outer = outer, up[outer]
    row = isinstance(inner, ast.GeneratorExp | ast.ListComp)
    table = isinstance(inner, ast.DictComp) and any(one is node for one in ast.walk(inner.value))
    if isinstance(outer, ast.Assign) and outer.value is inner and (row or table):
        yield from ((name, True) for name in _chosen(outer.targets[0], place))


def looped(function: Function, node: ast.AST) -> bool:
    """Whether a loop goes through a row in which this stands."""
    up = above(function)
    outer = up[node]
    while isinstance(outer, ast.Tuple | ast.List):
        node, outer = outer, up[outer]
    if _zips(outer):
        node, outer = outer, up[outer]
    return isinstance(outer, ast.For) and outer.iter is node


def _zips(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "zip"


def _chosen(target: ast.AST, place: list[int]) -> Iterator[str]:
    """The variable at a place of a row of variables; all of them where there is no such place."""
    if isinstance(target, ast.Tuple) and place and place[0] < len(target.elts):
        target = target.elts[place[0]]
    yield from (n.id for n in names(target))


def used(node: ast.AST, name: str, first: float, last: float) -> TypeGuard[ast.Name]:
    """Whether a variable is used between these lines."""
    return (
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id == name
        and first <= node.lineno < last
    )


def begins(function: Function, value: ast.AST) -> bool:
    """Whether a value is a part itself, perhaps fed at once: t.part(...), t.part(...).add(...), or
    what a helper returns that is said to return one."""
    while isinstance(value, ast.Call | ast.Attribute):
        if _begin(function, value) or _returned(function, value):
            return True
        value = value.value if isinstance(value, ast.Attribute) else value.func
    return False


def _returned(function: Function, call: ast.AST) -> bool:
    """Whether a node is the call of a helper of checks that returns a part."""
    other = named(function, call.func) if isinstance(call, ast.Call) else None
    returned = getattr(other.node, "returns", None) if other else None
    return isinstance(returned, ast.Name) and returned.id == "Part"


def keys_of_data(function: Function) -> Iterator[ast.expr]:
    """Keys of what is no table of parts: an entry that is asked for something else than to be fed,
    or for an entry of its own."""
    for node in nodes(function):
        if isinstance(node, ast.Subscript):
            outer = above(function)[node]
            other = isinstance(outer, ast.Attribute) and outer.attr not in FEEDS
            if other or (isinstance(outer, ast.Subscript) and outer.value is node):
                yield node.slice


@cache
def keys(function: Function) -> frozenset[ast.expr | None]:
    """Keys of the dictionaries that stand in a function."""
    tables = (node for node in nodes(function) if isinstance(node, ast.Dict))
    return frozenset(key for node in tables for key in node.keys)
