"""The two sides on real code: a check of the ledger, and a file of tests. `test_sides` runs these
tests, in a process of their own."""

from dataclasses import replace

import checks_side
import forking
import pytest
import tests_side
import units

from clcore import _paths
from clcore.grid import work
from clcore.ledger import registry

ROOT = _paths.root()
TAIL = ROOT / "clcore" / "theory" / "trees" / "gaussian_tail.py"
VERDICTS = ROOT / "clcore" / "ledger" / "verdicts.py"


def child(work, job):
    (found,) = forking.each([job], work, 1)
    return found


def measured(side, unit):
    found = child(side.measure, unit)
    assert found.ended == "done", found.told
    told = found.told[-1]
    lines = {path: frozenset(seen) for path, seen in told["lines"].items()}
    return units.Measured(unit, lines, told["seconds"], told["found"])


def planted(path, old, new):
    source = path.read_text()
    assert source.count(old) == 1
    line = source[: source.index(old)].count("\n") + 1
    return source.replace(old, new), (line, line)


@pytest.fixture(scope="module")
def check():
    """The check of ddn/eq121, in 7 draws."""
    (unit,) = (u for u in checks_side.of_repository(7) if u.about["function"] == "eq121")
    assert TAIL in unit.needs and registry.of("ddn/eq121")[0].module in unit.name
    checks_side.warm()
    return measured(checks_side, unit)


def attack(side, one, path, source, lines=(1, 1)):
    found = child(side.attack, (path, source, [one], lines))
    assert found.ended == "done", found.told
    assert found.told[0]["at"]
    return found.told[-1]


def test_a_check_is_measured_with_the_lines_that_it_executes(check):
    name = TAIL.relative_to(ROOT).as_posix()
    (in_r_hat, in_bounds) = (
        planted(TAIL, old, "")[1]
        for old in ("left = mills(one)", "return 2 / ((y**2 + 4).sqrt() + y), 4 /")
    )
    assert check.executes(name, *in_r_hat) and not check.executes(name, *in_bounds)
    assert not check.executes("clcore/losses/pairs.py", 1, 10**4)
    assert check.found["verdicts"] == {"ddn/eq121": "corrected"}


def test_unmutated_a_check_survives_and_nothing_moves(check):
    assert attack(checks_side, check, TAIL, TAIL.read_text()) == {"survived": 1}


@pytest.mark.parametrize(
    ("old", "new", "how", "why"),
    [
        ("left = mills(one)", "left = 2 * mills(one)", "judgement", "cannot be false"),
        ("return math.sqrt(math", "return math.sqrt(-math", "crash", "ValueError"),
    ],
)
def test_a_check_kills_by_judgement_or_by_a_crash(check, old, new, how, why):
    told = attack(checks_side, check, TAIL, planted(TAIL, old, new)[0])
    assert told["by"] == check.unit.name and told["how"] == how and why in told["why"]


def test_the_first_that_notices_is_the_answer(check):
    other = replace(check, unit=replace(check.unit, name="other", about={}))
    for order, by in (([other, check], "other"), ([check, other], check.unit.name)):
        job = (TAIL, planted(TAIL, "left = mills(one)", "left = 2 * mills(one)")[0], order, (1, 1))
        told = child(checks_side.attack, job).told
        assert [t.get("by") for t in told] == [None, by] and told[0] == {"at": by}


def test_a_check_that_hangs_is_ended(check, monkeypatch):
    monkeypatch.setattr(checks_side, "FLOOR", 0.5)
    source, _ = planted(TAIL, "in range(80, 1, -1)", "in iter(int, 1)")
    found = child(checks_side.attack, (TAIL, source, [check], (1, 1)))
    assert found.ended == "hang" and found.told == [{"at": check.unit.name}]


def test_a_file_of_tests_kills_by_judgement_and_survives_unmutated():
    key = {"file": "tests/ledger/test_verdicts.py"}
    unit = units.Unit(key["file"], "key", key, frozenset([VERDICTS]))
    one = measured(tests_side, unit)
    assert one.found["failed"] == [] and len(one.found["lines"]) > 20
    told = attack(tests_side, one, VERDICTS, VERDICTS.read_text())
    assert told["survived"] == len(one.found["lines"])
    source, lines = planted(VERDICTS, 'record["part"], []', 'record["gone"], []')
    assert attack(tests_side, one, VERDICTS, source, lines)["how"] == "crash"
    source, lines = planted(VERDICTS, 'failed == {"partial"}', 'failed != {"partial"}')
    told = attack(tests_side, one, VERDICTS, source, lines)
    assert told["how"] == "judgement" and told["by"].startswith("tests/ledger/test_verdicts.py::")


def test_a_grid_that_takes_no_result_of_other_code_kills_nothing(tmp_path):
    told = work.different({"code": "b2"}, {"code": "a1"})
    made = tmp_path / "test_made.py"
    made.write_text(f"def test_grid():\n    raise ValueError('versions: {told} (a file)')\n")
    unit = units.Unit(str(made), "key", {"file": str(made)}, frozenset([VERDICTS]))
    one = units.Measured(unit, {}, 1.0, {"failed": [], "seconds": {}, "lines": {}})
    assert attack(tests_side, one, VERDICTS, VERDICTS.read_text()) == {"survived": 1}
    made.write_text("def test_grid():\n    raise ValueError('code is asked for')\n")
    assert attack(tests_side, one, VERDICTS, VERDICTS.read_text())["how"] == "crash"
