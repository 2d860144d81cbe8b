"""How a check is written: parts, reducers that know the relation, streams, what is refused."""

import numpy as np
import pytest
import torch

from clcore import ledger
from clcore.ledger import LedgerError, Trial, check, fraction, reducers, total, trial

RNG = np.random.default_rng(0)


@check("acl/thm1")
def thm1(t: Trial) -> None:
    """A made-up check."""
    small = t.part("small", 1.0)
    for scale in (0.1, 0.5):
        errors = scale * t.rng.random(t.draws)
        small.add(errors)
        small.breaks("moved", errors + 2)


def only(part: trial.Part) -> ledger.Check:
    return part.record()


def test_check_is_called_with_draws_and_seed():
    first, again, other = (next(thm1(7, seed)) for seed in (0, 0, 1))
    assert first == again and first.measured != other.measured
    assert (first.claim, first.part, first.draws) == ("acl/thm1", "small", 14)
    rng = trial.generator("acl/thm1", 0)
    errors = np.concatenate([0.1 * rng.random(7), 0.5 * rng.random(7)])
    assert first.measured == errors.max() and first.control == {"moved": errors.min() + 2}
    assert thm1.__name__ == "thm1" and thm1.__doc__ == "A made-up check."


def test_streams_are_named_after_the_claim():
    t, other = Trial(["ncl/thm1"], seed=3), Trial(["acl/thm1"], seed=3)
    drawn = [t.rng.random(), t.stream("a").random(), t.stream("b").random(), other.rng.random()]
    assert len(set(drawn)) == 4
    assert t.stream("a").random() == drawn[1]  # the same whenever it is asked for
    assert drawn[0] == np.random.default_rng((3, 95352047)).random()  # crc32 of "ncl/thm1"


def test_keys_are_named_after_the_claim():
    t = Trial(["ncl/thm1"], seed=3)
    keys = torch.cat([t.keys(5), t.keys(5, "a"), Trial(["acl/thm1"], seed=3).keys(5)])
    assert len(keys.unique()) == 15
    assert torch.equal(t.keys(2, "a"), keys[5:7])
    assert not torch.isin(Trial(["ncl/thm1"], seed=4).keys(5), keys).any()


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("<=", {"worst": 9.0, "strict": 1.0, "typical": 2.0, "pooled": 3.0}),
        (">=", {"worst": 1.0, "strict": 9.0, "typical": 8.0, "pooled": 3.0}),
    ],
)
def test_reducers_know_the_relation(relation, expected):
    errors = [np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0]), np.array(3.0)]
    found = {name: getattr(reducers, name)(errors, relation) for name in expected}
    assert found == expected


def test_a_control_beyond_a_lower_bound_is_judged_where_it_comes_nearest():
    """The old reducer took the least value, so that one failing setting was enough."""
    part = Trial(["acl/thm1"]).part("far", 0.5, ">=")
    part.add(np.array([0.9, 0.8])).breaks("near", np.array([0.1, 0.7]))
    assert only(part).measured == 0.8
    with pytest.raises(ledger.LedgerError, match="passes"):
        ledger.judge(only(part))


def test_nan_is_never_the_best_nor_the_worst():
    errors = [np.array([1.0, np.nan])]
    for reducer in (reducers.worst, reducers.strict, reducers.typical, reducers.pooled):
        assert np.isnan(reducer(errors, "<=")) and np.isnan(reducer(errors, ">="))


def test_share_of_draws_in_which_a_control_fails():
    part = Trial(["acl/thm1"]).part("", 1.0, controls=reducers.pooled).add(0.0)
    part.breaks("mostly", np.array([2.0, 3.0, 0.5, 4.0])).breaks("one number", 5.0)
    assert only(part).shares == {"mostly": 0.75}
    part = Trial(["acl/thm1"]).part("", 1.0, ">=", controls=reducers.pooled).add(2.0)
    assert only(part.breaks("mostly", np.array([0.5, 0.7, 3.0]))).shares == {"mostly": 2 / 3}


def test_one_control_may_have_another_reducer():
    part = Trial(["acl/thm1"]).part("", 1.0).add(0.0)
    part.breaks("strict", np.array([2.0, 5.0, 9.0]))
    part.breaks("typical", np.array([2.0, 5.0, 9.0]), by=reducers.typical)
    assert only(part).control == {"strict": 2.0, "typical": 5.0}


def test_draws_are_counted_unless_they_are_said():
    t = Trial(["acl/thm1"], draws=5)
    assert only(t.part().add(np.zeros(4), np.zeros(3), 0.0).breaks("b", 1.0)).draws == 8
    assert only(t.part("two", draws=60).add(0.0).breaks("b", 1.0)).draws == 60
    assert t.share(2) == 3


def test_a_part_of_another_claim_or_without_errors_is_refused():
    t = Trial(["acl/thm1", "acl/thm2"])
    assert t.part("x", claim="acl/thm2").claim == "acl/thm2"
    with pytest.raises(ledger.LedgerError, match=r"this trial is of acl/thm1, acl/thm2"):
        t.part("x", claim="acl/thm3")
    with pytest.raises(ledger.LedgerError, match="nothing was added"):
        only(t.part("empty").breaks("b", 1.0))
    with pytest.raises(ledger.LedgerError, match="expected a number or a text for 'off'"):
        t.part("y").says(off=[1])
    with pytest.raises(ledger.LedgerError, match="expected the id"):
        check()
    with pytest.raises(ledger.LedgerError, match="on 'draws' or 'runs'"):
        check("acl/thm1", on="luck")


def test_both_forms_of_a_part_are_begun_alike_and_share_a_control():
    t = Trial(["acl/thm1"], draws=3)
    printed, mended = forms = t.both("a", 1.0, ">=", draws=7)
    assert forms.breaks("no a", np.full(2, 0.4), by=total).breaks("b", 0.5) is forms
    assert t.parts == [printed, mended]
    found = [part.add(2.0).record() for part in forms]
    assert [one.form for one in found] == ["printed", "corrected"]
    for one in found:
        assert (one.part, one.bound, one.relation, one.draws) == ("a", 1.0, ">=", 7)
        assert one.control == {"no a": 0.8, "b": 0.5}


def test_checks_on_runs_get_their_tables():
    @check("acl/tab2a", "acl/num14", on="runs")
    def both(t: Trial, low: float, *, high: float) -> None:
        t.part("low", 1.0).add(low).breaks("high", high)
        t.part("again", 1.0, claim="acl/num14", evidence="partial").add(low).breaks("high", high)

    found = list(both(0.5, high=2.0))
    assert [(c.claim, c.measured, c.evidence) for c in found] == [
        ("acl/tab2a", 0.5, "exact"),
        ("acl/num14", 0.5, "partial"),
    ]


def test_a_check_that_takes_no_trial_is_refused():
    with pytest.raises(LedgerError, match=r"acl/thm1.*first parameter is the trial.*old\(draws"):

        @check("acl/thm1")
        def old(draws, seed): ...


def test_a_fraction_is_that_of_all_draws_and_a_total_their_number():
    found = [np.array([True, False]), np.array([True, True, True, False])]
    assert fraction(found, "<=") == fraction(found, ">=") == 4 / 6
    assert total(found, "<=") == 4


def made(*errors: float) -> trial.Part:
    part = Trial(["acl/thm1"]).part("main", 1.0).add(*map(np.array, errors))
    return part.breaks("b", 3.0).says(x=2.0)


def test_a_form_that_fails_says_how():
    assert made(0.9, 0.1).fails_by(np.array([0.9, 0.1])).record().measured == 0.9
    assert made(5.0).fails_by(5.0 + 4e-9).record().measured == 5.0  # 1e-9 of 5
    with pytest.raises(LedgerError, match=r"it fails by 0.1, a second computation gives 0.2; one"):
        made(0.9, 0.1).fails_by(0.9, 0.2).record()
    with pytest.raises(LedgerError, match="it fails by 2 numbers, a second computation gives 1"):
        made(0.9, 0.1).fails_by(0.9).record()
    with pytest.raises(LedgerError, match="a second computation gives nan"):
        made(0.9).fails_by(np.nan).record()
    assert made(0.9).fails_by(0.95, within=0.1).record().measured == 0.9


def test_a_small_error_beside_a_large_one_is_compared_by_itself():
    with pytest.raises(LedgerError, match="it fails by 1, a second computation gives 3"):
        made(1e12, 1.0).fails_by(1e12, 3.0).record()


def test_a_form_that_holds_by_the_second_computation_does_not_fail():
    with pytest.raises(
        LedgerError, match=r"fails by one computation \(1.02, bound 1\) and holds by"
    ):
        made(0.5, 1.02).fails_by(0.5, 0.99, within=0.05).record()
    assert made(0.5, 1.02).fails_by(0.5, 1.01, within=0.05).record().measured == 1.02


def test_every_second_computation_keeps_its_own_tolerance():
    with pytest.raises(LedgerError, match=r"it fails by 2, a second computation gives 2\.1"):
        made(2.0, 3.0).fails_by(2.1).fails_by(3.1, within=0.1).record()
    assert made(2.0, 3.0).fails_by(2.0).fails_by(3.1, within=0.1).record().measured == 3.0


def test_several_second_computations_of_several_numbers():
    part = made(2.0, 3.0, 4.0).fails_by([2.0, 3.0]).fails_by(4.1, within=0.1)
    assert part.record().measured == 4.0
    with pytest.raises(LedgerError, match="it fails by 3, a second computation gives"):
        made(2.0, 3.0, 4.0).fails_by([2.0, 3.1]).fails_by(4.1, within=0.1).record()


@pytest.mark.parametrize("measured", [np.inf, np.nan])
def test_what_is_no_number_is_refused_as_that_and_not_as_a_failing_form(measured):
    with pytest.raises(LedgerError, match=r"expected finite numbers, got .* for measured"):
        ledger.judge(made(measured).record())


def test_a_definition_that_fails_is_an_error_of_ours():
    part = Trial(["acl/thm1"]).defines("code", 1.0).breaks("b", 9.0)
    assert part.add(0.5).record().sort == "definition"
    with pytest.raises(LedgerError, match=r"'code': our code is not what .* cannot be false"):
        part.add(2.0).record()


def test_a_number_said_is_confirmed_by_a_second_computation():
    assert made(0.5).confirms(x=2.0 + 1e-9).said == {"x": 2.0}
    with pytest.raises(LedgerError, match=r"x is said to be 2, a second computation gives 2\.1"):
        made(0.5).confirms(x=2.1)
    with pytest.raises(LedgerError, match="expected 'y' to be said before it is confirmed; said:"):
        made(0.5).confirms(y=2.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (2.0, 4.0, True),  # half of 4 apart
        (-2.0, -4.0, True),
        (2.0, 4.5, False),
        (4.5, 2.0, False),  # it is a share of the second
        (0.5, 0.0, True),  # half of 1: small numbers are compared with 1
        (0.875, 0.25, False),
        (-0.25, 0.25, True),
    ],
)
def test_within_is_a_share_of_the_second_number_or_of_1_where_it_is_smaller(ours, theirs, same):
    part = Trial(["acl/thm1"]).part("main").says(x=ours)
    if same:
        part.confirms(x=theirs, within=0.5)
    else:
        with pytest.raises(LedgerError, match="x is said to be"):
            part.confirms(x=theirs, within=0.5)


def failing(words, form="printed", **more):
    t = Trial(["acl/thm1"], sort=more.pop("sort", "sampled"))
    part = t.part("a", 1.0, form=form, **more).add(np.array([2.0, 3.0])).breaks("b", 9.0)
    words(part)
    return part


@pytest.mark.parametrize(
    ("words", "more", "refused"),
    [
        (lambda part: None, {}, True),
        (lambda part: part.fails_by([2.0, 3.0]), {}, False),
        (lambda part: None, {"form": "corrected"}, False),
        (lambda part: None, {"evidence": "protocol"}, False),
        (lambda part: None, {"sort": "trained"}, False),
        (lambda part: part.errors.clear() or part.add(0.5), {}, False),
    ],
)
def test_a_printed_form_that_fails_is_computed_twice(words, more, refused):
    part = failing(words, **more)
    if refused:
        with pytest.raises(LedgerError, match=r"by one computation alone.*fails_by"):
            part.record()
    else:
        part.record()


def test_where_no_draw_meets_a_hypothesis_nothing_is_added():
    none = np.zeros(0)
    part = Trial(["acl/thm1"]).part("a", 1.0).add(none, 0.5).breaks("b", none, 2.0)
    assert (only(part).measured, only(part).control) == (0.5, {"b": 2.0})
    with pytest.raises(LedgerError, match="nothing was added"):
        Trial(["acl/thm1"]).part("a", 1.0).add(none).breaks("b", 2.0).record()
    bare = Trial(["acl/thm1"]).part("a", 1.0).add(0.5).breaks("b", none)
    with pytest.raises(LedgerError, match="needs a negative control"):
        ledger.judge(bare.record())
