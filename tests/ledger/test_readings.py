"""A printed part of a protocol beside other readings of the print."""

import pytest

from clcore.ledger import Check, judge
from clcore.ledger.readings import beside_print

LED = "By the same measure, other readings give"


def part(measured, **more):
    fields = {"part": "a", "evidence": "protocol"} | more
    return Check("acl/tab2a", measured, 1.0, {"broken": 9.0}, **fields)


PASSES, FAILS, BADLY = part(0.5), part(2.0), part(3.0)


def test_an_exact_part_has_no_readings():
    exact = part(0.5, evidence="exact")
    assert list(beside_print(exact, {"the program": FAILS})) == [exact]


def test_of_a_print_that_passes_the_readings_are_notes():
    (found,) = beside_print(PASSES, {"the program": part(0.25), "a sum": FAILS})
    assert found.readings == f"{LED} 0.25 (the program), 2 (a sum, which fails)."
    assert (found.note, found.measured, found.form) == (found.readings, 0.5, "printed")
    assert judge(found)


def test_of_a_print_that_fails_the_first_reading_that_passes_is_its_correction():
    others = {"a sum": BADLY, "the program": part(0.25), "a mean": part(0.75)}
    printed, mended = beside_print(FAILS, others)
    assert printed.readings == f"{LED} 3 (a sum), 0.75 (a mean, which passes)."
    assert not judge(printed) and judge(mended)
    assert (mended.form, mended.correction, mended.reading) == ("corrected", *["the program"] * 2)
    assert mended.measured == 0.25 and mended.part == "a"


def test_where_a_setting_that_is_left_open_passes_nothing_is_corrected():
    left_open = [part(measured, form="open", setting="s") for measured in (3.0, 0.5)]
    (found,) = beside_print(FAILS, {"the program": part(0.25)}, left_open)
    assert found.readings == f"{LED} 0.25 (the program, which passes)."
    assert len(list(beside_print(FAILS, {"the program": part(0.25)}, left_open[:1]))) == 2


def test_where_no_reading_passes_there_is_no_correction():
    (found,) = beside_print(FAILS, {"a sum": BADLY})
    assert found.readings == f"{LED} 3 (a sum)."
    (found,) = beside_print(FAILS, {})
    assert found == FAILS


@pytest.mark.parametrize("note", ["Ours", "Ours.", "Ours. "])
def test_readings_follow_the_note_as_a_sentence(note):
    (found,) = beside_print(part(0.5, note=note), {"the program": FAILS})
    assert found.note == f"Ours. {LED} 2 (the program, which fails)."
    assert found.readings == f"{LED} 2 (the program, which fails)."


def test_a_reading_run_smaller_than_the_paper_says_so():
    smaller = part(2.0, evidence="partial")
    (found,) = beside_print(PASSES, {"the program": smaller, "a sum": FAILS})
    assert found.readings == (
        f"{LED} 2 (the program, in part, which fails), 2 (a sum, which fails)."
    )
