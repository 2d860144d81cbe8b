"""What is said where the packages of an extra are absent."""

import runpy
import statistics
import sys

import pytest

from clcore import images
from clcore._extras import extra
from clcore.grid import Grid, launcher
from clcore.images import datasets, picture

USES = {
    "sklearn": (images.digits.digits, images.photographs.load, lambda: images.load("photographs")),
    "PIL": (lambda: picture.image(b"x", "x"),),
    "yaml": (datasets.registry.__wrapped__,),
    "pooch": (lambda: datasets.fetch("digits"),),
    "requests": (lambda: datasets._download(datasets.Path("x"), {"size": 1}, "", "", None),),
    "tabulate": (datasets.overview,),
}


@pytest.mark.parametrize(("package", "use"), [(p, use) for p, uses in USES.items() for use in uses])
def test_a_package_that_is_absent_is_told_with_the_line_that_brings_it(monkeypatch, package, use):
    datasets.registry()  # kept, so that what comes after it is asked for
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    told = rf'^{package}\S* is not installed; `pip install "clcore\[images\]"` brings it$'
    with pytest.raises(ModuleNotFoundError, match=told):
        use()


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("joblib", "local:2"),
        ("distributed", "tcp://127.0.0.1:9"),
        ("submitit", "slurm"),
        ("submitit", "submitit"),
    ],
)
def test_a_launcher_whose_package_is_absent(monkeypatch, tmp_path, package, name):
    grid = Grid(tmp_path, launcher(name), progress=False)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.externals.loky", None)
    told = rf'^{package}\S* is not installed; `pip install "clcore\[cluster\]"` brings it$'
    with pytest.raises(ModuleNotFoundError, match=told):
        grid.run(statistics.fmean, [{"seed": 0}])


def test_the_command_line_without_typer(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(ModuleNotFoundError, match=r"^typer is not installed; .*clcore\[book\]"):
        runpy.run_module("clcore", run_name="__main__")


def test_another_error_passes_as_it_is():
    with pytest.raises(ImportError, match="cannot import name 'absent'"), extra("images"):
        from clcore.images import absent  # noqa: F401
