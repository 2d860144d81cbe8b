"""Marks: what a notebook replaces, imports or never ends changes none of the others."""

import csv
import math

import nbformat
import numpy as np
import pytest
import torch

from clcore import _paths
from clcore.book import exercises
from clcore.book.course import notebooks
from clcore.book.exercises import judge, variants
from clcore.book.grading import folder, wire
from clcore.book.grading.folder import COLUMNS, grade_folder
from clcore.book.grading.mark import Limits, grade, variable

START = '# chapter.start("0-start-here")'
RIGHT_2 = "def answer_start_2(z):\n    return 1 - z.mean(0).norm()"
RIGHT_3 = """\
import torch

def answer_start_3(s, tau):
    return (torch.softmax(s / tau, 1) - torch.eye(len(s))) / (len(s) * tau)"""

STUBBORN = "while True:\n try:\n  while True: pass\n except BaseException: pass"


def handed_in(path, *sources, first=START):
    cells = [nbformat.v4.new_code_cell(source) for source in (first, *sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def rights(graded):
    return [mark.right for mark in graded.marks.values()]


def test_answers_are_judged_in_whatever_order_and_under_whatever_file_name(tmp_path):
    path = handed_in(
        tmp_path / "ann.ipynb",
        RIGHT_3,
        "answer_start_1 = 5.55",  # as the solution prints it
        "raise KeyError('mine')",
        "answer_start_4 = 0.8",
        RIGHT_2,
    )
    graded = grade(path)
    assert graded.chapter == "0-start-here" and rights(graded) == [True, True, True, False]
    assert graded.points == 3 and graded.minutes > 0
    told = graded.messages
    assert "1 of 6 cells failed, the first with KeyError: 'mine' (code cell 4)" in told[0]
    assert told[1].startswith("Exercise 0.4: ")


def test_no_mark_for_a_replaced_check_or_for_what_the_package_knows(tmp_path):
    path = handed_in(
        tmp_path / "b.ipynb",
        "import clcore.book\nfrom clcore.book import exercises\n"
        "exercises.check = clcore.book.exercises.check = lambda *a, **k: None",
        "answer_start_1 = 0\nexercises.check('ex-start-1', answer_start_1)",
        "from clcore.book.exercises import start_here\nanswer_start_4 = start_here.kinder()",
        "import importlib\n"
        "answer_start_3 = importlib.import_module('clcore.book.exercises.start_here').pulls",
        "import builtins, math\nbuiltins.abs = lambda x: 0\nmath.isnan = None\n"
        "class Right(float):\n    __eq__ = __le__ = __sub__ = lambda *a: True\n"
        "def answer_start_2(z): return Right(0.5)",
        "import sys\nsys.modules.pop('clcore.book.exercises')\n"
        "from clcore.book.exercises import start_here\n"
        "answer_start_1, answer_start_4 = start_here.guessing(), start_here.kinder()",
    )
    graded = grade(path)
    assert graded.points == 0
    assert "ImportError: cannot import name 'start_here'" in graded.trouble


def test_a_judge_is_not_read_by_a_path_of_any_kind(tmp_path):
    path = handed_in(
        tmp_path / "b.ipynb",
        "import io, pathlib\nimport clcore.book\n"
        "judge = pathlib.Path(clcore.book.__file__).with_name('exercises') / 'start_here.py'",
        "answer_start_1 = 5.545 if io.FileIO(judge).read() else 0",
    )
    graded = grade(path)
    assert graded.points == 0
    assert "PermissionError: the judges are not for a notebook" in graded.trouble


def test_an_endless_cell_is_interrupted_and_the_next_one_counts(tmp_path):
    path = handed_in(tmp_path / "c.ipynb", "while True:\n    pass", "answer_start_1 = 5.545")
    graded = grade(path, Limits(seconds=2))
    assert rights(graded) == [True, False, False, False]
    assert "CellTimeout: took longer than 2 seconds (code cell 2)" in graded.messages[0]


def test_an_endless_answer_is_interrupted_too(tmp_path):
    path = handed_in(
        tmp_path / "c.ipynb",
        "def answer_start_2(z):\n    while True: pass",
        "answer_start_1 = 5.545",
    )
    graded = grade(path, Limits(seconds=2))
    assert rights(graded) == [True, False, False, False]
    assert "took longer than 2 seconds" in graded.marks["ex-start-2"].told


@pytest.mark.parametrize(
    ("source", "words", "minutes"),
    [
        (STUBBORN, "stopped after", 0.1),
        ("import os\nos._exit(0)", "process ended in code cell 2", 10),
        ("import os\nfor fd in range(3, 20):\n try: os.write(fd, b'no json\\n')\n"
         " except OSError: pass", "wrote to the grader itself", 10),
    ],
)  # fmt: skip
def test_a_notebook_that_ends_its_process_has_a_row(tmp_path, source, words, minutes):
    graded = grade(handed_in(tmp_path / "d.ipynb", source), Limits(minutes, seconds=3600))
    assert words in graded.trouble and graded.points == 0 and len(graded.marks) == 4


def test_memory_is_limited(tmp_path):
    path = handed_in(tmp_path / "e.ipynb", "x = bytearray(2**33)", "answer_start_1 = 5.545")
    graded = grade(path, Limits(mib=2048))
    assert "MemoryError" in graded.trouble and graded.points == 1


def test_a_folder_becomes_a_table_whatever_is_in_it(tmp_path):
    folder = tmp_path / "in"
    (folder / "x" / ".ipynb_checkpoints").mkdir(parents=True)
    handed_in(folder / "x" / ".ipynb_checkpoints" / "copy.ipynb", "answer_start_1 = 5.55")
    handed_in(folder / "x" / "=cmd.ipynb", "answer_start_1 = 5.55")
    (folder / "broken.ipynb").write_text("{", encoding="utf-8")
    handed_in(folder / "other.ipynb", first="x = 1")
    said = []
    grade_folder(folder, tmp_path / "grades.csv", jobs=2, told=said.append)
    rows = list(csv.DictReader((tmp_path / "grades.csv").read_text(encoding="utf-8").splitlines()))
    assert tuple(rows[0]) == COLUMNS and len(rows) == len(said) == 3
    by = {row["notebook"]: row for row in rows}
    assert by["x/=cmd.ipynb"]["points"] == "1" and by["x/=cmd.ipynb"]["of"] == "4"
    assert by["broken.ipynb"]["messages"].startswith("not graded: ")
    assert 'with a cell `chapter.start("...")`' in by["other.ipynb"]["messages"]
    with pytest.raises(FileNotFoundError, match="expected notebooks"):
        grade_folder(tmp_path / "in" / "x" / ".ipynb_checkpoints" / "no", tmp_path / "g.csv")
    with pytest.raises(FileNotFoundError, match=r"expected .* in .*nowhere, found no such"):
        grade_folder(tmp_path / "nowhere", tmp_path / "g.csv")


def test_a_fault_of_the_grader_has_a_row(tmp_path, monkeypatch):
    def broken(path, limits, key):
        raise ImportError("no judge")

    monkeypatch.setattr(folder, "grade", broken)
    handed_in(tmp_path / "a.ipynb", "answer_start_1 = 5.55")
    (row,) = grade_folder(tmp_path, tmp_path / "g.csv", told=lambda line: None)
    assert row.messages == ["not graded, by a fault of the grader: ImportError: no judge"]


def test_a_cell_that_a_spreadsheet_would_run_is_text(tmp_path):
    handed_in(tmp_path / "=cmd.ipynb", first="x = 1")
    grade_folder(tmp_path, tmp_path / "g.csv", told=lambda line: None)
    assert "\n'=cmd.ipynb," in (tmp_path / "g.csv").read_text(encoding="utf-8")


def test_a_key_gives_other_numbers_to_question_and_judge(tmp_path):
    path = _paths.root() / "chapters" / "0-start-here.ipynb"
    N = variants.constants(exercises.known("ex-start-1"), "k")["N"]
    assert N != 256
    asked = {c.id: c.source for c in notebooks.assignment(path, "student", "k").cells}
    assert f"$N={N}$" in asked["ex-start-1"] and "$N=256$" not in asked["ex-start-1"]
    assert "exercises.check" not in asked["ex-start-1-answer"]
    printed = handed_in(tmp_path / "p.ipynb", f"answer_start_1 = {math.log(256)}")
    own = handed_in(tmp_path / "o.ipynb", f"answer_start_1 = {math.log(N)}")
    assert [grade(p, key="k").points for p in (printed, own)] == [0, 1]
    assert [exercises.verdict("ex-start-1", math.log(x)).right for x in (256, N)] == [True, False]


def test_a_table_of_what_the_printed_judges_draw_is_no_answer_under_a_key():
    kept = {}

    def solves(s, tau):
        slope = (torch.softmax(s / tau, 1) - torch.eye(len(s))) / (len(s) * tau)
        return kept.setdefault((s.numpy().tobytes(), tau), slope)

    def looks_up(s, tau):
        return kept.get((s.numpy().tobytes(), tau), torch.zeros_like(s))

    assert exercises.verdict("ex-start-3", solves).right
    assert exercises.verdict("ex-start-3", looks_up).right
    assert not exercises.verdict("ex-start-3", looks_up, "k").right
    assert exercises.verdict("ex-start-3", solves, "k").right
    assert judge.keyed(3) == 3  # the key is gone with the verdict


VARIED = [name for name in judge._modules() if exercises.known(name).varies]


@pytest.mark.parametrize("name", VARIED)
def test_each_constant_is_printed_once_and_changes_the_answer(name):
    found = exercises.known(name)
    (chapter,) = (
        p for p in (_paths.root() / "chapters").glob("*.ipynb") if name in exercises.ids(p)
    )
    for key in ("a", "b", "c"):
        cells = {c.id: c.source for c in notebooks.assignment(chapter, "student", key).cells}
        for parameter, value in variants.constants(found, key).items():
            printed, choices = found.varies[parameter]
            assert variants._NUMBER.sub(str(value), printed) in cells[name]
            assert value in choices
    public = found.truth()
    for parameter, (_, choices) in found.varies.items():
        for value in choices:
            truth = found.truth(**{parameter: value})
            assert abs(public / truth - 1) > 2 * found.bound, (parameter, value)


@pytest.mark.parametrize(
    "value",
    [
        None, True, ..., 3, -(2**70), 0.1, math.inf, "text", [1, (2.0, "x")],
        torch.arange(6.0).reshape(2, 3).T, torch.tensor(2, dtype=torch.int64), torch.zeros(0, 3),
        torch.tensor([1 + 2j]), torch.tensor(1.5, dtype=torch.bfloat16),
    ],
)  # fmt: skip
def test_values_survive_the_wire(value):
    there = wire.unpack(wire.pack(value))
    assert type(there) is type(value)
    if isinstance(value, torch.Tensor):
        assert there.dtype == value.dtype and torch.equal(there, value)
    else:
        assert there == value


def test_numbers_of_other_libraries_become_tensors_and_objects_are_refused():
    from fractions import Fraction

    assert wire.unpack(wire.pack(Fraction(1, 4))) == 0.25
    assert wire.unpack(wire.pack(np.float32(0.5))) == 0.5
    for value in (object(), {"a": 1}, {1}):
        with pytest.raises(wire.WireError, match="expected numbers, text, a list or a function"):
            wire.pack(value)
    for message in ({"tensor": "!", "dtype": "float64", "shape": [1]}, {"function": 0}, {"x": 1},
                    {"tensor": "", "dtype": "load", "shape": []}):  # fmt: skip
        with pytest.raises(wire.WireError):
            wire.unpack(message)


def test_functions_are_asked_where_they_are():
    functions = []
    packed = wire.pack((lambda x: 2 * x,), functions)
    (there,) = wire.unpack(packed, lambda place: functions[place])
    assert there(4) == 8
    assert variable("ex-dynamics-linear-2") == "answer_dynamics_linear_2"
