"""Where the check of a claim is, read from the source: nothing is imported to find it."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from clcore import _paths
from clcore._files import read_notebook
from clcore.ledger.printed import LedgerError, claim, claims


@dataclass(frozen=True)
class Place:
    """A function that checks claims: where it stands, whether it takes draws or runs, and its
    lines, with what marks it, as they were when the file was read."""

    claims: tuple[str, ...]
    on: str
    name: str
    file: Path
    first: int
    last: int
    source: str

    @property
    def module(self) -> str:
        """Its dotted name, such as clcore.checks.two_layer.fields.linear."""
        return ".".join(self.file.relative_to(_paths.root()).with_suffix("").parts)

    @property
    def path(self) -> str:
        """The file, from the root of the repository."""
        return self.file.relative_to(_paths.root()).as_posix()

    def function(self) -> Callable:
        """The check itself (this imports its module)."""
        return getattr(import_module(self.module), self.name)


def _decorators(node: ast.FunctionDef) -> list[ast.Call]:
    return [
        d
        for d in node.decorator_list
        if isinstance(d, ast.Call) and isinstance(d.func, ast.Name) and d.func.id == "check"
    ]


def _place(node: ast.FunctionDef, mark: ast.Call, file: Path, text: str) -> Place:
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
    last = node.end_lineno or node.lineno
    source = "\n".join(text.splitlines()[first - 1 : last]) + "\n"
    return Place(ids, str(on), node.name, file, first, last, source)


@cache
def _marked(file: Path, text: str) -> tuple[Place, ...]:
    """The checks of one file. Raises LedgerError with file and line for what is no Python."""
    try:
        tree = ast.parse(text, str(file))
    except SyntaxError as error:
        raise LedgerError(
            f"{_paths.shown(file)}:{error.lineno}: {error.msg}; correct it, since checks are read "
            "from the source"
        ) from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tuple(_place(node, mark, file, text) for node in functions for mark in _decorators(node))


def _texts(folder: Path) -> tuple[tuple[Path, str], ...]:
    """The files below a folder that have checks. To parse one takes long, to look into it not."""
    every = ((file, file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.py")))
    return tuple((file, text) for file, text in every if "@check(" in text)


def scan(folder: Path) -> list[Place]:
    """Every function below `folder` that is marked with @check, by file and line.

    Raises LedgerError for an unknown id, and for a claim that two functions check on the same kind
    of input, with both places.
    """
    found = [place for file, text in _texts(folder) for place in _marked(file, text)]
    _once((i, place) for place in found for i in place.claims)
    return found


def _once(placed: Iterable[tuple[str, Place]]) -> None:
    """Refuse a claim that two functions check on the same kind of input."""
    seen: dict[tuple[str, str], Place] = {}
    for i, place in placed:
        other = seen.setdefault((i, place.on), place)
        if other is not place:
            raise LedgerError(
                f"{i} is checked twice on {place.on}: by {other.name} "
                f"({other.path}:{other.first}) and {place.name} ({place.path}:{place.first}); "
                "make them one function, with a part each"
            )


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
    when the id is unknown, and with both places when it is checked twice on one kind of input."""
    claim(claim_id)
    return _of(_paths.root(), claim_id)


@cache
def _of(root: Path, claim_id: str) -> tuple[Place, ...]:
    named = [(file, text) for file, text in _own_texts(root) if claim_id in text]
    found = [p for file, text in named for p in _marked(file, text) if claim_id in p.claims]
    _once((claim_id, place) for place in found)
    return tuple(found)


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


def _notebooks() -> Iterable[tuple[str, dict]]:
    """The chapters by name: those whose notebooks are there, in _toc.yml or not."""
    for file in sorted((_paths.root() / "chapters").glob("*.ipynb")):
        yield file.stem, read_notebook(file)


def homes(claim_id: str) -> list[str]:
    """Chapters whose metadata name a claim, or the group that it is of (`clcore.book.keys`)."""
    row = claim(claim_id)
    names = {claim_id, f"{row['paper']}/{row['chapter']}"}
    return [
        name
        for name, notebook in _notebooks()
        if names & set(notebook.get("metadata", {}).get("clcore", {}).get("claims", []))
    ]


def cells(claim_id: str) -> list[Cell]:
    """Code cells of the chapters in which a claim's id is written out: additional checks."""
    claim(claim_id)
    found = []
    for name, notebook in _notebooks():
        code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        found += [
            Cell(name, cell["id"], number)
            for number, cell in enumerate(code, 1)
            if f'"{claim_id}"' in "".join(cell["source"])
        ]
    return found


def unplaced() -> list[str]:
    """Claims that neither a function nor a cell of a chapter checks, in ledger order."""
    placed = {i for p in places() for i in p.claims}
    return [i for i in claims() if i not in placed and not cells(i)]
