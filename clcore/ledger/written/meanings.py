"""What the names in some lines of a check stand for: functions of clcore by what their docstrings
say (of the library the first paragraph), constants by their values. Nothing is imported."""

import ast
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from clcore import _paths
from clcore.ledger.written import places, reach
from clcore.ledger.written.paragraphs import Lines
from clcore.ledger.written.places import Constant, Stands

SHORT = 72
"""A value of more letters than this is not shown."""
_ERRORS = re.compile(r" (?:Same )?[Ee]rrors[:.] ?| Raises ")


@dataclass(frozen=True)
class Meaning:
    """A name as the lines have it, such as dl.energy; its parameters, "" of a constant; what it
    stands for, in words; and where it stands."""

    name: str
    call: str
    says: str
    file: Path
    line: int


def of(lines: Sequence[Lines]) -> list[Meaning]:
    """The functions and constants of clcore that some lines name, in the order of their first use;
    without functions of which lines are shown, and without what says nothing about itself."""
    shown = {(one.file, one.function) for one in lines}
    found: dict[tuple[Path, int], Meaning] = {}
    for one in lines:
        function = reach.function(one.file, one.function)
        for node in _names(function, one):
            place = places.of(one.file, node)
            if place and (place[0], _name_of(place[1])) not in shown:
                meaning = _meaning(ast.unparse(node), *place)
                if meaning.says:
                    found.setdefault((meaning.file, meaning.line), meaning)
    return list(found.values())


def call(node: Stands) -> str:
    """The parameters of a function as they stand, without their types: "(t, overlaps=True)"."""
    if not isinstance(node, ast.FunctionDef):
        return ""
    arguments = deepcopy(node.args)
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
    told = " ".join((told if whole else told.split("\n\n")[0]).split())
    if told or isinstance(node, ast.ClassDef):
        return _ERRORS.split(told)[0]
    last = node.body[0]
    short = isinstance(last, ast.Return) and last.value is not None
    return f"`{ast.unparse(last.value)}`" if short else ""


def _comment(file: Path, node: ast.stmt) -> str:
    """What a comment says behind a statement, on its last line."""
    line = file.read_text(encoding="utf-8").splitlines()[(node.end_lineno or node.lineno) - 1]
    return line[node.end_col_offset :].partition("# ")[2].partition("noqa")[0].strip()


def _names(function: reach.Function, lines: Lines) -> list[ast.Name | ast.Attribute]:
    """What some lines of a function name that is not its own, in the order of the lines."""
    own, inside = reach.given(function), _types(function)
    found: list[ast.Name | ast.Attribute] = []
    for node in ast.walk(function.node):  # an attribute comes before the name that it is one of
        if node in inside:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            root = node.value
            inside.add(root)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            root = node
        else:
            continue
        if lines.first <= node.lineno <= lines.last and root.id not in own:
            found.append(node)
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _types(function: reach.Function) -> set[ast.AST]:
    """What stands in the types of a function."""
    nodes = [n for n in ast.walk(function.node) if isinstance(n, ast.arg | ast.AnnAssign)]
    told: list[ast.AST | None] = [n.annotation for n in nodes]
    inner = [n for n in ast.walk(function.node) if isinstance(n, ast.FunctionDef)]
    told += [n.returns for n in inner]
    return {node for one in told if one for node in ast.walk(one)}


def _meaning(name: str, file: Path, stands: Stands) -> Meaning:
    if not isinstance(stands, Constant):
        own = _paths.root() / "clcore" / "checks" in file.parents
        return Meaning(name, call(stands), words(stands, whole=own), file, stands.lineno)
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
