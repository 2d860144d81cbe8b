"""What a terminal is told of a claim: where it is checked, and what its check finds now."""

import subprocess
import sys
import textwrap

import pytest
import torch
import yaml
from made_notebook import notebook

from clcore import _paths
from clcore.ledger import LedgerError, claim, findings, places
from clcore.ledger import map as claim_map

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
    assert [line.split()[0] for line in told[-4:]] == ["check", "run", "words", "claim"]
    assert told[-4] == "check    clcore/checks/made.py:22 (num14, lines 22 to 24, on runs)"
    assert told[-3] == (
        "run in   no chapter: neither a code cell nor metadata name it (step 3 of "
        "book/contributing.md)"
    )


def test_a_claim_that_only_metadata_name_is_told_with_those_chapters(write):
    for name in ("3-c", "4-d"):
        write(f"chapters/{name}.ipynb", notebook(claims=["acl/num14"]))
    told = places.where("acl/num14").splitlines()
    assert told[-3] == (
        "run in   chapters/3-c, 4-d by the metadata; no code cell has its id written out"
    )


UNCHECKED = (
    'has no check yet: write @check("acl/thm1") in a file of clcore/checks/<chapter> (step 1 of '
    "book/contributing.md)"
)


def test_a_claim_without_a_check_is_told_what_is_to_be_written():
    told = places.where("acl/thm1").splitlines()
    assert told[-4] == f"check    {UNCHECKED}"
    with pytest.raises(LedgerError) as refused:
        places.tried("acl/thm1", 7, 0)
    assert str(refused.value).splitlines() == [f"acl/thm1 {UNCHECKED}", *told[-4:]]


def test_a_claim_that_a_cell_checks_by_itself_needs_no_other_check(write):
    write("chapters/3-c.ipynb", notebook(("code", "own", 'here.ledger.check("acl/thm1", 0, 1)')))
    told = places.where("acl/thm1").splitlines()
    assert [line.split()[0] for line in told[-4:]] == ["run", "page", "words", "claim"]
    assert not any("has no check yet" in line for line in told)
    with pytest.raises(LedgerError, match="acl/thm1 is not checked on random draws but in a chap"):
        places.tried("acl/thm1", 7, 0)


@pytest.fixture
def entries(write, monkeypatch):
    """A function that writes the findings of acl anew, with another entry for a claim (None takes
    it away)."""

    def put(claim_id, entry):
        file = _paths.root() / "data" / "findings" / "acl.yaml"
        document = yaml.safe_load(file.read_text()) | {claim_id: entry}
        kept = {name: row for name, row in document.items() if row is not None}
        write("data/findings/acl.yaml", yaml.safe_dump(kept))
        findings.known.cache_clear()

    yield put
    findings.known.cache_clear()


SHORT = "True of every network that is tried."
NO_ENTRY = (
    "no entry yet in data/findings/acl.yaml; add verdict, in_short, added, parts (step 2 of "
    "book/contributing.md)"
)


def test_a_check_whose_claim_has_no_entry_yet_says_what_it_found(entries, one_thread):
    entries("acl/thm2", None)
    told = places.tried("acl/thm2", 7, 4).splitlines()
    assert "whole statement (printed): passes" in told
    assert f"verdict  holds ({NO_ENTRY})" in told and f"words    {NO_ENTRY}" in told
    assert f"words    {NO_ENTRY}" in places.where("acl/thm2").splitlines()


def test_words_for_a_part_that_the_check_has_not_are_told(entries, one_thread):
    entries(
        "acl/thm2",
        {"verdict": "holds", "in_short": SHORT, "added": "", "parts": {"gradeint": {"note": "x"}}},
    )
    told = places.tried("acl/thm2", 7, 4).splitlines()
    assert "refused  data/findings names a part that no check has: acl/thm2 'gradeint'" in told


def test_words_may_be_for_a_part_on_runs(entries, one_thread):
    entries(
        "acl/tab2a",
        {"verdict": "partial", "in_short": SHORT, "added": "", "parts": {"low": {"note": "x"}}},
    )
    assert "refused" not in places.tried("acl/tab2a", 7, 4)


def test_an_entry_without_a_row_is_refused(entries):
    entries("acl/thm99", {"verdict": "holds", "in_short": SHORT, "added": ""})
    for ask in (places.where, lambda name: places.tried(name, 7, 0)):
        with pytest.raises(findings.FindingsError, match=r"acl\.yaml: .*'acl/thm99'"):
            ask("acl/thm2")


def test_a_row_that_rests_on_nothing_is_refused(monkeypatch, request):
    rows = {"acl/thm2": {"proved_from": ["acl/thm99"]}}
    monkeypatch.setattr(claim_map, "claims", lambda: rows)
    request.addfinalizer(claim_map.clear)
    claim_map.clear()
    for ask in (places.where, lambda name: places.tried(name, 7, 0)):
        with pytest.raises(LedgerError, match="acl/thm2 rests on 'acl/thm99', which is no claim"):
            ask("acl/thm2")


@pytest.mark.parametrize(("draws", "said"), [(200, True), (201, False)])
def test_more_draws_than_asked_for_are_explained(write, one_thread, draws, said):
    write(
        "clcore/checks/made_shared.py",
        "from clcore.ledger import Trial, check\n\n\n"
        '@check("acl/thm3")\ndef shared(t: Trial) -> None:\n'
        "    part = t.part('', 1.0).breaks('off', 4.0)\n"
        "    for _ in range(3):\n        part.add([0.0] * t.share(3))\n"
        "    t.part('second', 1.0).add(0.0).breaks('off', 4.0)\n",
    )
    told = places.tried("acl/thm3", draws, 0).splitlines()
    assert "    measured 0 <= 1, sampled, 201 draws" in told
    line = (
        "draws    200 asked for; the settings of a part share them, rounded up, and each error "
        "counts"
    )
    assert (line in told) is said and any(t.startswith("draws") for t in told) is said


def test_where_a_claim_is_needs_no_torch():
    code = (
        "import sys\nfrom clcore.ledger import places\nplaces.where('acl/thm2')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
    assert [t for t in lines if not t.startswith("refused")][:6] == [
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
    assert lines == places.where("acl/num14").splitlines()[-4:]
