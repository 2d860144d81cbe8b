"""A part of a claim as printed, and the results of readings against the print."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from clcore.ledger import Check, LedgerError, judge


def tells(check: Check) -> bool:
    """Whether the control fails, as it must: a setting with too few runs, or in which nothing is
    learned, may not separate the two, and is then left out."""
    try:
        judge(check)
    except LedgerError:
        return False
    return True


def beside_print(
    printed: Check, others: Mapping[str, Check], left_open: Iterable[Check] = ()
) -> Iterator[Check]:
    """The printed part, and, if it fails, the first other reading that passes as its correction.
    The results of all others are in the note.

    others: name of a reading -> the same part measured under it. left_open: the same under settings
    that the print leaves open; where one passes, nothing is corrected. An exact part has no
    readings.
    """
    if printed.evidence == "exact":
        yield printed
        return
    passes, correction = judge(printed), None
    stands = passes or any(map(judge, left_open))
    said = []
    for name, other in others.items():
        if not stands and correction is None and judge(other):
            correction = replace(other, form="corrected", correction=name, reading=name)
            continue
        verdict = {-1: ", which fails", 0: "", 1: ", which passes"}[judge(other) - passes]
        size = ", in part" if other.evidence == "partial" else ""
        said.append(f"{other.measured:.2g} ({name}{size}{verdict})")
    told = f"By the same measure, other readings give {', '.join(said)}." if said else ""
    own = [printed.note.rstrip(". ") + "."] if printed.note else []
    yield replace(printed, note=" ".join([*own, told]).strip(), readings=told)
    if correction is not None:
        yield correction
