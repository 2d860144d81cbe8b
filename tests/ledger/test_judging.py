"""What the judge refuses, and by which name; and when a cell of a table agrees."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clcore.ledger import Check, Ledger, LedgerError, agreement, judge
from clcore.ledger.judging import TYPESET, satisfies
from clcore.ledger.rungs import SORTS, Proof

GOOD = {"measured": 0.5, "bound": 1.0, "control": {"broken": 2.0}}


def check(**fields):
    return Check("acl/thm1", **GOOD | fields)


BROKEN = {"broken": {"failing": 1, "entries": 3}}
PROVED = Proof("proved", 3, control=BROKEN)
COUNTEREXAMPLE = Proof("proved", 1, refutes=True, control=BROKEN)


# ------------------------------------------------------------------------------- numbers

NO_NUMBERS = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("relation", ["<=", ">="])
@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("measured", "measured"),
        ("bound", "bound"),
        ("control", "the control 'second'"),
    ],
)
def test_what_is_not_finite_is_refused_by_its_name(field, told, value, relation):
    good = {"measured": 1.0, "bound": 1.0, "control": {"first": 2.0 if relation == "<=" else 0.0}}
    bad = {"control": good["control"] | {"second": value}} if field == "control" else {field: value}
    with pytest.raises(LedgerError, match=f"acl/thm1 'a': expected finite.*{value} for {told},"):
        judge(Check("acl/thm1", **good | bad, relation=relation, part="a", counterexample="it"))


def test_a_record_of_what_is_not_finite_is_not_kept():
    book = Ledger("x")
    with pytest.raises(LedgerError, match="got nan for measured"):
        book.check("acl/thm1", bound=1.0, control={"broken": 2.0})
    with pytest.raises(LedgerError, match="got nan for bound"):
        book.check("acl/thm1", 0.0, control={"broken": 2.0})
    assert book.records == []


@given(value=st.floats(allow_nan=True), bound=st.floats(allow_nan=True), below=st.booleans())
def test_a_value_satisfies_a_bound_that_it_may_reach_and_nan_none(value, bound, below):
    found = satisfies(value, "<=" if below else ">=", bound)
    low, high = (value, bound) if below else (bound, value)
    assert found is (not (math.isnan(low) or math.isnan(high)) and not low > high)
    assert not satisfies(math.nan, "<=" if below else ">=", bound)


# ------------------------------------------------------------------------------- refusals


def test_a_check_needs_draws_or_a_proof():
    for draws in (0, -1):
        with pytest.raises(LedgerError, match=f"at least one draw, got {draws}"):
            judge(check(draws=draws))
        assert judge(check(draws=draws, proofs=(PROVED,)))
    assert judge(check(draws=1)) and judge(check(draws=2)) and judge(check())


@pytest.mark.parametrize("form", ["printed", "corrected", "open"])
@pytest.mark.parametrize("evidence", ["exact", "protocol", "partial"])
@pytest.mark.parametrize("passed", [True, False])
@pytest.mark.parametrize("counterexample", ["", "x = 1"])
def test_only_a_printed_statement_that_fails_needs_a_counterexample(
    form, evidence, passed, counterexample
):
    fields = {"corrected": {"correction": "y"}, "open": {"setting": "rate 1"}}.get(form, {})
    made = check(
        measured=0.5 if passed else 1.5,
        form=form,
        evidence=evidence,
        counterexample=counterexample,
        **fields,
    )
    if form == "open" and evidence == "exact":
        with pytest.raises(LedgerError, match="a setting is left open by a protocol"):
            judge(made)
    elif (form, evidence, passed, counterexample) == ("printed", "exact", False, ""):
        with pytest.raises(LedgerError, match=r"as printed fails \(1.5, bound 1\)"):
            judge(made)
    else:
        assert judge(made) is passed


def test_a_setting_belongs_to_an_open_form_and_it_to_a_setting():
    for fields in ({"form": "open"}, {"setting": "rate 1"}):
        with pytest.raises(LedgerError, match="`setting` go together"):
            judge(check(evidence="protocol", **fields))


def test_a_correction_is_needed_by_the_corrected_form_alone():
    with pytest.raises(LedgerError, match="needs `correction`"):
        judge(check(form="corrected"))
    assert judge(check(form="corrected", correction="y")) and judge(check(correction="y"))


def test_a_misprint_has_the_control_of_the_letters_beside_any_others():
    both = {"broken": 2.0, f"{TYPESET}, x": 3.0}
    assert judge(check(misprint="x for y", control=both))
    assert judge(check(control=both))  # such a control without a misprint is like any other
    with pytest.raises(LedgerError, match="with a control 'as typeset'"):
        judge(check(misprint="x for y"))
    for form in ({"form": "corrected", "correction": "y"}, {"form": "open", "setting": "rate 1"}):
        with pytest.raises(LedgerError, match="with a control 'as typeset'"):
            judge(check(misprint="x for y", control=both, evidence="protocol", **form))


@pytest.mark.parametrize("passed", [True, False])
def test_what_is_shown_exactly_and_what_is_measured_must_agree(passed):
    measured, right, wrong = (
        (0.5, PROVED, COUNTEREXAMPLE) if passed else (1.5, COUNTEREXAMPLE, PROVED)
    )
    fields = {"measured": measured, "counterexample": "it"}
    assert judge(check(proofs=(right,), **fields)) is passed
    told = "false" if passed else "true"
    for proofs in ((wrong,), (right, wrong), (wrong, right)):
        with pytest.raises(LedgerError, match=f"the exact result is {told}"):
            judge(check(proofs=proofs, **fields))


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_is_taken_and_no_other(sort):
    assert judge(check(sort=sort))
    with pytest.raises(LedgerError, match="expected sort in"):
        judge(check(sort=f"{sort}s"))


def test_a_refusal_names_the_part_where_there_is_one():
    with pytest.raises(LedgerError, match=r"^acl/thm1 'a': a check needs a negative control"):
        judge(check(control={}, part="a"))
    with pytest.raises(LedgerError, match=r"^acl/thm1: a check needs a negative control"):
        judge(check(control={}))
    with pytest.raises(LedgerError, match="expected the id of a claim"):
        judge(Check("acl/none", **GOOD))


@pytest.mark.parametrize("relation", ["<=", ">="])
def test_a_control_at_the_bound_passes_and_one_beyond_fails(relation):
    beyond = 1.0 + (1e-9 if relation == "<=" else -1e-9)
    assert judge(check(measured=1.0, control={"broken": beyond}, relation=relation))
    with pytest.raises(LedgerError, match=r"'broken' passes \(1 .= 1\)"):
        judge(check(measured=1.0, control={"broken": 1.0}, relation=relation))


# ------------------------------------------------------------------------------- agreement


def test_a_cell_agrees_up_to_half_a_unit_and_no_further():
    assert agreement(1.5, 0, 1, 1.0, 0, 1, 1.0)
    assert agreement(0.5, 0, 1, 1.0, 0, 1, 1.0)
    assert not agreement(1.5 + 1e-9, 0, 1, 1.0, 0, 1, 1.0)
    assert not agreement(0.5 - 1e-9, 0, 1, 1.0, 0, 1, 1.0)


@given(
    std=st.floats(0.1, 9),
    their_std=st.floats(0.1, 9),
    n=st.integers(1, 9),
    their_n=st.integers(1, 9),
    unit=st.floats(0, 1),
    sign=st.sampled_from([-1, 1]),
)
def test_a_cell_agrees_within_two_errors_and_half_a_unit(std, their_std, n, their_n, unit, sign):
    reach = 2 * math.hypot(std / math.sqrt(n), their_std / math.sqrt(their_n)) + unit / 2
    for theirs in (-3.0, 0.0, 4.0):
        near, far = (theirs + sign * reach * share for share in (1 - 1e-9, 1 + 1e-9))
        assert agreement(near, std, n, theirs, their_std, their_n, unit)
        assert not agreement(far, std, n, theirs, their_std, their_n, unit)


@pytest.mark.parametrize(("n", "their_n"), [(0, 5), (5, 0), (-1, 5), (5, -1), (0, 0)])
def test_a_cell_without_runs_is_refused_on_either_side(n, their_n):
    with pytest.raises(LedgerError, match=f"at least one run per cell, got {n} and {their_n}"):
        agreement(1, 1, n, 1, 1, their_n, 0.1)


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("field", ["ours", "std", "theirs", "their_std"])
def test_what_is_not_finite_agrees_with_nothing(field, value):
    cell = {"ours": 1.0, "std": 1.0, "n": 3, "theirs": 1.0, "their_std": 1.0, "their_n": 3}
    assert not agreement(**cell | {field: value}, unit=0.1)
    assert not agreement(value, math.inf, 3, value, math.inf, 3, 0.1)
