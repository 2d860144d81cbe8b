"""What some lines of a function use: the statements of that function, or of one around it, that
bind their names, and what these statements use in turn.

Left out are parameters, names of the module, and variables that hold a part of a check.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

Scope = ast.FunctionDef | ast.ClassDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BRANCHES = (ast.If, ast.Try, ast.Match)
_LOOPS = (ast.For, ast.While)
_GROW = ("append", "extend", "update", "setdefault", "insert")
"""Methods that change what a name holds."""


@dataclass(frozen=True)
class Bound:
    """A statement that binds a name. first, last: its lines; of a loop or a block, of its head.
    grows: it adds to what the name holds."""

    node: ast.AST
    first: int
    last: int
    grows: bool

    @property
    def nested(self) -> bool:
        """Whether it is a function inside a function."""
        return isinstance(self.node, ast.FunctionDef)


def of(
    node: ast.FunctionDef | ast.ClassDef,
    spans: Iterable[tuple[int, int]],
    skip: Callable[[ast.AST], bool],
) -> list[Bound]:
    """The statements in a function that bind the names used in some of its lines.

    spans: first and last lines. skip: whether a statement is not looked for, such as one that
    begins a part of a check.
    """
    bounds = _bounds(node)
    found: dict[ast.AST, Bound] = {}
    waiting = list(spans)
    while waiting:
        first, last = waiting.pop()
        for used in bounds.used:
            if first <= used.lineno <= last:
                for bound in bounds.binding(used):
                    if bound.node not in found and not skip(bound.node):
                        found[bound.node] = bound
                        waiting.append((bound.first, bound.last))
    return sorted(found.values(), key=lambda bound: bound.first)


def jumps(
    node: ast.FunctionDef | ast.ClassDef, spans: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """First and last lines of what may skip some lines in a loop, before them: each `continue`
    and `break`, with the heads of what it stands in.

    spans: first and last of these lines.
    """
    firsts = [first for first, _ in spans]
    above = {child: one for one in ast.walk(node) for child in ast.iter_child_nodes(one)}
    found = []
    for jump in (one for one in ast.walk(node) if isinstance(one, ast.Continue | ast.Break)):
        heads, outer = [(jump.lineno, jump.lineno)], above[jump]
        while not isinstance(outer, _LOOPS):
            if isinstance(outer, ast.If):
                heads.append((outer.lineno, outer.test.end_lineno or outer.lineno))
            outer = above[outer]
        if any(jump.lineno < first <= (outer.end_lineno or first) for first in firsts):
            found += heads
    return found


@cache
def _bounds(node: ast.FunctionDef | ast.ClassDef) -> "_Bounds":
    return _Bounds(node)


class _Bounds:
    """The names of a function: where they are used, and where they are bound."""

    def __init__(self, top: ast.FunctionDef | ast.ClassDef) -> None:
        self._top, nodes = top, list(ast.walk(top))
        self._above = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        self.used = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        self._bound: dict[tuple[ast.AST, str], list[Bound]] = {}
        for node in nodes:
            for name, bound in _binds(node) if node is not top else ():
                self._bound.setdefault((self._scope(node), name), []).append(bound)
        self._grown_inside()
        added = [(key, bound) for key, found in self._bound.items() for bound in found]
        for (scope, name), bound in added:
            for other in self._held(bound.node, name) if bound.grows else ():
                self._bound.setdefault((scope, other), []).append(bound)
        for found in self._bound.values():
            found.sort(key=lambda bound: bound.first)

    def _grown_inside(self) -> None:
        """Give to the function around what a nested function adds to its tables."""
        for (scope, name), found in list(self._bound.items()):
            if name in _parameters(scope) or not all(bound.grows for bound in found):
                continue
            around = (one for one in self._ways(scope) if isinstance(one, Scope))
            owner = next((one for one in around if (one, name) in self._bound), None)
            if owner:
                self._bound[owner, name] += self._bound.pop((scope, name))

    def _ways(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, the nearest first, to the function at the top."""
        while node is not self._top:
            node = self._above[node]
            yield node

    def _held(self, node: ast.AST, name: str) -> Iterator[str]:
        """The names of what a loop around a statement goes through, where `name` is of its entries:
        what adds to an entry of a table adds to the table."""
        for loop in self._ways(node):
            if isinstance(loop, ast.For):
                for target, table in _entries(loop.target, loop.iter):
                    if name in _targets(target):
                        yield from filter(None, map(_base, _listed(table)))
                        return

    def _scope(self, node: ast.AST) -> ast.AST:
        return next(one for one in self._ways(node) if isinstance(one, Scope))

    def binding(self, used: ast.Name) -> list[Bound]:
        """The statements that may have given a name what it holds where it is used."""
        around = [one for one in self._ways(used) if isinstance(one, (*_COMPREHENSIONS, Scope))]
        inner: ast.AST = used
        for scope in around:
            if isinstance(scope, _COMPREHENSIONS):
                if used.id in _targets(*(part.target for part in scope.generators)):
                    return []
                continue
            if used in _defaults(scope):
                inner = scope
                continue
            found = self._bound.get((scope, used.id))
            if found and not (isinstance(scope, ast.FunctionDef) and inner in scope.decorator_list):
                return self._reaching(found, used, inner)
            if used.id in _parameters(scope):
                return []
            inner = scope
        return []

    def _reaching(self, found: list[Bound], used: ast.Name, inner: ast.AST) -> list[Bound]:
        """Of a name's statements those that reach a use: the last above and what may stand in its
        place, what adds to it, and what the next round of a loop binds.

        inner: the nested function in which the name is used, or the use itself.
        """
        line = inner.lineno if isinstance(inner, ast.FunctionDef | ast.Lambda) else used.lineno
        around = set(self._ways(used))
        above = [b for b in found if b.first <= line and not b.first <= used.lineno <= b.last]
        if not above and inner is not used:
            return found[:1]
        reach: list[Bound] = []
        for bound in reversed(above):
            reach.append(bound)
            ways = set(self._ways(bound.node))
            branch = any(isinstance(w, _BRANCHES) and w not in around for w in ways)
            if not bound.grows and not branch:
                loops = {w for w in around if isinstance(w, _LOOPS)} - ways - {bound.node}
                below = (b for b in found if b.first > line and loops & set(self._ways(b.node)))
                reach += below
                break
        return reach


def _targets(*nodes: ast.AST) -> set[str]:
    return {
        n.id
        for node in nodes
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _entries(target: ast.AST, given: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """(target of a loop, what it goes through), of zip each pair."""
    if isinstance(given, ast.Call) and isinstance(target, ast.Tuple):
        called = given.func
        zips = isinstance(called, ast.Name) and called.id == "zip"
        return list(zip(target.elts, given.args, strict=False)) if zips else [(target, given)]
    return [(target, given)]


def _listed(table: ast.AST) -> list[ast.AST]:
    """What is gone through: a name, or the names in a list; of a dictionary its entries."""
    if isinstance(table, ast.Tuple | ast.List):
        return [one for entry in table.elts for one in _listed(entry)]
    if isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute):
        return [table.func.value] if table.func.attr in ("items", "values") else []
    return [table]


@cache
def _defaults(scope: ast.AST) -> list[ast.AST]:
    """What stands in the defaults of a function's parameters, which are made outside of it."""
    if not isinstance(scope, ast.FunctionDef | ast.Lambda):
        return []
    given = [*scope.args.defaults, *filter(None, scope.args.kw_defaults)]
    return [node for default in given for node in ast.walk(default)]


@cache
def _parameters(scope: ast.AST) -> set[str]:
    if not isinstance(scope, ast.FunctionDef | ast.Lambda):
        return set()
    return {n.arg for n in ast.walk(scope.args) if isinstance(n, ast.arg)}


def _binds(node: ast.AST) -> Iterator[tuple[str, Bound]]:
    """(name, statement) of everything that a statement binds or changes."""
    last = getattr(node, "end_lineno", 0) or 0
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        first = min([d.lineno for d in node.decorator_list] + [node.lineno])
        yield node.name, Bound(node, first, last, grows=False)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        grows = isinstance(node, ast.AugAssign)
        for name in _targets(*targets):
            yield name, Bound(node, node.lineno, last, grows)
        for name in filter(None, map(_root, targets)):
            yield name, Bound(node, node.lineno, last, grows=True)
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id, Bound(node, node.lineno, last, grows=False)
    elif isinstance(node, ast.For):
        for name in _targets(node.target):
            yield name, Bound(node, node.lineno, node.iter.end_lineno or node.lineno, grows=False)
    elif isinstance(node, ast.With):
        held = [item.optional_vars for item in node.items if item.optional_vars]
        end = node.items[-1].context_expr.end_lineno or node.lineno
        for name in _targets(*held):
            yield name, Bound(node, node.lineno, end, grows=False)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        method = node.value.func
        if isinstance(method, ast.Attribute) and method.attr in _GROW and (name := _base(method)):
            yield name, Bound(node, node.lineno, last, grows=True)


def _root(target: ast.AST) -> str | None:
    """The name whose entry or attribute a target is, if it is one."""
    return _base(target) if isinstance(target, ast.Subscript | ast.Attribute) else None


def _base(node: ast.AST) -> str | None:
    """The name that an entry or an attribute is of; of table.setdefault(key, []) the table."""
    while isinstance(node, ast.Subscript | ast.Attribute) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
