"""What a chapter's result depends on, as a digest: change any of it and the chapter runs again."""

import ast
import importlib.metadata
import json
import platform
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from clcore import _paths, ledger
from clcore._files import sha256
from clcore.book import exercises, solutions
from clcore.ledger import registry


def claimed(notebook: Path) -> list[str]:
    """Ids of the claims that a notebook is there to settle, in ledger order.

    They stand in its metadata, as groups (paper and ledger chapter) or, where two notebooks share a
    group, one by one: {"clcore": {"claims": ["acl/minmax", "acl/fig7"]}}.
    """
    metadata = json.loads(notebook.read_text())["metadata"]
    named = set(metadata.get("clcore", {}).get("claims", []))
    rows = ledger.claims().items()
    return [i for i, r in rows if named & {i, f"{r['paper']}/{r['chapter']}"}]


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
    the table that its `__init__` gives to `clcore._front.attach`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            table = ast.literal_eval(node.value)
            return {name: module for module, names in table.items() for name in names}
    return {}


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
    homes = _front(file.read_text()) if file.name == "__init__.py" else {}
    wanted = homes if asked == "*" else {n: home for n, home in homes.items() if n == asked}
    return [file, *around], {f"{module}.{home or n}" for n, home in wanted.items()}


def _named(source: str) -> set[str]:
    """Modules of the checks whose claims a cell names, as `Ledger.run` finds them, and those that
    judge the exercises that it names."""
    judges = map(exercises.module_of, re.findall(r"[\"'](ex-[\w-]+)[\"']", source))
    ids = set(re.findall(rf"[\"']((?:{'|'.join(ledger.papers())})/[\w.-]+)[\"']", source))
    checks = {p.module for p in registry.places() if p.on == "draws" and ids & set(p.claims)}
    return checks | {module for module in judges if module}


def closure(sources: list[str]) -> list[Path]:
    """Files of clcore that the given pieces of Python need, directly or through one another, or to
    check the claims that they name.

    A module may fill any template that lies in the folder templates/ beside it.
    """
    root = _paths.root()
    todo = {name for source in sources for name in imported(source) | _named(source)}
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
                todo |= imported(path.read_text(), package) - done
    return sorted(seen)


def sources(notebook: Path, solved: bool = False) -> list[str]:
    """The code of a notebook, cell by cell, without magics; solved: that of the solutions, too."""
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    return [_without_magics(s) for s in (*code, *(solutions.code(cells) if solved else ()))]


def inputs(notebook: Path, parameters: dict[str, Any]) -> list[Path]:
    """The files that a run of a chapter reads, besides its notebook, the claims (of which its own
    count alone, without the words of data/findings) and the data sets, which have checksums.

    Recorded results count where the chapter, or a module that it needs, names the chapter that
    recorded them; its own always. In a paper run none does: it makes them, for other chapters that
    run beside it, too, and must neither fail nor begin anew because one of them has ended.
    """
    data = _paths.root() / "data"
    # The smoke profile runs the solutions.
    code = sources(notebook, parameters.get("profile") == "smoke")
    files = closure(code)
    text = "\n".join([*code, *(path.read_text() for path in files)])
    found = [*files]
    made = [] if parameters.get("profile") == "paper" else sorted((data / "recorded").glob("*"))
    for folder in made:
        named = re.search(rf"[\"']{re.escape(folder.name)}[\"']", text)
        if named or folder.name == notebook.stem:
            found += sorted(p for p in folder.iterdir() if p.suffix in (".csv", ".json"))
    if any(path.name == "datasets.py" for path in files):
        found.append(data / "datasets.yaml")
    return found


def chapter_key(notebook: Path, parameters: dict[str, Any]) -> str:
    """Digest of notebook, parameters, the clcore files it needs, its data and locked versions."""
    root = _paths.root()
    parts = [notebook.read_bytes(), json.dumps(parameters, sort_keys=True).encode()]
    for path in inputs(notebook, parameters):
        parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    claims = [ledger.claim(i) for i in claimed(notebook)]
    parts.append(json.dumps(claims, sort_keys=True, default=str).encode())
    parts.append((root / "requirements.txt").read_bytes())
    versions = [platform.python_version(), sorted(_versions().items())]
    parts.append(json.dumps(versions).encode())
    return sha256(*parts)[:20]


def checkpoints(notebook: Path, parameters: dict[str, Any]) -> Path:
    """The folder for the checkpoints of a run of a chapter, with all its parameters.

    Each state of notebook, code and parameters has its own, so that a training is never resumed
    with another loss than the one it was begun with; `jobs` alone changes no number.
    """
    values = {name: value for name, value in parameters.items() if name != "jobs"}
    key = chapter_key(notebook, values)
    return _paths.build_dir() / "checkpoints" / f"{notebook.stem}-{values['profile']}-{key}"


@cache
def _versions() -> dict[str, str]:
    """Versions of the installed packages, which may differ from the pinned ones.

    Of the environment's own folders: setuptools, which torch imports to compile, puts packages of
    its own on sys.path.
    """
    folders = sorted({sysconfig.get_path(kind) for kind in ("purelib", "platlib")})
    found = importlib.metadata.distributions(path=folders)
    return {d.name: d.version for d in found if d.name != "clcore"}


def _without_magics(source: str) -> str:
    return "\n".join("" if re.match(r"\s*[%!]", line) else line for line in source.splitlines())
