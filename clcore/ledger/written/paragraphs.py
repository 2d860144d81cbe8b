"""The lines of a check that make and feed one of its parts.

A paragraph of a function is a run of lines between blank lines; a comment begins one. Of a part are
the paragraphs in which its name stands as a text, or the variable that the part was given, as long
as it holds that part, and the helpers to which it is handed.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from clcore.ledger.printed import LedgerError
from clcore.ledger.registry import Place
from clcore.ledger.written.reach import Function, named, own, reached

MAKERS = ("part", "corrected", "both", "defines")
"""Methods of a trial that begin a part with its name."""
MARKERS = ("breaks",)
"""Methods whose first argument is the name of something else."""

Hits = Callable[[Function, str], Iterator[Any]]


@dataclass(frozen=True)
class Lines:
    """Lines first to last of a file, inside the function of this name."""

    file: Path
    function: str
    first: int
    last: int

    @property
    def text(self) -> str:
        """The lines as they stand, less the indent that all of them have."""
        lines = self.file.read_text(encoding="utf-8").splitlines()[self.first - 1 : self.last]
        indent = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
        return "\n".join(line[indent:] for line in lines) + "\n"


def of_part(place: Place, name: str) -> list[Lines]:
    """The paragraphs of a part, in the order in which they stand; of a helper that makes it, its
    own; below them each helper that is handed the part, whole.

    name: as it stands in a record, "" for the whole statement. Raises LedgerError that begins with
    file, line and name of a check in which the part cannot be found.
    """
    functions = [f for f in reached(place) if isinstance(f.node, ast.FunctionDef)]
    for hits in (_texts, _blank, _patterns, _computed):
        found = [line for function in functions for line in _lines(function, hits, name)]
        if found:
            return list(dict.fromkeys(found))
    raise LedgerError(
        f"{place.path}:{place.first} {place.name}: expected a paragraph for the part {name!r}, "
        'found none; begin the part by its name as a text, t.part("..."), in the check or in a '
        "helper that it calls"
    )


def named_parts(place: Place) -> list[tuple[str, int]]:
    """(name, line) of every part that the function of a check itself begins by a text."""
    calls = [(_first(call), call.lineno) for call in _makers(own(place))]
    return [(name, line) for name, line in calls if isinstance(name, str)]


@cache
def _makers(function: Function) -> list[ast.Call]:
    calls = (n for n in _nodes(function) if isinstance(n, ast.Call))
    found = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in MAKERS]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _first(call: ast.Call) -> object:
    """The name that a call gives to a part: a text, or the expression that makes it."""
    given = call.args[0] if call.args else ast.Constant("")
    return given.value if isinstance(given, ast.Constant) else given


def _texts(function: Function, name: str) -> Iterator[ast.expr]:
    """Where a name stands as a text, but not where it is compared with one; of the whole statement,
    which has none, where it is begun."""
    if not name:
        yield from (call for call in _makers(function) if _first(call) == "")
        return
    calls = (n for n in _nodes(function) if isinstance(n, ast.Call) and _marks(n))
    asked = (n for n in _nodes(function) if isinstance(n, ast.Compare))
    skip = {id(call.args[0]) for call in calls}
    skip |= {id(side) for one in asked for side in (one.left, *one.comparators)}
    for node in _nodes(function):
        if isinstance(node, ast.Constant) and node.value == name and id(node) not in skip:
            yield node


def _blank(function: Function, name: str) -> Iterator[ast.expr]:
    """Where the name of the whole statement stands in a list of names."""
    for node in () if name else _nodes(function):
        if isinstance(node, ast.Constant) and node.value == "":
            yield node


def _marks(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in MARKERS and bool(call.args)


def _patterns(function: Function, name: str) -> Iterator[ast.expr]:
    """Where a text with blanks, an f-string or a sum of texts, could be the name."""
    for node in _nodes(function):
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            pattern = _pattern(node)
            if re.search(r"[^.*\\]", pattern) and re.fullmatch(pattern, name):
                yield node


def _pattern(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_pattern, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left) + _pattern(node.right)
    return ".*"


def _computed(function: Function, name: str) -> Iterator[ast.expr]:
    """Where parts are begun by a name that is computed; if some of these names could be this one,
    there alone."""
    calls = [call for call in _makers(function) if isinstance(_first(call), ast.expr)]
    fits = [call for call in calls if re.fullmatch(_pattern(call.args[0]), name)]
    yield from fits or calls


def _lines(function: Function, hits: Hits, name: str) -> Iterator[Lines]:
    """The paragraphs of a function with one of these nodes, or with what is made of it; and the
    helpers that are handed the part."""
    at = list(hits(function, name))
    if not at:
        return
    above, every = _above(function), _nodes(function)
    spans = [_span(every, given, node) for node in at for given in _given(above, node)]

    def held(value: ast.AST) -> bool:
        """Whether this is the part's variable, where it holds the part."""
        return isinstance(value, ast.Name) and any(
            value.id == given and first <= value.lineno < end for given, first, end in spans
        )

    lines = {node.lineno for node in (*at, *filter(held, every)) if isinstance(node, ast.expr)}
    for first, last in _body(function):
        if any(first <= line <= last for line in lines):
            yield Lines(function.file, function.node.name, first, last)
    for call in (n for n in every if isinstance(n, ast.Call)):
        handed = [*call.args, *(k.value for k in call.keywords)]
        if any(held(value) or _is(value, name) for value in handed):
            other = named(function, call.func)
            if other and isinstance(other.node, ast.FunctionDef) and other != function:
                yield Lines(other.file, other.node.name, other.first, other.first + other.lines - 1)


def _span(every: tuple[ast.AST, ...], given: str, node: ast.expr) -> tuple[str, int, float]:
    """A variable, the line where it is given a part, and the next where it is given another."""
    stores = [n for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    at = [n.lineno for n in stores if n.id == given]
    first = max((line for line in at if line <= node.lineno), default=node.lineno)
    return given, first, min((line for line in at if line > node.lineno), default=float("inf"))


@cache
def _nodes(function: Function) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(function.node))


@cache
def _above(function: Function) -> dict[ast.AST, ast.AST]:
    """What each node of a function stands in."""
    return {child: node for node in _nodes(function) for child in ast.iter_child_nodes(node)}


def _is(value: ast.expr, name: str) -> bool:
    """Whether an argument is a part: its name, or a table's entry of that name."""
    key = value.slice if isinstance(value, ast.Subscript) else value
    return isinstance(key, ast.Constant) and bool(name) and key.value == name


def _given(above: dict[ast.AST, ast.AST], node: ast.expr) -> list[str]:
    """The variables to which the part that a node begins is given: the call or its name. Both forms
    of a part may have a variable each."""
    value: ast.AST = node
    while isinstance(above[value], ast.expr | ast.keyword) and not _begins(value):
        value = above[value]
    while isinstance(above[value], ast.Attribute | ast.Call) and _begins(above[value]):
        value = above[value]
    outer, position = above[value], None
    if isinstance(outer, ast.Tuple):
        position = [id(one) for one in outer.elts].index(id(value))
        outer = above[outer]
    if not isinstance(outer, ast.Assign) or not _begins(value):
        return []
    targets = []
    for target in outer.targets:
        if isinstance(target, ast.Tuple):
            targets += target.elts if position is None else [target.elts[position]]
        else:
            targets.append(target)
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _begins(value: ast.AST) -> bool:
    """Whether a value is a part itself, perhaps fed at once: t.part(...), t.part(...).add(...)."""
    while isinstance(value, ast.Call | ast.Attribute):
        if isinstance(value, ast.Attribute):
            value = value.value
        elif isinstance(value.func, ast.Attribute) and value.func.attr in MAKERS:
            return True
        else:
            value = value.func
    return False


@cache
def _body(function: Function) -> list[tuple[int, int]]:
    """First and last line of every paragraph below the docstring."""
    node = function.node
    start = node.body[0]
    if ast.get_docstring(node) is not None:
        begin = (start.end_lineno or start.lineno) + 1
    else:
        begin = start.lineno
    text = function.file.read_text(encoding="utf-8").splitlines()
    found: list[tuple[int, int]] = []
    first = None
    for number in range(begin, (node.end_lineno or begin) + 1):
        line = text[number - 1].strip()
        begins = line.startswith("#") and not text[number - 2].strip().startswith("#")
        if first is not None and (not line or begins):
            found.append((first, number - 1))
            first = None
        if line and first is None:
            first = number
    if first is not None:
        found.append((first, node.end_lineno or first))
    return found
