"""Which files of clcore a piece of Python needs, read from its imports without running it."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, the inner ones too; ast.walk visits every expression besides."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, name, []))
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from _statements(part.body)


@cache  # most chapters need most files, and to parse them is most of what a key costs
def imported(source: str, package: str = "") -> frozenset[str]:
    """What a piece of Python imports, as dotted names; `package` is where it stands.

    `from a import b` is "a.b", whether b is a module or a name inside a. `import a.b` is "a.b" and
    "a", which is what it binds.
    """
    found: set[str] = set()
    for node in _statements(ast.parse(source).body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            found |= {alias.name.split(".")[0] for alias in node.names if not alias.asname}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            stem = ".".join(filter(None, [*(above if node.level else []), node.module]))
            found |= {f"{stem}.{alias.name}" for alias in node.names}
    return frozenset(found)


def _file(root: Path, module: str) -> Path | None:
    """The file of a module or package of clcore; None for anything else."""
    base = root.joinpath(*module.split("."))
    own = (base.with_suffix(".py"), base / "__init__.py")
    return next((p for p in own if p.is_file()), None) if module.startswith("clcore") else None


@cache
def _front(source: str) -> dict[str, str]:
    """Public name -> module of the package that defines it ("" for a module), of a package's front:
    what its stub `__init__.pyi` imports, which lazy_loader gives out when it is asked."""
    imports = (node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def _needed(root: Path, name: str) -> tuple[list[Path], set[str]]:
    """What Python reads to import a dotted name, the files of the packages around it included; and
    what else has to be imported for it.

    A front imports when it is asked: for one name that is the module which defines it; whoever has
    the whole package in hand may ask for any of its names.
    """
    module, _, asked = (name, "", "*") if _file(root, name) else name.rpartition(".")
    file = _file(root, module)
    if file is None:
        return [], set()
    parts = module.split(".")
    around = [root.joinpath(*parts[:i], "__init__.py") for i in range(1, len(parts))]
    stubs = [p for p in (f.with_suffix(".pyi") for f in (file, *around)) if p.is_file()]
    own = file.with_suffix(".pyi")
    homes = _front(own.read_text(encoding="utf-8")) if own in stubs else {}
    wanted = homes if asked == "*" else {n: home for n, home in homes.items() if n == asked}
    return [file, *around, *stubs], {f"{module}.{home or n}" for n, home in wanted.items()}


def closure(
    sources: Iterable[str],
    root: Path,
    named: Callable[[str], Iterable[str]] = lambda source: (),
) -> list[Path]:
    """Files of the clcore in `root` that the given pieces of Python need, directly or through one
    another.

    named: further modules that one of the pieces needs without importing them. A module may fill
    any template in the folder templates/ next to it.
    """
    todo = {name for source in sources for name in {*imported(source), *named(source)}}
    done: set[str] = set()
    seen: set[Path] = set()
    while todo:
        name = todo.pop()
        done.add(name)
        files, more = _needed(root, name)
        todo |= more - done
        for path in files:
            if path not in seen:
                seen |= {path, *path.parent.glob("templates/*.html")}
                package = ".".join(path.relative_to(root).parent.parts)
                if path.suffix == ".py":
                    todo |= imported(path.read_text(encoding="utf-8"), package) - done
    return sorted(seen)
