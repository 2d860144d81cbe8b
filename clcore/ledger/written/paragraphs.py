"""The lines of a check that make and feed one of its parts.

A paragraph of a function is a run of lines between blank lines; a comment begins one, and so does
what follows a loop; calls of helpers that stand alone are one, and so is a proof; a function inside
and a statement are not divided. Of a part are the paragraphs in which its name stands as a text, or
the variable that the part was given, as long as it holds that part; the helpers to which its name
is handed, and those to which they hand it on; of a helper to which the part itself is handed the
paragraphs that feed it; the paragraphs that bind what these lines use; whole, the helpers that
return what a proof shows; and where a helper makes the part, its calls.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeGuard

from clcore.ledger.printed import LedgerError
from clcore.ledger.registry import Place
from clcore.ledger.written import holders, proofs, uses, wording
from clcore.ledger.written.reach import Function, named, own, reached, text

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
        """The lines as they stand, without the indent of a function's body: what is indented more
        stands in a loop, or the like, of which the head may be among other lines."""
        lines = self.file.read_text(encoding="utf-8").splitlines()[self.first - 1 : self.last]
        indent = min([4, *(len(x) - len(x.lstrip()) for x in lines if x.strip())])
        return "\n".join(line[indent:] for line in lines) + "\n"

    def holds(self, node: ast.expr) -> bool:
        """Whether a node of the file begins on one of these lines."""
        return self.first <= node.lineno <= self.last

    def meets(self, other: "Lines") -> bool:
        """Whether other lines of the function follow, with at most blank lines between."""
        if (self.file, self.function) != (other.file, other.function) or other.first <= self.last:
            return False
        text = self.file.read_text(encoding="utf-8").splitlines()
        return not any(line.strip() for line in text[self.last : other.first - 1])


def of_part(place: Place, name: str, *others: Place) -> list[Lines]:
    """The paragraphs of a part, with those that bind what they use, in the order in which they
    stand; of a helper that makes it, its own, below those that call it; below them those of each
    helper that is handed the part, and whole each that is handed its name.

    name: as it stands in a record, "" for the whole statement. others: more checks of the claim;
    the one where the name stands most plainly makes the part. Raises LedgerError that begins with
    file, line and name of a check in which the part cannot be found.
    """
    checks = [
        tuple(f for f in reached(one) if isinstance(f.node, ast.FunctionDef))
        for one in (place, *others)
    ]
    calls = [call for functions in checks for f in functions for call in holders.makers(f)]
    begun = any(holders.first(call) == name for call in calls)
    for hits in (_texts_alone if begun else _texts, _blank, _patterns, _computed):
        for functions in checks:
            here: Hits = partial(hits, callers=functions) if hits is _patterns else hits
            found = [line for function in functions for line in _lines(function, here, name)]
            if found:
                makers = {f for f in functions if any(here(f, name))}
                return list(dict.fromkeys([*_calls(functions, makers), *found]))
    raise LedgerError(
        f"{place.path}:{place.first} {place.name}: expected a paragraph for the part {name!r}, "
        'found none; begin the part by its name as a text, t.part("..."), in the check or in a '
        "helper that it calls"
    )


def named_parts(place: Place) -> list[tuple[str, int]]:
    """(name, line) of every part that the function of a check itself begins by a text."""
    calls = [(holders.first(call), call.lineno) for call in holders.makers(own(place))]
    return [(name, line) for name, line in calls if isinstance(name, str)]


def _texts(function: Function, name: str) -> Iterator[ast.expr]:
    """Where a name stands as a text, but not where it is compared with one, nor as a key of data or
    a parameter's default; of the whole statement, which has none, where it is begun."""
    if not name:
        yield from (call for call in holders.makers(function) if holders.first(call) == "")
        return
    skip = _no_names(function)
    yield from (node for node in _told(function).get(name, ()) if node not in skip)


@cache
def _no_names(function: Function) -> frozenset[ast.expr]:
    """Where a text in a function is no name of a part, whatever it says."""
    calls = (n for n in holders.nodes(function) if isinstance(n, ast.Call) and _marks(n))
    asked = (n for n in holders.nodes(function) if isinstance(n, ast.Compare))
    skip = {call.args[0] for call in calls}
    skip |= {side for one in asked for side in (one.left, *one.comparators)}
    skip |= {*holders.keys_of_data(function)}
    parameters = function.node.args if isinstance(function.node, ast.FunctionDef) else None
    return frozenset(skip.union(parameters.defaults if parameters else ()))


def _texts_alone(function: Function, name: str) -> Iterator[ast.expr]:
    """Where a name stands as a text, but not as a key of a dictionary: of a part that is begun by
    this text, whose name may be the key of other things."""
    keys = holders.keys(function)
    yield from (node for node in _texts(function, name) if node not in keys)


@cache
def _told(function: Function) -> dict[str, list[ast.expr]]:
    """Text -> where it stands in a function, or the name of a constant that has it."""
    found: dict[str, list[ast.expr]] = {}
    for node in holders.nodes(function):
        if isinstance(node, ast.Constant | ast.Name | ast.Attribute):
            told = text(function, node)
            if told is not None:
                found.setdefault(told, []).append(node)
    return found


def _blank(function: Function, name: str) -> Iterator[ast.expr]:
    """Where the name of the whole statement stands in a list of names."""
    for node in () if name else holders.nodes(function):
        if isinstance(node, ast.Constant) and node.value == "":
            yield node


def _marks(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in MARKERS and bool(call.args)


def _patterns(
    function: Function, name: str, callers: tuple[Function, ...] = ()
) -> Iterator[ast.expr]:
    """Where a text with blanks, an f-string or a sum of texts, could be the name; of a helper's
    parameters with the texts that its callers hand to them."""
    known = wording.texts(function, callers)
    for node in holders.nodes(function):
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            loose = re.search(r"[^.*\\ ]", wording.pattern(function, node, {}))
            if loose and re.fullmatch(wording.pattern(function, node, known), name):
                yield node


def _computed(function: Function, name: str) -> Iterator[ast.expr]:
    """Where parts are begun by a name that is computed; if some of these names could be this one,
    there alone."""
    calls = [call for call in holders.makers(function) if isinstance(holders.first(call), ast.expr)]
    fits = [
        call for call in calls if re.fullmatch(wording.pattern(function, call.args[0], {}), name)
    ]
    yield from fits or calls


def _lines(
    function: Function, hits: Hits, name: str, seen: tuple[Function, ...] = ()
) -> Iterator[Lines]:
    """The paragraphs of a function with one of these nodes, or with what is made of it; and those
    of the helpers that are handed the part, or its name."""
    at = list(hits(function, name))
    if not at:
        return
    every = holders.nodes(function)
    spans: list[tuple[str, int, float]] = []
    for node in at:  # at grows: a variable that holds the name stands for it
        for given, holds in holders.givens(function, node):
            span = holders.span(function, given, node)
            at_use = [n for n in every if holders.used(n, *span) and n not in at]
            if holds:
                spans.append(span)
            at += [n for n in at_use if not holds or holders.looped(function, n)]

    def held(value: ast.AST) -> TypeGuard[ast.Name]:
        """Whether this is the part's variable, where it holds the part."""
        return isinstance(value, ast.Name) and any(
            value.id == given and first <= value.lineno < end for given, first, end in spans
        )

    def handed(value: ast.AST) -> bool:
        """Whether this is the part or its name, the call that begins it, or an entry of a table of
        parts: of its name, or by a variable."""
        if isinstance(value, ast.Subscript):
            key = value.slice
            return _is(key, name) if isinstance(key, ast.Constant) else held(value.value)
        begun = list(ast.walk(value)) if holders.begins(function, value) else [value]
        return held(value) or _is(value, name) or any(one in at for one in begun)

    fed = [*at, *filter(held, every)]
    yield from _with_what_they_use(function, [*fed, *_named_around(function, fed)])
    inside = (function, *seen)
    named_to = {other for other, _ in _handed_to(function, partial(_is, name=name))}
    for other, taken in dict.fromkeys(_handed_to(function, handed)):
        if other in inside:
            continue
        feeds = [] if other in named_to else [*_lines(other, partial(_uses, taken), name, inside)]
        yield from feeds or map(_whole, [other, *_handed_on(other, taken, inside)])


def _whole(function: Function) -> Lines:
    last = function.first + function.lines - 1
    return Lines(function.file, function.node.name, function.first, last)


def _uses(names: Collection[str], function: Function, _: str) -> Iterator[ast.expr]:
    """Where a function uses one of these names."""
    for node in holders.nodes(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            yield node


def _is(value: ast.AST, name: str) -> bool:
    return isinstance(value, ast.Constant) and bool(name) and value.value == name


def _handed_to(
    function: Function, handed: Callable[[ast.AST], bool]
) -> Iterator[tuple[Function, frozenset[str]]]:
    """The functions of checks to which a function hands what `handed` says, and the parameters that
    take it."""
    for call in (n for n in holders.nodes(function) if isinstance(n, ast.Call)):
        given = [*enumerate(call.args), *((k.arg, k.value) for k in call.keywords)]
        stars = {n: v.value for n, v in enumerate(call.args) if isinstance(v, ast.Starred)}
        places = [place for place, value in given if handed(stars.get(place, value))]
        other = named(function, call.func) if places else None
        if not other or not isinstance(other.node, ast.FunctionDef) or other == function:
            continue
        parameters = [arg.arg for arg in other.node.args.args]
        taken: set[str] = set()
        for place in places:
            if not isinstance(place, int):
                taken.update([place] if place else [])
            elif place < min(stars, default=place + 1):
                taken.update(parameters[place : place + 1])
            else:
                taken.update(parameters[min(stars) :])  # from a star on it could be any of them
        yield other, frozenset(taken)


def _handed_on(
    function: Function, names: Collection[str], seen: tuple[Function, ...]
) -> Iterator[Function]:
    """The functions of checks to which a function hands what these names hold, and those to which
    these hand it on."""

    def handed(value: ast.AST) -> bool:
        return isinstance(value, ast.Name) and value.id in names

    for other, taken in _handed_to(function, handed):
        if other not in seen:
            yield other
            yield from _handed_on(other, taken, (function, *seen))


def _with_what_they_use(function: Function, nodes: Collection[ast.expr]) -> list[Lines]:
    """The paragraphs of a function with one of these nodes, those that may skip them in a loop, and
    those that bind what these statements use; below them, whole, the helpers whose result a proof
    among these shows."""
    body = _body(function)
    found = {_statement(function, node) for node in nodes}
    statements = sorted(found, key=lambda one: one.lineno)
    lines = {node.lineno for node in nodes}
    spans = {(a, z) for a, z in body if any(a <= line <= z for line in lines)}
    used = [(one.lineno, one.end_lineno or one.lineno) for one in statements]
    jumps = uses.jumps(function.node, spans)
    spans |= {(a, z) for a, z in body if any(a <= last and first <= z for first, last in jumps)}
    used += jumps
    bound = uses.of(function.node, used, skip=lambda node: holders.holds_part(function, node))
    spans |= {(a, z) for a, z in body if any(a <= b.last and b.first <= z for b in bound)}
    shown = [proofs.helpers(function, one) for one in statements if proofs.is_one(one)]
    here = [Lines(function.file, function.node.name, a, z) for a, z in sorted(spans)]
    return [*here, *map(_whole, chain.from_iterable(shown))]


def _named_around(function: Function, nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Where a function inside is named that one of these nodes stands in."""
    above, names = holders.above(function), set()
    for inner in nodes:
        node = inner
        while node is not function.node:
            node = above[node]
            if isinstance(node, ast.FunctionDef) and node is not function.node:
                names.add(node.name)
    yield from (n for n in holders.names(function.node) if n.id in names)


def _statement(function: Function, node: ast.AST) -> ast.stmt:
    """The statement in which a node stands; of a node in its head, a loop with its body."""
    while not isinstance(node, ast.stmt):
        node = holders.above(function)[node]
    return node


def _calls(functions: tuple[Function, ...], makers: set[Function]) -> Iterator[Lines]:
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
    above, returned = holders.above(function), set()
    for call in (n for n in holders.nodes(function) if isinstance(n, ast.Call)):
        if named(function, call.func) in makers:
            yield call
            outer = above[call]
            if isinstance(outer, ast.Assign):
                returned |= {n.id for target in outer.targets for n in holders.names(target)}
    for node in holders.nodes(function):
        if isinstance(node, ast.Attribute) and node.attr in holders.FEEDS:
            yield from (n for n in holders.names(node.value) if n.id in returned)


@cache
def _body(function: Function) -> list[tuple[int, int]]:
    """First and last line of every paragraph below the docstring."""
    node = function.node
    start = node.body[0]
    whole = (ast.FunctionDef, ast.Expr, ast.Assign, ast.Return)
    inner = [n for n in holders.nodes(function) if isinstance(n, whole) and n is not node]
    if ast.get_docstring(node) is not None:
        begin = (start.end_lineno or start.lineno) + 1
    else:
        begin = start.lineno
    text = function.file.read_text(encoding="utf-8").splitlines()
    calls, behind = _calls_alone(function, text), _behind_loops(function)
    found: list[tuple[int, int]] = []
    first = None
    for number in range(begin, (node.end_lineno or begin) + 1):
        line = text[number - 1].strip()
        begins = line.startswith("#") and not text[number - 2].strip().startswith("#")
        begins |= calls.get(number) != calls.get(number - 1)
        begins |= number in behind and not text[number - 2].strip().startswith("#")
        inside = any(n.lineno < number <= (n.end_lineno or 0) for n in inner)
        if first is not None and (not line or begins) and not inside:
            found.append((first, number - 1))
            first = None
        if line and first is None:
            first = number
    if first is not None:
        found.append((first, node.end_lineno or first))
    return found


def _behind_loops(function: Function) -> set[int]:
    """The lines on which a statement begins that follows a loop, or a block of a context."""
    bodies = [getattr(n, name, []) for n in holders.nodes(function) for name in ("body", "orelse")]
    return {
        later.lineno
        for body in bodies
        if isinstance(body, list)
        for one, later in pairwise(body)
        if isinstance(one, ast.For | ast.While | ast.With)
    }


def _calls_alone(function: Function, text: list[str]) -> dict[int, int]:
    """The lines of statements that only call helpers of checks, with the comments above them, and
    how far each is indented; and those of a part's proof, each with a number of its own."""

    def alone(node: ast.stmt) -> bool:
        if isinstance(node, ast.For | ast.If | ast.With):
            return all(map(alone, [*node.body, *getattr(node, "orelse", [])]))
        call = node.value if isinstance(node, ast.Expr) else None
        return isinstance(call, ast.Call) and named(function, call.func) is not None

    found: dict[int, int] = {}
    for node in holders.nodes(function):  # from the outside in: what stands in a loop, with it
        proof = proofs.is_one(node)
        if isinstance(node, ast.stmt) and node.lineno not in found and (proof or alone(node)):
            first = node.lineno
            while text[first - 2].strip().startswith("#"):
                first -= 1
            lines = range(first, (node.end_lineno or first) + 1)
            found |= dict.fromkeys(lines, -first if proof else node.col_offset)
    return found
