"""The public surface: what `import clcore` gives, what it costs, and an example of every name."""

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

import clcore
from clcore import _paths, random
from clcore.book import keys

ROOMS = ("grid", "images", "losses", "nets", "random", "stats", "sweep", "theory")
EXAMPLES = ("grid", "images", "losses", "nets", "random", "stats", "sweep")
"""Rooms with an example of every public name. theory, whose names are modules, is not among them:
its examples are the chapters."""
INNER = ("one_layer", "operator", "relu", "sparse", "trees", "two_layer")
MODULES = ("clcore.random", "clcore.stats")
"""Rooms that are one file."""
FRONTS = ("clcore", *(f"clcore.{r}" for r in ROOMS), *(f"clcore.theory.{r}" for r in INNER))


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_clcore_offers_its_rooms_and_nothing_private():
    rooms = ["grid", "images", "losses", "nets", "random", "stats", "sweep", "theory"]
    assert run("import clcore; print(dir(clcore))") == str(rooms)
    assert sorted(clcore.__all__) == rooms
    for name in ROOMS:
        assert getattr(clcore, name) is importlib.import_module(f"clcore.{name}")


def test_fronts_import_nothing_before_they_are_asked():
    code = "import sys, clcore, clcore.losses, clcore.sweep, clcore.images, clcore.nets\n"
    heavy = "{'torch', 'numpy', 'pandas', 'scipy', 'sklearn'}"
    assert run(code + f"print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.parametrize(
    "source",
    [
        "from clcore.losses import infonce_pair",
        "from clcore.losses import InfoNCE",
        "from clcore.nets import ResNet\nfrom clcore import random",
        "import clcore\nfor name in clcore.losses.__all__: getattr(clcore.losses, name)",
    ],
)
def test_what_the_build_takes_for_imported_is_what_python_reads(source):
    code = "; print([m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'clcore'])"
    read = set(ast.literal_eval(run(f"import sys\n{source}\npass{code}")))
    if "import clcore\n" in source:
        source = "from clcore import losses"
    needed = keys.closure([source])
    assert read == {str(path) for path in needed if path.suffix == ".py"}
    stubs = {path.with_suffix(".pyi") for path in needed if path.name == "__init__.py"}
    assert set(needed) >= {path for path in stubs if path.exists()}


@pytest.mark.parametrize("front", FRONTS)
def test_every_public_name_is_there_and_its_room_says_what_is_in_it(front):
    module = importlib.import_module(front)
    assert len(module.__doc__) > 40
    assert dir(module) == sorted(module.__all__) or front in MODULES
    for name in set(module.__all__):
        assert not name.startswith("_")
        assert getattr(module, name) is not None
        if isinstance(getattr(module, name), ModuleType):
            assert getattr(module, name).__name__ == f"{front}.{name}"
        elif front not in MODULES:  # a module of a function's name would hide it once imported
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(f"{front}.{name}")


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match=r"clcore\.losses attribute nce"):
        clcore.losses.nce  # noqa: B018
    with pytest.raises(ImportError, match="nce"):
        exec("from clcore.losses import nce")


USED = """
from typing import reveal_type
from clcore import losses

criterion = losses.InfoNCE(tau=0.1)
reveal_type(criterion)
losses.InfoNCE(tau="warm")
losses.NoSuchThing
"""


def test_a_type_checker_sees_public_names(tmp_path):
    (tmp_path / "used.py").write_text(USED)
    ty = [sys.executable, "-m", "ty", "check", "--output-format", "concise"]
    ty += ["--python", sys.prefix, "--extra-search-path", str(_paths.root())]
    done = subprocess.run([*ty, "used.py"], cwd=tmp_path, capture_output=True, text=True)
    said = [line.partition("used.py:")[2] for line in done.stdout.splitlines()[:-1]]
    assert [line.split(":")[0] for line in said] == ["6", "7", "8"], done.stdout + done.stderr
    for line, words in zip(said, ("`InfoNCE`", 'Literal["warm"]', "NoSuchThing"), strict=True):
        assert words in line


# --------------------------------------------------------------------------------------- examples


def public(room: ModuleType) -> dict[str, tuple[object, dict[str, object]]]:
    """Functions and classes of a room, and of the modules it offers, each with the names that its
    example may use: those that it stands among, torch, and the room `random`."""
    names = getattr(room, "__all__", None) or [
        name
        for name, thing in vars(room).items()
        if inspect.isroutine(thing) or inspect.isclass(thing)
        if thing.__module__ == room.__name__ and not name.startswith("_")
    ]
    around = {name: getattr(room, name) for name in names}
    found = {}
    for name, thing in around.items():
        if isinstance(thing, ModuleType):
            found |= {f"{name}.{inner}": entry for inner, entry in public(thing).items()}
        elif callable(thing):
            found[name] = thing, {"torch": torch, "random": random} | around
    return found


NAMED = {
    f"{room}.{name}": entry
    for room in EXAMPLES
    for name, entry in public(getattr(clcore, room)).items()
}


def examples(name: str, thing: object, around: dict[str, object]) -> doctest.DocTest:
    text = inspect.cleandoc(thing.__doc__ or "")
    return doctest.DocTestParser().get_doctest(text, dict(around), name, None, 0)


def failures(test: doctest.DocTest) -> str:
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


def test_there_are_names():
    assert {"losses.InfoNCE", "random.key", "images.digits.augment", "sweep.train"} <= set(NAMED)
    assert len(NAMED) > 75


@pytest.mark.parametrize("name", NAMED)
def test_every_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    test = examples(name, *NAMED[name])
    assert any(example.want for example in test.examples), f"{name} has no example with a result"
    assert not failures(test)


def _wrong() -> Callable:
    def two() -> int:
        """Examples:
        >>> two()
        3
        """
        return 2

    return two


def test_a_wrong_example_is_found():
    two = _wrong()
    assert "Expected:\n    3" in failures(examples("two", two, {"two": two}))
    assert not examples("bare", test_there_are_names, {}).examples


# ------------------------------------------------------------------------------------------ pages


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_lists_exactly_the_public_names(room):
    path = _paths.root() / "book" / "api" / f"{room}.md"
    listed = re.findall(
        r"^\.\. (?:autofunction|autoclass|automodule|py:data):: ([\w.]+)", path.read_text(), re.M
    )
    module = getattr(clcore, room)
    wanted = {
        f"clcore.{room}.{name}" if isinstance(getattr(module, name), ModuleType) else name
        for name in module.__all__
    }
    if room == "theory":
        wanted = {
            f"{front}.{name}"
            for front in ("clcore.theory", *(f"clcore.theory.{inner}" for inner in INNER))
            for name in importlib.import_module(front).__all__
        }
    words_only = {f"clcore.{room}", "clcore.losses.infonce_family", "clcore.losses.labelled"}
    assert sorted(set(listed) - words_only) == sorted(wanted)
    assert len(listed) == len(set(listed))


LARGEST = 400
"""Lines of a file of clcore, at most: what is longer has two subjects."""


def test_files_are_short():
    lines = {
        str(file.relative_to(_paths.root())): len(file.read_text().splitlines())
        for file in (_paths.root() / "clcore").rglob("*.py")
    }
    assert "clcore/stats.py" in lines
    assert not {file: n for file, n in lines.items() if n > LARGEST}, "split them by subject"
