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

from clcore import _folders, _paths
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

    ENDS = ("judgement", "hang")

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
    assert lines[at + 1 : at + 3] == ["    - abs(x)", "    + x"]
    at = lines.index("survives: clcore/made.py:19 in unasked")
    assert lines[at + 1 : at + 3] == ["    - -x", "    + x"]
    # x / y, x, y, n >= 0 judge; n < 0 and n > 1 end too early; unasked is asked of nobody
    assert "hang, " in said and ", 1 unasked" in said
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


NAME = ("clcore/made.py", "unseen", "abs(x)", "x", 1)


def test_an_equivalent_is_no_survivor(side, capsys, monkeypatch):
    monkeypatch.setattr(record, "equivalents", lambda: {NAME: "nothing is negative"})
    assert start() == 0
    said = capsys.readouterr().out
    assert "in unseen" not in said and "1 equivalent" in said


def test_an_equivalent_that_is_killed_is_an_error(side, capsys, monkeypatch):
    killed = ("clcore/made.py", "product", "x * y", "x / y", 1)
    monkeypatch.setattr(record, "equivalents", lambda: {killed: "symmetric"})
    assert start() == 1
    assert "listed as equivalent, but killed: clcore/made.py:5 'x * y'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "stale",
    [
        (*NAME[:2], "abs(y)", "y", 1),
        (*NAME[:4], 2),
        ("clcore/made.py", "gone", *NAME[2:]),
        ("clcore/gone.py", *NAME[1:]),
    ],
)
def test_an_entry_that_is_no_mutant_any_more_is_refused(side, monkeypatch, stale):
    monkeypatch.setattr(record, "equivalents", lambda: {stale: "it was one"})
    with pytest.raises(ValueError, match=r"equivalents.yaml: clcore/.*has no change of.*take the"):
        start()
    assert side.asked() == []


def test_the_judge_and_the_rest_are_apart(monkeypatch):
    with pytest.raises(ValueError, match="of the ledger, or of the rest of clcore, got both"):
        run.command(["ledger/verdicts.py", "losses/anchors.py"], 1, 0, 7, 1)


def test_a_lot_is_unread_once_and_has_nothing_of_what_was_read(side, capsys, monkeypatch):
    kept = {}
    monkeypatch.setattr(run.sampling, "MATHEMATICS", ["made.py"])
    monkeypatch.setattr(record, "keep", lambda name, rows, about: kept.update({name: rows}))
    lots = [
        {"seed": 7, "mutants": [dict(zip(("path", "where", "old", "new"), NAME[:4], strict=True))]}
    ]
    monkeypatch.setattr(record, "recorded", lambda name: {"seed": 1, "mutants": []})
    monkeypatch.setattr(record, "unread", lambda: lots)
    run.command(None, 0, 8, 7, 1, unread=True)
    every = {m.name for m in run.sampling.of_file(side.root, side.path)}
    assert list(kept) == ["unread-8"]
    assert {record.name_of(row) for row in kept["unread-8"]} == every - {NAME} < every
    asked = side.asked()
    for seed in (1, 7):
        with pytest.raises(ValueError, match=f"got {seed}; recorded are 1, 7: try 8"):
            run.command(None, 0, seed, 7, 1, unread=True)
    with pytest.raises(ValueError, match="got --modules"):
        run.command(["made.py"], 0, 8, 7, 1, unread=True)
    assert side.asked() == asked


@pytest.mark.parametrize("more", [("keep", "unread"), ("keep", "practice"), ("unread", "practice")])
def test_a_lot_is_recorded_or_unread_or_read(side, more):
    with pytest.raises(ValueError, match="one of --record, --unread and --practice"):
        run.command(None, 0, 8, 7, 1, **dict.fromkeys(more, True))
    assert side.asked() == []


def test_the_judge_is_not_practised_on():
    with pytest.raises(ValueError, match="of the mathematics with --practice"):
        run.command(["ledger"], 1, 8, 7, 1, practice=True)


def test_what_is_practised_on_is_kept_before_it_is_asked_and_is_in_no_unread_lot(
    side, capsys, monkeypatch
):
    kept, practised, sides = {}, set(), []
    asked = run._asked

    def ask(chosen, of, *rest):
        assert {mutant.name for mutant, _ in chosen} <= practised
        sides.append(set(of))
        return asked(chosen, of, *rest)

    monkeypatch.setattr(run, "_asked", ask)
    monkeypatch.setattr(run, "_sides", lambda judge, draws: side.units() | {"tests": []})
    monkeypatch.setattr(run.sampling, "MATHEMATICS", ["made.py"])
    monkeypatch.setattr(record, "keep", lambda name, rows, about: kept.update({name: rows}))
    monkeypatch.setattr(record, "practise", practised.update)
    monkeypatch.setattr(record, "practised", lambda: practised)
    first = [dict(zip(("path", "where", "old", "new"), NAME[:4], strict=True))]
    monkeypatch.setattr(record, "recorded", lambda name: {"seed": 1, "mutants": first})
    monkeypatch.setattr(record, "unread", list)
    for _ in range(2):  # stopped and begun again, it is the same lot
        run.command(None, 3, 8, 7, 1, practice=True)
        assert len(practised) == 3 and NAME not in practised and not kept
    monkeypatch.setattr(run, "_asked", asked)
    monkeypatch.setattr(run, "_sides", lambda judge, draws: side.units())
    run.command(None, 0, 8, 7, 1, unread=True)
    every = {m.name for m in run.sampling.of_file(side.root, side.path)}
    assert sides == [{"checks"}] * 2
    assert {record.name_of(row) for row in kept["unread-8"]} == every - practised - {NAME}


def test_the_list_of_today_fits_the_code_of_today():
    run.refuse_stale(_paths.root())


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
