"""data/certificates: each runs by itself and prints what is kept beside it.

A certificate shows, without the package, that a root of the errata fails as printed and what holds.
"""

import ast
import contextlib
import io

import pytest

from clcore import _paths
from clcore.ledger import claims, findings

FOLDER = _paths.root() / "data" / "certificates"
FILES = sorted(FOLDER.glob("*.py"))
LIBRARIES = {"cmath", "fractions", "itertools", "math", "mpmath", "random", "statistics", "sympy"}


def claim_of(path) -> str:
    return path.stem.replace("-", "/", 1)


def run(source: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "certificate", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_certificate_prints_what_is_kept(path):
    assert claim_of(path) in claims()
    finding = findings.known()[claim_of(path)]
    assert finding.get("root") == claim_of(path) and finding["grade"] != "misprint"
    assert len(path.read_text().splitlines()) <= 15
    assert run(path.read_text()) == path.with_suffix(".txt").read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_certificate_needs_only_what_it_may(path):
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    assert found <= LIBRARIES


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_assertion_of_a_certificate_is_reached(path):
    """With each turned round in its turn, the certificate stops."""
    tree = ast.parse(path.read_text())
    asserted = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert asserted
    for node in asserted:
        kept, node.test = node.test, ast.UnaryOp(ast.Not(), node.test)
        with pytest.raises(AssertionError):
            run(ast.unparse(ast.fix_missing_locations(tree)))
        node.test = kept


def test_every_text_has_its_certificate():
    assert {p.stem for p in FOLDER.glob("*.txt")} == {p.stem for p in FILES}
