"""What rests on what: the closure against a walk, and what is refused."""

import itertools
import re

import networkx
import pytest

from clcore import ledger
from clcore.ledger import LedgerError
from clcore.ledger import map as claim_map


@pytest.fixture
def small(monkeypatch):
    """A ledger of a few claims, as a function of what each rests on."""

    def made(**fields):
        rows = {f"acl/{name}": {"id": f"acl/{name}", **row} for name, row in fields.items()}
        monkeypatch.setattr(claim_map, "claims", lambda: rows)
        claim_map.clear()

    yield made
    claim_map.clear()


def test_below_and_above_are_what_a_walk_reaches():
    graph = networkx.DiGraph(
        (claim, other) for claim in ledger.claims() for other in claim_map.rests_on(claim)
    )
    graph.add_nodes_from(ledger.claims())
    for claim in graph:
        assert claim_map.below(claim) == networkx.descendants(graph, claim)
        assert claim_map.above(claim) == networkx.ancestors(graph, claim)
    assert set(claim_map.used_by("acl/eq1")) == set(graph.predecessors("acl/eq1"))


def test_both_relations_count_and_each_claim_once(small):
    small(a={}, b={}, c={"stated_with": ["acl/a"], "proved_from": ["acl/b", "acl/a"]})
    assert claim_map.rests_on("acl/c") == ("acl/a", "acl/b")
    assert claim_map.used_by("acl/a") == ("acl/c",)
    assert claim_map.below("acl/a") == frozenset()


def test_a_circle_is_named(small):
    small(a={"proved_from": ["acl/b"]}, b={"stated_with": ["acl/c"]}, c={"proved_from": ["acl/a"]})
    with pytest.raises(LedgerError, match="in a circle: ") as told:
        claim_map.below("acl/a")
    circle = re.search(r"circle: (.*?);", str(told.value))[1].split(" -> ")
    steps = {("acl/a", "acl/b"), ("acl/b", "acl/c"), ("acl/c", "acl/a")}
    assert set(itertools.pairwise(circle)) == steps


def test_an_edge_to_nothing_is_named(small):
    small(a={"proved_from": ["acl/nothing"]})
    with pytest.raises(LedgerError, match=r"acl/a rests on 'acl/nothing', which is no claim"):
        claim_map.rests_on("acl/a")


@pytest.mark.parametrize(
    ("asked", "told"),
    [("acl/thm11", "did you mean acl/thm1?"), ("zz", "name one that is, or leave it out")],
)
def test_an_edge_to_nothing_is_answered_with_what_is_near(small, asked, told):
    small(thm1={}, b={"stated_with": [asked]})
    with pytest.raises(LedgerError, match=re.escape(f"{asked!r}, which is no claim; {told}")):
        claim_map.validate()


def test_a_sound_map_is_accepted(small):
    small(a={}, b={"stated_with": ["acl/a"]})
    claim_map.validate()


def test_a_claim_does_not_rest_on_itself(small):
    small(a={"stated_with": ["acl/a"]})
    with pytest.raises(LedgerError, match="acl/a rests on itself"):
        claim_map.rests_on("acl/a")


def test_a_form_is_said_only_of_what_a_claim_rests_on(small):
    small(a={}, b={"uses": {"acl/a": "the corrected form"}})
    with pytest.raises(LedgerError, match="acl/b says which form of acl/a"):
        claim_map.rests_on("acl/b")
