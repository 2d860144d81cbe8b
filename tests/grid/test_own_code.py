"""A run's address counts the user's own modules, wherever the function imports them."""

import importlib
import sys
import sysconfig
from pathlib import Path

import pytest

from clcore.grid import Grid, own_code
from clcore.grid.address import name_of, needs

RUNS = (
    "import pandas as pd\n{top}\n"
    "def table(configs, device='cpu', progress=False):\n    {inner}\n"
    "    return pd.DataFrame({{'run': range(len(configs)), 'value': [factor()] * len(configs)}})\n"
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder on the import path, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(own_code, "_SEEN", {})
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def code(name):
    return needs(name)["code"]


def fresh(name):
    """What is counted of modules that this process has not imported."""
    importlib.invalidate_caches()
    return own_code.closure(name)


@pytest.mark.parametrize(
    ("top", "inner", "helper"),
    [
        ("from own_helper import factor", "pass", "own_helper.py"),
        ("", "from own_helper import factor", "own_helper.py"),
        ("import own_between\nfactor = own_between.factor", "pass", "own_helper.py"),
        ("from own_package.deep.part import factor", "pass", "own_package/deep/__init__.py"),
        ("from own_package.deep.part import factor", "pass", "own_package/deep/other.py"),
    ],
    ids=["imported", "inside", "through another", "package", "relative"],
)
def test_an_edited_module_makes_another_address(place, top, inner, helper):
    deep = place / "own_package" / "deep"  # the outer folder is a package without a file
    deep.mkdir(parents=True)
    (deep / "__init__.py").write_text("")
    (deep / "other.py").write_text("def factor():\n    return 10.0\n")
    (deep / "part.py").write_text("from .other import factor\n")
    (place / "own_helper.py").write_text("def factor():\n    return 10.0\n")
    (place / "own_between.py").write_text("from own_helper import factor\n")
    (place / "own_unused.py").write_text("")
    (place / "own_runs.py").write_text(RUNS.format(top=top, inner=inner))
    first = fresh("own_runs")
    (place / "own_unused.py").write_text("edited = 1\n")
    assert fresh("own_runs") == first
    with (place / helper).open("a") as out:
        out.write("\nedited = 1\n")
    assert fresh("own_runs") != first


def test_a_process_goes_by_the_code_that_it_runs(place):
    helper = place / "own_helper.py"
    helper.write_text("def factor():\n    return 10.0\n")
    (place / "own_runs.py").write_text(
        RUNS.format(top="import own_helper", inner="factor = own_helper.factor")
    )
    runs = importlib.import_module("own_runs")
    grid, configs = Grid(place / "grid", progress=False), [{"seed": 0}]
    assert grid.run(runs.table, configs).table.value[0] == 10
    old = code("own_runs:table")
    helper.write_text("def factor():\n    return 200.0\n")
    assert code("own_runs:table") == old  # the old module is what runs here
    assert grid.run(runs.table, configs).table.value[0] == 10
    importlib.invalidate_caches()
    importlib.reload(sys.modules["own_helper"])
    assert code("own_runs:table") != old
    assert grid.run(runs.table, configs).table.value[0] == 200


def test_a_module_that_is_not_imported_yet_is_read_as_it_is_now(place):
    helper = place / "own_helper.py"
    helper.write_text("def factor():\n    return 10.0\n")
    (place / "own_runs.py").write_text(RUNS.format(top="", inner="from own_helper import factor"))
    first = code("own_runs:table")
    helper.write_text("def factor():\n    return 20.0\n")
    assert code("own_runs:table") != first


def test_another_function_does_not_pass_an_edit_off_as_what_runs(place):
    helper = place / "own_helper.py"
    helper.write_text("def factor():\n    return 10.0\n")
    for name in ("own_one", "own_two"):
        (place / f"{name}.py").write_text(
            RUNS.format(top="from own_helper import factor", inner="pass")
        )
    code("own_one:table")
    before = fresh("own_two")
    helper.write_text("def factor():\n    return 20.0\n")
    assert fresh("own_two") == before  # own_helper was imported before the edit


def test_what_is_installed_is_not_followed_and_found_without_importing_it(place):
    (place / "own_lazy.py").write_text("raise RuntimeError('imported')\n")
    (place / "own_runs.py").write_text(
        RUNS.format(top="import json\nimport torch", inner="import own_lazy.part")
    )
    assert set(own_code.closure("own_runs")) == {"own_runs", "own_lazy"}
    assert "own_lazy" not in sys.modules


def test_a_module_for_another_python_is_counted_and_not_parsed(place):
    (place / "own_old.py").write_text("print 'two'\n")
    (place / "own_runs.py").write_text(
        RUNS.format(top="try:\n    import own_old\nexcept SyntaxError:\n    pass", inner="pass")
    )
    assert set(own_code.closure("own_runs")) == {"own_runs", "own_old"}


def test_the_path_of_workers_has_no_installed_packages(place):
    found = own_code.path()
    assert str(place) in found
    assert not {sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")} & {*found}
    assert all(Path(folder).is_dir() for folder in found)


def test_what_has_no_name_or_no_file_is_refused(place):
    from functools import partial

    with pytest.raises(ValueError, match="expected a function that workers can import by its name"):
        name_of(partial(print, 1))
    sys.modules["own_made"] = type(sys)("own_made")
    try:
        with pytest.raises(ValueError, match="expected a function of a module that is a file"):
            needs("own_made:table")
    finally:
        del sys.modules["own_made"]
