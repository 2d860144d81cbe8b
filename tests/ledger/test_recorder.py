"""The ledger of a chapter: what it keeps, what it shows, and that nothing is recorded twice."""

import numpy as np
import pytest

from clcore.ledger import Check, Ledger, LedgerError

GOOD = (0.5, 1.0, {"broken": 2.0})


@pytest.fixture
def shown():
    """What a ledger shows, one (html, text, records) a time."""
    return []


@pytest.fixture
def book(shown):
    return Ledger("1-minmax", show=lambda *told: shown.append(told))


def left_open(setting):
    return {"form": "open", "evidence": "protocol", "setting": setting}


CORRECTED = {"form": "corrected", "correction": "y"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"part": "a"}),
        ({"part": "a"}, {"part": "b"}),
        ({}, CORRECTED),
        (CORRECTED, {}),
        (left_open("rate 1"), left_open("rate 2")),
        ({"part": "a"}, {"part": "b", **CORRECTED}),
    ],
)
def test_what_differs_in_part_form_or_setting_is_another_record(book, first, second):
    book.check("acl/thm1", *GOOD, **first)
    book.check("acl/thm1", *GOOD, **second)
    assert len(book.records) == 2
    for fields in (first, second):
        with pytest.raises(LedgerError, match=r"recorded already in 1-minmax"):
            book.check("acl/thm1", *GOOD, **fields)
    assert len(book.records) == 2


def test_another_claim_may_have_the_same_part(book):
    book.check("acl/thm1", *GOOD, part="a")
    book.check("acl/thm2", *GOOD, part="a")
    book.blocked("acl/thm3", "a GPU")
    book.check("acl/def6", *GOOD)
    assert [r["claim"] for r in book.records] == ["acl/thm1", "acl/thm2", "acl/thm3", "acl/def6"]


def test_a_claim_is_blocked_or_checked(book):
    book.blocked("acl/thm1", "a GPU")
    with pytest.raises(LedgerError, match="recorded already"):
        book.check("acl/thm1", *GOOD, part="a")
    with pytest.raises(LedgerError, match="recorded already"):
        book.blocked("acl/thm1", "a network")
    book.check("acl/thm2", *GOOD, part="a")
    with pytest.raises(LedgerError, match="recorded already"):
        book.blocked("acl/thm2", "a GPU")
    assert len(book.records) == 2


def test_an_unknown_claim_is_not_blocked(book):
    with pytest.raises(LedgerError, match="expected the id of a claim"):
        book.blocked("acl/none", "a GPU")
    assert book.records == []


def test_what_is_refused_is_not_kept(book, shown):
    with pytest.raises(LedgerError):
        book.check("acl/thm1", *GOOD, draws=0)
    assert book.records == [] and shown == []


def test_a_record_is_shown_with_the_verdict_so_far(book, shown):
    book.check("acl/thm1", *GOOD, part="a")
    (html, text, records), *more = shown
    assert not more and records == book.records
    assert text == "acl/thm1 [a] passes: 0.5 <= 1 over 1 draws (control broken: 2)"
    assert "holds" in html
    book.check(Check("acl/thm2", 1.5, 1.0, {"one": 2.0, "two": 3.0}, 9, counterexample="it"))
    html, text, records = shown[1]
    assert text == "acl/thm2 fails: 1.5 <= 1 over 9 draws (control one: 2; two: 3)"
    assert "refuted" in html and records == book.records[1:]


def test_a_cell_cannot_say_alone_that_a_statement_fails(book):
    with pytest.raises(
        LedgerError, match=r"acl/thm2 'a': .*one computation alone; make it a funct"
    ):
        book.check("acl/thm2", 1.5, 1.0, {"broken": 2.0}, part="a", counterexample="it")
    assert not book.records


@pytest.mark.parametrize(
    "fields",
    [
        CORRECTED,
        {"evidence": "partial"},
        {"evidence": "protocol"},
        {"sort": "trained", "counterexample": "it"},
        left_open("rate 1"),
    ],
)
def test_a_cell_can_say_that_anything_but_an_exact_printed_form_fails(book, fields):
    assert not book.check("acl/thm2", 1.5, 1.0, {"broken": 2.0}, **fields).passed


def test_a_cell_that_measures_no_number_is_told_so(book):
    for measured in (np.nan, np.inf):
        with pytest.raises(LedgerError, match=r"expected finite numbers, got .* for measured"):
            book.check("acl/thm2", measured, 1.0, {"broken": 2.0}, counterexample="it")


def test_the_verdict_shown_is_of_that_claim_alone(book, shown):
    book.check(Check("acl/thm2", 1.5, 1.0, {"broken": 2.0}, counterexample="it"))
    book.check("acl/thm1", *GOOD)
    assert "holds" in shown[1][0] and "refuted" not in shown[1][0]


def test_a_correction_before_the_printed_form_is_not_yet_checked(book, shown):
    book.check("acl/thm1", *GOOD, **CORRECTED)
    assert "not yet checked" in shown[0][0]


def test_blocked_is_shown_with_what_is_missing(book, shown):
    book.blocked("acl/thm1", "a GPU")
    html, text, records = shown[0]
    assert text == "acl/thm1: blocked, missing a GPU" and records == book.records
    assert "blocked" in html
    assert records[0]["anchor"] == "claim-acl-thm1"


def test_a_ledger_that_shows_nothing_keeps_all_the_same():
    book = Ledger("x")
    book.check("acl/thm1", *GOOD)
    book.blocked("acl/thm2", "a GPU")
    assert len(book.records) == 2


def test_a_run_shows_one_table_of_all_its_checks(book, shown):
    def first(draws, seed):
        yield Check("acl/thm1", float(seed), 9.0, {"broken": 10.0}, draws=draws, part="a")
        yield Check("acl/thm1", 0.0, 9.0, {"broken": 10.0}, draws=draws, part="b", said={"n": 1})

    found = book.run([first], 7, 3)
    assert [(r.part, r.measured, r.draws, r.said) for r in found] == [
        ("a", 3.0, 7, None),
        ("b", 0.0, 7, {"n": 1}),
    ]
    assert len(shown) == 1 and shown[0][2] == book.records and len(book.records) == 2
    assert book.run([], 7, 3) == [] and len(shown) == 1


def test_a_run_takes_the_id_of_a_claim(book, monkeypatch):
    from clcore.ledger import registry

    def function(draws, seed):
        yield Check("acl/thm1", 0.0, 9.0, {"broken": 10.0}, draws=draws)

    monkeypatch.setattr(registry, "function", {"acl/thm1": function}.__getitem__)
    assert [r.claim for r in book.run(["acl/thm1"], 7, 3)] == ["acl/thm1"]


def test_seconds_are_those_since_the_check_before(book, monkeypatch):
    times = iter([10.0, 12.5, 20.0, 21.0])
    monkeypatch.setattr("clcore.ledger.recorder.time.perf_counter", lambda: next(times))
    book.start_clock()  # 10
    assert book.check("acl/thm1", *GOOD, part="a").seconds == 2.5

    def function(draws, seed):
        yield Check("acl/thm1", 0.0, 9.0, {"broken": 10.0}, part="b")

    (record,) = book.run([function], 1, 0)  # the clock is set anew before it
    assert record.seconds == 1.0


def test_numbers_are_kept_as_plain_ones(book):
    numbers = (np.float64(0.5), np.float64(1), {"broken": np.float64(2)})
    record = book.check(Check("acl/thm1", *numbers, draws=3))
    kept = (record.measured, record.bound, record.control["broken"], record.passed)
    assert [type(value) for value in kept] == [float, float, float, bool]
    assert record.passed and record.anchor == "claim-acl-thm1"


def test_draws_and_seeds_that_are_none_are_refused(unchecked_shapes):
    for draws, seed, told in (
        (0, 0, "draws: expected an int from 1, got 0"),
        ("8", 0, "draws: expected an int from 1, got '8'"),
        (8, -1, "seed: expected an int from 0, got -1"),
        (8, 0.5, "seed: expected an int from 0, got 0.5"),
    ):
        with pytest.raises(LedgerError, match=told):
            Ledger("x").run([], draws, seed)
