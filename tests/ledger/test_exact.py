"""Proofs of parts: identities, signs, counterexamples, intervals; what is refused; rungs."""

from itertools import pairwise

import numpy as np
import pytest
import sympy
from mpmath import iv

from clcore import ledger
from clcore.ledger import LedgerError, Trial, exact, rungs

X, Y = sympy.symbols("x y", real=True)
W = exact.matrix("w", 2, 2)
HALF = sympy.Rational(1, 2)


def test_equal_counts_the_entries_that_differ():
    square = exact.matrix("a", 2, 3)
    loops = [[sum(W[i, k] * square[k, j] for k in range(2)) for j in range(3)] for i in range(2)]
    assert exact.equal(W * square, loops) == exact.Shown("proved", 6, 0)
    loops[1][2] *= 2
    assert exact.equal(W * square, loops).failing == 1
    assert exact.equal(W.T * square, loops).failing == 5 + 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1 / (1 + sympy.exp(-X)), sympy.exp(X) / (1 + sympy.exp(X))),
        ((X**2 - Y**2) / (X - Y), X + Y),
        (sympy.cos(X) ** 2, 1 - sympy.sin(X) ** 2),
        (sympy.log(sympy.exp(X) * sympy.exp(Y)), X + Y),
    ],
)
def test_equal_knows_functions(left, right):
    assert exact.equal(left, right).failing == 0
    assert exact.equal(left, right + HALF).failing == 1
    assert exact.equal(left, -right).failing == 1


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (sympy.Integer(2), 2, "expected symbols"),
        (X, 0.5 * X, "rounded"),
        ([X, Y], [X], "as many entries, got 2 and 1"),
        ([], [], "as many entries"),
    ],
)
def test_equal_refuses(left, right, told):
    with pytest.raises(LedgerError, match=told):
        exact.equal(left, right)


def test_equal_knows_unknown_functions():
    f, g = exact.function("f"), exact.function("g")
    slope = sympy.diff(f(X) * g(X * Y), X)
    assert exact.equal(slope, f.slope(X) * g(X * Y) + Y * f(X) * g.slope(X * Y)).failing == 0
    assert exact.equal(slope, f.slope(X) * g(X * Y) + f(X) * g.slope(X * Y)).failing == 1
    assert exact.equal(slope, g.slope(X) * g(X * Y) + Y * f(X) * g.slope(X * Y)).failing == 1
    assert exact.equal(f(X) - f(Y)).failing == 1


def test_equal_takes_symbols_on_either_side_and_0_for_any_number_of_entries():
    assert exact.equal(2, X).failing == 1
    assert exact.equal([X * (Y + 1) - X * Y - X, 0]) == exact.Shown("proved", 2, 0)
    assert exact.equal([0, X * Y, Y], 0) == exact.Shown("proved", 3, 2)


F, G = exact.function("f"), exact.function("g")
H = sympy.Function("h")(X, Y)
"""Of two arguments: no number can be put in for it."""


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((X / 2 + Y / 3) ** 2, X**2 / 4 + X * Y / 3 + Y**2 / 9),
        (F(F(X)) ** 2 - F(X) ** 2, (F(F(X)) - F(X)) * (F(F(X)) + F(X))),
        (F((X + 1) ** 2), F(X**2 + 2 * X + 1)),
        (sympy.sqrt(X - 9) ** 3, sympy.sqrt(X - 9) * (X - 9)),  # of a negative number
        ((H + 1) ** 2, H**2 + 2 * H + 1),
        (sympy.sin(H) ** 2 + sympy.cos(H) ** 2, 1),
        (sympy.Derivative(F(X), X), F.slope(X)),
        (abs(X) ** 2, X**2),
    ],
)
def test_equal_goes_as_far_as_it_has_to(left, right):
    assert exact.equal(left, right).failing == 0
    assert exact.equal(left, right + HALF).failing == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (H, H.subs({X: Y, Y: X}, simultaneous=True)),
        ((H + 1) ** 2, H**2 + 2 * H),  # is 1
        (1 / H, 0),  # 1 above a fraction line
        (sympy.sin(H) ** 2 + sympy.cos(H) ** 2, 0),
    ],
)
def test_what_no_number_refutes_is_not_therefore_shown(left, right):
    assert exact.equal(left, right).failing == 1


def test_fractions_need_a_common_denominator_and_no_more(monkeypatch):
    monkeypatch.setattr(sympy, "simplify", None)
    assert exact.equal(X / (X + Y) + Y / (X + Y), 1).failing == 0


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((X / 2 + Y / 3) ** 2, X**2 / 4 + Y**2 / 9),
        (X**2 / 4 + Y**2 / 9, (X / 2 + Y / 3) ** 2),
        (F(X) * G(Y), F(Y) * G(X)),
        (F(X), G(X)),
        (F.slope(X), F(X)),
        (sympy.sqrt(X - 9), sympy.sqrt(X - 8)),
        *((f(X), f(Y)) for f in (sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tanh)),
    ],
)
def test_what_some_numbers_refute_is_neither_expanded_nor_compiled(monkeypatch, left, right):
    monkeypatch.setattr(sympy, "expand", None)
    monkeypatch.setattr(sympy, "lambdify", None)
    assert exact.equal(left, right).failing == 1


def test_functions_that_are_seldom_met_are_refuted_by_numbers_as_well(monkeypatch):
    monkeypatch.setattr(sympy, "expand", None)
    assert exact.equal(sympy.pi * F(X), 3 * F(X)).failing == 1
    assert exact.equal(sympy.Max(X, Y), abs(X)).failing == 1


def test_nonnegative_needs_the_identity_and_the_sign():
    value = X**2 + Y**2 - 2 * X * Y
    assert exact.nonnegative(value, (X - Y) ** 2).failing == 0
    assert exact.nonnegative(value, (X + Y) ** 2).failing == 1
    assert exact.nonnegative(value, value).failing == 1  # the sign cannot be read off
    p = exact.vector("p", 2, positive=True)
    assert exact.nonnegative(p[0] * p[1], p[0] * p[1]).failing == 0
    assert exact.nonnegative(X * Y, X * Y).failing == 1


def test_positive_excludes_zero():
    p = exact.vector("p", 2, positive=True)
    assert exact.positive(p[0] ** 2 + p[1], p[0] ** 2 + p[1]).failing == 0
    assert exact.positive(X**2, X**2).failing == 1
    assert exact.nonnegative(X**2, X**2).failing == 0
    assert exact.positive(p[0] ** 2 - p[1], p[0] ** 2 + p[1]).failing == 1


def test_differ_is_exact():
    assert exact.differ(HALF, HALF).failing == 1
    assert exact.differ(HALF, HALF + sympy.Rational(1, 10**30)) == exact.Shown("proved", 1, 0, True)
    assert exact.differ([1, 2], [1, 3]).failing == 0  # one entry is enough
    assert exact.differ(3, 2, "<=").failing == 0 and exact.differ(2, 2, "<=").failing == 1
    assert exact.differ(sympy.sqrt(2), sympy.Rational(7, 5), "<=").failing == 0
    for left, right in ((X, 1), ([1, X], [2, 1])):
        with pytest.raises(LedgerError, match="got symbols"):
            exact.differ(left, right)
    with pytest.raises(LedgerError, match="expected ==, <=, >=, <, >, got '!='"):
        exact.differ(1, 2, "!=")


def test_intervals_cover_and_enclose():
    boxes = exact.cover(0, 3, 40)
    assert boxes[0].a == 0 and boxes[-1].b == 3
    assert all(a.b == b.a for a, b in pairwise(boxes))
    assert [box.a for box in exact.cover(-1, 3, 4)] == [-1, 0, 1, 2]
    assert exact.cover(-1, 3, 4)[-1].b == 3
    assert exact.below_zero(iv.exp(-x) - 1 for x in boxes) == exact.Shown("certified", 40, 0)
    assert exact.below_zero(iv.exp(-x) - iv.mpf(0.5) for x in boxes).failing == 10
    with pytest.raises(LedgerError, match=r"expected mpmath\.iv"):
        exact.below_zero([0.0])
    with pytest.raises(LedgerError, match="at least one"):
        exact.below_zero([])


def proved():
    return exact.equal((X + 1) ** 2, X**2 + 2 * X + 1)


def broken():
    return exact.equal((X + 1) ** 2, X**2 + 1)


def test_a_part_that_is_only_proved_counts_entries():
    part = Trial(["acl/thm1"]).part("square")
    found = part.proves(proved(), breaks={"no 2 x": broken()}).record()
    assert (found.measured, found.control, found.draws) == (0.0, {"no 2 x": 1.0}, 0)
    assert ledger.judge(found)
    here = ledger.Ledger("made")
    here.check(found)
    assert rungs.of(here.records[0]) == "proved"
    assert rungs.evidence(here.records[0]) == "proved"


def test_a_part_may_have_draws_and_a_proof():
    part = Trial(["acl/thm1"]).part("square", 1e-9).add(np.zeros(3)).breaks("off", np.ones(3))
    part.proves(proved(), breaks={"no 2 x": broken()}, at="n = 1")
    here = ledger.Ledger("made")
    here.check(part.record())
    record = here.records[0]
    assert record["control"] == {"off": 1.0}
    assert record["proofs"][0]["control"] == {"no 2 x": {"failing": 1, "entries": 1}}
    assert rungs.evidence(record) == "proved, n = 1"


def test_what_a_part_refuses():
    part = Trial(["acl/thm1"]).part("square")
    with pytest.raises(LedgerError, match="1 of 1 entries could not be shown"):
        part.proves(broken(), breaks={"no 2 x": broken()})
    with pytest.raises(LedgerError, match="also succeeds with 'the same'"):
        part.proves(proved(), breaks={"the same": proved()})
    with pytest.raises(LedgerError, match="needs a broken version"):
        part.proves(proved(), breaks={})
    with pytest.raises(LedgerError, match="nothing was added"):
        part.record()
    part.proves(proved(), breaks={"no 2 x": broken()}).breaks("draws", 1.0)
    with pytest.raises(LedgerError, match="only proved"):
        part.record()


def test_a_counterexample_stands_beside_a_failing_measurement_only():
    shown = {"shown": exact.differ(1, 2), "breaks": {"the same": exact.differ(2, 2)}}
    passing = Trial(["acl/thm1"]).part("", 1.0).add(0.0).breaks("off", 2.0).proves(**shown)
    with pytest.raises(LedgerError, match="the opposite"):
        ledger.judge(passing.record())
    failing = Trial(["acl/thm1"]).part("", 1.0).add(3.0).breaks("off", 2.0).fails_by(3.0)
    failing.proves(proved(), breaks={"no 2 x": broken()})
    with pytest.raises(LedgerError, match="the opposite"):
        ledger.judge(failing.record())


def made(sort="sampled", proofs=(), evidence="exact", draws=60):
    return {"sort": sort, "proofs": list(proofs), "evidence": evidence, "draws": draws}


PROOF = {"rung": "proved", "refutes": False, "at": ""}


def test_a_row_is_as_sure_as_its_weakest_check():
    sure, box = made(proofs=[PROOF]), made(proofs=[PROOF, PROOF | {"rung": "certified"}])
    runs, defined = made(sort="trained", draws=5), made(sort="definition")
    assert rungs.weakest([sure, defined]) == "proved"
    assert rungs.weakest([sure, box]) == "certified"
    assert rungs.weakest([sure, box, made()]) == "sampled"
    assert rungs.weakest([made(), runs]) == "trained"
    assert rungs.weakest([defined]) == "definition"
    assert rungs.weakest([{"blocked": "data"}]) is None
    assert rungs.weakest([]) is None


def test_evidence_in_words():
    assert rungs.evidence(made()) == "sampled, 60 draws"
    assert rungs.evidence(made(draws=1)) == "sampled, 1 draw"
    assert rungs.evidence(made(sort="trained", draws=5)) == "trained, 5 runs"
    sizes = [PROOF | {"at": "n = 3"}, PROOF | {"at": "n = 3"}, PROOF | {"at": "d = 2"}]
    assert rungs.evidence(made(proofs=sizes)) == "proved, n = 3; d = 2"
    refuted = [PROOF | {"refutes": True}]
    assert rungs.evidence(made(proofs=refuted)) == "counterexample, exact"


def test_a_row_says_whether_it_is_proved_for_some_sizes_only():
    sized, free = made(proofs=[PROOF | {"at": "n = 3"}]), made(proofs=[PROOF])
    assert rungs.told({"rung": "proved", "checks": [free, sized]}) == "proved at small sizes"
    assert rungs.told({"rung": "proved", "checks": [free]}) == "proved"
    assert rungs.told({"rung": "sampled", "checks": [sized, made()]}) == "sampled"


def test_definitions_and_runs_have_their_sort():
    assert Trial(["acl/def1"]).defines("code", 1e-9).sort == "definition"
    assert Trial(["acl/def1"], sort="trained").part("code").sort == "trained"
