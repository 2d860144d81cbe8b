"""What reaches a kernel: the shell's variables by name, and the files around the notebook."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib import font_manager
from small_project import CHECK, notebook

from clcore import _paths
from clcore.book import build, plots, surroundings
from clcore.book.build import seal
from clcore.images import datasets

PRINT = """
import os, sys
import matplotlib
from matplotlib import pyplot
print("dpi", matplotlib.rcParams["figure.dpi"], [k for k in os.environ if "STRANGE" in k])
print("first", [p for p in sys.path if p.endswith("elsewhere")])
"""


def test_only_what_changes_no_result_comes_from_the_shell(project, monkeypatch):
    strange = ("STRANGE", "PYTHONPATH", "PYTHONWARNINGS", "MATPLOTLIBRC", "LC_ALL", "GIT_DIR")
    for name in strange:
        monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HOME", "/home")
    found = surroundings.environment(MORE="1")
    root, made = str(_paths.root()), _paths.build_dir()
    assert not {"STRANGE", "PYTHONWARNINGS", "MATPLOTLIBRC", "LC_ALL", "GIT_DIR"} & set(found)
    assert found["PYTHONPATH"] == root and found["MORE"] == "1"
    assert found["OMP_NUM_THREADS"] == "3" and found["HOME"] == "/home"
    assert found["PATH"] == os.environ["PATH"]
    assert found["MPLCONFIGDIR"].startswith(str(made))


def test_a_process_of_ours_has_this_tree_first_and_nothing_of_the_readers(project, tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / ".config" / "matplotlib").mkdir(parents=True)
    (home / ".config" / "matplotlib" / "matplotlibrc").write_text("figure.dpi: 33\n")
    elsewhere.mkdir()
    (elsewhere / "clcore.py").write_text("")  # in the folder of the command, and on its path
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("PYTHONPATH", str(elsewhere))
        patch.setenv("STRANGE", "1")
        environment = surroundings.environment()
    code = f"{PRINT}\nimport clcore\nprint(clcore.__file__)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(
        command, env=environment, cwd=elsewhere, capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout.splitlines() == [
        *("dpi 100.0 []", "first []"),
        str(_paths.root() / "clcore" / "__init__.py"),
    ]


def keys() -> dict[str, str]:
    return {run.name: run.key for run in build.plan("book", None, "cpu")}


AROUND = {
    "chapters/tabulate.py": {"good", "other"},  # in place of a package that others import
    "chapters/package/__init__.py": {"good", "other"},
    "chapters/package/inner/module.py": set(),  # a folder that nobody names
    "chapters/folder/module.py": {"other"},
    "chapters/fast.abi3.so": {"good", "other"},
    "chapters/matplotlibrc": {"good", "other"},
    "chapters/numbers.csv": {"other"},
    "chapters/below/more.csv": {"other"},
    "chapters/unnamed.csv": set(),
    "chapters/.ipynb_checkpoints/a.py": set(),
    "sitecustomize.py": {"good", "other"},
    "package/__init__.py": {"good", "other"},
    "folder/module.py": {"other"},
    "scripts/module.py": set(),
}
"""File -> the chapters whose key it changes."""


def test_a_key_knows_what_lies_around_its_notebook(project):
    read = 'import folder.module\nopen("numbers.csv")\nopen("below/more.csv")'
    notebook(project / "chapters" / "other.ipynb", read)
    notebook(project / "chapters" / "good.ipynb", CHECK)
    bare = keys()
    for file, concerned in AROUND.items():
        path, before = project / file, bare
        new = next(part for part in (*reversed(path.parents), path) if not part.exists())
        path.parent.mkdir(parents=True, exist_ok=True)
        for content in (b"1", b"2"):
            path.write_bytes(content)
            after = keys()
            assert {name for name in after if after[name] != before[name]} == concerned, file
            before = after
        shutil.rmtree(new) if new.is_dir() else new.unlink()
    assert keys() == bare


def test_a_key_and_the_seal_know_what_kernels_run_first(project, monkeypatch, tmp_path):
    first = tmp_path / "first.py"
    seen = [(keys(), seal.inputs("book", "cpu"))]
    monkeypatch.setenv("CLCORE_STARTUP", str(first))
    for content in ("import math", "import cmath"):
        first.write_text(content, encoding="utf-8")
        seen.append((keys(), seal.inputs("book", "cpu")))
    for name in ("good", "other"):
        assert len({found[name] for found, _ in seen}) == 3
    assert len({sealed for _, sealed in seen}) == 3


def test_figures_are_in_a_font_that_comes_with_matplotlib(monkeypatch):
    manager = font_manager.fontManager
    arial = font_manager.FontEntry(fname=manager.findfont("DejaVu Serif"), name="Arial")
    monkeypatch.setattr(manager, "ttflist", [arial, *manager.ttflist])
    with matplotlib.rc_context():
        plots.use_style()
        found = Path(manager.findfont(font_manager.FontProperties(family=["sans-serif"])))
    assert found == Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")


def test_a_key_knows_which_data_sets_are_here(project, monkeypatch):
    monkeypatch.setenv("CLCORE_DATA", str(project / "sets"))
    choice = 'from clcore.images import image_sets\nfound = image_sets.here("mnist")'
    notebook(project / "chapters" / "good.ipynb", choice)
    before = keys()
    for name in ("cifar10", "mnist"):
        for file in datasets.registry()[name]["files"]:
            assert keys() == before, "not whole yet, or not named"
            path = datasets.folder(name) / file["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
    after = keys()
    assert after["good"] != before["good"] and after["other"] == before["other"]
