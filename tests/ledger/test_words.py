"""Words of data/findings: which of them a part has, the numbers in them, what is refused."""

import numpy as np
import pytest

from clcore.ledger import Trial, words

TEXTS = {
    "acl/thm1": {
        "parts": {
            "main": {
                "note": r"Off by {=off:.2f}; $\frac{1}{2}$ and {a} stay.",
                "counterexample": "x = {=x}",
                "correction": "with a factor of {=factor:g}",
                "corrected note": "as it should be",
                "open": {"tau 0.2": "at {=x}"},
            }
        }
    }
}


@pytest.fixture
def texts(monkeypatch):
    monkeypatch.setattr(words.findings, "known", lambda: TEXTS)


def test_words_come_from_the_findings_with_numbers_filled_in(texts):
    t = Trial(["acl/thm1"])
    printed = t.part("main", 1.0).add(2.0).breaks("b", 3.0).says(off=np.float64(1 / 3), x=2)
    printed.fails_by(2.0)
    mended = t.corrected("main", 1.0).add(0.5).breaks("b", 3.0).says(factor=0.25)
    open_ = t.part("main", 1.0, setting="tau 0.2", evidence="protocol")
    open_.add(0.5).breaks("b", 3.0).says(x="two")
    found = [p.record() for p in (printed, mended, open_)]
    assert found[0].note == r"Off by 0.33; $\frac{1}{2}$ and {a} stay."
    assert (found[0].counterexample, found[0].correction) == ("x = 2", "")
    assert (found[1].correction, found[1].note) == ("with a factor of 0.25", "as it should be")
    assert (found[2].form, found[2].setting, found[2].note) == ("open", "tau 0.2", "at two")


def test_a_note_ends_with_why_a_failing_regime_makes_nothing_false(monkeypatch):
    part = {"note": "Fails where $x<0$.", "excluded by": "“nonnegative weights”, Sec. 5.1."}
    monkeypatch.setattr(words.findings, "known", lambda: {"acl/thm1": {"parts": {"a": part}}})
    assert words.of("acl/thm1", "a") == {
        "note": "Fails where $x<0$. Excluded by “nonnegative weights”, Sec. 5.1."
    }
    del part["excluded by"]
    part["edge"] = "the one point 0"
    told = "Fails where $x<0$. An unintended edge case: the one point 0."
    assert words.of("acl/thm1", "a") == {"note": told}


def test_another_name_for_the_words(texts):
    part = Trial(["acl/thm1"]).part("main, runs of today", 1.0, words="main")
    assert part.add(0.0).breaks("b", 2.0).says(off=1, x=1).record().note.startswith("Off by 1.00")


def test_a_number_that_is_missing_is_named(texts):
    part = Trial(["acl/thm1"]).part("main", 1.0).add(0.0).breaks("b", 2.0).says(x=1)
    with pytest.raises(words.WordsError, match=r"acl/thm1 'main'.*no number 'off'.*says x"):
        part.record()
    with pytest.raises(words.WordsError, match=r"no number 'off'.*the check says none \(Part"):
        words.fill("{=off}", {}, "here")
    with pytest.raises(words.WordsError, match="Unknown format code"):
        words.fill("{=a:.2q}", {"a": 1.0}, "here")


def test_a_record_gets_the_words_of_today(texts):
    record = {"claim": "acl/thm1", "words": "main", "form": "printed", "setting": ""}
    record |= {"said": {"off": 1.0, "x": 3}, "note": "of yesterday", "misprint": "gone"}
    new = words.worded(record)
    assert (new["counterexample"], new["misprint"]) == ("x = 3", "")
    own = record | {"said": None}
    assert words.worded(own) == own


def test_with_its_words_a_record_keeps_all_else(texts):
    record = {"claim": "acl/thm1", "words": "main", "form": "printed", "setting": ""}
    record |= {"said": {"off": 1.0, "x": 3}, "measured": 0.5, "bound": 1.0}
    new = words.worded(record)
    assert new.items() >= record.items()
    fields = ("note", "counterexample", "correction", "misprint")
    assert tuple(new) == (*record, *fields), "in one order, so that two builds can be compared"


def test_what_is_blocked_has_no_words(texts):
    record = {
        "claim": "acl/thm1",
        "words": "main",
        "form": "printed",
        "said": {},
        "blocked": "a GPU",
    }
    assert words.worded(record) == record


def test_every_form_has_words_of_its_own(monkeypatch):
    fields = ("note", "counterexample", "correction", "misprint", "corrected note")
    entry = {name: f"the {name}" for name in fields}
    monkeypatch.setattr(words.findings, "known", lambda: {"acl/thm1": {"parts": {"main": entry}}})
    assert list(words.of("acl/thm1", "main").items()) == [
        ("note", "the note"),
        ("counterexample", "the counterexample"),
        ("misprint", "the misprint"),
    ]
    assert words.of("acl/thm1", "main", "corrected") == {
        "correction": "the correction",
        "note": "the corrected note",
    }
    assert words.of("acl/thm1", "main", "open", "rate 1") == {"note": "the note"}
    assert words.of("acl/thm1", "other") == words.of("acl/thm2", "main") == {}


def test_what_readings_give_stays_when_the_words_change(texts):
    record = {"claim": "acl/thm1", "words": "main", "form": "printed", "setting": ""}
    told = "By the same measure, other readings give 0.2 (it)."
    record |= {"said": {"off": 1.0, "x": 3}, "readings": told}
    assert words.worded(record)["note"].endswith(f"and {{a}} stay. {told}")
    assert words.worded(record | {"words": "none"})["note"] == told
    mended = record | {"form": "corrected", "reading": "the program", "readings": ""}
    assert words.worded(mended)["correction"] == "the program"
    assert words.worded(mended)["note"].startswith("Off by 1.00")


def test_an_open_setting_has_the_note_of_the_print_unless_it_has_its_own(texts):
    assert words.of("acl/thm1", "main", "open", "tau 0.2") == {"note": "at {=x}"}
    assert words.of("acl/thm1", "main", "open", "tau 0.5")["note"].startswith("Off by")


def test_words_that_no_check_takes_up_are_named(texts):
    record = {"claim": "acl/thm1", "part": "other", "words": "other", "said": {}}
    assert words.unsaid([record]) == ["acl/thm1 'main'"]
    assert words.unsaid([record | {"said": None}]) == []
    near = record | {"words": "mian"}
    assert words.unsaid([near, record]) == ["acl/thm1 'main' (did you mean mian?)"]
    assert words.unsaid([record, record | {"words": "main"}]) == []
