"""How sure: the rung of what was found, computed from the check, and from a claim's checks."""

from dataclasses import dataclass, field

RUNGS = {
    "proved": "by symbols or in exact arithmetic, for the stated sizes",
    "certified": "by intervals that enclose every value",
    "sampled": "at random inputs, in floating point",
    "trained": "by runs of training",
    "definition": "asserts nothing: our code does what the paper defines",
}
"""Every rung and its meaning, from the surest; a definition is separate."""

SORTS = ("sampled", "trained", "definition")
"""The possible rungs of a check that proves nothing."""


@dataclass(frozen=True)
class Proof:
    """What was shown of a part without rounding. rung: "proved" or "certified". entries: how many
    statements or boxes. refutes: a counterexample. at: sizes. control: what was broken -> how many
    of its own entries were not shown, {"failing": 1, "entries": 9}."""

    rung: str
    entries: int
    refutes: bool = False
    at: str = ""
    control: dict[str, dict[str, int]] = field(default_factory=dict)


def of(record: dict) -> str:
    """The rung of a record (a dict of Record): the weakest of its proofs', else its sort."""
    if record["proofs"]:
        return max((p["rung"] for p in record["proofs"]), key=list(RUNGS).index)
    return record["sort"]


def evidence(record: dict) -> str:
    """A record's rung in words: proved, n = 3; counterexample, exact; sampled, 60 draws."""
    rung = of(record)
    if rung in ("proved", "certified"):
        refuted = all(p["refutes"] for p in record["proofs"])
        sizes = "; ".join(dict.fromkeys(p["at"] for p in record["proofs"] if p["at"]))
        told = ["counterexample", "exact"] if refuted else [rung]
        return ", ".join(told + ([sizes] if sizes else []))
    count, what = record["draws"], "run" if rung == "trained" else "draw"
    return f"{rung}, {count} {what}{'s' if count > 1 else ''}"


def limited(row: dict) -> bool:
    """Whether a proof of the row is of some sizes or cases only."""
    return any(proof["at"] for check in row["checks"] for proof in check["proofs"])


def told(row: dict) -> str:
    """The rung of a row of the ledger in words: proved at small sizes, where a proof is of some;
    certified in some cases, such as a range."""
    where = {"proved": " at small sizes", "certified": " in the stated cases"}
    return row["rung"] + (where.get(row["rung"], "") if limited(row) else "")


def weakest(records: list[dict]) -> str | None:
    """The rung of a claim: that of its weakest check; a definition where all are. None without."""
    found = {of(record) for record in records if "blocked" not in record}
    return max(found - {"definition"} or found, key=list(RUNGS).index, default=None)
