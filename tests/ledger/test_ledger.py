"""The ledger: what it refuses, how verdicts are computed, and that the claims are whole."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clcore import _paths, ledger
from clcore.ledger import Check, Ledger, LedgerError, agreement, agreements, rows, verdict


def record(**fields):
    base = {"claim": "acl/thm1", "part": "", "form": "printed", "evidence": "exact", "passed": True}
    return base | fields


def left_open(setting, passed):
    return record(form="open", evidence="protocol", setting=setting, passed=passed)


def test_all_claims_are_here_and_numbered_once():
    claims = ledger.claims()
    counts = {p: sum(r["paper"] == p for r in claims.values()) for p in ledger.papers()}
    assert counts == {"acl": 88, "ddn": 112, "nl": 108, "ncl": 114}


def test_a_damaged_row_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "claims"
    folder.mkdir(parents=True)
    for name in ("schema.json", "acl.yaml", "ddn.yaml", "nl.yaml", "ncl.yaml"):
        (folder / name).write_bytes((_paths.root() / "data" / "claims" / name).read_bytes())
    document = yaml.safe_load((folder / "nl.yaml").read_text())
    document["claims"][4]["kind"] = "conjecture"
    (folder / "nl.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("CLCORE_ROOT", str(tmp_path))
    ledger.claims.cache_clear()
    try:
        with pytest.raises(LedgerError, match=r"nl\.yaml, at claims/4/kind.*conjecture"):
            ledger.claims()
    finally:
        ledger.claims.cache_clear()


def test_unknown_claim_names_near_ones():
    with pytest.raises(LedgerError, match=r"acl/thm11.*did you mean.*acl/thm1"):
        Ledger("x").check("acl/thm11", 0, 1, {"broken": 2})


def test_check_without_control_is_refused():
    with pytest.raises(LedgerError, match="needs a negative control"):
        Ledger("x").check("acl/thm1", 0, 1, {})


@pytest.mark.parametrize(("relation", "control"), [("<=", 0.5), ("<=", 1.0), (">=", 1.0)])
def test_control_that_passes_is_an_error(relation, control):
    with pytest.raises(LedgerError, match="control 'broken' passes"):
        Ledger("x").check("acl/thm1", 1, 1, {"broken": control}, relation=relation)


def test_every_control_must_fail():
    with pytest.raises(LedgerError, match="'second' passes"):
        Ledger("x").check("acl/thm1", 0, 1, {"first": 2, "second": 0})


def test_claim_recorded_twice_is_refused():
    book = Ledger("x")
    book.check("acl/thm1", 0, 1, {"broken": 2}, part="a")
    book.check("acl/thm1", 0, 1, {"broken": 2}, part="b")
    with pytest.raises(LedgerError, match="recorded already in x"):
        book.check("acl/thm1", 0, 1, {"broken": 2}, part="a")
    with pytest.raises(LedgerError, match="recorded already"):
        book.blocked("acl/thm1", "a GPU")


def test_failing_printed_form_needs_a_counterexample():
    with pytest.raises(LedgerError, match="give a counterexample"):
        Ledger("x").check("acl/thm1", 3, 1, {"broken": 4})


def test_correction_must_be_stated():
    with pytest.raises(LedgerError, match="needs `correction`"):
        Ledger("x").check("acl/thm1", 0, 1, {"broken": 4}, form="corrected")


@pytest.mark.parametrize(
    ("field", "value"), [("relation", "<"), ("form", "repaired"), ("evidence", "proof")]
)
def test_fields_outside_their_values(field, value):
    with pytest.raises(LedgerError, match=f"expected {field} in"):
        Ledger("x").check("acl/thm1", 0, 1, {"broken": 4}, **{field: value})


@pytest.mark.parametrize(
    "fields",
    [
        {"form": "open", "evidence": "protocol"},
        {"setting": "temperature 0.2"},
        {"form": "open", "setting": "temperature 0.2"},
    ],
)
def test_an_open_setting_is_named_and_belongs_to_a_protocol(fields):
    with pytest.raises(LedgerError, match="setting"):
        Ledger("x").check("acl/thm1", 0, 1, {"broken": 4}, **fields)


def test_open_settings_of_one_part_are_told_apart():
    book, fields = Ledger("x"), {"form": "open", "evidence": "protocol"}
    for setting in ("temperature 0.2", "temperature 0.5"):
        book.check("acl/thm1", 0, 1, {"broken": 4}, setting=setting, **fields)
    with pytest.raises(LedgerError, match="recorded already"):
        book.check("acl/thm1", 0, 1, {"broken": 4}, setting=setting, **fields)
    assert ledger.outcome(book.records[0]) == "passes: temperature 0.2"


def test_a_misprint_is_measured_as_it_stands():
    with pytest.raises(LedgerError, match="'as typeset'"):
        Ledger("x").check("acl/thm1", 0, 1, {"broken": 4}, misprint="x for y")
    with pytest.raises(LedgerError, match="'as typeset'"):
        fields = {"form": "corrected", "correction": "y", "misprint": "x for y"}
        Ledger("x").check("acl/thm1", 0, 1, {"as typeset": 4}, **fields)
    book = Ledger("1-minmax")
    book.check("acl/thm1", 0, 1, {"as typeset, x": 4}, misprint="x for y")
    result = {"chapter": "1-minmax", "profile": "smoke", "device": "cpu", "records": book.records}
    row = {r["id"]: r for r in rows([result])}["acl/thm1"]
    assert (row["verdict"], row["grade"], row["root"]) == ("holds", "misprint", "acl/thm1")
    assert row["misprints"] == [{"part": "", "misprint": "x for y"}]


def test_a_false_statement_carries_grade_and_root():
    book = Ledger("1-minmax")
    book.check(Check("acl/thm6", 3, 1, {"broken": 4}, counterexample="it"))
    result = {"chapter": "1-minmax", "profile": "smoke", "device": "cpu", "records": book.records}
    found = {r["id"]: r for r in rows([result])}
    assert (found["acl/thm6"]["grade"], found["acl/thm6"]["root"]) == ("constant", "acl/thm6")
    assert (found["acl/thm1"]["grade"], found["acl/thm1"]["root"]) == (None, None)


@given(
    measured=st.floats(-10, 10), bound=st.floats(-10, 10), relation=st.sampled_from(["<=", ">="])
)
def test_judge_compares_as_said(measured, bound, relation):
    worse = bound + 1 if relation == "<=" else bound - 1
    check = Check("acl/thm1", measured, bound, {"b": worse}, relation=relation, counterexample="c")
    expected = measured <= bound if relation == "<=" else measured >= bound
    assert ledger.judge(check) == expected


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], "todo"),
        ([record()], "holds"),
        ([record(), record(part="b", passed=False)], "refuted"),
        ([record(passed=False), record(form="corrected")], "corrected"),
        ([record(passed=False), record(form="corrected", passed=False)], "refuted"),
        ([record(evidence="protocol")], "reproduced"),
        ([record(evidence="protocol", passed=False)], "differs"),
        ([record(evidence="partial", passed=False)], "partial"),
        ([record(), record(part="b", evidence="partial")], "partial"),
        ([record(), record(part="b", evidence="protocol")], "reproduced"),
        ([record(part="a", passed=False), record(part="b", form="printed")], "refuted"),
        ([{"claim": "acl/thm1", "blocked": "a GPU"}], "blocked"),
        ([record(evidence="protocol", passed=False), left_open("a", True)], "depends"),
        ([record(evidence="protocol"), left_open("a", False)], "depends"),
        ([record(evidence="protocol", passed=False), left_open("a", False)], "differs"),
        ([record(evidence="protocol"), left_open("a", True)], "reproduced"),
        ([record(evidence="partial", passed=False), left_open("a", False)], "partial"),
    ],
)
def test_verdicts(records, expected):
    assert verdict(records) == expected


def test_correction_of_what_holds_is_refused():
    with pytest.raises(LedgerError, match="although the printed form holds"):
        verdict([record(), record(form="corrected")])


def test_correction_without_the_printed_form_is_refused():
    with pytest.raises(LedgerError, match="printed form never was"):
        verdict([record(form="corrected")])


def test_correction_of_one_part_does_not_excuse_another():
    records = [record(part="a", passed=False), record(part="b"), record(part="c")]
    assert verdict([*records, record(part="a", form="corrected")]) == "corrected"
    assert verdict([*records[1:], record(part="a", passed=False)]) == "refuted"


def test_agreement_rule():
    # 2 sqrt(0.3^2/5 + 0.4^2/10) + 0.005 = 0.3728...
    assert agreement(84.06 + 0.372, 0.4, 10, 84.06, 0.3, 5, 0.01)
    assert not agreement(84.06 + 0.374, 0.4, 10, 84.06, 0.3, 5, 0.01)
    assert not agreement(84.06 - 0.374, 0.4, 10, 84.06, 0.3, 5, 0.01)
    assert agreement(84.065, 0, 1, 84.06, 0, 1, 0.02)
    with pytest.raises(LedgerError, match="at least one run"):
        agreement(1, 1, 0, 1, 1, 5, 0.1)


def test_agreement_of_tables_goes_by_row_and_each_side_has_its_columns():
    ours = {"mean": [84.06 + 0.372, 84.06 + 0.374], "std": [0.4, 0.4], "count": [10, 10]}
    paper = {"paper": [84.06, 84.06], "paper_std": [0.3, 0.3]}
    assert agreements(ours, paper, 5) == [True, False]
    assert agreements(ours | {"count": [10, 2]}, paper, 5) == [True, True]
    assert agreements(ours, paper | {"paper": [80.0, 84.1]}, 5, 0.01) == [False, True]
    with pytest.raises(ValueError, match="zip"):
        agreements(ours, {"paper": [84.06], "paper_std": [0.3]}, 5)


def test_rows_carry_the_deciding_check():
    book = Ledger("1-minmax")
    book.check("acl/thm1", 1e-12, 1e-9, {"b": 1}, part="loose", draws=7)
    book.check("acl/thm1", 8e-10, 1e-9, {"b": 2}, part="tight", draws=9)
    result = {"chapter": "1-minmax", "profile": "smoke", "device": "cpu", "records": book.records}
    found = {row["id"]: row for row in rows([result])}
    assert len(found) == len(ledger.claims())
    row = found["acl/thm1"]
    assert (row["verdict"], row["measured"], row["draws"]) == ("holds", 8e-10, 9)
    assert row["anchor"] == "chapters/1-minmax.html#claim-acl-thm1"
    assert len(row["checks"]) == 2
    assert found["acl/thm2"]["verdict"] == "todo"
    assert found["acl/thm2"]["anchor"] is None
    json.dumps(list(found.values()))


def test_deciding_check_is_the_one_closest_to_its_bound():
    book = Ledger("x")
    book.check("acl/def6", -6e-7, -1e-9, {"b": 1}, part="far below a negative bound")
    book.check("acl/def6", 9e-7, 1e-6, {"b": 1}, part="near", draws=5)
    found = {row["id"]: row for row in rows([{"chapter": "x", "records": book.records}])}
    assert found["acl/def6"]["draws"] == 5


def test_todo_lists_what_is_missing():
    book = Ledger("x")
    book.check("acl/thm1", 0, 1, {"b": 2})
    assert book.todo(["acl/thm1", "acl/fig7", "acl/eq1"]) == ["acl/fig7", "acl/eq1"]
