"""One change at a time in the source of a module: which there are, as `Mutant`s.

A change is made in the syntax tree and written back at its place in the text, so that every other
line stays as it is. What is no mathematics stays out: docstrings, annotations, defaults, texts,
what is raised, and statements outside functions; `judge` lets in refusals and what stands outside.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import changes


class Unmade(ValueError):
    """A change that cannot be written back at its place, as inside a format string."""


@dataclass(frozen=True)
class Mutant:
    """One change. where: the function that it is in, "" outside of one. first, last: the lines of
    its statement (of a block, of its head); statement: its text. nth: which of several such changes
    there. tree, node, put: the whole, what is changed in it, what it becomes."""

    path: str
    where: str
    line: int
    first: int
    last: int
    statement: str
    kind: str
    old: str
    new: str
    nth: int
    tree: ast.Module = field(repr=False, compare=False)
    node: ast.AST = field(repr=False, compare=False)
    put: ast.AST = field(repr=False, compare=False)

    @property
    def name(self) -> tuple[str, str, str, str, str, int]:
        """What it is called where lines move: file, function, text of the statement, old text, new
        text, which of them."""
        return self.path, self.where, self.statement, self.old, self.new, self.nth

    def source(self, original: str) -> str:
        """The module's source with this change, and none other. Raises Unmade."""
        wanted = _replaced(self.tree, self.node, self.put)
        first, last = _span(original, self.node)
        data = original.encode()
        for text in (self.new, f"({self.new})"):
            made = (data[:first] + text.encode() + data[last:]).decode()
            if _dump(made) == wanted:
                return made
        raise Unmade(f"{self.path}:{self.line}: {self.old} -> {self.new}")


Block = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Walk:
    """Walks a tree, and knows in which function and statement it is."""

    def __init__(self, judge: bool) -> None:
        self.judge = judge
        self.found: list[tuple[ast.AST, ast.AST, str, str, ast.stmt]] = []

    def block(self, body: list[ast.stmt], where: str, inside: bool) -> None:
        for statement in body:
            self.statement(statement, where, inside)

    def statement(self, node: ast.stmt, where: str, inside: bool) -> None:
        if isinstance(node, Block):
            name = f"{where}.{node.name}".strip(".")
            self.block(node.body, name, inside or not isinstance(node, ast.ClassDef))
            return
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.Assert):
            return
        refuses = isinstance(node, ast.If) and all(isinstance(s, ast.Raise) for s in node.body)
        if (inside or self.judge) and (self.judge or not refuses):
            for kind, new in changes.of_statement(node, refuses, self.judge):
                self.found.append((node, new, kind, where, node))
            for name, value in ast.iter_fields(node):
                if name not in ("body", "orelse", "finalbody", "handlers", "annotation"):
                    self.inside(value, where, node)
        for name in ("body", "orelse", "finalbody"):
            self.block(getattr(node, name, []), where, inside)
        for handler in getattr(node, "handlers", []):
            self.block(handler.body, where, inside)

    def inside(self, value: object, where: str, statement: ast.stmt) -> None:
        """Every expression below."""
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.expr):
                for kind, new in changes.of_expression(node, self.judge):
                    self.found.append((node, new, kind, where, statement))
            for child in changes.below(node):
                self.inside(child, where, statement)


def _text(statement: ast.stmt) -> str:
    """The text of a statement; of a block, of its head."""
    head = copy.copy(statement)
    for name in ("body", "orelse", "finalbody", "handlers"):
        if hasattr(head, name):
            setattr(head, name, [])
    return ast.unparse(head).strip()


def _head(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno
    return statement.lineno, max(statement.lineno, last or 0)


def _span(source: str, node: ast.AST) -> tuple[int, int]:
    """Where a node begins and ends in the bytes of its source."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1
    before = sum(map(len, lines[:first]))
    inside = sum(map(len, lines[first:last]))
    return before + node.col_offset, before + inside + node.end_col_offset


def _replaced(tree: ast.Module, node: ast.AST, new: ast.AST) -> str:
    """The dump of the whole tree with one node in another's place."""
    kept = copy.copy(node.__dict__), node.__class__
    try:
        node.__class__ = new.__class__
        node.__dict__ = dict(new.__dict__)
        return ast.dump(tree)
    finally:
        node.__dict__, node.__class__ = kept


def mutants(path: str, source: str, judge: bool = False) -> Iterator[Mutant]:
    """Every mutant of a source, statement by statement, each once."""
    tree = ast.parse(source)
    walk = _Walk(judge)
    walk.block(tree.body, "", False)
    seen: set[tuple] = set()
    count: Counter = Counter()
    for node, new, kind, where, statement in walk.found:
        old, told = ast.unparse(node), ast.unparse(new)
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, told)
        if old == told or place in seen:
            continue
        seen.add(place)
        (first, last), text = _head(statement), _text(statement)
        count[where, text, old, told] += 1
        nth = count[where, text, old, told]
        about = (path, where, node.lineno, first, last, text, kind, old, told, nth)
        yield Mutant(*about, tree, node, new)


def _dump(source: str) -> str | None:
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None
