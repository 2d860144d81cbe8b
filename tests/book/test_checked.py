"""The page "How the checks are checked": its numbers are counted from the record."""

import html
import json
import re

import pytest

from clcore import _paths
from clcore.book import fuzz, mutants, seeds
from clcore.book.site import checked

SURVIVOR = {"path": "clcore/losses/pairs.py", "where": "f", "old": "x < y & z", "new": "x <= y & z"}
LOT_1 = {"made": "2026-11-25", "commit": "0123456789ab", "seed": 5, "draws": 7, "mutants": 9}
LOT_1 |= {"modules": ["mathematics"], "equivalent": 1, "checks": 5, "tests": 1, "crashes": 3}
LOT_1 |= {"unasked": 2, "survivors": [SURVIVOR] * 3, "note": "Read <before>."}
JUDGED = LOT_1 | {"modules": ["ledger"], "seed": 0, "checks": 0, "tests": 9, "survivors": []}
EQUIVALENT = {
    ("clcore/theory/relu/x.py", "f", "return a * b", "a * b", "b * a", 1): "It is <symmetric>."
}

SEEDS = {"made": "2026-11-25", "commit": "0123456789ab", "python": "3.11.7", "torch": "2.13"}
LOT = SEEDS | {
    "numpy": "2.4",
    "papers": ["acl", "nl"],
    "inputs": 100,
    "forms": {"nl/b '|alpha|'": 7, "nl/c": 100, "nl/d": 250},
}
LOT |= {"failed": []}
FUZZ = {"lots": [LOT, LOT | {"papers": ["ddn"], "forms": {"ddn/a": 9}}]}
SEEDS |= {"numpy": "2.4", "checks": 300, "seeds": 8, "draws": 7, "apart": []}


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(seeds, "recorded", lambda: SEEDS)
    monkeypatch.setattr(fuzz, "recorded", lambda: FUZZ)
    monkeypatch.setattr(mutants, "lots", lambda: [JUDGED, LOT_1])
    monkeypatch.setattr(mutants, "equivalents", lambda: EQUIVALENT)
    return checked.files()


def text(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_what_somebody_noticed_is_counted_and_the_share_of_the_checks_told(made):
    said = text(made["_generated/mutants-lots.md"])
    assert (
        "seed 5 2026-11-25 0123456 the mathematics. Read &lt;before&gt;. 9 and 1 equivalent "
        "6 (67 %) 5 (83 %) 3 (50 %) 3 2"
    ) in said
    assert "seed 0 2026-11-25 0123456 ledger. Read" in said and "9 (100 %) not counted" in said


def test_survivors_have_place_and_both_texts_and_a_lot_without_any_has_no_list(made):
    page = made["_generated/mutants-survivors.md"]
    assert "Of the lot of seed 5, 2026-11-25 (3)" in text(page) and "seed 0" not in page
    assert text(page).count("losses/pairs f") == 3
    assert "<code>x &lt; y &amp; z</code>" in page and "<code>x &lt;= y &amp; z</code>" in page


def test_equivalents_have_their_statements_and_reasons(made):
    page = made["_generated/mutants-equivalent.md"]
    assert "It is &lt;symmetric&gt;." in page and "<code>return a * b</code>" in page


# ------------------------------------------------------------------------------ the files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    there = tmp_path / "data" / "mutants"
    there.mkdir(parents=True)
    monkeypatch.setattr(mutants._paths, "root", lambda: tmp_path)
    mutants.equivalents.cache_clear()
    yield there
    mutants.equivalents.cache_clear()


def new_lot(seed, **more):
    lot = {name: value for name, value in LOT_1.items() if name not in ("made", "commit")}
    return lot | {"seed": seed} | more


def test_lots_are_added_and_one_of_the_judge_takes_the_place_of_the_one_before(folder):
    (folder / "lots.yaml").write_text("[]", encoding="utf-8")
    for lot in (new_lot(1), new_lot(1, modules=["ledger/verdicts.py"]), new_lot(2)):
        mutants.keep(lot)
    mutants.keep(new_lot(0, modules=["ledger"]))
    assert [(lot["seed"], lot["modules"]) for lot in mutants.lots()] == [
        (1, ["mathematics"]),
        (2, ["mathematics"]),
        (0, ["ledger"]),
    ]
    assert all(lot["commit"] and lot["made"] for lot in mutants.lots())
    mutants.refuse_recorded(0)
    with pytest.raises(mutants.MutantsError, match="got 2; recorded are 1, 2: try 3"):
        mutants.refuse_recorded(2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lot: lot.pop("commit"), "0: 'commit' is a required"),
        (lambda lot: lot.update(checks=-1), "0/checks: -1 is less"),
        (lambda lot: lot["survivors"][0].pop("old"), "0/survivors/0: 'old' is a required"),
        (lambda lot: lot.update(modules=[]), "0/modules: "),
    ],
)
def test_a_damaged_record_is_named(folder, change, told):
    lot = json.loads(json.dumps(LOT_1))
    change(lot)
    (folder / "lots.yaml").write_text(json.dumps([lot]), encoding="utf-8")
    with pytest.raises(mutants.MutantsError, match=f"lots.yaml, at {told}"):
        mutants.lots()


ENTRY = (
    "- {path: clcore/a.py, where: f, statement: return a * b, old: a * b, new: b * a, "
    "why: it is symmetric}\n"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ENTRY + ENTRY, "'a \\* b' -> 'b \\* a' of clcore/a.py twice; take one out"),
        (ENTRY.replace(", why: it is symmetric", ""), "at 0: 'why' is a required"),
        (ENTRY.replace("it is symmetric", "so"), "at 0/why"),
        (ENTRY.replace("clcore/a.py", "a.py"), "at 0/path"),
    ],
)
def test_a_damaged_entry_is_named(folder, text, told):
    (folder / "equivalents.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(mutants.MutantsError, match=f"equivalents.yaml.*{told}"):
        mutants.equivalents()


def test_entries_are_told_apart_by_their_number_and_dropped_by_name(folder):
    second = ENTRY.replace("}", ", nth: 2}")
    (folder / "equivalents.yaml").write_text(ENTRY + second, encoding="utf-8")
    first, other = mutants.equivalents()
    assert (first[-1], other[-1]) == (1, 2)
    mutants.drop({first})
    assert list(mutants.equivalents()) == [other]


def test_the_record_of_today_is_whole():
    for lot in mutants.lots():
        assert lot["mutants"] == lot["checks"] + lot["tests"] + len(lot["survivors"])
        assert lot["unasked"] <= len(lot["survivors"])
        assert lot["crashes"] <= lot["checks"] + lot["tests"]
    assert len(mutants.equivalents()) > 100


def test_other_seeds_are_counted_and_named(monkeypatch, made):
    assert "300 checks at 8 other seeds" in made["_generated/seeds.md"]
    assert "is the same there as at seed 0" in made["_generated/seeds.md"]
    row = {"check": "clcore.checks.a.b", "seed": 3, "said": "x <y> fails, at seed 0 it passes"}
    monkeypatch.setattr(seeds, "recorded", lambda: SEEDS | {"apart": [row]})
    page = checked.files()["_generated/seeds.md"]
    assert "1 of these 2400" in page and "x &lt;y&gt; fails" in page and "seed 3" in page


def test_corrected_forms_are_counted_and_what_fails_is_named(monkeypatch, made):
    few = html.unescape(text(made["_generated/fuzz.md"]))
    assert "Tian 2022, Tian 2023 3 2 (100 or more) none 2026-11-25 , 0123456" in few
    assert "Tian et al. 2020 1 0 (100 or more) none" in few
    assert "at fewer inputs (2)" in few and "nl/b '|α|' 7 ddn/a 9" in few
    row = {"form": "nl/a 'x<y'", "seed": 3, "said": "2, bound 1"}
    monkeypatch.setattr(fuzz, "recorded", lambda: {"lots": [LOT, LOT | {"failed": [row]}]})
    page = checked.files()["_generated/fuzz.md"]
    assert (
        "1 times a form failed" in page and "x&lt;y" in page and "seed 3: <code>2, bound 1<" in page
    )


def test_a_damaged_record_of_fuzzing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(_paths, "root", lambda: tmp_path)
    with pytest.raises(fuzz.FuzzError, match="make fuzz"):
        fuzz.recorded()
    fuzz.keep(["acl", "nl"], 9, {"acl/a": 12, "nl/b": 7}, [{"form": "a", "seed": 1, "said": "b"}])
    fuzz.keep(["ddn"], 9, {"ddn/c": 5}, [])
    forms = [lot["forms"] for lot in fuzz.recorded()["lots"]]
    assert forms == [{"acl/a": 12, "nl/b": 7}, {"ddn/c": 5}]
    fuzz.keep(["acl"], 9, {"acl/a": 3}, [])  # those of nl were counted with acl's, and go
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
