"""What a chapter's result depends on, as a digest: change any of it and the chapter runs again."""

import json
import platform
import re
import sysconfig
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from clcore import _imports, _paths, ledger
from clcore._files import read_notebook, sha256
from clcore.book import exercises, solutions, surroundings
from clcore.ledger import registry
from clcore.ledger.printed import near


def claimed(notebook: Path) -> list[str]:
    """Ids of the claims that a notebook is there to settle, in ledger order.

    They stand in its metadata, as groups (paper and ledger chapter) or, where two notebooks share a
    group, one by one: {"clcore": {"claims": ["acl/minmax", "acl/fig7"]}}. Raises LedgerError with
    near misses for a name that is neither.
    """
    metadata = read_notebook(notebook)["metadata"]
    named = set(metadata.get("clcore", {}).get("claims", []))
    rows = ledger.claims()
    groups = {
        f"{paper}/{group}" for paper, row in ledger.papers().items() for group in row["groups"]
    }
    for name in sorted(named - groups - set(rows)):
        hint = near(name, [*groups, *rows], "its groups are in data/claims/papers.yaml")
        raise ledger.LedgerError(
            f"chapters/{notebook.name}: its metadata name {name!r}, which is neither a group of "
            f"claims nor a claim; {hint}"
        )
    return [i for i, r in rows.items() if named & {i, f"{r['paper']}/{r['chapter']}"}]


def _named(source: str) -> set[str]:
    """Modules of the checks whose claims a cell names, as `Ledger.run` finds them, and those that
    judge the exercises that it names."""
    judges = map(exercises.module_of, re.findall(r"[\"'](ex-[\w-]+)[\"']", source))
    ids = set(re.findall(rf"[\"']((?:{'|'.join(ledger.papers())})/[\w.-]+)[\"']", source))
    checks = {p.module for p in registry.places() if p.on == "draws" and ids & set(p.claims)}
    return checks | {module for module in judges if module}


def closure(sources: list[str]) -> list[Path]:
    """Files of clcore that the given pieces of Python need, directly or through one another, or to
    check the claims that they name."""
    return _imports.closure(sources, _paths.root(), _named)


def sources(notebook: Path, solved: bool = False) -> list[str]:
    """The code of a notebook, cell by cell, without magics; solved: that of the solutions, too."""
    cells = read_notebook(notebook)["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    return [_without_magics(s) for s in (*code, *(solutions.code(cells) if solved else ()))]


def imports(notebook: Path, parameters: dict[str, Any]) -> set[str]:
    """Dotted names that a chapter imports, it or the files of clcore that it needs."""
    code = sources(notebook, parameters.get("profile") == "smoke")
    texts = [path.read_text(encoding="utf-8") for path in closure(code) if path.suffix == ".py"]
    return {name for source in (*code, *texts) for name in _imports.imported(source)}


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
    text = "\n".join([*code, *(path.read_text(encoding="utf-8") for path in files)])
    found = [*files]
    made = [] if parameters.get("profile") == "paper" else sorted((data / "recorded").glob("*"))
    for folder in made:
        named = re.search(rf"[\"']{re.escape(folder.name)}[\"']", text)
        if named or folder.name == notebook.stem:
            found += sorted(p for p in folder.iterdir() if p.suffix in (".csv", ".json"))
    if _uses_data_sets(files):
        found.append(data / "datasets.yaml")
    found += surroundings.beside(notebook, code)
    if any(path.name == "explore.py" for path in files):  # its sliders come with their script
        found.append(_paths.root() / "book" / "_static" / "explore.js")
    return found


def _uses_data_sets(files: list[Path]) -> bool:
    return any(path.name == "datasets.py" for path in files)


def found_here(notebook: Path, parameters: dict[str, Any]) -> list[str]:
    """What a chapter may ask of the machine: those data sets that it, or what it needs, names and
    that are here. Which of them it takes may depend on that."""
    code = sources(notebook, parameters.get("profile") == "smoke")
    files = closure(code)
    if not _uses_data_sets(files):
        return []
    # By its name: with an import here, of which every chapter has need, each would use data sets.
    datasets = import_module("clcore.images.datasets")
    # The library names every set that it can read; who needs it takes none by that.
    theirs = [path for path in files if path.parent.name != "images"]
    text = "\n".join(
        [repr(parameters), *code, *(path.read_text(encoding="utf-8") for path in theirs)]
    )
    named = [n for n in datasets.registry() if re.search(rf"[\"']{re.escape(n)}[\"']", text)]
    return [name for name in named if datasets.here(name)]


def chapter_key(notebook: Path, parameters: dict[str, Any]) -> str:
    """Digest of notebook, parameters, the clcore files it needs, the files next to it, its data and
    which sets of them are here, its kernel's startup file, and locked versions."""
    root = _paths.root()
    parts = [notebook.read_bytes(), json.dumps(parameters, sort_keys=True).encode()]
    for path in inputs(notebook, parameters):
        parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    parts.append(json.dumps(found_here(notebook, parameters)).encode())
    claims = [ledger.claim(i) for i in claimed(notebook)]
    parts.append(json.dumps(claims, sort_keys=True, default=str).encode())
    parts.append((root / "requirements.txt").read_bytes())
    installed = [platform.python_version(), sorted(versions().items())]
    parts.append(json.dumps(installed).encode())
    if first := surroundings.startup():
        parts.append(first.read_bytes())
    return sha256(*parts)[:20]


def checkpoints(notebook: Path, parameters: dict[str, Any]) -> Path:
    """The folder for the checkpoints of a run of a chapter, with all its parameters.

    Each state of notebook, code and parameters has its own, so that a training is never resumed
    with another loss than the one it was begun with; `jobs` and `scheduler` change no number.
    """
    alike = ("jobs", "scheduler")
    values = {name: value for name, value in parameters.items() if name not in alike}
    key = chapter_key(notebook, values)
    return _paths.build_dir() / "checkpoints" / f"{notebook.stem}-{values['profile']}-{key}"


@cache
def versions() -> dict[str, str]:
    """Versions of the installed packages, which may differ from the pinned ones, by the names of
    their folders: to read what is in these takes a hundred times as long.

    Of the environment's own folders: setuptools, which torch imports to compile, puts packages of
    its own on sys.path. clcore's own is no input.
    """
    folders = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    found = (path.stem.rpartition("-") for f in folders for path in f.glob("*.dist-info"))
    return {name: version for name, _, version in found if name != "clcore"}


def _without_magics(source: str) -> str:
    return "\n".join("" if re.match(r"\s*[%!]", line) else line for line in source.splitlines())
