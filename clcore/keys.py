"""What a chapter's result depends on, as a digest: change any of it and the chapter runs again."""

import ast
import json
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

from . import ledger, paths
from .files import sha256


def groups(notebook: Path) -> list[tuple[str, str]]:
    """Groups of claims (paper, ledger chapter) that a notebook is there to settle.

    They stand in the notebook's metadata: {"clcore": {"claims": ["acl/minmax"]}}.
    """
    metadata = json.loads(notebook.read_text())["metadata"]
    return [tuple(group.split("/")) for group in metadata.get("clcore", {}).get("claims", [])]


def imported(source: str) -> set[str]:
    """Modules of clcore that a piece of Python imports, as dotted names below clcore."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            stem = "clcore" if node.level else node.module or ""
            if node.level:
                stem = ".".join(filter(None, ["clcore", node.module]))
            names = [stem] + [f"{stem}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {n.removeprefix("clcore.") for n in names if n.startswith("clcore.")}
    return found


@cache
def _module(name: str) -> Path | None:
    base = paths.root() / "clcore" / name.replace(".", "/")
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def closure(sources: list[str]) -> list[Path]:
    """Files of clcore that the given pieces of Python need, directly or through one another."""
    todo = set().union(*map(imported, sources)) if sources else set()
    seen: set[Path] = set()
    while todo:
        path = _module(todo.pop())
        if path is None or path in seen:
            continue
        seen.add(path)
        text = path.read_text()
        if path.parent.name != "clcore":
            # Inside a subpackage one leading dot means that subpackage, two mean clcore.
            text = re.sub(r"^(\s*from )\.(?=[a-z_ ])", rf"\1.{path.parent.name}.", text, flags=re.M)
            text = re.sub(r"^(\s*from )\.\.", r"\1.", text, flags=re.M)
        todo |= imported(text)
    return sorted(seen)


def chapter_key(notebook: Path, parameters: dict[str, Any]) -> str:
    """Digest of notebook, parameters, the clcore files it needs, its data and locked versions."""
    import torch

    root = paths.root()
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    parts = [notebook.read_bytes(), json.dumps(parameters, sort_keys=True).encode()]
    for path in closure([_without_magics(source) for source in code]):
        parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    own = groups(notebook)
    claims = [r for r in ledger.claims().values() if (r["paper"], r["chapter"]) in own]
    parts.append(json.dumps(claims, sort_keys=True, default=str).encode())
    for folder in (root / "data" / "recorded" / notebook.stem, root / "data" / "protocols"):
        for path in sorted(folder.glob("**/*")):
            if path.is_file():
                parts += [str(path.relative_to(root)).encode(), path.read_bytes()]
    parts.append((root / "requirements.txt").read_bytes())
    parts.append(f"{platform.python_version()} {torch.__version__}".encode())
    return sha256(*parts)[:20]


def _without_magics(source: str) -> str:
    return "\n".join("" if re.match(r"\s*[%!]", line) else line for line in source.splitlines())
