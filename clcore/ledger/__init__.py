"""The public ledger: every numbered statement of the five papers, and what became of it."""

from clcore.ledger.judging import (
    EVIDENCE,
    FORMS,
    TYPESET,
    Check,
    Record,
    agreement,
    agreements,
    judge,
)
from clcore.ledger.outcomes import anchor, comparison, number, outcome
from clcore.ledger.printed import LedgerError, claim, claims, papers
from clcore.ledger.recorder import RECORDS_MIME, Ledger
from clcore.ledger.reducers import fraction, pooled, strict, total, typical, worst
from clcore.ledger.table import rows
from clcore.ledger.trial import Part, Trial, check
from clcore.ledger.verdicts import VERDICTS, verdict

__all__ = [
    "EVIDENCE",
    "FORMS",
    "RECORDS_MIME",
    "TYPESET",
    "VERDICTS",
    "Check",
    "Ledger",
    "LedgerError",
    "Part",
    "Record",
    "Trial",
    "agreement",
    "agreements",
    "anchor",
    "check",
    "claim",
    "claims",
    "comparison",
    "fraction",
    "judge",
    "number",
    "outcome",
    "papers",
    "pooled",
    "rows",
    "strict",
    "total",
    "typical",
    "verdict",
    "worst",
]
