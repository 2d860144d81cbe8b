"""For somebody who edits one check: the style of its file, the check at usual draws, its tests.

    make check CLAIM=nl/thm4

Its tests are the files below tests/ that import its module, and the sentences of its row. Ends with
1 where one of these fails or the verdict is not the one that data/findings expects.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from clcore import _imports, _paths
from clcore.ledger import LedgerError, registry

WORDS = "tests/ledger/test_in_short.py"
"""What every row says of itself, which takes a second."""


def module_of(file: Path) -> str:
    """The name under which a file of clcore is imported."""
    return ".".join(file.relative_to(_paths.root()).with_suffix("").parts)


def imports(file: Path, module: str) -> bool:
    """Whether a file imports a module, or something out of it."""
    names = _imports.imported(file.read_text(encoding="utf-8"))
    return any(name == module or name.startswith(f"{module}.") for name in names)


def tests_of(module: str) -> list[Path]:
    """Files of tests that import a module, in order."""
    return [f for f in sorted((_paths.root() / "tests").rglob("test_*.py")) if imports(f, module)]


def _run(*words: str) -> tuple[int, str]:
    began = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=_paths.root(),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    took = time.perf_counter() - began
    print(f"$ python -m {' '.join(words)}    # {took:.0f} s\n{done.stdout.rstrip()}\n", flush=True)
    return done.returncode, done.stdout


def main(claim: str) -> int:
    """0 where all is well."""
    try:
        place = registry.of(claim)[0]
    except (LedgerError, IndexError) as error:
        known = "python -m clcore where CLAIM tells where a claim is checked"
        print(f"expected a claim that has a check, got {claim!r}; {error or known}")
        return 1
    file = place.file.relative_to(_paths.root()).as_posix()
    failed = [_run("ruff", "check", file)[0], _run("ruff", "format", "--check", file)[0]]
    if place.on == "draws":
        status, said = _run("clcore", "check", claim)
        verdict = next((x for x in said.splitlines() if x.startswith("verdict ")), "")
        failed += [status, "(" in verdict]  # where data/findings has another one, or none
    files = [f.relative_to(_paths.root()).as_posix() for f in tests_of(module_of(place.file))]
    failed.append(_run("pytest", "-n", "0", "-m", "not site and not slow", WORDS, *files)[0])
    print(f"{claim}: {'something failed, see above' if any(failed) else 'all is well'}")
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
