"""The steps of printed proofs: every theorem has them, and what they name is there."""

import ast

import pytest

from clcore.ledger import claims, findings, registry, words
from clcore.ledger import map as claim_map
from clcore.ledger.findings import FindingsError

THEOREMS = [claim for claim, row in claims().items() if row["kind"] == "theorem"]
EXECUTED = [
    *("acl/thm3", "acl/thm4", "acl/thm5", "acl/thm6", "ddn/thm4", "ddn/thm5", "nl/thm1"),
    *("nl/thm3", "ncl/thm1", "ncl/thm1a", "ncl/thm1b", "ncl/thm2"),
]
"""Theorems of whose proofs no step is only read."""


def named(claim: str) -> set[tuple[str, str]]:
    return {by for step in findings.steps(claim) for by in step.by}


def texts(claim: str) -> set[str]:
    """Every text in the modules of the rooms in which a claim is checked."""
    files = {file for place in registry.of(claim) for file in place.file.parent.glob("*.py")}
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sorted(files)]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {node.value for node in nodes if isinstance(node.value, str)}


@pytest.mark.parametrize("claim", THEOREMS)
def test_a_theorem_has_the_steps_of_its_proof(claim):
    assert findings.steps(claim)
    rows = {row for row, _ in named(claim)}
    assert set(claims()[claim]["proved_from"]) <= rows, "a lemma of the proof is in none of them"
    assert not rows & claim_map.above(claim), "what executes a step rests on the theorem"


@pytest.mark.parametrize("claim", EXECUTED)
def test_no_step_of_these_is_only_read(claim):
    assert [step.step for step in findings.steps(claim) if step.read] == []


def test_what_executes_a_step_is_checked_and_has_that_part():
    for row, part in {by for claim in THEOREMS for by in named(claim)}:
        assert registry.of(row) or registry.cells(row), row
        assert not part or part in texts(row), f"{row} has no part {part!r}"


def test_a_part_that_is_not_there_is_named_when_the_row_is_on_trial():
    one = {"claim": "acl/eq40", "part": "Eq. 41", "words": "Eq. 41", "said": {}}
    told = words.unsaid([one])
    assert any("'Eq. 43'" in left for left in told) and not any("'Eq. 41'" in x for x in told)
    assert words.unsaid([{**one, "claim": "acl/eq1", "words": "", "part": ""}]) == []


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"step": "A"}, "is not valid under any of the given schemas"),
        ({"step": "A", "by": ["acl/eq40"], "read": "B"}, "is valid under each of"),
        ({"step": "A", "by": ["eq40"]}, "'eq40' does not match"),
        ({"step": "A", "by": []}, r"steps/0/by: \[\]"),
        ({"by": ["acl/eq40"]}, "'step' is a required property"),
        ({"step": "A", "by": ["acl/eq400"]}, "'A': expected the id of a claim, got 'acl/eq400'"),
    ],
)
def test_a_damaged_step_is_named(damaged, step, told):
    with pytest.raises(FindingsError, match=told):
        damaged("acl/thm3", steps=[step])
        findings.steps("acl/thm3")
