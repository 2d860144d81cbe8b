"""The verdict on a claim, computed from its records."""

from collections.abc import Iterable

from clcore.ledger.printed import LedgerError

VERDICTS = (
    "holds",
    "corrected",
    "refuted",
    "reproduced",
    "depends",
    "differs",
    "partial",
    "blocked",
    "todo",
)


# From the verdict that a reader must hear of first to the one that says least.
_ORDER = ("refuted", "differs", "depends", "corrected", "blocked", "partial", "todo")
_ORDER = (*_ORDER, "reproduced", "holds")


def heard_first(found: Iterable[str]) -> str:
    """The most serious of several verdicts."""
    return min(found, key=_ORDER.index)


def _part_verdict(records: list[dict]) -> str:
    printed, corrected, left_open = (
        [r for r in records if r["form"] == form] for form in ("printed", "corrected", "open")
    )
    if not printed:
        raise LedgerError(
            f"{records[0]['claim']} {records[0]['part']!r}: a correction or an open setting was "
            "recorded, but the printed form never was; check it too"
        )
    # A setting of ours decides: what we took first for the print says no more than the others do.
    if left_open and len({r["passed"] for r in printed + left_open}) > 1:
        return "depends"
    if all(r["passed"] for r in printed):
        if corrected:
            raise LedgerError(
                f"{printed[0]['claim']} {printed[0]['part']!r}: a correction was recorded although "
                "the printed form holds"
            )
        kinds = {r["evidence"] for r in printed}
        if "partial" in kinds:
            return "partial"
        return "reproduced" if "protocol" in kinds else "holds"
    failed = {r["evidence"] for r in printed if not r["passed"]}
    if failed == {"partial"}:
        return "partial"
    if failed <= {"protocol", "partial"}:
        return "differs"
    return "corrected" if corrected and all(r["passed"] for r in corrected) else "refuted"


def verdict(records: list[dict]) -> str:
    """The verdict on one claim from all its records (dicts of Record, or {'blocked': reason}).

    Each part is judged by itself; the claim gets the part's verdict that a reader must hear first:
    refuted, differs, depends, corrected, blocked, partial, reproduced, holds. No records: todo.
    """
    if not records:
        return "todo"
    parts: dict[str, list[dict]] = {}
    found = set()
    for record in records:
        if "blocked" in record:
            found.add("blocked")
        else:
            parts.setdefault(record["part"], []).append(record)
    found |= {_part_verdict(part) for part in parts.values()}
    return heard_first(found)
