"""Fixtures: a small project of its own, with the claims and findings of this one."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import clcore.checks
from clcore import _paths
from clcore.ledger import findings


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """A function that writes a file of a project without checks and chapters. What stands in its
    clcore/checks can be imported as from this one's."""
    for name in ("claims", "findings"):
        shutil.copytree(_paths.root() / "data" / name, tmp_path / "data" / name)
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    checks = str(tmp_path / "clcore" / "checks")
    monkeypatch.setattr(clcore.checks, "__path__", [*clcore.checks.__path__, checks])
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("clcore.checks."):
            del sys.modules[name]


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A function that changes one field (None takes it away) and reads the findings again."""
    for name in ("claims", "findings"):
        shutil.copytree(_paths.root() / "data" / name, tmp_path / "data" / name)
    path = tmp_path / "data" / "findings" / "acl.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    findings.known.cache_clear()

    def read(claim, **fields):
        row = document.setdefault(claim, {}) | fields
        document[claim] = {k: v for k, v in row.items() if v is not None}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return findings.known()

    yield read
    findings.known.cache_clear()
