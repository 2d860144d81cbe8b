"""What a terminal is told of a claim: where it is checked, and what its check finds now."""

import textwrap

import pytest
import torch
from made_notebook import notebook

from clcore.ledger import LedgerError, claim, places

CHECKS = '''
from clcore.ledger import Trial, check


@check("acl/tab2a", on="runs")
def table(t: Trial, low: float) -> None:
    t.part("low", 1.0).add(low).breaks("high", 2.0)


@check("acl/tab2a", "acl/thm2")
def both(t: Trial) -> None:
    """Takes a number from its draws and its seed."""
    part = t.part("first", 20.0).add(t.draws).breaks("most", [30.0, 40.0, 50.0, 19.0], by=min_of)
    part.breaks("one number", 21.5)
    t.part("", 1.0, claim="acl/thm2").add(t.seed / 8).breaks("off", 4.0)


def min_of(errors, relation):
    return 30.0


@check("acl/num14", on="runs")
def num14(t: Trial, low: float) -> None:
    t.part("low", 1.0).add(low).breaks("high", 2.0)
'''

SAID = '"acl/tab2a", "acl/thm2"'
CHAPTERS = {
    "1-a": notebook(
        ("markdown", "m", f"{SAID}"), ("code", "one", "x = 1"), ("code", "two", f"run({SAID})")
    ),
    "2-b": notebook(("code", "three", f"run({SAID})"), ("code", "four", f"show({SAID})")),
}

TAB2A = """\
check    clcore/checks/made.py:5 (table, lines 5 to 7, on runs)
check    clcore/checks/made.py:10 (both, lines 10 to 15, on draws)
run in   chapters/1-a.ipynb, code cell 2 (id two)
run in   chapters/2-b.ipynb, code cell 1 (id three)
run in   chapters/2-b.ipynb, code cell 2 (id four)
page     chapters/1-a.html#claim-acl-tab2a
page     chapters/2-b.html#claim-acl-tab2a
words    data/findings/acl.yaml
claim    data/claims/acl.yaml"""


@pytest.fixture(autouse=True)
def project(write):
    write("clcore/checks/made.py", CHECKS)
    for name, text in CHAPTERS.items():
        write(f"chapters/{name}.ipynb", text)


def statement(claim_id):
    """Its title, where it is printed, and its words in lines of 96 letters at most."""
    row = claim(claim_id)
    return [f"{claim_id}: {row['title']}", row["where"], *textwrap.wrap(row["statement"], 96), ""]


def test_a_claim_is_told_with_all_its_places():
    assert places.where("acl/tab2a").splitlines() == [*statement("acl/tab2a"), *TAB2A.splitlines()]


def test_a_claim_that_no_chapter_names_has_no_page():
    told = places.where("acl/num14").splitlines()
    assert [line.split()[0] for line in told[-3:]] == ["check", "words", "claim"]


def test_an_unknown_claim_is_answered_with_near_ones():
    for ask in (places.where, lambda name: places.tried(name, 7, 0)):
        with pytest.raises(LedgerError, match="did you mean acl/thm1"):
            ask("acl/thm11")


def test_a_check_is_run_and_tells_what_it_found(one_thread):
    told = places.tried("acl/tab2a", 7, 4)
    assert told.splitlines() == [
        *statement("acl/tab2a"),
        "first (printed): passes",
        "    measured 7 <= 20, sampled, 1 draw",
        "    control  most: 30, fails in 75% of draws",
        "    control  one number: 21.5",
        "",
        "verdict  holds (known: partial)",
        "         of the parts on draws alone; others are judged on runs, in a chapter",
        *TAB2A.splitlines(),
    ]


def test_a_part_without_a_name_is_the_whole_and_a_known_verdict_is_not_repeated(one_thread):
    told = places.tried("acl/thm2", 7, 4)
    lines = told.splitlines()[len(statement("acl/thm2")) :]
    assert lines[:6] == [
        "whole statement (printed): passes",
        "    measured 0.5 <= 1, sampled, 1 draw",
        "    control  off: 4",
        "",
        "verdict  holds",
        "check    clcore/checks/made.py:10 (both, lines 10 to 15, on draws)",
    ]


def test_a_check_at_a_terminal_takes_one_thread(one_thread):
    """As in a chapter: a sum on several threads may round otherwise."""
    torch.set_num_threads(2)
    places.tried("acl/thm2", 7, 4)
    assert torch.get_num_threads() == 1


def test_a_claim_that_is_checked_on_runs_alone_is_told_with_its_place():
    with pytest.raises(LedgerError) as refused:
        places.tried("acl/num14", 7, 0)
    first, *lines = str(refused.value).splitlines()
    assert first == "acl/num14 is not checked on random draws but in a chapter, on its runs:"
    assert lines == places.where("acl/num14").splitlines()[-3:]
