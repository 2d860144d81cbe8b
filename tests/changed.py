"""Which tests may wait for `make test-all`: those of tools that this branch has not touched."""

from functools import cache
from pathlib import Path

from clcore import _git, _imports, _paths

SINCE = "origin/main"
"""What is compared with, at the commit where this branch left it."""


@cache
def files() -> frozenset[Path] | None:
    """Files that differ from `SINCE`, new ones among them; None where git cannot tell."""
    root = _paths.root()
    try:
        base = _git.git(root, "merge-base", SINCE, "HEAD")
        if base == _git.git(root, "rev-parse", "HEAD") and not _git.git(root, "status", "-s"):
            return None  # the main branch itself: nothing tells what its last commits changed
        listed = _git.git(root, "diff", "--name-only", "-z", base)
        listed += _git.git(root, "ls-files", "--others", "--exclude-standard", "-z")
    except _git.GitError:
        return None
    return frozenset(root / name for name in listed.split("\0") if name)


def touches(test: Path) -> bool:
    """Whether a file that a test imports, directly or not, has changed, or one beside the test; so
    too where nobody can tell, or where what all tests stand on has changed."""
    changed = files()
    if changed is None:
        return True
    root = _paths.root()
    needed = set(_imports.closure([test.read_text(encoding="utf-8")], root))
    needed |= {root / "pyproject.toml", root / "requirements.txt", root / "tests" / "conftest.py"}
    needed |= set((test.parent).glob("*.py"))
    return bool(needed & changed)
