"""What the tests of every chapter's checks have in common."""

from clcore import ledger


def claims_of(paper: str, chapter: str) -> list[str]:
    """Ids of one group of claims, in ledger order."""
    rows = ledger.claims().values()
    return [row["id"] for row in rows if (row["paper"], row["chapter"]) == (paper, chapter)]
