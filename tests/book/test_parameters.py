"""Parameters are checked before a kernel starts and in the first cell, with the valid values."""

import json
import re

import pytest
import torch

from clcore import _paths
from clcore.book import chapter
from clcore.book.parameters import ParameterError, check_device, declared, declared_in, validate

BASE = {"profile": "book", "device": "cpu", "seed": 0, "rate": 0.5, "sizes": [1, 2]}


def test_defaults_and_overrides():
    assert validate({"profile": "smoke", "rate": 1}, BASE, "x") == BASE | {
        "profile": "smoke",
        "rate": 1,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"profile": "quick"}, r"profile in smoke, book, paper; got 'quick'"),
        ({"temperature": 1}, r"x has no parameter 'temperature'; it takes device, profile, rate"),
        ({"device": "tpu"}, r"device in auto, cpu, cuda, cuda:N; got 'tpu'"),
        ({"device": "cuda:x"}, r"device in auto"),
        ({"device": None}, r"device in auto"),
        ({"seed": -1}, r"seed to be an integer from 0.*got -1"),
        ({"seed": True}, r"seed to be an integer"),
        ({"rate": "fast"}, r"rate of x to be of type float \(such as 0\.5\); got 'fast'"),
        ({"sizes": 3}, r"sizes of x to be of type list"),
    ],
)
def test_errors_name_the_parameter_and_the_valid_values(given, message):
    with pytest.raises(ParameterError, match=message):
        validate(given, BASE, "x")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_absent_device_is_told():
    with pytest.raises(ParameterError, match=r"'cuda' was asked for.*sees 0 CUDA.*device=cpu"):
        check_device("cuda")
    assert check_device("auto") == "cpu"


def test_the_commands_that_readers_are_given_need_no_gpu():
    for page in ("README.md", "book/rerun.md"):
        text = (_paths.root() / page).read_text()
        devices = re.findall(r"papermill .*-p device (\S+)", text)
        assert devices == ["auto"], page
    assert check_device("auto") in ("cpu", "cuda")


def test_parameters_cell_holds_literals_only():
    assert declared_in("a = 1\nb: float = -2.5\nc = ['x']") == {"a": 1, "b": -2.5, "c": ["x"]}
    with pytest.raises(ParameterError, match=r"sets n to .len\("):
        declared_in("n = len('abc')")


def test_notebook_without_parameters_cell(tmp_path):
    path = tmp_path / "n.ipynb"
    cell = {"cell_type": "code", "metadata": {}, "source": "x=1"}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}}))
    with pytest.raises(ParameterError, match=r"n\.ipynb has no parameters cell; tag"):
        declared(path)
    path.write_text("not json")
    with pytest.raises(ParameterError, match="is not a notebook"):
        declared(path)


def namespace(**values):
    """What the kernel's globals look like in the first cell after the parameters."""
    cells = ["", "profile = 'smoke'\ndevice = 'cpu'\nseed = 0"]
    return {"In": cells, "torch": torch, "start": chapter.start, "profile": "smoke"} | {
        "device": "cpu",
        "seed": 0,
        **values,
    }


def test_first_cell_accepts_what_is_declared():
    here = chapter.start("1-minmax", namespace())
    assert here.profile == "smoke"
    assert here.pick(smoke=1, book=2, paper=3) == 1
    assert here.checkpoint("a") is None


def test_the_paper_profile_keeps_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    monkeypatch.delenv("CLCORE_CHECKPOINTS", raising=False)
    monkeypatch.setattr(chapter, "_display", lambda *_: None)

    def start(**more):
        values = namespace(profile="paper", **more)
        values["In"][1] += "\njobs = 1\nsize = 'full'"
        return chapter.start("1-minmax", values)

    here = start()
    place = here.checkpoint("a")
    assert place.name == "a.pt" and place.parent.parent == tmp_path / "checkpoints"
    assert place.parent.name.startswith("1-minmax-paper-")
    assert start(jobs=2).checkpoint("a") == place, "more at a time go on with the same runs"
    for other in ({"seed": 1}, {"size": "cpu"}):
        assert start(**other).checkpoint("a") != place
    place.parent.mkdir(parents=True)
    place.write_bytes(b"state")
    monkeypatch.setenv("CLCORE_CHECKPOINTS", str(tmp_path / "mine"))
    other = start()
    assert other.checkpoint("a") == tmp_path / "mine" / "a.pt"
    other.close()
    assert place.exists(), "not its own"
    monkeypatch.delenv("CLCORE_CHECKPOINTS")
    assert start().checkpoint("a") == place and place.exists()
    here.close()
    assert not place.parent.exists(), "kept after it was of use"


def test_first_cell_refuses_what_papermill_would_only_log():
    def started(injected: str, **values):
        given = namespace(**values)
        given["In"] = [*given["In"], f"# Parameters\n{injected}\n"]
        return chapter.start("1-minmax", given)

    with pytest.raises(ParameterError, match="no parameter 'sed'; it takes device, profile, seed"):
        started("sed = 3", sed=3)
    with pytest.raises(ParameterError, match="got 'full'"):
        started('profile = "full"', profile="full")
    both = 'profile = "book"\ndevice = "cpu"\nseed = 3'
    assert started(both, profile="book", seed=3).seed == 3
    with pytest.raises(ParameterError, match="no parameter 'sed'"):
        started(f"{both}\nsed = 3", sed=3)


OWN = """rng = r.Random(1)
name, x = "Ann", 3"""
GRADER = """# Initialize Otter
import otter
grader = otter.Notebook("1-minmax.ipynb")"""


@pytest.mark.parametrize(
    ("before", "between"),
    [
        ([], []),
        ([OWN], []),
        ([], [OWN]),
        ([GRADER, "!pip install x\n%%", "seed = 5"], ["sed = 7"]),
        ([], ["here = chapter.start(...)", "draws = 20", "table = [1]"]),
    ],
)
def test_parameters_are_what_their_cell_assigns(before, between):
    """A reader's, a grader's and a host's names are none, before or after; again and again."""
    others = {"rng": object(), "name": "Ann", "x": 3, "grader": object(), "command": ["pip"]}
    given = namespace(**others, sed=7, here=object(), draws=20, table=[1])
    given["In"] = ["", *before, *given["In"], *between]
    for _ in range(3):
        here = chapter.start("1-minmax", given)
        assert here.parameters == {"profile": "smoke", "device": "cpu", "seed": 0}
        given["In"] = [*given["In"], "here = chapter.start('1-minmax', globals())"]
    given["seed"] = 4  # in a cell of the reader's own
    assert chapter.start("1-minmax", given).seed == 4


def test_the_parameters_cell_may_be_edited_and_run_again():
    given = namespace(profile="book", width=2)
    given["In"] = [*given["In"], "here = 1", given["In"][1] + "\nwidth = 1"]
    assert chapter.start("1-minmax", given).parameters["width"] == 2
    given["In"].append(given["In"][1] + "\nwidth = len('ab')")
    with pytest.raises(ParameterError, match=r"sets width to .len\("):
        chapter.start("1-minmax", given)


def test_first_cell_wants_the_parameters_cell():
    with pytest.raises(ParameterError, match="run the parameters cell first"):
        chapter.start("1-minmax", {"In": ["", "import torch", "profile = 1", "here = start()"]})


def test_json_without_nan():
    value = {"a": [float("inf"), 1.0], "b": float("nan")}
    encoded = chapter.encode(value)
    assert json.loads(json.dumps(encoded, allow_nan=False)) == {"a": ["inf", 1.0], "b": "nan"}
    assert float(encoded["a"][0]) == float("inf")
