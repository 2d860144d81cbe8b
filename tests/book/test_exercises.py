"""Exercises that check themselves: right answers pass in the smoke build, others are refused."""

import ast
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sympy
import torch

from clcore import _paths
from clcore.book import build, exercises, keys, solutions
from clcore.book.exercises import judge, mistakes, text
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_check_stands_below_each_question(path):
    for one in text._EXERCISE.finditer(text._markdown(path)):
        assert one["body"].endswith(f'```python\nexercises.check("{one["id"]}", answer)\n```\n')


@pytest.mark.parametrize("name", IDS)
def test_wrong_answers_are_refused(name, monkeypatch):
    monkeypatch.setattr(mistakes, "_PATIENCE", -1.0)  # what is wrong with them is not asked here
    found = exercises.known(name)
    never = (math.nan, lambda *given: math.nan, lambda *given: math.inf)
    for answer in (None, ..., *found.wrong, *never, object(), "no"):
        with pytest.raises(exercises.NotYet, match=re.escape(exercises.title(name))) as caught:
            exercises.check(name, answer, quiet=True)
        assert "NameError" not in str(caught.value)  # which would refuse right ones, too


def softmax(s, tau):
    return (torch.softmax(s / tau, 1) - torch.eye(len(s))) / (len(s) * tau)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("ex-start-1", -math.log(256), "it has the opposite sign"),
        ("ex-start-1", 2 * math.log(256), "it is twice the right value"),
        ("ex-start-1", math.log2(256), "it has the logarithm to base 2"),
        ("ex-start-3", lambda s, tau: -softmax(s, tau), "it has the opposite sign"),
        ("ex-start-3", lambda s, tau: softmax(s, tau).T, "it is transposed"),
        ("ex-start-3", lambda s, tau: len(s) * softmax(s, tau), "it is a sum where the mean"),
        ("ex-start-3", lambda s, tau: softmax(s, tau) / len(s), "it is a mean where the sum"),
        (
            "ex-start-3",
            lambda s, tau: tau * softmax(s, tau),
            "it must be divided by the first number that the function is given",
        ),
        ("ex-minmax-6", (torch.zeros(2, 3, 3), torch.ones(2, 3, 3)), "not right; it asks for two"),
        ("ex-tree-2", 8, "not right; it asks for the smallest number"),
    ],
)
def test_a_usual_mistake_is_named(name, answer, words):
    assert words in exercises.verdict(name, answer).told


def test_single_precision_is_told_from_a_mistake():
    def answer(z, z2, tau):
        d = (z[:, None] - z[None]).square().sum(-1) / 2
        own = (z - z2).square().sum(-1) / 2
        off = ~torch.eye(len(z), dtype=torch.bool)
        loss = tau * torch.where(off, ((own[:, None] - d) / tau).exp(), 0.0).sum(1).log().sum()
        (slope,) = torch.autograd.grad(-2 * loss, z)
        return slope

    def single(z, z2, tau):
        return answer(z.float().requires_grad_(), z2.float(), tau)

    assert exercises.verdict("ex-minmax-2", lambda z, *a: answer(z.requires_grad_(), *a)).right
    assert "compute in double precision" in exercises.verdict("ex-minmax-2", single).told


def test_the_count_names_what_is_wrong_and_what_is_empty(capsys, monkeypatch):
    monkeypatch.setattr(judge, "_SEEN", {})
    exercises.check("ex-start-1", 5.55)
    with pytest.raises(exercises.NotYet):
        exercises.check("ex-start-4", 0.8)
    exercises.check("ex-start-2", ...)
    capsys.readouterr()
    exercises.score("0-start-here")
    assert capsys.readouterr().out == (
        "1 of 4 right.\nNot right yet: Exercise 0.4.\n"
        "Without an answer: Exercise 0.2, Exercise 0.3.\n"
    )


def test_an_unknown_exercise_is_named_with_near_ones():
    with pytest.raises(exercises.ExerciseError, match=r"'ex-start-9'; did you mean ex-start-"):
        exercises.check("ex-start-9", 1)


def test_what_came_is_said_with_a_hint():
    with pytest.raises(exercises.NotYet, match=r"one number, got the shape \(2,\).* Hint:"):
        exercises.check("ex-start-1", [1.0, 2.0])
    with pytest.raises(exercises.NotYet, match="expected a function, got int"):
        exercises.check("ex-start-2", 3)
    with pytest.raises(exercises.NotYet, match=r"Exercise 0\.1: off by 100 per cent"):
        exercises.check("ex-start-1", 0)
    with pytest.raises(exercises.NotYet, match="expected finite numbers, got NaN"):
        exercises.check("ex-start-1", float("nan"))
    with pytest.raises(exercises.NotYet, match=r"could not be judged \(ZeroDivisionError"):
        exercises.check("ex-start-2", lambda z: 1 / 0)


@pytest.mark.parametrize("number", [0.96, 0.98, 1.02, 1.04])
def test_what_is_near_is_told_so_and_is_no_usual_mistake(number):
    """The right number is 1, of which a square is near, too."""
    told = exercises.verdict("ex-minmax-1", number).told
    off = round(100 * abs(number - 1))
    assert told == f"Exercise 1.1.1: near, but off by {off} per cent (allowed: 1)."


def test_a_matrix_in_single_precision_is_told_apart_from_a_wrong_one():
    rows = [[1.0, 0.0], [0.0, 0.6], [0.0, 0.8]]
    exercises.check("ex-landscape-1", torch.tensor(rows, dtype=torch.float64), quiet=True)
    with pytest.raises(exercises.NotYet, match="off by rounding: compute in double precision"):
        exercises.check("ex-landscape-1", torch.tensor(rows))


def test_a_right_answer_is_said_unless_a_grader_asks(capsys):
    exercises.check("ex-start-2", lambda z: 1 - z.mean(0).norm())
    assert capsys.readouterr().out.startswith("Exercise 0.2: right.")
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
    with pytest.raises(exercises.NotYet, match=r"near, but off by 2 per cent \(allowed: 1\)"):
        exercises.check("ex-start-1", kind(math.log(256) * 1.02))


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
        with pytest.raises(exercises.NotYet, match="off by 130 per cent"):
            exercises.check("ex-start-4", 0.8)
        assert not torch.is_grad_enabled()


def test_checks_differentiate_where_a_notebook_has_gradients_off():
    seen = []
    with torch.no_grad():
        Ledger("off").run([lambda draws, seed: seen.append(torch.is_grad_enabled()) or ()], 1, 0)
        assert seen == [True] and not torch.is_grad_enabled()
