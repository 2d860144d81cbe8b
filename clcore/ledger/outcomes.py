"""Records in words: numbers, comparisons, outcomes."""

import math

from clcore.ledger.judging import satisfies


def anchor(claim_id: str) -> str:
    """The HTML id of the place in a chapter that checks a claim."""
    return "claim-" + claim_id.replace("/", "-")


def number(value: float | None, *beside: float) -> str:
    """A measured value as shown to a reader: three significant digits, no -0.

    beside: numbers that it is shown with; as many digits, up to nine, as tell it from these.
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    for digits in range(3, 10):
        shown = f"{value:z.{digits}g}"
        if all(other == value or f"{other:z.{digits}g}" != shown for other in beside):
            return shown
    return f"{value:z.3g}"


def outcome(record: dict) -> str:
    """One record in words: passes, fails, or blocked; the corrected form is named as such."""
    if "blocked" in record:
        return "blocked"
    word = "passes" if record["passed"] else "fails"
    if record["form"] == "open":
        return f"{word}: {record['setting']}"
    return f"corrected form {word}" if record["form"] == "corrected" else word


def comparison(record: dict) -> str:
    """Measured against bound, as in 2.1e-14 ≤ 1e-10; the sign shows the result."""
    passing, failing = ("≤", ">") if record["relation"] == "<=" else ("≥", "<")
    inside = satisfies(record["measured"], record["relation"], record["bound"])
    sign = "against" if math.isnan(record["measured"]) else passing if inside else failing
    measured, bound = record["measured"], record["bound"]
    controls = record["control"].values()
    return f"{number(measured, bound)} {sign} {number(bound, measured, *controls)}"
