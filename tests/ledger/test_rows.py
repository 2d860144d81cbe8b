"""The rows of the public ledger: their fields, the check that they show, what findings add."""

import pytest

from clcore import ledger
from clcore.ledger import rows
from clcore.ledger.judging import Record
from clcore.ledger.table import findings


def record(measured=0.5, bound=1.0, relation="<=", passed=True, **more):
    """A record as a chapter writes it; part: how the tests below tell them apart."""
    made = Record("acl/thm1", measured, bound, {"broken": 9.0}, relation=relation, passed=passed)
    return vars(made) | {"seconds": 1.0} | more


def chapter(*records, name="1-minmax", profile="book"):
    return {"chapter": name, "profile": profile, "device": "cpu", "records": list(records)}


def row(*chapters, claim="acl/thm1"):
    return next(r for r in rows(chapters) if r["id"] == claim)


def shown(*records):
    """The part of the record whose numbers the row shows."""
    found = row(chapter(*records))
    keys = ("measured", "bound", "relation", "control", "draws")
    (part,) = {r["part"] for r in records if all(r[k] == found[k] for k in keys)}
    return part


BLOCKED = {"claim": "acl/thm1", "blocked": "a GPU"}

FIELDS = (
    *("id", "paper", "where", "kind", "statement", "conditions", "chapter", "needs", "title"),
    *("notebook", "verdict", "rung", "grade", "root", "added", "open", "misprints", "care"),
    "in_short",
    *("measured", "bound", "relation", "control", "draws"),
    *("seconds", "profile", "device", "anchor", "blocked", "checks"),
)


def test_a_row_has_every_field_of_its_claim_and_of_what_was_found():
    claim, found = ledger.claim("acl/thm1"), row(chapter(record(draws=7)))
    assert set(found) == set(FIELDS)
    for name in FIELDS[:9]:
        assert found[name] == claim.get(name, "")
    assert (found["notebook"], found["profile"], found["device"]) == ("1-minmax", "book", "cpu")
    assert (found["verdict"], found["rung"], found["draws"]) == ("holds", "sampled", 7)
    assert found["control"] == {"broken": 9.0} and found["relation"] == "<="
    assert found["anchor"] == "chapters/1-minmax.html#claim-acl-thm1" and found["blocked"] is None


def test_a_claim_without_records_is_there_and_empty():
    found = row(chapter(record()), claim="acl/thm2")
    assert set(found) == set(FIELDS) and found["verdict"] == "todo" and found["checks"] == []
    empty = ("notebook", "rung", "grade", "root", *FIELDS[FIELDS.index("measured") : -1])
    assert {found[name] for name in empty} == {None}
    assert (found["open"], found["misprints"], found["care"]) == ({}, [], [])


def test_a_row_that_holds_says_why_it_is_read_with_care(monkeypatch):
    own = {"verdict": "holds", "in_short": "", "added": "", "parts": {"a": {"edge": "ties"}}}
    known = findings.known() | {"acl/thm1": {"id": "acl/thm1"} | own}
    monkeypatch.setattr(findings, "known", lambda: known)
    assert row(chapter(record()))["care"] == ["edge"]
    known["acl/thm1"] |= {
        "added": "Convention: $x>0$.",
        "without it": "Undefined: 1/x.",
        "parts": {},
    }
    found = row(chapter(record()))
    assert found["care"] == ["condition"] and found["added"].endswith("$x>0$. Undefined: 1/x.")


def test_the_records_of_all_chapters_count():
    first = chapter(record(part="a"), name="1-minmax")
    second = chapter(record(part="b", passed=False), name="2-deep-linear-pca", profile="smoke")
    found = row(first, second)
    assert found["verdict"] == "refuted" and found["seconds"] == 2.0
    assert [r["part"] for r in found["checks"]] == ["a", "b"]
    assert (found["notebook"], found["profile"]) == ("1-minmax", "book")


def test_what_is_blocked_is_said_and_is_no_check():
    found = row(chapter(BLOCKED, record(part="a")))
    assert (found["verdict"], found["blocked"]) == ("blocked", "a GPU")
    assert [r["part"] for r in found["checks"]] == ["a"] and found["measured"] == 0.5
    assert found["seconds"] == 1.0  # a record without seconds took none
    alone = row(chapter(BLOCKED))
    assert (alone["measured"], alone["checks"], alone["seconds"]) == (None, [], 0.0)
    assert alone["notebook"] == "1-minmax" and alone["rung"] is None


# --------------------------------------------------------------------- the check that is shown


def test_a_failing_printed_check_is_shown_the_first_of_several():
    near = record(1.0, part="near")
    first = record(3.0, passed=False, part="first")
    second = record(1.1, passed=False, part="second")
    assert shown(near, first, second) == "first"
    assert shown(second, near, first) == "second"


@pytest.mark.parametrize("form", ["corrected", "open"])
def test_another_form_that_fails_is_no_failing_printed_check(form):
    printed = record(3.0, passed=False)
    other = record(1.5, passed=False, form=form, evidence="protocol")
    assert row(chapter(other, printed, record(0.9, part="b")))["measured"] == 3.0
    passing = record(0.99, evidence="protocol")
    other = record(3.0, passed=False, form="open", evidence="protocol")
    assert row(chapter(other, passing))["measured"] == 0.99


@pytest.mark.parametrize(
    ("near", "far"),
    [
        # by the share of the larger, not by the difference
        (record(90.0, 100.0), record(1e-3, 1e-1)),
        (record(1e-3, 1.1e-3), record(0.5, 0.6)),
        # above a bound, too
        (record(1.1, 1.0, ">="), record(2.0, 1.0, ">=")),
        (record(1.1, 1.0, ">="), record(0.5, 1.0)),
        # below zero
        (record(-101.0, -100.0), record(-5.0, -1.0)),
        (record(-95.0, -100.0, ">="), record(-1.0, -2.0, ">=")),
        (record(0.9), record(-0.9)),
        # nothing is nearer than 0 to 0
        (record(0.0, 0.0), record(0.999)),
        (record(0.0, 0.0), record(1e-9, 1.0)),
    ],
)
def test_else_the_one_that_comes_closest_to_its_bound(near, far):
    near, far = near | {"part": "near"}, far | {"part": "far"}
    assert shown(near, far) == shown(far, near) == "near"


# ------------------------------------------------------------------------------ findings


LEFT = {"unprinted": ["the rate"], "varied": {"the rate": {"1": "None agrees."}}}


@pytest.fixture
def graded(monkeypatch):
    entry = {
        "in_short": "True for n > 1.",
        "added": "n > 1",
        "grade": "proof",
        "root": "acl/lem7",
        "open": LEFT,
    }
    known = {claim: entry | {"id": claim} for claim in ledger.claims()}
    monkeypatch.setattr(findings, "known", lambda: known)


FALSE = record(passed=False)
MENDED = record(form="corrected", correction="y")
RUN = record(evidence="protocol")


@pytest.mark.parametrize(
    ("records", "verdict", "expected"),
    [
        ([record()], "holds", (None, None, {})),
        ([FALSE], "refuted", ("proof", "acl/lem7", {})),
        ([FALSE, MENDED], "corrected", ("proof", "acl/lem7", {})),
        ([RUN], "reproduced", (None, None, {})),
        ([RUN | {"passed": False}], "differs", (None, None, LEFT)),
        ([RUN, RUN | {"form": "open", "passed": False}], "depends", (None, None, LEFT)),
        ([RUN | {"evidence": "partial"}], "partial", (None, None, {})),
        ([BLOCKED], "blocked", (None, None, {})),
        ([], "todo", (None, None, {})),
    ],
)
def test_a_verdict_has_what_belongs_to_it(graded, records, verdict, expected):
    found = row(chapter(*records))
    assert found["verdict"] == verdict
    assert (found["grade"], found["root"], found["open"]) == expected
    assert found["added"] == "n > 1" and found["misprints"] == []


def test_a_misprint_is_a_grade_of_what_holds_and_beside_an_error_is_listed(graded):
    slip = record(misprint="x for y", part="a")
    found = row(chapter(slip, record(part="b")))
    listed = [{"part": "a", "misprint": "x for y"}]
    assert (found["grade"], found["root"], found["misprints"]) == ("misprint", "acl/thm1", listed)
    found = row(chapter(slip, record(part="b", passed=False)))
    assert (found["grade"], found["root"], found["misprints"]) == ("proof", "acl/lem7", listed)
