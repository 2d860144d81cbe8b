"""Records in words: numbers, comparisons, outcomes."""

import math

from clcore.ledger.judging import satisfies


def anchor(claim_id: str) -> str:
    """The HTML id of the place in a chapter that checks a claim."""
    return "claim-" + claim_id.replace("/", "-")


def number(value: float | None) -> str:
    """A measured value as shown to a reader: three significant digits, no -0."""
    if value is None:
        return ""
    return f"{value:z.3g}" if math.isfinite(value) else str(value)


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
    return f"{number(record['measured'])} {sign} {number(record['bound'])}"
