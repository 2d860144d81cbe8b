"""The docstring of a check: title, Given, Claim, Fails."""

import pytest

from clcore import ledger
from clcore.ledger import registry
from clcore.ledger.written import statements

THM = """Filters are co-linear (Theorem 4, Eq. 14).

Given   linear h, V fixed,
        all s_km != 0.
Claim   dw/dt = s b.
Fails   for ReLU filters.

By complex steps.

Twice.
"""
RUNS = THM.replace("Given", "Protocol").replace("Claim", "Question").replace("Fails", "Refuted")


def test_a_docstring_is_taken_apart():
    found = statements.statement(THM, ["Filters are co-linear"])
    assert (found.title, found.where) == ("Filters are co-linear", "Theorem 4, Eq. 14")
    assert list(found.blocks.items()) == [
        ("Given", "linear h, V fixed, all s_km != 0."),
        ("Claim", "dw/dt = s b."),
        ("Fails", "for ReLU filters."),
    ]
    assert found.note == "By complex steps.\n\nTwice.\n"


def test_a_check_of_runs_has_its_own_blocks():
    found = statements.statement(RUNS, ["Filters are co-linear"], "runs")
    assert [*found.blocks] == ["Protocol", "Question", "Refuted"]
    with pytest.raises(ledger.LedgerError, match="missing: Given, Claim, Fails"):
        statements.statement(RUNS, ["Filters are co-linear"])


def test_several_claims_have_their_titles_in_order_and_a_place_is_free():
    text = THM.replace("co-linear (Theorem 4, Eq. 14)", "straight;\nthey\nstay")
    found = statements.statement(text, ["Filters are straight", "they stay"])
    assert (found.title, found.where) == ("Filters are straight; they stay", "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Filters are", "All filters are", "title in data/claims, 'Filters are co-linear'"),
        ("co-linear (", "co-linear, (", "got 'Filters are co-linear, "),
        ("14).", "14)", "a full stop"),
        ("Given   linear", "For     linear", "missing: Given;"),
        ("dw/dt = s b.", "", "missing: Claim;"),
        ("Fails", "fails", "missing: Fails; see clcore/ledger/written/statements.py"),
        ("Given   linear h, V fixed,", "Claim   x.\nGiven   y", "got others beside them"),
        ("Fails   for", "Claim   again\nFails   for", "got others beside them"),
        ("Given   linear", "We say so.\nGiven   linear", "got others beside them"),
        ("Fails", "\nFails", "no blank line between them; missing: Fails"),
        (THM, "", "begin with the title"),
    ],
)
def test_what_a_docstring_lacks_is_named(old, new, told):
    with pytest.raises(ledger.LedgerError, match=told.replace("(", r"\(")):
        statements.statement(THM.replace(old, new), ["Filters are co-linear"])


def test_where_a_docstring_is_refused_is_told(write):
    write("clcore/checks/a.py", '\n@check("acl/thm1")\ndef one(t):\n    pass\n')
    (place,) = registry.of("acl/thm1")
    with pytest.raises(ledger.LedgerError, match=r"^clcore/checks/a.py:2 one: expected the doc"):
        statements.of(place)


def test_every_check_has_the_form():
    refused = []
    for place in registry.places():
        try:
            statements.of(place)
        except ledger.LedgerError as error:
            refused.append(str(error))
    assert refused == []
