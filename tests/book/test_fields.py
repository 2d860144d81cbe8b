"""Number fields: what the pages need of the judges is as the judges have it, and tells nothing."""

import ast
import hashlib
import math
import re
import struct

import numpy as np
import pytest
import torch
from scipy import stats
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from clcore import _paths
from clcore._files import read_notebook
from clcore.book import build, exercises, solutions
from clcore.book.exercises import mistakes
from clcore.book.exercises.judge import NEAR
from clcore.book.site import fields
from clcore.book.site.fields.probes import PROBES
from clcore.theory.operator import covariance_operator

IDS = [
    name
    for chapter in build.chapters()
    for name in exercises.ids(_paths.root() / "chapters" / f"{chapter}.ipynb")
]

SOLUTIONS = [
    block
    for chapter in build.chapters()
    for block in solutions.code(
        read_notebook(_paths.root() / "chapters" / f"{chapter}.ipynb")["cells"]
    )
]


def opened(name, sealed, bucket):
    """The number that a bucket hides; None where it is not a bucket of the exercise."""
    digest = hashlib.sha256(f"{name} {bucket}".encode()).digest()
    for one in map(bytes.fromhex, sealed):
        if one[:8] == digest[:8]:
            shown = bytes(a ^ b for a, b in zip(one[8:], digest[8:16], strict=True))
            return struct.unpack(">d", shown)[0]
    return None


def test_an_exercise_has_a_field_where_it_asks_for_a_number_or_has_a_probe():
    asked = [name for name in IDS if exercises.known(name).truth]
    assert sorted(fields.read()["exercises"]) == sorted([*asked, *PROBES]) and len(asked) >= 13
    assert {name: f.get("at") for name, f in fields.read()["exercises"].items()} == {
        **dict.fromkeys(asked),
        **{name: probe.at for name, probe in PROBES.items()},
    }


@pytest.mark.parametrize("name", list(fields.read()["exercises"]))
def test_fields_are_as_the_judges_have_them(name):
    """To write them anew: python -m clcore.book.site.fields."""
    judge, kept = exercises.known(name), fields.read()["exercises"][name]
    probe = PROBES.get(name)
    truth, within = (probe.value, probe.within) if probe else (judge.truth(), judge.bound)
    assert kept["within"] == within
    near = max(within, NEAR) if within else 0
    for number in truth * (1 + near * np.linspace(-1, 1, 201)):
        found = opened(name, kept["sealed"], fields._bucket(number))
        assert found == pytest.approx(truth, rel=1e-9), number
    assert len(kept["sealed"]) <= 12  # the field is not open to whoever types anything
    assert opened(name, kept["sealed"], fields._bucket(1.5 * truth)) is None
    page = fields.field(name)
    printed = f"{truth:.3g}"
    assert struct.pack(">d", truth).hex() not in page
    assert "." not in printed or printed not in page  # a digest has any two digits


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_is_what_the_printed_solution_returns_and_no_usual_mistake(name):
    (code,) = (c for c in SOLUTIONS if f'check("{name}"' in c)
    parts = [p for p in ast.parse(code).body if getattr(p, "name", "") == "answer"]
    space = {"np": np, "torch": torch, "co": covariance_operator, "math": math, "stats": stats}
    exec(compile(ast.Module(parts, []), name, "exec"), space)
    probe = PROBES[name]
    given = [torch.tensor(g).double() if isinstance(g, list) else g for g in probe.given]
    assert float(space["answer"](*given)) == pytest.approx(probe.value, rel=1e-6)
    for wrong in filter(callable, exercises.known(name).wrong):
        off = abs(float(wrong(*given)) / probe.value - 1)
        assert off > probe.within, "choose another argument"


def test_the_usual_mistakes_are_those_of_the_judges():
    assert fields.read()["usual"] == [list(one) for one in mistakes.NUMBERS]
    script = (_paths.root() / "book" / "_static" / "fields.js").read_text(encoding="utf-8")
    table = re.search(r"OPERATIONS = \{(.*?)\n  \};", script, re.DOTALL)
    assert table and re.findall(r"^    (\w+):", table[1], re.M) == list(mistakes._OPERATIONS)


@pytest.mark.parametrize("truth", [5.25, -5.25, 0.0995, 1.0, 10.0, 99.9, 1e-7, 3e5, 22])
@pytest.mark.parametrize("within", [0, 0.01, 0.05])
def test_each_number_that_is_near_enough_is_in_a_bucket(truth, within):
    made = fields.sealed("ex-any", truth, within)
    for number in truth * (1 + within * np.linspace(-1, 1, 501)):
        assert opened("ex-any", made, fields._bucket(number)) == truth


def test_zero_is_refused_as_no_number_is_a_share_of_it_off():
    with pytest.raises(ValueError, match="ex-any: expected a right number other than 0"):
        fields.sealed("ex-any", 0.0, 0.01)


def test_a_browser_may_round_what_stands_in_the_middle_up():
    made = fields.sealed("ex-any", 5.25, 0)
    assert opened("ex-any", made, "5.2e+0") == opened("ex-any", made, "5.3e+0") == 5.25


def test_an_exercise_that_asks_for_a_function_has_no_field():
    with pytest.raises(KeyError):
        fields.field("ex-start-2")


def test_a_field_is_the_last_thing_in_the_box_of_its_exercise(tmp_path):
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser', 'sphinx_exercise', 'clcore.book.site.fields']\n"
    )
    box = "````{{exercise}} Title\n:label: {}\nA question.\n```python\ncheck()\n```\n````\n\n"
    text = "# Page\n\n" + box.format("ex-start-1") + box.format("ex-start-2")
    (tmp_path / "index.md").write_text(text + "```{solution} ex-start-1\nAn answer.\n```\n")
    with docutils_namespace():
        Sphinx(
            tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees", "html",
            status=None, warningiserror=True,
        ).build()  # fmt: skip
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count('<form class="cl-field"') == 1
    _, first, second = page.split('<div class="exercise')
    assert first.index("highlight") < first.index('data-exercise="ex-start-1"')
    assert 'id="ex-start-2"' in second and "An answer." in second
