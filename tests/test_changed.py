"""Which tests wait for `make test-all`: none whose code, or whose tools, a branch has changed."""

from pathlib import Path

import changed
import one_check
import pytest

from clcore import _paths
from clcore.ledger import registry

DASK = _paths.root() / "tests" / "grid" / "test_dask.py"


@pytest.mark.parametrize(
    ("files", "touched"),
    [
        ({"book/index.md"}, False),
        ({"tests/losses/test_contrast.py"}, False),
        ({"clcore/grid/dask.py"}, True),
        ({"clcore/_locks.py"}, True),  # not imported by the test itself
        ({"tests/grid/waits.py"}, True),
        ({"requirements.txt"}, True),
        (None, True),
    ],
)
def test_a_test_follows_what_it_imports(monkeypatch, files, touched):
    root = _paths.root()
    found = None if files is None else frozenset(root / name for name in files)
    assert all(path.exists() for path in found or ())
    monkeypatch.setattr(changed, "files", lambda: found)
    assert changed.touches(DASK) is touched


def test_tests_of_a_check_are_those_that_import_its_module():
    module = one_check.module_of(registry.of("nl/thm4")[0].file)
    assert module == "clcore.checks.two_layer.fields.linear"
    names = [file.name for file in one_check.tests_of(module)]
    assert names == ["test_checks_two_layer.py"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from clcore.a import b, c", True),
        ("from clcore.a.b import name", True),
        ("import clcore.a.b as x", True),
        ("from clcore.a import bc", False),
        ("from clcore.a.bc import b", False),
        ("'clcore.a.b'", False),
    ],
)
def test_an_import_is_of_that_module(tmp_path: Path, text: str, found: bool):
    (tmp_path / "x.py").write_text(text, encoding="utf-8")
    assert one_check.imports(tmp_path / "x.py", "clcore.a.b") is found


def test_a_claim_that_is_none_is_refused(capsys):
    assert one_check.main("nl/thm999") == 1
    assert "expected a claim that has a check, got 'nl/thm999'" in capsys.readouterr().out
