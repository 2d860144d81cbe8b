"""Verdicts against the rules of the page "How we judge", written down a second time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clcore.ledger import VERDICTS, LedgerError, verdict

FIRST_TO_HEAR = (
    *("refuted", "differs", "depends", "corrected", "blocked", "partial", "reproduced", "holds"),
)


def record(part="", form="printed", evidence="exact", passed=True):
    fields = {"claim": "acl/thm1", "part": part, "form": form, "evidence": evidence}
    return fields | {"passed": passed}


ALONE = {
    "refuted": [record(passed=False)],
    "differs": [record(evidence="protocol", passed=False)],
    "depends": [record(evidence="protocol"), record(form="open", passed=False)],
    "corrected": [record(passed=False), record(form="corrected")],
    "blocked": [{"claim": "acl/thm1", "blocked": "a GPU"}],
    "partial": [record(evidence="partial")],
    "reproduced": [record(evidence="protocol")],
    "holds": [record()],
}
"""Each verdict from the fewest records that give it."""


def of_part(records, part):
    return [r if "blocked" in r else r | {"part": part} for r in records]


def test_verdicts_are_these_in_this_order():
    said = ("holds", "corrected", "refuted", "reproduced", "depends", "differs", "partial")
    assert (*said, "blocked", "todo") == VERDICTS
    assert set(FIRST_TO_HEAR) | {"todo"} == set(VERDICTS)


@pytest.mark.parametrize("alone", FIRST_TO_HEAR)
def test_a_part_alone_gives_its_verdict(alone):
    assert verdict(ALONE[alone]) == alone


@pytest.mark.parametrize(("first", "later"), list(itertools.combinations(FIRST_TO_HEAR, 2)))
def test_of_two_parts_the_one_that_a_reader_must_hear_of_first(first, later):
    a, b = of_part(ALONE[first], "a"), of_part(ALONE[later], "b")
    assert verdict([*a, *b]) == verdict([*b, *a]) == first


def of_one_part(printed, corrected, left_open):
    """The rules, of (evidence, passed) of the printed form, and passed of the others."""
    printed_passes = [passed for _, passed in printed]
    if left_open and {*printed_passes, *left_open} == {True, False}:
        return "depends"
    failing = {evidence for evidence, passed in printed if not passed}
    if "exact" in failing:
        return "refuted" if not corrected or False in corrected else "corrected"
    if failing:
        return "differs" if "protocol" in failing else "partial"
    if corrected:
        return None
    found = {evidence for evidence, _ in printed}
    return "partial" if "partial" in found else "reproduced" if "protocol" in found else "holds"


KINDS = st.tuples(st.sampled_from(["exact", "protocol", "partial"]), st.booleans())


@given(
    printed=st.lists(KINDS, min_size=1, max_size=3),
    corrected=st.lists(st.booleans(), max_size=2),
    left_open=st.lists(st.booleans(), max_size=2),
    data=st.data(),
)
def test_one_part_by_the_rules(printed, corrected, left_open, data):
    records = [record(evidence=evidence, passed=passed) for evidence, passed in printed]
    records += [record(form="corrected", passed=passed) for passed in corrected]
    records += [record(form="open", evidence="protocol", passed=passed) for passed in left_open]
    shuffled = data.draw(st.permutations(records))
    expected = of_one_part(printed, corrected, left_open)
    if expected is None:
        with pytest.raises(LedgerError, match="although the printed form holds"):
            verdict(shuffled)
    else:
        assert verdict(shuffled) == expected


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        # one reading of the print fails: it does not hold
        ([record(), record(passed=False)], "refuted"),
        ([record(evidence="protocol"), record(evidence="protocol", passed=False)], "differs"),
        # one of two corrections fails: nothing is mended
        (
            [
                record(passed=False),
                record(form="corrected"),
                record(form="corrected", passed=False),
            ],
            "refuted",
        ),
        # what fails at the protocol and smaller differs; smaller alone is no evidence
        (
            [record(evidence="protocol", passed=False), record(evidence="partial", passed=False)],
            "differs",
        ),
        ([record(evidence="protocol"), record(evidence="partial", passed=False)], "partial"),
        ([record(passed=False), record(evidence="protocol", passed=False)], "refuted"),
        # a setting decides, whatever a correction says
        (
            [record(passed=False), record(form="corrected"), record(form="open")],
            "depends",
        ),
    ],
)
def test_records_of_one_part_that_disagree(records, expected):
    assert verdict(records) == expected


def test_other_forms_without_the_printed_one_are_refused():
    for form in ("corrected", "open"):
        with pytest.raises(LedgerError, match=r"acl/thm1 'a'.*printed form never was"):
            verdict([record(), record(part="a", form=form)])


def test_what_is_blocked_is_not_judged():
    blocked = {"claim": "acl/thm1", "blocked": "a GPU"}
    assert verdict([blocked, record()]) == verdict([record(), blocked]) == "blocked"
    assert verdict([]) == "todo"
