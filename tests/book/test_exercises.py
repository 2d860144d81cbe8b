"""Exercises that check themselves: right answers pass in the smoke build, others are refused."""

import ast

import pytest

from clcore import _paths
from clcore.book import build, exercises, keys, solutions
from clcore.book.exercises import judge, text

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
        with pytest.raises(exercises.NotYet, match=name):
            exercises.check(name, answer)


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
