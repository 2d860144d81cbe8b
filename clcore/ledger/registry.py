"""Where the check of a claim is, read from the source: nothing is imported to find it."""

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from clcore import _paths
from clcore.ledger.printed import LedgerError, claim, claims


@dataclass(frozen=True)
class Place:
    """A function that checks claims: where it stands, and whether it takes draws or runs."""

    claims: tuple[str, ...]
    on: str
    name: str
    file: Path
    first: int
    last: int

    @property
    def module(self) -> str:
        """Its dotted name, such as clcore.checks.two_layer.fields.linear."""
        return ".".join(self.file.relative_to(_paths.root()).with_suffix("").parts)

    @property
    def path(self) -> str:
        """The file, from the root of the repository."""
        return self.file.relative_to(_paths.root()).as_posix()

    def source(self) -> str:
        """The lines of the function, with what marks it."""
        lines = self.file.read_text().splitlines()
        return "\n".join(lines[self.first - 1 : self.last]) + "\n"

    def function(self) -> Callable:
        """The check itself (this imports its module)."""
        return getattr(import_module(self.module), self.name)


def _decorators(node: ast.FunctionDef) -> list[ast.Call]:
    return [
        d
        for d in node.decorator_list
        if isinstance(d, ast.Call) and isinstance(d.func, ast.Name) and d.func.id == "check"
    ]


def _place(node: ast.FunctionDef, mark: ast.Call, file: Path) -> Place:
    where = f"{_paths.shown(file)}:{node.lineno} {node.name}"
    given: dict[str, object] = {}
    try:
        ids = tuple(ast.literal_eval(a) for a in mark.args)
        given = {str(k.arg): ast.literal_eval(k.value) for k in mark.keywords}
    except ValueError:
        raise LedgerError(
            f"{where}: expected ids written out in @check(...), since they are read from the source"
        ) from None
    on = given.get("on", "draws")
    if on not in ("draws", "runs") or not ids:
        raise LedgerError(f"{where}: expected @check('paper/id', on='draws' or 'runs')")
    for i in ids:
        try:
            claim(i)
        except LedgerError as error:
            raise LedgerError(f"{where}: {error}") from None
    first = min(d.lineno for d in node.decorator_list)
    return Place(ids, str(on), node.name, file, first, node.end_lineno or node.lineno)


@cache
def _marked(file: Path, text: str) -> tuple[Place, ...]:
    """The checks of one file."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return tuple(_place(node, mark, file) for node in functions for mark in _decorators(node))


def _texts(folder: Path) -> tuple[tuple[Path, str], ...]:
    """The files below a folder that have checks. To parse one takes long, to look into it not."""
    every = ((file, file.read_text()) for file in sorted(folder.rglob("*.py")))
    return tuple((file, text) for file, text in every if "@check(" in text)


def scan(folder: Path) -> list[Place]:
    """Every function below `folder` that is marked with @check, by file and line.

    Raises LedgerError for an unknown id, and for a claim that two functions check on the same kind
    of input, with both places.
    """
    found = [place for file, text in _texts(folder) for place in _marked(file, text)]
    seen: dict[tuple[str, str], Place] = {}
    for place in found:
        for i in place.claims:
            other = seen.setdefault((i, place.on), place)
            if other is not place:
                raise LedgerError(
                    f"{i} is checked twice on {place.on}: by {other.name} "
                    f"({other.path}:{other.first}) and {place.name} ({place.path}:{place.first}); "
                    "make them one function, with a part each"
                )
    return found


@cache
def _own_texts(root: Path) -> tuple[tuple[Path, str], ...]:
    return _texts(root / "clcore" / "checks")


@cache
def _places(root: Path) -> tuple[Place, ...]:
    return tuple(scan(root / "clcore" / "checks"))


def places() -> tuple[Place, ...]:
    """Every check of the repository."""
    return _places(_paths.root())


def of(claim_id: str) -> tuple[Place, ...]:
    """Where a claim is checked, of the files that have its id. Raises LedgerError with near misses
    when the id is unknown."""
    claim(claim_id)
    named = [(file, text) for file, text in _own_texts(_paths.root()) if claim_id in text]
    return tuple(p for file, text in named for p in _marked(file, text) if claim_id in p.claims)


def function(claim_id: str) -> Callable:
    """The function (draws, seed) that checks a claim. Raises LedgerError where there is none."""
    for place in of(claim_id):
        if place.on == "draws":
            return place.function()
    raise LedgerError(
        f"{claim_id} has no function of (draws, seed); mark one in clcore/checks with "
        f'@check("{claim_id}")'
    )


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook that names a claim."""

    notebook: str
    cell: str
    number: int


def cells(claim_id: str) -> list[Cell]:
    """Code cells of the chapters in which a claim's id is written out: checks of their own."""
    claim(claim_id)
    found = []
    for file in sorted((_paths.root() / "chapters").glob("*.ipynb")):
        code = [c for c in json.loads(file.read_text())["cells"] if c["cell_type"] == "code"]
        found += [
            Cell(file.stem, cell["id"], number)
            for number, cell in enumerate(code, 1)
            if f'"{claim_id}"' in "".join(cell["source"])
        ]
    return found


def unplaced() -> list[str]:
    """Claims that neither a function nor a cell of a chapter checks, in ledger order."""
    placed = {i for p in places() for i in p.claims}
    return [i for i in claims() if i not in placed and not cells(i)]
