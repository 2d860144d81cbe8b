"""The lines of a check that make and feed one of its parts.

A paragraph of a function is a run of lines between blank lines; a comment begins one; a function
inside is not divided. Of a part are the paragraphs in which its name stands as a text, or the
variable that the part was given, as long as it holds that part; the helpers to which it is handed;
the paragraphs that bind what these lines use; and where a helper makes the part, its calls.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from clcore.ledger.printed import LedgerError
from clcore.ledger.registry import Place
from clcore.ledger.written import uses
from clcore.ledger.written.reach import Function, named, own, reached, text

MAKERS = ("part", "corrected", "both", "defines")
"""Methods of a trial that begin a part with its name."""
FEEDS = ("add", "breaks", "fails_by", "says", "confirms", "proves")
"""Methods of a part."""
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

    def meets(self, other: "Lines") -> bool:
        """Whether other lines of the function follow, with at most blank lines between."""
        if (self.file, self.function) != (other.file, other.function) or other.first <= self.last:
            return False
        text = self.file.read_text(encoding="utf-8").splitlines()
        return not any(line.strip() for line in text[self.last : other.first - 1])


def of_part(place: Place, name: str, *others: Place) -> list[Lines]:
    """The paragraphs of a part, with those that bind what they use, in the order in which they
    stand; of a helper that makes it, its own, below those that call it; below them each helper that
    is handed the part, whole.

    name: as it stands in a record, "" for the whole statement. others: more checks of the claim;
    the one where the name stands most plainly makes the part. Raises LedgerError that begins with
    file, line and name of a check in which the part cannot be found.
    """
    checks = [
        [f for f in reached(one) if isinstance(f.node, ast.FunctionDef)] for one in (place, *others)
    ]
    for hits in (_texts, _blank, _patterns, _computed):
        for functions in checks:
            found = [line for function in functions for line in _lines(function, hits, name)]
            if found:
                makers = {f for f in functions if any(hits(f, name))}
                return list(dict.fromkeys([*_calls(functions, makers), *found]))
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
    yield from (node for node in _told(function).get(name, ()) if id(node) not in skip)


@cache
def _told(function: Function) -> dict[str, list[ast.expr]]:
    """Text -> where it stands in a function, or the name of a constant that has it."""
    found: dict[str, list[ast.expr]] = {}
    for node in _nodes(function):
        if isinstance(node, ast.Constant | ast.Name | ast.Attribute):
            told = text(function, node)
            if told is not None:
                found.setdefault(told, []).append(node)
    return found


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
    spans: list[tuple[str, int, float]] = []
    for node in at:  # at grows: a variable that holds the name stands for it
        for given, holds in _givens(above, node):
            span = _span(every, given, node)
            if holds:
                spans.append(span)
            else:
                at += [n for n in every if _used(n, *span) and n not in at]

    def held(value: ast.AST) -> TypeGuard[ast.Name]:
        """Whether this is the part's variable, where it holds the part."""
        return isinstance(value, ast.Name) and any(
            value.id == given and first <= value.lineno < end for given, first, end in spans
        )

    fed = [*at, *filter(held, every)]
    yield from _with_what_they_use(function, [*fed, *_named_around(function, fed)])
    for call in (n for n in every if isinstance(n, ast.Call)):
        handed = [*call.args, *(k.value for k in call.keywords)]
        if any(held(value) or _is(value, name) for value in handed):
            other = named(function, call.func)
            if other and isinstance(other.node, ast.FunctionDef) and other != function:
                yield Lines(other.file, other.node.name, other.first, other.first + other.lines - 1)


def _with_what_they_use(function: Function, nodes: Collection[ast.expr]) -> list[Lines]:
    """The paragraphs of a function with one of these nodes, and those that bind what the statements
    of these nodes use."""
    body = _body(function)
    statements = {_statement(function, node) for node in nodes}
    lines = {node.lineno for node in nodes}
    spans = {(a, z) for a, z in body if any(a <= line <= z for line in lines)}
    used = [(one.lineno, one.end_lineno or one.lineno) for one in statements]
    bound = uses.of(function.node, used, skip=_holds_part)
    spans |= {(a, z) for a, z in body if any(a <= b.last and b.first <= z for b in bound)}
    return [Lines(function.file, function.node.name, a, z) for a, z in sorted(spans)]


def _named_around(function: Function, nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Where a function inside is named that one of these nodes stands in."""
    above, names = _above(function), set()
    for inner in nodes:
        node = inner
        while node is not function.node:
            node = above[node]
            if isinstance(node, ast.FunctionDef) and node is not function.node:
                names.add(node.name)
    yield from (n for n in _names(function.node) if n.id in names)


def _statement(function: Function, node: ast.AST) -> ast.stmt:
    """The statement in which a node stands; of a node in its head, a loop with its body."""
    while not isinstance(node, ast.stmt):
        node = _above(function)[node]
    return node


def _calls(functions: list[Function], makers: set[Function]) -> Iterator[Lines]:
    """The paragraphs of other functions that call those which make a part, or that feed what such a
    call returns, in the order of the functions."""
    calls: dict[Function, list[ast.expr]] = {}
    for function in reversed(functions):  # a helper stands below those that call it
        if function not in makers:
            calls[function] = list(_handed_back(function, makers | {f for f in calls if calls[f]}))
    for function in functions:
        if calls.get(function):
            yield from _with_what_they_use(function, calls[function])


def _handed_back(function: Function, makers: set[Function]) -> Iterator[ast.expr]:
    """Calls of functions that make a part, and where what they return is fed."""
    above, returned = _above(function), set()
    for call in (n for n in _nodes(function) if isinstance(n, ast.Call)):
        if named(function, call.func) in makers:
            yield call
            outer = above[call]
            if isinstance(outer, ast.Assign):
                returned |= {n.id for target in outer.targets for n in _names(target)}
    for node in _nodes(function):
        if isinstance(node, ast.Attribute) and node.attr in FEEDS:
            yield from (n for n in _names(node.value) if n.id in returned)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name))


def _holds_part(node: ast.AST) -> bool:
    """Whether a statement gives parts to variables, one by one or in a table."""
    return isinstance(node, ast.Assign) and any(
        isinstance(one, ast.Attribute) and one.attr in MAKERS for one in ast.walk(node.value)
    )


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


def _givens(above: dict[ast.AST, ast.AST], node: ast.expr) -> Iterator[tuple[str, bool]]:
    """The variables to which a name goes, and whether they then hold its part: the part's own; each
    of a row of parts that are begun one by one; a variable for the name."""
    if given := _given(above, node):
        yield from ((name, True) for name in given)
        return
    inner, outer = node, above[node]
    place: list[int] = []  # of the name in a row of names, in a row of such rows
    while isinstance(outer, ast.Tuple | ast.List):
        place = [[id(one) for one in outer.elts].index(id(inner)), *place]
        inner, outer = outer, above[outer]
    if isinstance(outer, ast.Assign | ast.For) and inner is not getattr(outer, "target", None):
        target = outer.target if isinstance(outer, ast.For) else outer.targets[0]
        yield from ((name, False) for name in _chosen(target, place[1:]))
        return
    while isinstance(outer, ast.expr | ast.comprehension | ast.keyword):
        inner, outer = outer, above[outer]
    row = isinstance(inner, ast.GeneratorExp | ast.ListComp)
    if isinstance(outer, ast.Assign) and outer.value is inner and row:
        yield from ((name, True) for name in _chosen(outer.targets[0], place))


def _chosen(target: ast.AST, place: list[int]) -> Iterator[str]:
    """The variable at a place of a row of variables; all of them where there is no such place."""
    if isinstance(target, ast.Tuple) and place and place[0] < len(target.elts):
        target = target.elts[place[0]]
    yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _used(node: ast.AST, name: str, first: float, last: float) -> TypeGuard[ast.Name]:
    """Whether a variable is used between these lines."""
    return (
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id == name
        and first <= node.lineno < last
    )


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
    inner = [n for n in _nodes(function) if isinstance(n, ast.FunctionDef) and n is not node]
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
        inside = any(n.lineno < number <= (n.end_lineno or 0) for n in inner)
        if first is not None and (not line or begins) and not inside:
            found.append((first, number - 1))
            first = None
        if line and first is None:
            first = number
    if first is not None:
        found.append((first, node.end_lineno or first))
    return found
