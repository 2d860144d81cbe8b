"""What the programs print and how long they take, recorded in data/proofs.json.

`python -m clcore.book.proofs` records it again, after a check, `exact` or SymPy has changed.
"""

import ast
import importlib.metadata
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import read_json, sha256, write_atomic
from clcore.book.proofs import names, programs
from clcore.book.proofs.assembly import Clash
from clcore.ledger import claims

LIMIT = 20
"""CPU seconds of CPython that a program may take."""


def file() -> Path:
    """Where it is recorded."""
    return _paths.root() / "data" / "proofs.json"


@cache
def _code(text: str) -> str:
    """A program without its comments and docstrings, which change nothing that it prints."""
    return ast.unparse(_Silent().visit(ast.parse(text)))


class _Silent(ast.NodeTransformer):
    """Takes away statements that are a constant alone."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:
        return None if isinstance(node.value, ast.Constant) else node


def digest(text: str) -> str:
    """What decides what a program prints: its code, that of `exact`, the libraries' versions."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("mpmath", "sympy")]
    parts = (_code(text), _code(programs.kernel()), *versions)
    return sha256(*(part.encode() for part in parts))


def run(texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Run programs by themselves, in one process that can import neither torch nor numpy.

    Returns for each what it prints, its seconds and its error, "" if it ends well. Raises
    RuntimeError where the process itself fails.
    """
    asked = {
        "kernel": programs.kernel(),
        "programs": dict(texts),
        "allowed": sorted(names.OUTSIDE),
        "limit": LIMIT,
    }
    script = Path(__file__).with_name("alone.py")
    command = [sys.executable, "-I", str(script)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{script.name}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def shown(prints: str) -> bool:
    """Whether all is shown, and nothing broken is."""
    return "NOT SHOWN" not in prints and "SHOWN AS WELL" not in prints


@cache
def known() -> dict[str, dict[str, Any]]:
    """By claim: digest, prints, seconds. Raises ValueError where data/proofs.json is damaged."""
    return read_json(file(), "run `python -m clcore.book.proofs` to make it again")


def of(claim_id: str) -> dict[str, Any] | None:
    """What is recorded of a claim's program, with the program; None where there is none, or where
    it has changed since."""
    said = known().get(claim_id)
    made = programs.program(claim_id) if said else None
    if said is None or made is None or digest(made.text) != said["digest"]:
        return None
    return {"program": made, "prints": said["prints"], "seconds": said["seconds"]}


def record(of_claims: Iterable[str]) -> Counter[str]:
    """Run the programs of these claims and record them; one that prints what it did keeps the
    seconds it had, so that the record changes where a program does. Returns how many claims have
    one, and how many have none, by reason."""
    count: Counter[str] = Counter()
    made: dict[str, programs.Program] = {}
    for claim in of_claims:
        try:
            found = programs.program(claim)
        except Clash as clash:
            count[f"names that cannot stand in one text ({clash})"] += 1
            continue
        if found is not None:
            made[claim] = found
        elif programs.proved(claim):
            count["needs draws, NumPy or PyTorch"] += 1
    table = {}
    try:
        before = known()
    except (OSError, ValueError):  # none yet, or damaged: it is made anew
        before = {}
    for claim, ran in run({claim: one.text for claim, one in made.items()}).items():
        if ran["error"] or not shown(ran["prints"]):
            count[f"fails by itself ({claim}: {ran['error'] or 'not everything is shown'})"] += 1
            continue
        count["recorded"] += 1
        now = {"digest": digest(made[claim].text), "prints": ran["prints"]}
        had = before.get(claim, {})
        same = now == {name: had.get(name) for name in now}
        seconds = had["seconds"] if same else round(ran["seconds"], 2)
        table[claim] = {"digest": now["digest"], "seconds": seconds, "prints": now["prints"]}
    write_atomic(file(), (json.dumps(table, indent=1, ensure_ascii=False) + "\n").encode())
    return count


def main() -> None:
    """Record the programs of all claims."""
    for what, number in record(claims()).items():
        print(f"{number}: {what}")
