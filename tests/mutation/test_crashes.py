"""After a crash the other checks are asked: one may judge. Where all crash, no value is given."""

import importlib.util
import json
import os

import checks_side
import pytest
import run
import units

from clcore.book import mutants as record

MADE = "def product(x, y):\n    return x * y\n"


def counts(made):
    """A product that is no whole number is an error here; one that is, is taken for right."""
    return [len([0] * made.product(3, 2)) > 0]


def compares(made):
    return [made.product(3, 2) == 6]


def looks_away(made):
    made.product(3, 2)
    return [True]


def dies(made):
    return [True] if made.product(3, 2) == 6 else os._exit(0)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A function of checks, the quickest first: what became of `x / y` in place of `x * y`."""
    path, rows, log = tmp_path / "clcore" / "made.py", [], tmp_path / "asked.txt"
    (tmp_path / "data" / "claims").mkdir(parents=True)
    path.parent.mkdir()
    path.write_text(MADE)
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "build"))

    def found(check):
        with log.open("a") as told:
            told.write(f"{check.__name__} ")
        spec = importlib.util.spec_from_file_location("made", path)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return {"records": check(made), "verdicts": {}, "numbers": []}

    def measure(unit, tell, real=checks_side.measure):
        real(unit, lambda told: tell(told | {"seconds": 0.01 * order[unit.name]}))

    order = {}
    monkeypatch.setattr(checks_side, "found", found)
    monkeypatch.setattr(checks_side, "measure", measure)
    monkeypatch.setattr(checks_side, "warm", lambda: None)
    monkeypatch.setattr(run, "SIDES", {"checks": checks_side})
    monkeypatch.setattr(run, "_report", lambda found, *_: rows.append(found))
    monkeypatch.setattr(record, "equivalents", dict)

    def became(*checks):
        order.update({check.__name__: n for n, check in enumerate(checks)})
        every = [units.Unit(c.__name__, c.__name__, c, frozenset([path])) for c in checks]
        monkeypatch.setattr(run, "_sides", lambda judge, draws: {"checks": every})
        run.command(["made.py"], 0, 0, 7, 1, False)
        (found,) = (row["checks"] for row in rows[-1] if row["new"] == "x / y")
        return found

    became.log, became.results = log, tmp_path / "build" / "mutants" / "results.jsonl"
    return became


def test_a_judgement_after_a_crash_is_found(asked):
    found = asked(counts, compares)
    assert (found["outcome"], found["by"], found["asked"]) == ("judgement", "compares", 2)


def test_the_first_crash_is_told_where_nobody_judges(asked):
    found = asked(counts, looks_away, dies)
    assert (found["outcome"], found["by"], found["ran"]) == ("crash", "counts", 1)
    assert found["why"].startswith("TypeError") and found["asked"] == 3


def test_where_all_crash_nothing_gets_through(asked):
    found = asked(counts)
    assert (found["outcome"], found["ran"]) == ("crash", 0)
    row = {"checks": found, "tests": {"asked": 1, "outcome": "crash"}}
    assert record.valueless(row)


def test_a_child_that_dies_is_a_crash_and_the_others_are_asked(asked):
    found = asked(dies, counts, compares)
    assert (found["outcome"], found["by"]) == ("judgement", "compares")
    assert asked(dies, counts)["by"] == "dies"


def test_nobody_is_asked_twice(asked):
    first = asked(counts, looks_away)
    before = asked.log.read_text()
    assert asked(counts, looks_away) == first and asked.log.read_text() == before
    found = asked(counts, looks_away, compares)
    assert found["outcome"] == "judgement"
    new = asked.log.read_text().removeprefix(before).split()
    assert set(new) == {"compares"}


def test_a_crash_that_was_the_last_word_is_asked_about_again(asked):
    asked(counts, compares)
    lines = [json.loads(line) for line in asked.results.read_text().split("\n") if line]
    old = [
        {name: line[name] for name in ("mutant", "asked")}
        | {"outcome": "crash", "by": "counts", "why": "TypeError", "killer": "counts"}
        for line in lines
    ]
    asked.results.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert asked(counts, compares)["by"] == "compares"
