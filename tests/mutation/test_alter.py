"""Changes of formulas: which there are, and that each is one change and no more."""

import ast
import random
import subprocess
import sys

import alter
import pytest
import sampling

from clcore import _paths

ROOT = _paths.root()


def made(body, judge=False):
    """(old, new) of every mutant of a function with this body."""
    source = "def f(x, y, n):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return {(m.old, m.new) for m in alter.mutants("clcore/made.py", source, judge)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x + y", {"x - y", "x", "y"}),
        ("return x - y", {"x + y", "x", "-y"}),
        ("return x * y", {"x / y", "x", "y"}),
        ("return x / y", {"x * y", "x"}),
        ("return -x", {"x"}),
        ("return x @ y", {"y @ x"}),
        ("return x ** n", {"x"}),
        ("return x < y", {"x <= y", "x > y"}),
        ("return x == y", {"x != y"}),
        ("return x and y", {"x or y", "x", "y"}),
        ("return x & y", {"x | y", "x", "y"}),
        ("return ~x", {"x"}),
        ("return x if n else y", {"y if n else x"}),
        ("return x.mT", {"x"}),
        ("return x.detach()", {"x"}),
        ("return x.sum()", {"x.mean()"}),
        ("return torch.relu(x)", {"x"}),
        ("return torch.where(n, x, y)", {"torch.where(n, y, x)"}),
        ("return max(x, y)", {"min(x, y)"}),
        ("return x[0]", {"x[1]"}),
        ("return x[-1]", {"x[-2]"}),
        ("return x[1:]", {"x[:]"}),
        ("return x.norm(dim=-1)", {"x.norm(dim=-2)"}),
        ("return x.softmax(-1)", {"x.softmax(-2)"}),
        ("x += y", {"x -= y", "pass"}),
        ("return [a for a in x if a]", {"[a for a in x]"}),
        ("return 3", {"6"}),
        ("return True", {"False"}),
    ],
)
def test_what_becomes_of_a_formula(body, expected):
    assert {new for _, new in made(body)} == expected


@pytest.mark.parametrize(
    "body",
    [
        '"""A text, 1 + 2."""',
        'raise ValueError(f"{x + y}")',
        "if x < y:\n    raise ValueError",
        "z: 1 + 2",
        'print(f"{x + y:.2f}")',
        "import torch",
        "assert x < y",
        "require(x)",
        'return ("a", "b")',
    ],
)
def test_what_is_no_mathematics_stays(body):
    assert made(body) == set()


def test_defaults_and_what_stands_outside_functions_stay():
    source = "A = 1 + 2\n\n\ndef f(x=1 + 2) -> 3 * 4:\n    return x\n\n\nclass B:\n    c = 1 + 2\n"
    assert list(alter.mutants("clcore/made.py", source)) == []


def test_of_the_judge_refusals_and_orders_are_changed_too():
    assert {new for _, new in made("if x < y:\n    raise ValueError", judge=True)} >= {
        "if False:\n    raise ValueError",
        "x <= y",
    }
    assert {new for _, new in made("require(x)", judge=True)} == {"pass"}
    assert {new for _, new in made('return ("a", "b")', judge=True)} == {
        "('b', 'a')",
        "('a',)",
        "('b',)",
    }
    assert ("('a', 'b')", "('b', 'a')") not in made('return x in ("a", "b")', judge=True)
    (order,) = (
        m for m in alter.mutants("m.py", 'A = ("a", "b")\n', judge=True) if m.kind == "order"
    )
    assert order.where == "" and order.source('A = ("a", "b")\n') == "A = ('b', 'a')\n"


def test_a_change_keeps_every_other_byte_and_what_binds_it():
    source = "def f(x, y):\n    # φ stays\n    return 2 * (x + y)  # and this\n"
    found = {m.new: m.source(source) for m in alter.mutants("m.py", source)}
    assert found["x - y"] == source.replace("x + y", "x - y")
    source = "def f(x, y):\n    return x.log() / y ** 2\n"
    made = next(m for m in alter.mutants("m.py", source) if m.old == "y ** 2")
    assert made.source(source) == source.replace("y ** 2", "y")
    source = "def f(x, y):\n    return (x + y) ** 2\n"
    made = next(m for m in alter.mutants("m.py", source) if m.new == "x - y")
    assert made.source(source) == source.replace("+", "-")
    source = "def f(x, y):\n    return (x if y else -x) * y\n"
    made = next(m for m in alter.mutants("m.py", source) if m.kind == "gate")
    assert ast.unparse(ast.parse(made.source(source))).endswith("(-x if y else x) * y")


def test_same_changes_in_one_function_are_numbered():
    source = "def f(x, y):\n    a = x + y\n    a = x + y\n    return a * (x + y) * (x + y)\n"
    found = [m for m in alter.mutants("m.py", source) if m.new == "x - y"]
    assert [(m.nth, m.line) for m in found] == [(1, 2), (2, 3), (1, 4), (2, 4)]
    assert len({m.name for m in found}) == 4
    assert [m.source(source).splitlines()[m.line - 1].strip() for m in found] == [
        "a = x - y",
        "a = x - y",
        "return a * (x - y) * (x + y)",
        "return a * (x + y) * (x - y)",
    ]


def test_a_mutant_is_named_by_its_statement_and_a_block_by_its_head():
    source = "def f(x):\n    while (x\n           > 0):\n        x -= 1\n    return x\n"
    found = {m.old: m.name for m in alter.mutants("m.py", source) if m.new in ("x < 0", "pass")}
    assert found == {
        "x > 0": ("m.py", "f", "while x > 0:", "x > 0", "x < 0", 1),
        "x -= 1": ("m.py", "f", "x -= 1", "x -= 1", "pass", 1),
    }


@pytest.mark.parametrize("name", ["losses/anchors.py", "ledger/verdicts.py"])
def test_every_mutant_of_a_real_module_is_another_program_with_a_name_of_its_own(name):
    path = ROOT / "clcore" / name
    source, every = path.read_text(), sampling.of_file(ROOT, path)
    assert len({m.name for m in every}) == len(every) > 20
    before = ast.dump(ast.parse(source))
    # Of some statements there is no such text; sampling passes them over.
    for mutant in random.Random(2).sample(every, 20):
        assert ast.dump(ast.parse(mutant.source(source))) != before
        assert mutant.first <= mutant.line <= mutant.last
        assert ast.unparse(ast.parse(source)).count(mutant.old) or mutant.kind == "refusal"


def test_a_sample_is_the_same_for_a_seed_and_takes_modules_in_turn():
    paths = sampling.files(ROOT, ["losses/anchors.py", "losses/pairs.py", "theory/relu"])
    assert [p.name for p in paths][:2] == ["anchors.py", "pairs.py"] and len(paths) == 5

    def drawn(size, seed):
        return [m.name for m, _ in sampling.sample(ROOT, paths, size, seed)]

    first = drawn(10, 1)
    assert first == drawn(10, 1) == drawn(12, 1)[:10] != drawn(10, 2)
    assert [name[0] for name in first] == 2 * [p.relative_to(ROOT).as_posix() for p in paths]
    every = drawn(0, 1)
    assert len(every) == len(set(every)) > 300
    halves = [{m.name for m, _ in sampling.sample(ROOT, paths, 0, 1, h)} for h in sampling.HALVES]
    assert halves[0] | halves[1] == set(every) and not halves[0] & halves[1]
    assert 0.4 < len(halves[0]) / len(every) < 0.6


def test_a_statement_is_drawn_once_before_any_is_drawn_twice():
    path = ROOT / "clcore" / "losses" / "anchors.py"
    every = [(m.where, m.first, m.last) for m, _ in sampling.drawn(ROOT, path, 0)]
    statements = len(set(every))
    assert len(set(every[:statements])) == statements < len(every)


def test_an_unknown_module_is_named():
    with pytest.raises(ValueError, match="file or folder of clcore, such as losses, got 'los'"):
        sampling.files(ROOT, ["losses", "los"])
    assert sampling.files(ROOT, sampling.MATHEMATICS)


def test_the_command_says_what_is_wrong_with_its_arguments():
    command = [sys.executable, str(ROOT / "tests" / "mutation"), "--modules", "los"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1 and "got 'los'" in ended.stderr
    assert "Traceback" not in ended.stderr
