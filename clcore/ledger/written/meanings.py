"""What the names in some lines of a check stand for: functions of clcore by what their docstrings
say (of the library the first paragraph), constants by their values, the tables that a check of runs
takes by the words on their types, classes with those of their members that the lines use. Nothing
is imported."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from clcore.ledger.written import holders, places, reach
from clcore.ledger.written.paragraphs import Lines
from clcore.ledger.written.places import Constant, Stands

SHORT = 72
"""A value of more letters than this is not shown."""
_ERRORS = re.compile(r" (?:Same errors|Errors)[:.] ?| Raises ")


@dataclass(frozen=True)
class Meaning:
    """A name as the lines have it, such as dl.energy, or a class and its member, Layer.times; its
    parameters, "" of a constant; what it stands for, in words; and where it stands."""

    name: str
    call: str
    says: str
    file: Path
    line: int


def of(lines: Sequence[Lines]) -> list[Meaning]:
    """The functions and constants of clcore that some lines name, in the order of their first use;
    without functions of which lines are shown, and without what says nothing about itself. Last the
    classes that these are or return, with what the lines use of them."""
    shown = {(one.file, one.function) for one in lines}
    found: dict[tuple[Path, int | str], Meaning] = {}
    for one in lines:
        function = reach.function(one.file, one.function)
        for meaning in _tables(function, one):
            found.setdefault((meaning.file, meaning.name), meaning)
        for node in _names(function, one):
            place = places.of(one.file, node)
            if not place and isinstance(node, ast.Attribute):  # of a constant, NAMES.items()
                node, place = node.value, places.of(one.file, node.value)
            if place and (place[0], _name_of(place[1])) not in shown:
                meaning = _meaning(ast.unparse(node), *place)
                if meaning.says:
                    found.setdefault((meaning.file, _at(place[1])), meaning)
    used = {node for one in lines for node in _attributes(one)}
    for node, file in _classes(found):
        for meaning in _members(node, file, used):
            found.setdefault((meaning.file, meaning.line), meaning)
    return _told_apart(list(found.values()))


def _told_apart(found: list[Meaning]) -> list[Meaning]:
    """Meanings, with the module before a name that stands for several things."""
    names = Counter(one.name for one in found)
    return [
        replace(one, name=f"{one.file.stem}.{one.name}") if names[one.name] > 1 else one
        for one in found
    ]


def _at(stands: Stands) -> int | str:
    """Where that stands, of several constants in a row each."""
    if not isinstance(stands, Constant):
        return stands.lineno
    return f"{stands.value.lineno}, {stands.name}"


def call(node: Stands) -> str:
    """The parameters of a function as they stand, without their types: "(t, overlaps=True)"; of a
    method without itself."""
    if not isinstance(node, ast.FunctionDef):
        return ""
    arguments = deepcopy(node.args)
    arguments.args = [one for one in arguments.args if one.arg != "self"]
    for one in ast.walk(arguments):
        if isinstance(one, ast.arg):
            one.annotation = None
    return f"({ast.unparse(arguments)})"


def words(node: Stands, whole: bool = True) -> str:
    """A docstring on one line, or its first paragraph, without the errors that it raises; of a
    function that has none and only returns, what it returns, as code."""
    if isinstance(node, Constant):
        return ""
    told = ast.get_docstring(node) or ""
    told = " ".join((told if whole else _begins(told)).split())
    if told or isinstance(node, ast.ClassDef):
        return _ERRORS.split(told)[0]
    last = node.body[0]
    short = isinstance(last, ast.Return) and last.value is not None
    return f"`{ast.unparse(last.value)}`" if short else ""


def _begins(told: str) -> str:
    """The first paragraph of a docstring, with the next where it is no whole sentence."""
    first, *more = told.split("\n\n")
    return first if first.rstrip().endswith(".") or not more else f"{first} {more[0]}"


def _comment(file: Path, node: ast.stmt) -> str:
    """What a comment says behind a statement, on its last line."""
    line = file.read_text(encoding="utf-8").splitlines()[(node.end_lineno or node.lineno) - 1]
    return line[node.end_col_offset :].partition("# ")[2].partition("noqa")[0].strip()


def _names(function: reach.Function, lines: Lines) -> list[ast.Name | ast.Attribute]:
    """What some lines of a function name that is not its own, in the order of the lines."""
    own, inside = reach.given(function), set(_types(function))
    found: list[ast.Name | ast.Attribute] = []
    for node in holders.nodes(function):  # an attribute comes before the name that it is one of
        if node in inside:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            root = node.value
            inside.add(root)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            root = node
        else:
            continue
        if lines.holds(node) and root.id not in own:
            found.append(node)
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _attributes(lines: Lines) -> set[str]:
    """The names of the attributes that some lines take of anything."""
    nodes = holders.nodes(reach.function(lines.file, lines.function))
    return {n.attr for n in nodes if isinstance(n, ast.Attribute) and lines.holds(n)}


def _classes(found: dict[tuple[Path, int | str], Meaning]) -> Iterator[tuple[ast.ClassDef, Path]]:
    """The classes among some meanings, and those of what the functions among them return."""
    for one in list(found.values()):
        for node in places.module(one.file).body:
            if isinstance(node, ast.FunctionDef) and node.lineno == one.line and node.returns:
                named = [
                    n for n in ast.walk(node.returns) if isinstance(n, ast.Name | ast.Attribute)
                ]
                classes = [places.of(one.file, name) for name in named]
            elif isinstance(node, ast.ClassDef) and node.lineno == one.line:
                classes = [(one.file, node)]
            else:
                continue
            for place in classes:
                if place and isinstance(place[1], ast.ClassDef):
                    yield place[1], place[0]


def _members(owner: ast.ClassDef, file: Path, used: set[str]) -> Iterator[Meaning]:
    """A class of which some lines use a method or a field, and of these those that have words of
    their own."""
    fields: list[tuple[str, str, str, int]] = []
    for node, after in zip(owner.body, [*owner.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef):
            says = words(node)
            given = "" if node.decorator_list else call(node)
            fields.append((node.name, given, says, node.lineno))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            says = _text(after) or _comment(file, node)
            fields.append((node.target.id, "", says, node.lineno))
    fields = [one for one in fields if one[0] in used]
    if fields and words(owner):
        yield Meaning(owner.name, "", words(owner), file, owner.lineno)
    for name, given, says, line in fields:
        if says:
            yield Meaning(f"{owner.name}.{name}", given, says, file, line)


def _tables(function: reach.Function, lines: Lines) -> Iterator[Meaning]:
    """What a check of runs takes besides its trial, where some of its lines name it: each parameter
    of a type with words on it."""
    node = function.node
    arguments = node.args.args if isinstance(node, ast.FunctionDef) and node.decorator_list else []
    every = holders.nodes(function)
    named = {n.id for n in every if isinstance(n, ast.Name) and lines.holds(n)}
    for one in (a for a in arguments[1:] if a.arg in named):
        kind = one.annotation
        place = (
            places.of(function.file, kind) if isinstance(kind, ast.Name | ast.Attribute) else None
        )
        if place and isinstance(place[1], Constant):
            says = _meaning(one.arg, *place).says.partition("`. ")[2]
            if says:
                yield Meaning(one.arg, "", says, function.file, one.lineno)


@cache
def _types(function: reach.Function) -> frozenset[ast.AST]:
    """What stands in the types of a function."""
    nodes = holders.nodes(function)
    told: list[ast.AST | None] = [
        n.annotation for n in nodes if isinstance(n, ast.arg | ast.AnnAssign)
    ]
    told += [n.returns for n in nodes if isinstance(n, ast.FunctionDef)]
    return frozenset(node for one in told if one for node in ast.walk(one))


@cache
def _meaning(name: str, file: Path, stands: Stands) -> Meaning:
    if not isinstance(stands, Constant):
        said = words(stands, whole=reach.of_checks(file))
        return Meaning(name, call(stands), said, file, stands.lineno)
    value = ast.unparse(stands.value)
    named = isinstance(stands.value, ast.Name | ast.Attribute)
    other = places.of(file, stands.value) if named else None
    if other and isinstance(other[1], Constant):
        value = ast.unparse(other[1].value)
    body = places.module(file).body
    after = body[body.index(stands.node) + 1 :][:1]
    told = _text(after[0]) if after else ""
    said = [f"`{value}`" if len(value) <= SHORT else "", told or _comment(file, stands.node)]
    return Meaning(name, "", ". ".join(filter(None, said)), file, stands.node.lineno)


def _text(node: ast.stmt) -> str:
    """What a text that stands alone says: the words on the constant above it."""
    value = node.value if isinstance(node, ast.Expr) else None
    alone = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return " ".join(value.value.split("\n\n")[0].split()) if alone else ""


def _name_of(node: Stands) -> str:
    return "" if isinstance(node, Constant) else node.name
