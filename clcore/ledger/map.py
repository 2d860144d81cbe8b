"""Dependencies of claims: those a statement is stated with, and those it is proved from."""

import graphlib
from functools import cache

from clcore.ledger.printed import LedgerError, claims, near


def _named(row: dict) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*row.get("stated_with", ()), *row.get("proved_from", ()))))


@cache
def _sorted() -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Every claim -> what it rests on directly; and the claims in an order in which each comes
    after what it rests on."""
    rows = claims()
    direct = {claim: _named(row) for claim, row in rows.items()}
    for claim, others in direct.items():
        for other in others:
            if other not in rows:
                hint = near(other, rows, "name one that is, or leave it out")
                raise LedgerError(
                    f"data/claims: {claim} rests on {other!r}, which is no claim; {hint}"
                )
            if other == claim:
                raise LedgerError(f"data/claims: {claim} rests on itself; leave it out")
        for other in rows[claim].get("uses", {}):
            if other not in others:
                raise LedgerError(
                    f"data/claims: {claim} says which form of {other} it uses, but does not name "
                    f"{other} in stated_with or proved_from"
                )
    try:
        order = tuple(graphlib.TopologicalSorter(direct).static_order())
    except graphlib.CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise LedgerError(
            f"data/claims: claims rest on one another in a circle: {circle}; take out the step "
            "that the paper does not make"
        ) from None
    return direct, order


def validate() -> None:
    """Raise LedgerError if a claim rests on one that does not exist or on itself, if some rest
    on one another in a circle, or if a form is given for a claim that is not rested on."""
    _sorted()


def rests_on(claim: str) -> tuple[str, ...]:
    """The claims that one rests on directly: those in its statement, then those in its proof.

    Raises LedgerError when the map of the claims names one that does not exist, or is circular.
    """
    return _sorted()[0][claim]


@cache
def _users() -> dict[str, tuple[str, ...]]:
    direct = _sorted()[0]
    users: dict[str, list[str]] = {claim: [] for claim in direct}
    for claim, others in direct.items():
        for other in others:
            users[other].append(claim)
    return {claim: tuple(found) for claim, found in users.items()}


def used_by(claim: str) -> tuple[str, ...]:
    """The claims that rest on one directly, in ledger order."""
    return _users()[claim]


@cache
def _reach(down: bool) -> dict[str, frozenset[str]]:
    step = rests_on if down else used_by
    order = _sorted()[1]
    found: dict[str, frozenset[str]] = {}
    for claim in order if down else reversed(order):
        near = step(claim)
        found[claim] = frozenset(near).union(*(found[other] for other in near))
    return found


def below(claim: str) -> frozenset[str]:
    """Everything that a claim rests on, at any distance; not the claim itself."""
    return _reach(True)[claim]


def above(claim: str) -> frozenset[str]:
    """Everything that rests on a claim, at any distance; not the claim itself."""
    return _reach(False)[claim]


def clear() -> None:
    """Forget the map, for tests that change the claims."""
    for kept in (_sorted, _users, _reach):
        kept.cache_clear()
