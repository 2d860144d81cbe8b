"""One check of a claim: what was measured, the bound, the control that must fail; and whether it
passes. No outcome is ever typed."""

import math
from dataclasses import dataclass, field
from typing import Any, TypedDict

from clcore.ledger.printed import LedgerError, claim
from clcore.ledger.reducers import Reducer
from clcore.ledger.rungs import SORTS, Proof

EVIDENCE = ("exact", "protocol", "partial")
FORMS = ("printed", "corrected", "open")
TYPESET = "as typeset"
"""How the control of a misprint begins: the letters on the page, taken as they are."""


@dataclass(frozen=True)
class Check:
    """One measurement on a claim, with the control that must fail. Fields as in `Ledger.check`.

    words, said: its name in data/findings, and the numbers for its text (None
    if the words are the check's own). readings: what readings against the print give, a part of
    the note; reading: the one by whose name a corrected form goes. shares: in which share of draws
    each control fails. sort: "sampled", "trained" or "definition". proofs: what was shown exactly.
    """

    claim: str
    measured: float
    bound: float
    control: dict[str, float]
    draws: int = 1
    part: str = ""
    relation: str = "<="
    form: str = "printed"
    evidence: str = "exact"
    note: str = ""
    counterexample: str = ""
    correction: str = ""
    misprint: str = ""
    setting: str = ""
    words: str = ""
    readings: str = ""
    reading: str = ""
    said: dict[str, Any] | None = None
    shares: dict[str, float] = field(default_factory=dict)
    sort: str = "sampled"
    proofs: tuple[Proof, ...] = ()


class Shared(TypedDict, total=False):
    """Keywords of `Trial.part` that several parts of a check have in common, kept in a dict."""

    claim: str
    controls: Reducer
    draws: int
    evidence: str
    measured: Reducer
    setting: str
    sort: str
    words: str


@dataclass(frozen=True)
class Record(Check):
    """A check that the ledger accepted."""

    passed: bool = False
    seconds: float = 0.0
    anchor: str = ""


def satisfies(value: float, relation: str, bound: float) -> bool:
    """Whether `value relation bound`; never where the value is NaN."""
    return bool(value <= bound if relation == "<=" else value >= bound)


def judge(check: Check) -> bool:  # noqa: C901 (one guard a refusal)
    """Whether `check` passes, after refusing what would be worthless.

    Raises LedgerError for an unknown claim, a missing or passing control, a field outside its
    values, and a number that is none: measured, bound or control.
    """
    claim(check.claim)
    name = f"{check.claim} {check.part!r}" if check.part else check.claim
    for value, allowed, what in (
        (check.relation, ("<=", ">="), "relation"),
        (check.form, FORMS, "form"),
        (check.evidence, EVIDENCE, "evidence"),
        (check.sort, SORTS, "sort"),
    ):
        if value not in allowed:
            raise LedgerError(f"{name}: expected {what} in {allowed}, got {value!r}")
    if check.draws < 1 and not check.proofs:
        raise LedgerError(f"{name}: expected at least one draw, got {check.draws}")
    if not check.control:
        raise LedgerError(
            f"{name}: a check needs a negative control; measure the same thing on a version of the "
            "statement that ought to fail, and pass control={'what was broken': value}"
        )
    numbers = {"measured": check.measured, "bound": check.bound}
    numbers |= {f"the control {broken!r}": value for broken, value in check.control.items()}
    for what, value in numbers.items():
        if not math.isfinite(value):
            raise LedgerError(
                f"{name}: expected finite numbers, got {value} for {what}, which shows nothing; "
                "find where it overflows or divides by zero"
            )
    for broken, value in check.control.items():
        if satisfies(value, check.relation, check.bound):
            raise LedgerError(
                f"{name}: the control {broken!r} passes ({value:.3g} {check.relation} "
                f"{check.bound:.3g}), so the check cannot tell right from wrong; find a control "
                "that breaks the statement, or a sharper measurement"
            )
    passed = satisfies(check.measured, check.relation, check.bound)
    if any(proof.refutes is passed for proof in check.proofs):
        raise LedgerError(
            f"{name}: the exact result is {'false' if passed else 'true'}, the measured one "
            "the opposite; one of the two is wrong"
        )
    if (check.form == "open") is not bool(check.setting):
        raise LedgerError(
            f"{name}: form='open' and `setting` go together: what the print leaves open, and the "
            "value it is measured at, such as 'temperature 0.2'"
        )
    if check.form == "open" and check.evidence == "exact":
        raise LedgerError(
            f"{name}: a setting is left open by a protocol; expected evidence 'protocol' or "
            "'partial', got 'exact'"
        )
    if check.misprint and (
        check.form != "printed" or not any(c.startswith(TYPESET) for c in check.control)
    ):
        raise LedgerError(
            f"{name}: a misprint is measured by the printed form in its one possible meaning, with "
            f"a control {TYPESET!r} that takes the letters as they are and fails"
        )
    if check.form == "corrected" and not check.correction:
        raise LedgerError(f"{name}: a corrected form needs `correction`, the statement that holds")
    if (
        check.form == "printed"
        and check.evidence == "exact"
        and not passed
        and not check.counterexample
    ):
        raise LedgerError(
            f"{name}: the statement as printed fails ({check.measured:.3g}, bound "
            f"{check.bound:.3g}); if that is the paper's doing, give a counterexample"
        )
    return passed


def agreement(
    ours: float, std: float, n: int, theirs: float, their_std: float, their_n: int, unit: float
) -> bool:
    """Whether a table cell agrees: |ours - theirs| <= 2 sqrt(s1^2/n1 + s2^2/n2) + unit/2.

    `unit` is one unit of the paper's last printed digit (0.01 for 84.06); `n` counts seeds. What is
    not finite agrees with nothing. Raises LedgerError for a cell without a run.
    """
    if n < 1 or their_n < 1:
        raise LedgerError(f"expected at least one run per cell, got {n} and {their_n}")
    error = math.sqrt(std**2 / n + their_std**2 / their_n)
    return bool(math.isfinite(error) and abs(ours - theirs) <= 2 * error + unit / 2)


def agreements(ours: Any, paper: Any, n: int, unit: float = 0.01) -> list[bool]:
    """`agreement` of every row of two tables: `ours` has columns mean, std and count, `paper`
    has paper and paper_std, of `n` seeds."""
    own = zip(ours["mean"], ours["std"], ours["count"], strict=True)
    theirs = zip(paper["paper"], paper["paper_std"], strict=True)
    return [agreement(*a, *b, n, unit) for a, b in zip(own, theirs, strict=True)]
