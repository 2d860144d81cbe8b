"""Which texts an expression in a function may be, by the texts that are handed to its parameters
and given to its variables: by them parts are told apart whose names a helper makes of a parameter,
f"{name}, {label}"."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from clcore.ledger.written import holders, places
from clcore.ledger.written.reach import Function, named, text

ANY = ".*"
Known = dict[str, str]
"""Name -> the texts that it may be, as a regular expression."""


def pattern(function: Function, node: ast.AST, known: Known) -> str:
    """The texts that an expression in a function may be, as a regular expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(pattern(function, value, known) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return ANY if node.format_spec else pattern(function, node.value, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return pattern(function, node.left, known) + pattern(function, node.right, known)
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    told = text(function, node) if isinstance(node, ast.Constant | ast.Name) else None
    return ANY if told is None else re.escape(told)


@cache
def texts(function: Function, callers: tuple[Function, ...]) -> Known:
    """What the names of a function may be: its variables by what is assigned to them, and its
    parameters by what the callers' calls hand to them."""
    node = function.node
    if not isinstance(node, ast.FunctionDef):
        return {}
    found: dict[str, set[str]] = {}
    for caller, call in _calls(function, callers):
        own = _variables(caller)
        parameters = [arg.arg for arg in node.args.args]
        handed: dict[str | None, ast.expr] = {k.arg: k.value for k in call.keywords}
        handed |= dict(zip(parameters, call.args, strict=False))
        open_ended = None in handed or any(isinstance(v, ast.Starred) for v in call.args)
        for name in parameters:
            value = None if open_ended else handed.get(name)
            found.setdefault(name, set()).add(pattern(caller, value, own) if value else ANY)
    return {name: _one_of(every) for name, every in found.items()} | _variables(function)


def _one_of(every: set[str]) -> str:
    return f"(?:{'|'.join(sorted(every))})"


def _calls(
    function: Function, callers: tuple[Function, ...]
) -> Iterator[tuple[Function, ast.Call]]:
    for caller in callers:
        yield from ((caller, call) for call in _called(caller).get(function, ()))


@cache
def _called(caller: Function) -> dict[Function, list[ast.Call]]:
    """Function of clcore/checks -> the calls of it in another one."""
    found: dict[Function, list[ast.Call]] = {}
    for call in holders.nodes(caller):
        if isinstance(call, ast.Call) and (function := named(caller, call.func)):
            found.setdefault(function, []).append(call)
    return found


@cache
def _variables(function: Function) -> Known:
    """What the variables of a function may be; anything where other statements than assignments
    bind them."""
    nodes = holders.nodes(function)
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for name, value in places.bound(node):
                assigned.setdefault(name, []).append(value)
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {
        name: _one_of({pattern(function, value, {name: ANY}) for value in assigned[name]})
        if len(assigned.get(name, ())) == stored.count(name)
        else ANY
        for name in set(stored)
    }
