"""Parts of a trial at their edges: what only a proof shows, shares, counts, defaults."""

import numpy as np
import pytest

from clcore.ledger import LedgerError, Trial, exact, rungs

X = exact.vector("x", 1)


def proof(refutes=False):
    if refutes:
        shown, other = exact.differ(1, 2), exact.differ(2, 2)
    else:
        shown, other = exact.equal(X, X), exact.equal(X, 2 * X)
    return {"shown": shown, "breaks": {"doubled": other}}


def part(**more):
    return Trial(["acl/thm1"]).part("a", **more)


def test_a_part_that_is_only_proved_measures_nothing_that_was_not_shown():
    found = part().proves(**proof()).record()
    assert (found.measured, found.bound, found.draws) == (0.0, 0.0, 0)
    assert found.control == {"doubled": 1.0} and found.shares == {}


@pytest.mark.parametrize(
    "made",
    [
        lambda: part(bound=1.0).proves(**proof()),
        lambda: part().proves(**proof()).breaks("draws", 1.0),
        lambda: part().proves(**proof(refutes=True)),
        lambda: part().proves(**proof()).proves(**proof(refutes=True)),
    ],
)
def test_a_part_that_is_only_proved_has_nothing_of_draws(made):
    with pytest.raises(LedgerError, match="a part that is only proved has none of these"):
        made().record()


def test_beside_errors_a_part_may_have_all_of_them():
    found = part(bound=1.0).add(3.0).breaks("draws", 4.0).proves(**proof(refutes=True)).record()
    assert (found.measured, found.control, found.draws) == (3.0, {"draws": 4.0}, 1)


@pytest.mark.parametrize("relation", ["<=", ">="])
def test_a_control_at_the_bound_does_not_fail(relation):
    sign = 1 if relation == "<=" else -1
    made = part(bound=1.0, relation=relation).add(1.0)
    made.breaks("two", 1.0 + sign * np.array([0.0, 1.0]))
    made.breaks("three", 1.0 + sign * np.array([1.0, 2.0]), 1.0 - sign)
    made.breaks("one", 1.0 + sign)
    assert made.record().shares == {"two": 0.5, "three": 2 / 3}


def test_a_number_that_is_said_is_a_plain_one():
    said = part().says(a=np.int64(3), b=np.float32(0.5), c="two", d=1.5).said
    assert said == {"a": 3, "b": 0.5, "c": "two", "d": 1.5}
    assert [type(value) for value in said.values()] == [int, float, str, float]
    for value in (None, [1], np.zeros(2)):
        with pytest.raises(LedgerError, match="expected a number or a text for 'a', got"):
            part().says(a=value)


def test_a_part_has_the_claim_words_and_sort_of_its_trial_unless_it_has_its_own():
    t = Trial(["acl/thm1", "acl/thm2"], sort="trained")
    plain = t.part("a")
    assert (plain.claim, plain.words, plain.sort, plain.form) == (
        "acl/thm1",
        "a",
        "trained",
        "printed",
    )
    own = t.part("a", claim="acl/thm2", words="b", sort="sampled", setting="rate 1")
    assert (own.claim, own.words, own.sort, own.form) == ("acl/thm2", "b", "sampled", "open")
    assert t.part("a", words="").words == ""
    assert t.corrected("a").form == "corrected" and t.defines("a").sort == "definition"
    assert t.parts[:2] == [plain, own] and len(t.parts) == 5


def test_draws_that_are_said_count_even_where_errors_are_fewer():
    made = part(draws=60, bound=1.0).add(np.zeros(4), 0.0).breaks("off", 2.0)
    assert made.record().draws == 60
    made = part(bound=1.0).add(np.zeros(4), 0.0, np.zeros((3, 2))).breaks("off", 2.0)
    assert made.record().draws == 8


def told(*proofs, draws=60, sort="sampled", evidence="exact"):
    return {"sort": sort, "proofs": list(proofs), "evidence": evidence, "draws": draws}


PROVED = {"rung": "proved", "refutes": False, "at": ""}
REFUTED = PROVED | {"refutes": True}
BOXES = PROVED | {"rung": "certified"}


def test_a_counterexample_is_one_where_all_that_is_shown_refutes():
    assert rungs.evidence(told(REFUTED, REFUTED)) == "counterexample, exact"
    assert rungs.evidence(told(REFUTED, PROVED)) == "proved"
    assert rungs.evidence(told(REFUTED | {"at": "n = 2"})) == "counterexample, exact, n = 2"
    assert rungs.evidence(told(BOXES)) == "certified"
    assert rungs.evidence(told(PROVED, PROVED | {"at": "n = 2"})) == "proved, n = 2"


def test_a_rung_is_of_proofs_else_of_what_was_run():
    assert rungs.of(told(BOXES, PROVED)) == rungs.of(told(PROVED, BOXES)) == "certified"
    assert rungs.of(told(sort="definition", evidence="protocol")) == "definition"
    assert rungs.of(told(sort="definition")) == "definition"
    assert rungs.of(told(sort="trained")) == "trained"
    assert rungs.of(told(evidence="protocol")) == "sampled"  # a printed number may be computed
    assert rungs.evidence(told(sort="definition", draws=2)) == "definition, 2 draws"


def test_certified_in_some_cases_is_said_so_and_sampled_is_not():
    sized = told(BOXES | {"at": "n = 2"}, BOXES)
    for rung, expected in (
        ("certified", " in the stated cases"),
        ("definition", ""),
        ("sampled", ""),
    ):
        assert rungs.told({"rung": rung, "checks": [told(BOXES), sized]}) == f"{rung}{expected}"


def test_the_rungs_and_sorts_are_these_from_the_surest():
    assert list(rungs.RUNGS) == ["proved", "certified", "sampled", "trained", "definition"]
    assert rungs.SORTS == ("sampled", "trained", "definition")
    assert rungs.Proof("proved", 1).refutes is False
