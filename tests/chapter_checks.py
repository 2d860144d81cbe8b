"""What the tests of every chapter's checks have in common."""

from types import ModuleType

from clcore import ledger
from clcore.ledger import findings


def claims_of(paper: str, chapter: str) -> list[str]:
    """Ids of one group of claims, in ledger order."""
    rows = ledger.claims().values()
    return [row["id"] for row in rows if (row["paper"], row["chapter"]) == (paper, chapter)]


def run_check(checks: ModuleType, claim: str, corrected: set[tuple[str, str]], draws: int) -> None:
    """Run one claim's checks: exactly the parts in `corrected` fail as printed and hold corrected,
    all others pass (settings that are left open may do either), and the verdict is the known one.
    """
    book = ledger.Ledger("any")
    # `run` refuses passing controls, missing counterexamples and parts recorded twice.
    name = claim.split("/")[1].replace("-", "_")
    records = book.run([getattr(checks, name)], draws=draws, seed=11)
    assert records and {r.claim for r in records} == {claim}
    for r in records:
        if r.form == "open":
            continue
        falls = (r.claim, r.part) in corrected and r.form == "printed"
        assert r.passed is not falls, (r.part, r.form, r.measured)
    parts = {(r.claim, r.part) for r in records if r.form == "corrected"}
    assert parts == {key for key in corrected if key[0] == claim}
    # The inline part of acl/num6, trained in the chapter, makes that row partial.
    register = findings.verdicts()
    expected = "holds" if claim == "acl/num6" else register[claim]
    assert ledger.verdict(book.records) == expected
