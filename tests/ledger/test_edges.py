"""Edges of the ledger at which a wrong rule gives what the right one gives nearly everywhere."""

import pytest

from clcore.ledger import Ledger, LedgerError, rows
from clcore.ledger.judging import Record


def record(measured=0.5, bound=1.0, relation="<=", **more):
    made = Record("acl/thm1", measured, bound, {"broken": 9.0}, relation=relation, passed=True)
    return vars(made) | more


def row(*records):
    chapter = {"chapter": "1-minmax", "profile": "book", "device": "cpu", "records": [*records]}
    return next(r for r in rows([chapter]) if r["id"] == "acl/thm1")


def test_what_was_not_judged_has_not_passed_and_took_no_time():
    made = Record("acl/thm1", 0.5, 1.0, {"broken": 9.0})
    assert (made.passed, made.seconds, made.draws) == (False, 0.0, 1)


def test_a_check_that_names_no_control_is_refused_as_one_without():
    with pytest.raises(LedgerError, match="needs a negative control"):
        Ledger("x").check("acl/thm1", 0.0, 1.0)


def test_the_fields_of_a_row_have_one_order_so_that_two_builds_can_be_compared():
    assert tuple(row(record())) == (
        *("id", "paper", "where", "kind", "statement", "conditions", "chapter", "needs"),
        *("verdict", "rung", "title", "in_short", "added", "grade", "root", "open", "misprints"),
        "care",
        *("notebook", "measured", "bound", "relation", "control", "draws", "seconds", "profile"),
        *("device", "anchor", "blocked", "checks"),
    )


@pytest.mark.parametrize(
    "near",
    [
        record(-10.0, -1.0),  # 0.9 of the measured value, and 9 of the bound
        record(-1.0, -10.0, ">="),  # the other way round
        record(10.0, 1.0, ">="),
        record(1.0, 10.0),
    ],
)
def test_closeness_to_a_bound_is_a_share_of_the_larger_in_size(near):
    across = record(-0.9, 0.9, part="across")  # twice the size of either
    for records in ((near, across), (across, near)):
        assert row(*records)["measured"] == near["measured"]
