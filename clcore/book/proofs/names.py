"""Names in the source of clcore: what a statement loads and binds, and where that is defined.

Python's own compiler determines which names of a statement are local to it.
"""

import ast
import builtins
import dis
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

from clcore import _paths

OUTSIDE = {*sys.stdlib_module_names, "mpmath", "sympy"}
"""What a program may import."""
BUILTIN = frozenset(dir(builtins))
_DEFINE = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")


@dataclass(frozen=True)
class Names:
    """Of one statement: names that it takes from outside, that it binds there, and its own."""

    loads: frozenset[str]
    stores: frozenset[str]
    own: frozenset[str]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def of(statement: ast.stmt, bound: Iterable[str] = ()) -> Names:
    """The names of a statement. bound: those of the function that it stands in, which count as
    taken from outside."""
    shared = ast.copy_location(ast.Global(sorted({*bound, *_targets(statement)})), statement)
    whole = _shell(*([shared] if shared.names else []), statement)
    loads, stores, own = set(), set(), set()
    for code in _codes(whole):
        for at in dis.get_instructions(code):
            if at.opname in _LOADS:
                loads.add(at.argval)
            elif at.opname == "STORE_GLOBAL":
                stores.add(at.argval)
        own |= {*code.co_varnames, *code.co_cellvars}
    return Names(_dotted(statement, loads, {*bound}), frozenset(stores), frozenset(own))


def _dotted(statement: ast.stmt, loads: set[str], bound: set[str]) -> frozenset[str]:
    """Names from outside with the attribute that is taken of them, for those may be modules."""
    taken, seen = set(), set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            seen.add(node.value)
            if (name := node.value.id) in loads - bound:
                taken.add(f"{name}.{node.attr}")
    bare = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and n not in seen}
    return frozenset(taken | {name for name in loads if name in bare | bound})


def _shell(*body: ast.stmt) -> CodeType:
    """A function around some statements, compiled."""
    (shell,) = ast.parse("def _(): pass").body
    assert isinstance(shell, ast.FunctionDef)
    shell.body = list(body)
    tree = ast.Module([ast.copy_location(shell, body[-1])], [])
    return next(c for c in _codes(compile(tree, "statement", "exec")) if c.co_name == "_")


def _targets(statement: ast.stmt) -> set[str]:
    """What a statement binds in the scope that it stands in."""
    code = _shell(statement)
    return {*code.co_varnames, *code.co_cellvars}


def local(function: ast.FunctionDef) -> frozenset[str]:
    """Parameters and variables of a function."""
    code = compile(ast.Module([function], []), "function", "exec")
    inner = next(c for c in _codes(code) if c.co_name == function.name)
    return frozenset({*inner.co_varnames, *inner.co_cellvars})


# ------------------------------------------------------------------------------- modules


@dataclass(frozen=True)
class Name:
    """A name of a module: what an import brings ("sympy", "Matrix"), or a definition of clcore.
    An empty name is the module itself."""

    module: str
    name: str = ""

    @property
    def outside(self) -> bool:
        """Whether it is of a library that programs may import."""
        return self.module.split(".")[0] in OUTSIDE


@dataclass(frozen=True)
class Module:
    """The source of a module: its text, what it defines once, and what it imports."""

    text: str
    defined: dict[str, ast.stmt]
    imported: dict[str, Name]

    def name(self, module: str, name: str) -> Name | None:
        """What a name means in this module; None where it is none of the module's."""
        if name in self.imported:
            return found(self.imported[name])
        return Name(module, name) if name in self.defined else None


def file(module: str) -> Path | None:
    """The file of a module of clcore, or None."""
    path = _paths.root().joinpath(*module.split("."))
    tried = (path.with_suffix(".py"), path / "__init__.py")
    return next((f for f in tried if f.is_file()), None) if module.startswith("clcore") else None


def _stored(statement: ast.stmt) -> set[str]:
    """The same of a statement of a module, without Python's compiler: a few more in a loop."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    found = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
    return {n.id for n in found if isinstance(n.ctx, ast.Store)}


@cache
def module(name: str) -> Module:
    """The source of a module of clcore. Raises LookupError where there is none."""
    path = file(name)
    if path is None:
        raise LookupError(f"expected a module of clcore, got {name}")
    text = path.read_text(encoding="utf-8")
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, Name] = {}
    bound: Counter[str] = Counter()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Import):
            for a in statement.names:
                imported[a.asname or a.name.split(".")[0]] = Name(a.name)
        elif isinstance(statement, ast.ImportFrom):
            for a in statement.names:
                imported[a.asname or a.name] = Name(str(statement.module), a.name)
        elif isinstance(statement, _DEFINE):
            for target in _stored(statement):
                bound[target] += 1
                defined[target] = statement
        else:
            bound.update(2 * [*_stored(statement)])
    once = {name: node for name, node in defined.items() if bound[name] == 1}
    return Module(text, once, imported)


@cache
def found(name: Name) -> Name | None:
    """Where a name that is imported from clcore is defined; None for what is no source of it."""
    if name.outside or not name.name:
        return name
    if file(f"{name.module}.{name.name}"):
        return Name(f"{name.module}.{name.name}")
    return module(name.module).name(name.module, name.name) if file(name.module) else None
