"""What pyproject.toml declares: a plain `pip install .` can train, and each extra is complete."""

import ast
import importlib.metadata as metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import clcore
from clcore import _paths

PYPROJECT = tomllib.loads((_paths.root() / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LIBRARY = ("losses", "nets", "sweep", "theory", "random.py")


def declared(*extras: str) -> set[str]:
    """Distributions, extras of clcore's own included."""
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][e] for e in extras)]
    names = {re.match(r"[\w.-]+(\[\w+\])?", r)[0] for listed in lists for r in listed}
    inner = {n[7:-1] for n in names if n.startswith("clcore[")}
    found = {n.lower().replace("_", "-") for n in names if not n.startswith("clcore")}
    return found | (declared(*inner) if inner else set())


def imports(path: Path) -> set[str]:
    """Top-level names of what a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    return found - {"clcore"} - set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    ("rooms", "extras"),
    [(LIBRARY, ()), (("images",), ("images",)), ((".",), ("print",))],
    ids=["library", "images", "everything"],
)
def test_what_is_imported_is_declared(rooms, extras):
    owners, allowed = metadata.packages_distributions(), declared(*extras)
    root = _paths.root() / "clcore"
    inside = [p for room in rooms for p in (root / room).rglob("*.py")]
    files = inside + [root / room for room in rooms if room.endswith(".py")]
    assert files
    for path in files:
        for name in imports(path):
            of = {d.lower().replace("_", "-") for d in owners[name]}
            assert of & allowed, f"{path.relative_to(root)} imports {name}, which is not declared"


def test_what_is_no_code_is_installed_too():
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]
    root = _paths.root() / "clcore"
    given = set()
    for package in [root, *(p for p in root.rglob("*") if (p / "__init__.py").exists())]:
        name = ".".join(package.relative_to(root.parent).parts)
        for pattern in (*patterns.get(name, ()), *patterns["*"]):
            given |= set(package.glob(pattern))
    files = {p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert files - given == {p for p in files if p.suffix == ".py"}


def test_what_is_declared_is_pinned():
    text = (_paths.root() / "requirements.txt").read_text()
    pinned = {n.lower().replace("_", "-") for n in re.findall(r"^([\w.-]+)==", text, re.M)}
    assert declared("test") <= pinned


def test_the_version_is_one():
    cited = yaml.safe_load((_paths.root() / "CITATION.cff").read_text())["version"]
    assert PROJECT["version"] == cited == clcore.__version__


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """`run(code)` prints from the package as a wheel brings it, without its clone."""
    top, root = tmp_path_factory.mktemp("installed"), _paths.root()
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(root / name, top)
    (top / "data").mkdir()
    shutil.copy(root / "data" / "datasets.yaml", top / "data")
    shutil.copytree(root / "clcore", top / "clcore", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", "lib"]
    subprocess.run(build, cwd=top, check=True, capture_output=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLCORE")}
    kept |= {"PYTHONPATH": str(top / "lib"), "XDG_CACHE_HOME": str(top / "cached")}

    def run(code: str, **more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, cwd=top / "lib", env=kept | more, capture_output=True, text=True
        )

    run.top = top
    return run


def test_image_sets_load_without_a_clone(installed):
    told = installed(
        "import clcore; from clcore import _paths, images; from clcore.images import datasets\n"
        "print(clcore.__file__, len(images.load('digits')), *datasets.registry(), sep='\\n')\n"
        "print(_paths.data_dir(), _paths.build_dir(), sep='\\n')"
    )
    assert told.returncode == 0, told.stderr
    sets = yaml.safe_load((_paths.root() / "data" / "datasets.yaml").read_text(encoding="utf-8"))
    cached = installed.top / "cached" / "clcore"
    package = installed.top / "lib" / "clcore" / "__init__.py"
    expected = [package, 1438, *sets, cached / "data" / "cache", cached / "_build"]
    assert told.stdout.split() == [str(one) for one in expected]


def test_a_grid_keeps_and_finds_its_runs_without_a_clone(installed):
    (installed.top / "lib" / "squares.py").write_text(
        "import pandas as pd\n"
        "def squares(configs, device, progress):\n"
        "    values = [c['x'] ** 2 for c in configs]\n"
        "    return pd.DataFrame({'run': range(len(configs)), 'square': values})\n"
    )
    code = (
        "from pathlib import Path\n"
        "from squares import squares\n"
        "from clcore import grid\n"
        "if __name__ == '__main__':\n"
        "    asked = grid.Grid(Path('found'), grid.launcher('local:1'), progress=False)\n"
        "    print(asked.run(squares, [{'x': 2}, {'x': 3}]).table.square.tolist())\n"
        "    print(len([*Path('found').glob('*.npz')]))"
    )
    (installed.top / "lib" / "asked.py").write_text(code)
    for _ in range(2):
        told = installed("import runpy; runpy.run_path('asked.py', run_name='__main__')")
        assert told.returncode == 0, told.stderr
        assert told.stdout.split("\n")[:2] == ["[4, 9]", "2"]


def test_a_data_set_that_is_not_here_is_told_without_a_clone(installed):
    told = installed("from clcore import images; images.load('cifar10')")
    cached = installed.top / "cached" / "clcore" / "data" / "cache" / "cifar10"
    assert f"cifar10: {cached}" in told.stderr and "data fetch cifar10" in told.stderr


def test_a_clone_that_is_named_and_not_there_is_told(installed):
    told = installed("from clcore import images; images.load('mnist')", CLCORE_ROOT="/nowhere")
    assert "expected the repository (with data/claims) at /nowhere" in told.stderr
    told = installed("from clcore.ledger import claims; claims()")
    assert "install clcore from a clone" in told.stderr
