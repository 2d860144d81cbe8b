"""What proves a part of a check: the statement that does, and the helpers whose result it shows."""

import ast

from clcore.ledger.written.reach import Function, named

SHOWN = ("Shown", "Proof")
"""Types of what a helper returns that a part can show, alone or in a row."""


def is_one(node: ast.AST) -> bool:
    """Whether this is a statement part.proves(...), or a loop over some."""
    if isinstance(node, ast.For):
        return all(map(is_one, node.body))
    call = node.value if isinstance(node, ast.Expr) else None
    called = call.func if isinstance(call, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == "proves"


def helpers(function: Function, node: ast.AST) -> list[Function]:
    """The functions of checks that a statement of a function calls for what it shows."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    found = (named(function, call.func) for call in calls)
    return list(dict.fromkeys(other for other in found if other and _shows(other)))


def _shows(function: Function) -> bool:
    returned = getattr(function.node, "returns", None)
    nodes = ast.walk(returned) if returned else ()
    return any(getattr(n, "attr", getattr(n, "id", "")) in SHOWN for n in nodes)
