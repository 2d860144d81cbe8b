"""A run over a made project: what is planted is found, nothing is touched, and it goes on."""

import importlib.util
import os
import signal
import time
from pathlib import Path

import forking
import pytest
import run
import swapped
import units
from results import Results

from clcore import _folders
from clcore._files import sha256
from clcore.book import mutants as record

MADE = '''"""A made module."""


def product(x, y):
    return x * y


def unseen(x):
    return abs(x)


def count(n):
    while n > 0:
        n -= 1
    return n


def unasked(x):
    return -x
'''


class Side:
    """One check of the made module, `x * y` and counting down; it says what it was asked."""

    def __init__(self, root):
        self.root, self.path = root, root / "clcore" / "made.py"
        self.log = root / "asked.txt"

    def module(self):
        found = importlib.util.spec_from_file_location("made", self.path)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module

    def units(self):
        key = units.digest([self.path])
        return {"checks": [units.Unit("made", key, None, frozenset([self.path]))]}

    def warm(self):
        pass

    def check(self):
        made = self.module()
        made.unseen(-2.0)
        return made.product(2, 3) == 6 and made.count(2) == 0

    def measure(self, unit, tell):
        lines = units.Lines(self.root)
        with lines.on():
            found = self.check()
        tell({"lines": lines.told(), "seconds": 0.01, "found": found})

    def attack(self, job, tell):
        path, source, against, _ = job
        with self.log.open("a") as log:
            log.write(f"{sha256(source.encode())}\n")
        swapped.swap(path, source)
        tell({"at": against[0].unit.name})
        forking.allow(0.3)
        try:
            right = self.check()
        except Exception as error:
            tell({"by": "made", "how": "crash", "why": repr(error)})
            return
        if right:
            tell({"survived": 1})
        else:
            tell({"by": "made", "how": "judgement", "why": "6"})

    def asked(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def side(tmp_path, monkeypatch):
    (tmp_path / "data" / "claims").mkdir(parents=True)
    (tmp_path / "clcore").mkdir()
    (tmp_path / "clcore" / "made.py").write_text(MADE)
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "build"))
    made = Side(tmp_path)
    monkeypatch.setattr(run, "SIDES", {"checks": made})
    monkeypatch.setattr(run, "_sides", lambda judge, draws: made.units())
    monkeypatch.setattr(record, "equivalents", dict)
    return made


def start(workers=1):
    return run.command(["made.py"], 0, 0, 7, workers)


def content(root):
    """What the project holds besides what a run writes."""
    written = {"build", "__pycache__"}
    kept = sorted(p for p in root.rglob("*") if p.is_file() and not written & set(p.parts))
    return {str(p): p.read_bytes() for p in kept if p.name != "asked.txt"}


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_planted_is_found_and_nothing_is_touched(side, capsys, workers):
    before = content(side.root)
    base = _folders.begin(_folders.build() / "mutants")
    for name in (f"scratch-{2**30}-x", "scratch-pad"):
        (base / name).mkdir()
        (base / name / "file").touch()
    _folders.mark(base / f"scratch-{2**30}-x")  # of a dead run
    assert start(workers) == 0
    said = capsys.readouterr().out
    assert "'x * y' -> 'x / y': judgement made" in said and "'n > 0' -> 'n >= 0': judgement" in said
    assert "'n -= 1' -> 'n += 1': hang made" in said and "'n -= 1' -> 'pass': hang made" in said
    lines = said.splitlines()
    at = lines.index("survives: clcore/made.py:9 in unseen")
    assert lines[at + 1 : at + 4] == ["    return abs(x)", "    - abs(x)", "    + x"]
    at = lines.index("survives: clcore/made.py:19 in unasked")
    assert lines[at + 2 : at + 4] == ["    - -x", "    + x"]
    assert lines[-1].endswith("0 tests, 0 crashes, 1 unasked")
    assert content(side.root) == before
    assert [path.name for path in base.glob("scratch-*")] == ["scratch-pad"], "it is nobody's run"


def test_a_second_run_asks_nothing_and_says_the_same(side, capsys):
    start()
    first, asked = capsys.readouterr().out, side.asked()
    start()
    second = capsys.readouterr().out
    assert side.asked() == asked and len(set(asked)) == len(asked) > 8
    assert first[first.index("survives:") :] == second[second.index("survives:") :]


def test_a_run_that_was_stopped_goes_on_where_it_was(side, capsys, monkeypatch):
    say, count = run._say, []

    def stop(text):
        say(text)
        count.append("/" in text and "->" in text)
        if sum(count) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "_say", stop)
    with pytest.raises(KeyboardInterrupt):
        start()
    first = side.asked()
    monkeypatch.setattr(run, "_say", say)
    results = side.root / "build" / "mutants" / "results.jsonl"
    kept = results.read_bytes()
    assert kept.count(b'"mutant"') == 3
    results.write_bytes(kept + b'{"mutant": "cut o')  # as by a kill in the middle of a line
    start()
    again = side.asked()[len(first) :]
    whole = {told for lines in Results(results).lines.values() for told in map(str, lines)}
    assert len(whole) == len(set(first + again)) == results.read_bytes().count(b'"outcome"')
    assert len(set(first) & set(again)) <= 1  # the one that was under way


def test_what_changes_is_asked_again_and_what_killed_before_is_not(side, monkeypatch):
    start()
    asked, one = side.asked(), side.units()["checks"][0]
    newer = units.Unit("newer", one.key + "x", None, one.needs)
    monkeypatch.setattr(run, "_sides", lambda judge, draws: {"checks": [one, newer]})
    start()
    again = side.asked()[len(asked) :]
    assert len(again) == 2  # the survivors that were asked about, to the new check alone
    monkeypatch.setattr(run, "_sides", lambda judge, draws: {"checks": [newer]})
    start()
    assert len(side.asked()) == 2 * len(asked)


def test_a_check_that_fails_by_itself_is_left_out_and_said(side, capsys, monkeypatch):
    monkeypatch.setattr(side, "measure", lambda unit, tell: 1 / 0)
    start()
    said = capsys.readouterr().out
    assert "left out, it fails by itself: made" in said and "ZeroDivisionError" in said
    assert side.asked() == []


NAME = ("clcore/made.py", "unseen", "return abs(x)", "abs(x)", "x", 1)


def test_the_tests_are_asked_about_what_no_check_kills(side, capsys, monkeypatch):
    tests = Side(side.root)
    tests.log = side.root / "tests.txt"
    monkeypatch.setattr(tests, "check", lambda: side.module().unseen(-2.0) == 2)
    monkeypatch.setattr(run, "SIDES", {"checks": side, "tests": tests})
    unit = units.Unit("made", "of the tests", None, frozenset([side.path]))
    monkeypatch.setattr(run, "_sides", lambda judge, draws: side.units() | {"tests": [unit]})
    start()
    said = capsys.readouterr().out
    assert "in unseen" not in said and "in unasked" in said and ", 1 tests, 0 crashes" in said
    (killed,) = (m for m in run.sampling.of_file(side.root, side.path) if m.name == NAME)
    source = killed.source(MADE)
    assert sha256(source.encode()) in tests.asked() and len(tests.asked()) == 1


def test_an_equivalent_is_no_survivor(side, capsys, monkeypatch):
    monkeypatch.setattr(record, "equivalents", lambda: {NAME: "nothing is negative"})
    assert start() == 0
    said = capsys.readouterr().out
    assert "in unseen" not in said and "1 equivalent" in said


def test_an_equivalent_that_is_killed_is_an_error(side, capsys, monkeypatch):
    killed = ("clcore/made.py", "product", "return x * y", "x * y", "x / y", 1)
    monkeypatch.setattr(record, "equivalents", lambda: {killed: "symmetric"})
    assert start() == 1
    assert "listed as equivalent, but killed: clcore/made.py:5 'x * y'" in capsys.readouterr().out


def test_an_entry_that_fits_no_statement_is_said_ignored_and_dropped(side, capsys, monkeypatch):
    gone = [
        (*NAME[:2], "return abs(y)", *NAME[3:]),
        (*NAME[:5], 2),
        ("clcore/made.py", "gone", *NAME[2:]),
        ("clcore/gone.py", *NAME[1:]),
    ]
    listed = dict.fromkeys([NAME, *gone], "it is one")
    monkeypatch.setattr(record, "equivalents", lambda: listed)
    assert run.stale(side.root) == set(gone)
    assert start() == 0
    said = capsys.readouterr().out
    assert said.count("fits no statement, ignored") == 4 and "1 equivalent" in said
    dropped = []
    monkeypatch.setattr(record, "drop", dropped.append)
    run.drop_stale()
    assert dropped == [set(gone)] and capsys.readouterr().out.count("taken out") == 4


def test_an_edit_elsewhere_in_a_function_leaves_a_change_its_name(side):
    before = {m.name for m in run.sampling.of_file(side.root, side.path)}
    moved = MADE.replace("    return abs(x)", "    y = x * abs(x)\n    return abs(x)")
    side.path.write_text(moved, encoding="utf-8")
    after = {m.name for m in run.sampling.of_file(side.root, side.path)}
    assert NAME in before < after


def test_the_judge_and_the_rest_are_apart():
    with pytest.raises(ValueError, match="of the ledger, or of the rest of clcore, got both"):
        run.command(["ledger/verdicts.py", "losses/anchors.py"], 1, 0, 7, 1)


def test_a_lot_that_is_recorded_has_nothing_of_what_is_practised_on(side, capsys, monkeypatch):
    kept, drawn = [], []
    asked = run._asked
    monkeypatch.setattr(run.sampling, "MATHEMATICS", ["made.py"])
    monkeypatch.setattr(record, "keep", kept.append)
    monkeypatch.setattr(record, "lots", lambda: [{"seed": 7, "modules": ["mathematics"]}])
    monkeypatch.setattr(
        run, "_asked", lambda chosen, *rest: drawn.append(chosen) or asked(chosen, *rest)
    )
    run.command(None, 0, 8, 7, 1, keep=True)
    run.command(None, 0, 8, 7, 1, practice=True)
    held, practised = ({m.name for m, _ in chosen} for chosen in drawn)
    every = {m.name for m in run.sampling.of_file(side.root, side.path)}
    assert held and practised and held | practised == every and not held & practised
    (lot,) = kept
    assert lot["mutants"] == len(held) == lot["checks"] + len(lot["survivors"])
    assert (lot["seed"], lot["modules"]) == (8, ["mathematics"])
    told = side.asked()
    with pytest.raises(ValueError, match="got 7; recorded are 7: try 8"):
        run.command(None, 0, 7, 7, 1, keep=True)
    with pytest.raises(ValueError, match="--record or --practice, got both"):
        run.command(None, 0, 9, 7, 1, keep=True, practice=True)
    assert side.asked() == told


# ------------------------------------------------------------------------------ children


def test_children_end_as_they_do():
    def work(job, tell):
        tell(job)
        if job == "busy":
            forking.allow(0.1)
            while True:
                pass
        if job == "asleep":
            forking.allow(0.01)
            time.sleep(1000)
        if job == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == "wrong":
            raise ValueError("no")
        if job == "gone":
            os._exit(0)

    jobs = ["busy", "asleep", "killed", "wrong", "gone", "well"]
    found = {child.job: child for child in forking.each(jobs, work, 3)}
    assert {job: child.ended for job, child in found.items()} == {
        "busy": "hang",
        "asleep": "hang",
        "killed": "died",
        "wrong": "died",
        "gone": "died",
        "well": "done",
    }
    assert found["wrong"].told == ["wrong", {"error": "ValueError: no"}]
    assert all(child.told[0] == job for job, child in found.items())


def test_no_child_outlives_who_asked():
    others = _children()
    children = forking.each([1, 2], lambda job, tell: time.sleep(1000 * (job - 1)), 2)
    assert next(children).job == 1
    assert len(_children() - others) == 1
    children.close()
    assert _children() == others


def _children():
    me = os.getpid()
    return set(Path(f"/proc/{me}/task/{me}/children").read_text(encoding="utf-8").split())


def test_a_child_that_takes_too_much_memory_is_refused_it():
    def work(job, tell):
        try:
            bytearray(2 * forking.MEMORY)
        except MemoryError:
            tell("refused")

    (child,) = forking.each([0], work, 1)
    assert child.told == ["refused"]


def test_what_a_child_imports_is_the_other_source_and_no_bytecode_of_it_stays(tmp_path):
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("def f():\n    return 1\n")
    (folder / "two.py").write_text("from planted.one import f\n\nvalue = f()\n")

    def work(source, tell):
        import sys

        sys.path.insert(0, str(tmp_path))
        if source:
            swapped.swap(folder / "one.py", source)
        import planted.two

        tell(planted.two.value)

    jobs = ["", "def f():\n    return 2\n", ""]
    assert [child.told for child in forking.each(jobs, work, 1)] == [[1], [2], [1]]
    assert (folder / "one.py").read_text() == "def f():\n    return 1\n"
