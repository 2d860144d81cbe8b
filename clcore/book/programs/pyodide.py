"""Python for the reader's browser: Pyodide, from npm and checked, and SymPy compiled for it.

It is stored next to the installed packages, so that it is fetched once per set-up, and the build
copies it into the site. Without npm the site is made without it.
"""

import base64
import hashlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from clcore import _paths
from clcore._files import read_json, sha256

PARTS = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
"""Files of the npm package that a browser needs."""
SYMBOLS = ("mpmath", "sympy")
"""Packages that are compiled into symbols.zip: pure Python, as installed here."""
_MINUTES = 10


class PyodideError(RuntimeError):
    """Python for the browser is not available; the message gives reason and remedy."""


def folder() -> Path:
    """Where it lies: of this environment, not of the system's Python."""
    return Path(sys.prefix) / "share" / "clcore-pyodide"


def here() -> dict[str, Any] | None:
    """The entry of files.json for the present files; None if they are missing or made from
    versions other than the pinned ones."""
    try:
        said = json.loads((folder() / "files.json").read_bytes())
    except (OSError, ValueError):
        return None
    try:
        whole = isinstance(said, dict) and said.get("made_from") == _made_from()
    except importlib.metadata.PackageNotFoundError:  # SymPy or mpmath, which doctor tells
        return None
    sizes = said.get("files", {}) if whole else {}
    for name, size in sizes.items():
        file = folder() / name
        if not file.is_file() or file.stat().st_size != size["bytes"]:
            return None
    return said if whole else None


def fetch() -> Path:
    """Fetch, check and compile what is not here yet; returns its folder.

    Raises PyodideError without npm and node, without a network, or where what came has another hash
    than the one in pyodide.json; nothing is left half-made.
    """
    if here():
        return folder()
    missing = [name for name in ("npm", "node") if not shutil.which(name)]
    if missing:
        raise PyodideError(f"expected npm and node on this machine, found no {missing[0]}")
    folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder().parent, prefix=".clcore-pyodide-") as made:
        into = Path(made)
        _unpack(_packed(into), into)
        _compile(into)
        sizes = {name: _size(into / name) for name in (*PARTS, "symbols.zip")}
        said = {"made_from": _made_from(), "info": _info(into), "files": sizes}
        for file in into.iterdir():
            if file.name not in sizes:
                file.unlink()
        (into / "files.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
        into.chmod(0o755)
        shutil.rmtree(folder(), ignore_errors=True)
        shutil.copytree(into, folder())
    return folder()


def _pin() -> dict[str, str]:
    return read_json(Path(__file__).with_suffix(".json"), "take it from the repository")


def _compiler() -> Path:
    return Path(__file__).with_name("pyodide.mjs")


def _made_from() -> str:
    versions = [f"{name} {importlib.metadata.version(name)}" for name in SYMBOLS]
    parts = (json.dumps(_pin(), sort_keys=True), *versions, *PARTS, *SYMBOLS)
    return sha256(*(text.encode() for text in parts), _compiler().read_bytes())


def _run(*command: str | Path, cwd: Path) -> str:
    try:
        run = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=60 * _MINUTES
        )
    except subprocess.TimeoutExpired:
        raise PyodideError(f"{command[0]} took more than {_MINUTES} minutes") from None
    if run.returncode:
        said = (run.stderr.strip() or run.stdout.strip()).splitlines()
        raise PyodideError(f"{command[0]}: {said[-1][:300] if said else 'it failed'}")
    return run.stdout


def _packed(into: Path) -> Path:
    """The archive of the npm package, with the hash that is pinned."""
    pin = _pin()
    asked = f"{pin['package']}@{pin['version']}"
    _run("npm", "pack", asked, "--ignore-scripts", "--silent", cwd=into)
    (archive,) = into.glob("*.tgz")
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{found}" != pin["integrity"]:
        raise PyodideError(
            f"{asked}: expected the hash {pin['integrity']} of pyodide.json, got "
            f"sha512-{found}; another registry than npm's may have another file"
        )
    return archive


def _unpack(archive: Path, into: Path) -> None:
    with tarfile.open(archive) as packed:
        for name in (*PARTS, "pyodide-lock.json"):
            member = packed.extractfile(f"package/{name}")
            if member is None:
                raise PyodideError(f"expected {name} in {archive.name}, found none")
            (into / name).write_bytes(member.read())


def _compile(into: Path) -> None:
    """SymPy and mpmath without their tests, compiled by Pyodide's own Python: from sources, the
    first import of SymPy takes ten times as long."""
    packages = importlib.metadata.distribution("sympy").locate_file("")
    _run("node", _compiler(), into, str(packages), *SYMBOLS, cwd=into)


def _info(into: Path) -> dict[str, str]:
    """What Pyodide asks of the list of its packages, of which it loads none here."""
    return json.loads((into / "pyodide-lock.json").read_bytes())["info"]


def _size(file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


if __name__ == "__main__":
    try:
        print(f"Python for the browser: {_paths.shown(fetch())}")
    except PyodideError as error:
        print(f'Python for the browser: {error}. The site is made without "Run it here"; to have')
        print("it, mend that and run `python -m clcore.book.programs.pyodide`.")
