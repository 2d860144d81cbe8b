"""The page "How the checks are checked": its numbers are counted from the record."""

import json
import re

import pytest

from clcore import _paths
from clcore.book import fuzz, mutants, seeds
from clcore.book.site import checked

OLD, NEW = "x < y & z", "x <= y & z"


def side(outcome, **more):
    return {"asked": 0 if outcome == "unasked" else 3, "outcome": outcome, **more}


def mutant(checks, tests, module="losses/pairs", line=7, **more):
    row = {"path": f"clcore/{module}.py", "where": "f", "line": line, "kind": "comparison"}
    row |= {"old": OLD, "new": NEW, "nth": 1, "tests": side(tests)}
    return row | ({"checks": side(checks)} if checks else {}) | more


ROWS = [
    mutant("judgement", "judgement"),
    mutant("crash", "crash", line=8) | {"checks": side("crash", ran=1)},
    mutant("hang", "unasked", line=9),
    mutant("survived", "crash", line=10) | {"checks": side("survived", moved=["a.b"])},
    mutant("survived", "survived", "theory/relu/x", line=11),
    mutant("unasked", "judgement", "theory/relu/x", line=12),
    mutant("crash", "crash", line=14) | {"checks": side("crash", ran=0)},
    mutant("crash", "unasked", line=15) | {"checks": side("crash", ran=0)},
    mutant("crash", "judgement", line=16) | {"checks": side("crash", ran=0)},
    mutant("survived", "survived", "theory/relu/x", line=13, old="a * b", new="b * a"),
]
JUDGED = [mutant(None, "judgement", "ledger/verdicts"), mutant(None, "survived", "ledger/verdicts")]
EQUIVALENT = {("clcore/theory/relu/x.py", "f", "a * b", "b * a", 1): "It is <symmetric>."}

PRACTISED = {mutants.name_of(ROWS[0]), ("clcore/a.py", "f", "a", "b", 1)}

ABOUT = {"made": "2026-11-25", "commit": "0123456789ab", "python": "3.11.7", "torch": "2.13"}
ABOUT |= {"numpy": "2.4", "seed": 5, "sample": 7, "draws": 9, "modules": ["clcore/losses/pairs.py"]}
LOTS = [ABOUT | {"seed": 2, "mutants": ROWS}, ABOUT | {"seed": 3, "mutants": ROWS[:1]}]

SEEDS = {"made": "2026-11-25", "commit": "0123456789ab", "python": "3.11.7", "torch": "2.13"}
LOT = SEEDS | {"numpy": "2.4", "papers": ["acl", "nl"], "inputs": 100, "counts": [7, 100, 250]}
LOT |= {"failed": []}
FUZZ = {"lots": [LOT, LOT | {"papers": ["ddn"], "counts": [9]}]}
SEEDS |= {"numpy": "2.4", "checks": 300, "seeds": 8, "draws": 7, "apart": []}


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(seeds, "recorded", lambda: SEEDS)
    monkeypatch.setattr(fuzz, "recorded", lambda: FUZZ)
    found = {"mathematics": ROWS, "judge": JUDGED}
    monkeypatch.setattr(mutants, "recorded", lambda name: ABOUT | {"mutants": found[name]})
    monkeypatch.setattr(mutants, "unread", lambda: LOTS)
    monkeypatch.setattr(mutants, "equivalents", lambda: EQUIVALENT)
    monkeypatch.setattr(mutants, "practised", lambda: PRACTISED)
    return checked.files()


def text(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def lines(html):
    """The rows of a table of numbers, by module."""
    modules = html.split("Module by module")[-1]
    rows = re.findall(r"<tr>\s*<th scope=\"row\">(.*?)</th>(.*?)</tr>", modules, re.S)
    return {name: [int(n) for n in re.findall(r">(\d+)<", cells)] for name, cells in rows}


def test_outcomes_are_counted_by_module_and_side(made):
    found = lines(made["_generated/mutants-score.md"])
    # mutants; checks: asked, judgement, crash, hang, no value; tests: asked to hang; killed by none
    assert found == {
        "all": [9, 8, 1, 4, 1, 2, 7, 3, 3, 0, 1],
        "losses/pairs": [7, 7, 1, 4, 1, 2, 5, 2, 3, 0, 0],
        "theory/relu/x": [2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 1],
    }


def test_shares_are_those_of_what_is_asked_and_crashes_are_told_apart(made):
    said = text(made["_generated/mutants-score.md"])
    assert "Checks, about all 8 6 (75 %) 1 (17 % of these)" in said
    assert "Checks, about those that give a value 6 4 (67 %) 1 (25 % of these)" in said
    assert "Tests, about all 7 6 (86 %) 3 (50 % of these)" in said
    assert "Of all 9 that are not equivalent, 8 (89 %) are killed; 1 more are equivalent." in said
    assert (
        "at commit `0123456789ab`: 10 mutants of 1 modules (a lot of 7, seed 5), 9 draws a check"
        in said
    )


@pytest.mark.parametrize(
    ("checks", "tests", "none"),
    [
        (side("crash", ran=0), "crash", True),
        (side("crash", ran=0), "unasked", True),
        (side("crash", ran=0), "judgement", False),
        (side("crash", ran=0), "survived", False),
        (side("crash", ran=0), "hang", False),
        (side("crash", ran=1), "crash", False),
        (side("crash"), "crash", False),
        (side("survived"), "crash", False),
        (side("judgement"), "crash", False),
    ],
)
def test_a_mutant_gives_no_value_where_nobody_gets_through(checks, tests, none):
    assert mutants.valueless(mutant("crash", tests) | {"checks": checks}) is none


def test_survivors_have_place_kind_and_both_texts(made):
    page = made["_generated/mutants-survivors.md"]
    first, rest = page.split("Another")
    assert text(first).count("theory/relu/x:11 f comparison") == 1 and "b * a" not in first
    assert "<code>x &lt; y &amp; z</code>" in first and "<code>x &lt;= y &amp; z</code>" in first
    assert rest.startswith(" 1 are executed by a check") and "1 of them move a number" in rest
    assert "losses/pairs:10 f" in text(rest) and "Seen by the unit tests alone (1)" in rest


def test_lots_that_nobody_had_read_are_told_by_themselves(made):
    first, *rest = text(made["_generated/mutants-unread.md"]).split("seed 3")
    shares = "8 6 of 8 (75 %) 4 of 6 (67 %) 1 of 4 (25 %)"
    assert f"seed 2 2026-11-25 0123456 9 and 1 equivalent {shares}" in first
    assert "1 1 1 of 1 (100 %)" in rest[0]
    assert "Not noticed by checks then, of seed 2 (2)" in rest[0] and len(rest) == 1
    assert "practice that are in no record: 1." in rest[0]
    left = rest[0].split("of seed 2")[-1]
    assert "losses/pairs:10 f" in left and "theory/relu/x:11 f" in left and "x:13" not in left


def test_equivalents_have_their_reasons(made):
    page = made["_generated/mutants-equivalent.md"]
    assert "It is &lt;symmetric&gt;." in page and text(page).count("theory/relu/x:13") == 1


def test_the_judge_is_told_of_its_own_tests_alone(made):
    page = made["_generated/mutants-judge.md"]
    assert lines(page)["all"] == [2, 2, 1, 0, 0, 1]
    assert "Checks" not in page and "ledger/verdicts:7 f" in text(page)


def test_nothing_is_said_of_nobody(monkeypatch):
    monkeypatch.setattr(mutants, "recorded", lambda name: ABOUT | {"mutants": ROWS[:1]})
    monkeypatch.setattr(mutants, "unread", list)
    monkeypatch.setattr(mutants, "equivalents", dict)
    made = checked.files()
    assert made["_generated/mutants-unread.md"] == "None is recorded."
    assert made["_generated/mutants-survivors.md"].startswith("None survives.")
    assert made["_generated/mutants-equivalent.md"] == "None of those drawn."


# ------------------------------------------------------------------------------ the files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    there = tmp_path / "data" / "mutants"
    there.mkdir(parents=True)
    schema = _paths.root() / "data" / "mutants" / "schema.json"
    (there / "schema.json").write_bytes(schema.read_bytes())
    monkeypatch.setattr(mutants._paths, "root", lambda: tmp_path)
    mutants.equivalents.cache_clear()
    yield there
    mutants.equivalents.cache_clear()


def test_what_is_kept_is_read_again(folder):
    mutants.keep("mathematics", ROWS, {k: ABOUT[k] for k in ("seed", "sample", "draws", "modules")})
    found = mutants.recorded("mathematics")
    assert found["mutants"] == ROWS and found["draws"] == 9 and found["commit"]


def test_lots_that_nobody_had_read_are_found_by_their_names(folder):
    about = {k: ABOUT[k] for k in ("sample", "draws", "modules")}
    for name, seed, rows in (
        ("mathematics", 1, ROWS[:1]),
        ("unread-10", 10, ROWS[4:5]),
        ("unread-9", 9, ROWS[-1:]),
        ("judge", 0, ROWS[2:3]),
    ):
        mutants.keep(name, rows, about | {"seed": seed})
    assert [lot["seed"] for lot in mutants.unread()] == [9, 10]
    every = {mutants.name_of(row) for row in (ROWS[0], ROWS[4], ROWS[-1])}
    (folder / "equivalents.yaml").write_text("[]")
    assert mutants.in_records() == mutants.read() == every and len(every) == 3
    (folder / "equivalents.yaml").write_text(ENTRY)
    mutants.equivalents.cache_clear()
    symmetric = ("clcore/a.py", "f", "a * b", "b * a", 1)
    assert mutants.in_records() == every and mutants.read() == every | {symmetric}


def test_names_of_practice_are_added_and_read_again(folder):
    (folder / "equivalents.yaml").write_text("[]")
    assert mutants.practised() == set()
    one, two = ("clcore/b.py", "", "é", "x", 2), ("clcore/a.py", "f", "a * b", "a / b", 1)
    mutants.practise([one])
    mutants.practise([two, one])
    assert mutants.practised() == {one, two}
    assert len((folder / "practised.json").read_text().splitlines()) == 4
    (folder / "practised.json").write_text('[["clcore/a.py", "f", "a", "b", "1"]]')
    with pytest.raises(mutants.MutantsError, match=r"practised.json, at 0/4: '1' is not of type"):
        mutants.practised()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.pop("commit"), "top: 'commit' is a required"),
        (lambda d: d["mutants"][0].pop("line"), "mutants/0: 'line' is a required"),
        (
            lambda d: d["mutants"][1]["tests"].update(outcome="lost"),
            "mutants/1/tests/outcome: 'lost'",
        ),
        (lambda d: d.update(mutants=[]), "mutants: "),
    ],
)
def test_a_damaged_record_is_named(folder, change, told):
    found = json.loads(json.dumps(ABOUT | {"mutants": ROWS}))
    change(found)
    (folder / "judge.json").write_text(json.dumps(found))
    with pytest.raises(mutants.MutantsError, match=f"judge.json, at {told}"):
        mutants.recorded("judge")


def test_a_record_that_is_missing_says_what_makes_it(folder):
    with pytest.raises(mutants.MutantsError, match="is not there; run `make mutants"):
        mutants.recorded("judge")


ENTRY = "- {path: clcore/a.py, where: f, old: a * b, new: b * a, why: it is symmetric}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ENTRY + ENTRY, "'a \\* b' of clcore/a.py is there twice"),
        (ENTRY.replace(", why: it is symmetric", ""), "at 0: 'why' is a required"),
        (ENTRY.replace("it is symmetric", "so"), "at 0/why"),
        (ENTRY.replace("clcore/a.py", "a.py"), "at 0/path"),
    ],
)
def test_a_damaged_entry_is_named(folder, text, told):
    (folder / "equivalents.yaml").write_text(text)
    with pytest.raises(mutants.MutantsError, match=f"equivalents.yaml.*{told}"):
        mutants.equivalents()


def test_entries_are_told_apart_by_their_number(folder):
    (folder / "equivalents.yaml").write_text(ENTRY + ENTRY.replace("}", ", nth: 2}"))
    assert [name[-1] for name in mutants.equivalents()] == [1, 2]


def test_the_record_of_today_is_whole():
    both = ["checks", "tests"]
    of_both = [mutants.recorded("mathematics"), *mutants.unread()]
    for found, sides in [(mutants.recorded("judge"), ["tests"]), *((lot, both) for lot in of_both)]:
        assert all(mutants.sides(row) == sides for row in found["mutants"])
        assert {row["path"] for row in found["mutants"]} <= set(found["modules"])
        assert not [
            r
            for r in found["mutants"]
            if mutants.killed(r) and mutants.name_of(r) in mutants.equivalents()
        ]


def test_other_seeds_are_counted_and_named(monkeypatch, made):
    assert "300 checks at 8 other seeds" in made["_generated/seeds.md"]
    assert "is there what it is at seed 0" in made["_generated/seeds.md"]
    row = {"check": "clcore.checks.a.b", "seed": 3, "said": "x <y> fails, at seed 0 it passes"}
    monkeypatch.setattr(seeds, "recorded", lambda: SEEDS | {"apart": [row]})
    page = checked.files()["_generated/seeds.md"]
    assert "1 of these 2400" in page and "x &lt;y&gt; fails" in page and "seed 3" in page


def test_corrected_forms_are_counted_and_what_fails_is_named(monkeypatch, made):
    page = made["_generated/fuzz.md"]
    assert "3 corrected forms of acl, nl, 2 of them at 100 inputs or more" in page
    assert "in their time: half of all at 100 or more, the least at 7." in page
    assert "1 corrected forms of ddn, 0 of them" in page and "at 9. None failed." in page
    row = {"form": "nl/a 'x<y'", "seed": 3, "said": "2, bound 1"}
    monkeypatch.setattr(fuzz, "recorded", lambda: {"lots": [LOT, LOT | {"failed": [row]}]})
    page = checked.files()["_generated/fuzz.md"]
    assert "1 times a form failed" in page and "x&lt;y" in page and "seed 3: 2, bound 1" in page


def test_a_damaged_record_of_fuzzing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(_paths, "root", lambda: tmp_path)
    with pytest.raises(fuzz.FuzzError, match="make fuzz"):
        fuzz.recorded()
    fuzz.keep(["acl", "nl"], 9, [12, 7], [{"form": "a", "seed": 1, "said": "b"}])
    fuzz.keep(["ddn"], 9, [5], [])
    assert [lot["counts"] for lot in fuzz.recorded()["lots"]] == [[7, 12], [5]]
    fuzz.keep(["acl"], 9, [3], [])  # those of nl were counted with acl's, and go
    assert [lot["papers"] for lot in fuzz.recorded()["lots"]] == [["acl"], ["ddn"]]
    path = tmp_path / "data" / "fuzz.json"
    path.write_text(path.read_text().replace('"inputs": 9', '"inputs": "many"'))
    with pytest.raises(fuzz.FuzzError, match="inputs: 'many' is not of type 'integer'"):
        fuzz.recorded()


def test_a_damaged_record_of_seeds_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(_paths, "root", lambda: tmp_path)
    with pytest.raises(seeds.SeedsError, match="make seeds"):
        seeds.recorded()
    seeds.keep(3, 2, 7, [{"check": "a", "seed": 1, "said": "b"}])
    assert seeds.recorded()["apart"][0]["said"] == "b"
    path = tmp_path / "data" / "seeds.json"
    path.write_text(path.read_text().replace('"seeds": 2', '"seeds": "two"'))
    with pytest.raises(seeds.SeedsError, match="at seeds: 'two' is not of type 'integer'"):
        seeds.recorded()
