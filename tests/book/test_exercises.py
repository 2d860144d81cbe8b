"""Exercises that check themselves: right answers pass in the smoke build, others are refused."""

import ast
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sympy
import torch

from clcore import _paths
from clcore.book import build, exercises, keys, solutions
from clcore.book.exercises import judge, text
from clcore.ledger.recorder import Ledger

NOTEBOOKS = [_paths.root() / "chapters" / f"{name}.ipynb" for name in build.chapters()]
IDS = [name for path in NOTEBOOKS for name in exercises.ids(path)]


def test_every_exercise_is_judged_and_every_judge_has_its_exercise():
    assert len(IDS) == len(set(IDS))
    assert set(IDS) == set(judge._modules())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_an_exercise_says_level_minutes_and_a_hint(path):
    told = exercises.texts(path)
    assert list(told) == exercises.ids(path)
    for one in told.values():
        assert one.title and one.level in (1, 2, 3) and 1 <= one.minutes <= 240 and one.hints


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_solution_ends_with_its_check(path):
    """The smoke build runs them, and a check that fails fails the build."""
    code = "\n".join(solutions.code(keys.json.loads(path.read_text())["cells"]))
    calls = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call)]
    checked = [c.args[0].value for c in calls if ast.unparse(c.func) == "exercises.check"]
    assert sorted(checked) == sorted(exercises.ids(path))


@pytest.mark.parametrize("name", IDS)
def test_wrong_answers_are_refused(name):
    found = exercises.known(name)
    for answer in (None, ..., *found.wrong, object(), "no"):
        with pytest.raises(exercises.NotYet, match=name) as caught:
            exercises.check(name, answer)
        assert "NameError" not in str(caught.value)  # which would refuse right ones, too


def test_an_unknown_exercise_is_named_with_near_ones():
    with pytest.raises(exercises.ExerciseError, match=r"'ex-start-9'; did you mean ex-start-"):
        exercises.check("ex-start-9", 1)


def test_what_came_is_said_with_a_hint():
    with pytest.raises(exercises.NotYet, match=r"one number, got the shape \(2,\).* Hint:"):
        exercises.check("ex-start-1", [1.0, 2.0])
    with pytest.raises(exercises.NotYet, match="expected a function, got int"):
        exercises.check("ex-start-2", 3)
    with pytest.raises(exercises.NotYet, match=r"is off by 5\.55"):
        exercises.check("ex-start-1", 0)
    with pytest.raises(exercises.NotYet, match="is not a number"):
        exercises.check("ex-start-1", float("nan"))
    with pytest.raises(exercises.NotYet, match=r"could not be judged \(ZeroDivisionError"):
        exercises.check("ex-start-2", lambda z: 1 / 0)


def test_a_right_answer_is_said_unless_a_grader_asks(capsys):
    exercises.check("ex-start-2", lambda z: 1 - z.mean(0).norm())
    assert capsys.readouterr().out.startswith("ex-start-2: right (off by ")
    exercises.check("ex-start-2", lambda z: 1 - z.mean(0).norm(), quiet=True)
    assert capsys.readouterr().out == ""


def test_in_a_notebook_there_is_no_traceback():
    assert exercises.NotYet("why")._render_traceback_() == ["Not yet. why"]


def test_a_judge_without_wrong_answers_is_refused():
    with pytest.raises(exercises.ExerciseError, match="wrong answers"):
        exercises.exercise("ex-none", "nothing", bound=1, wrong=())(abs)


def test_hints_need_the_notebooks(monkeypatch, tmp_path):
    assert text.hints("ex-start-1")
    monkeypatch.setattr(text._paths, "root", lambda: tmp_path)
    assert text.hints("ex-start-1") == ()


def test_a_chapter_depends_on_what_judges_it():
    path = next(p for p in NOTEBOOKS if p.stem == "0-start-here")
    files = [f.name for f in keys.closure(keys.sources(path, solved=True))]
    assert "start_here.py" in files and "judge.py" in files


KINDS = {
    "float": float,
    "numpy number": np.float64,
    "array without axes": np.array,
    "array of one": lambda x: np.array([x]),
    "matrix of one": lambda x: np.array([[x]]),
    "list of one": lambda x: [x],
    "list of an array": lambda x: [np.array([x])],
    "tensor of one": lambda x: torch.tensor([x], dtype=torch.float64),
    "tensor with gradient": lambda x: torch.tensor(x, dtype=torch.float64, requires_grad=True),
    "fraction": Fraction,
    "decimal": Decimal,
    "formula": sympy.Float,
    "complex without imaginary part": lambda x: complex(x, 0),
    "column of a table": lambda x: pd.Series([x], index=["loss"]),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@kinds
def test_a_number_is_taken_in_every_kind(kind):
    exercises.check("ex-start-1", kind(math.log(256)), quiet=True)
    with pytest.raises(exercises.NotYet, match=r"is off by 0\.001"):
        exercises.check("ex-start-1", kind(math.log(256) + 1e-3))


@kinds
def test_what_a_function_returns_is_taken_in_every_kind(kind):
    """In judges that ask for numbers one by one, in rows and in pairs."""
    exercises.check("ex-start-2", lambda z: kind(1 - float(z.mean(0).norm())), quiet=True)
    exercises.check("ex-linear-3", lambda v: [kind(float(v[0] - v[1])), kind(float(v[0]))], True)
    assert judge.scalar(kind(0.25)) == 0.25
    assert judge.value([kind(0.5), kind(2.0)], (2,)).tolist() == [0.5, 2.0]


def test_rows_of_tensors_and_arrays():
    rows = [[1.0, 2.0], [3.0, 4.0]]
    for given in (rows, np.array(rows), torch.tensor(rows), tuple(map(torch.tensor, rows))):
        assert judge.value(given, (2, 2)).tolist() == rows
    assert judge.value(torch.ones(3, 1), (3,)).tolist() == [1, 1, 1]
    for wrong, words in (
        ([[1.0], [2.0, 3.0]], "expected numbers, got list"),
        (2 + 1j, "real numbers, got complex"),
        (["1.0"], "expected numbers, got str"),
        (np.array("1.0"), "expected numbers, got ndarray"),
        ({1.0}, "expected numbers, got set"),
        (torch.ones(2, 1), r"one number, got the shape \(2, 1\)"),
    ):
        with pytest.raises(exercises.ExerciseError, match=words):
            judge.value(wrong)


def pulls(s, tau):
    return (torch.softmax(s / tau, 1) - torch.eye(len(s))) / (len(s) * tau)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_judges_differentiate_where_a_notebook_has_gradients_off(off):
    with off():
        exercises.check("ex-start-3", pulls, quiet=True)
        exercises.check("ex-start-4", torch.tensor(0.8 / math.log(10)).double(), quiet=True)
        with pytest.raises(exercises.NotYet, match="is off by"):
            exercises.check("ex-start-4", 0.8)
        assert not torch.is_grad_enabled()


def test_checks_differentiate_where_a_notebook_has_gradients_off():
    seen = []
    with torch.no_grad():
        Ledger("off").run([lambda draws, seed: seen.append(torch.is_grad_enabled()) or ()], 1, 0)
        assert seen == [True] and not torch.is_grad_enabled()
