"""What is known of the claims: every claim has its row, and a damaged row is refused by name."""

import json
import re

import pytest

from clcore import _paths, ledger
from clcore.ledger import findings
from clcore.ledger.findings import FindingsError

SHORT = "True of every network that is tried."
REPLY = {"date": "2026-11-23", "by": "An author", "text": "Agreed."}


TRIED = {"rate": {"0.1": "All agree.", "1": "None does."}}
LEFT = {"unprinted": ["the rate", "the norm"], "varied": TRIED}


def differing(left):
    return {"verdict": "differs", "open": left}


def varied(tried):
    return differing({"unprinted": ["a"], "varied": tried})


def test_what_is_left_open_is_told_in_running_text():
    assert findings.left_open({}) == ""
    text = "Not printed: the rate; the norm. rate, 0.1: All agree. rate, 1: None does."
    assert findings.left_open(LEFT) == text
    more = {"ours": "the bound.", "runs": "five.", "decides": "the rate."}
    text = text.replace(" rate, 0.1", " Decisive: the rate. rate, 0.1")
    assert findings.left_open(LEFT | more) == f"{text} Runs: five. Ours: the bound."


def test_every_settings_key_is_in_step_with_what_a_page_tells():
    told = {"unprinted", "decides", "varied", *findings.LEFT_OPEN}
    rows = [row["open"] for row in findings.known().values() if "open" in row]
    assert rows and set().union(*rows) == told


def test_an_entry_without_a_row_is_refused_with_near_ids_and_what_to_do(damaged):
    with pytest.raises(FindingsError) as told:
        damaged("acl/thm11", verdict="holds", in_short=SHORT, added="")
    for part in (
        "acl.yaml: expected the id of a claim, got 'acl/thm11'; did you mean acl/thm1",
        "; a claim that is new gets its row in data/claims/acl.yaml first",
    ):
        assert part in str(told.value)


def test_the_findings_of_one_paper_are_those_of_all_that_are_its(damaged):
    known = damaged("acl/thm6")
    own = findings.of_paper("acl")
    assert own == {claim: row for claim, row in known.items() if claim.startswith("acl/")}
    assert own["acl/thm6"]["id"] == "acl/thm6"


def test_a_paper_without_a_file_has_no_findings_yet(damaged):
    assert findings.of_paper("new") == {}


def test_a_claim_without_an_entry_is_named_with_what_to_do(monkeypatch):
    known = dict(findings.known())
    monkeypatch.setattr(findings, "known", lambda: known)
    findings.complete()
    del known["ddn/thm1"]
    told = "ddn/thm1: no entry yet in data/findings/ddn.yaml; add verdict, in_short, added, parts"
    with pytest.raises(FindingsError, match=re.escape(told)):
        findings.complete()
    with pytest.raises(FindingsError, match=re.escape(told)):
        list(ledger.rows([]))


def test_a_reply_is_kept(damaged):
    assert damaged("acl/thm6", reply=REPLY)["acl/thm6"]["reply"] == REPLY


def test_a_reply_answers_an_entry_of_the_errata():
    for row in findings.known().values():
        slips = any("misprint" in part for part in row.get("parts", {}).values())
        assert "reply" not in row or "grade" in row or slips, row["id"]


ANSWERED = ("acl", "ddn", "ncl", "nl")
"""Papers whose notes on failing regimes have been answered, one by one."""


@pytest.mark.parametrize("paper", ANSWERED)
def test_a_failing_regime_is_corrected_or_excluded_by_printed_words(paper):
    found = [told for row in findings.of_paper(paper).items() for told in findings.unexcused(*row)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"parts": {"a": {"note": "Fails where $x<0$."}}}, "nl/a 'a': its note says where it"),
        ({"parts": {"a": {"note": "True. It fails at ties."}}}, "nl/a 'a': its note says where"),
        ({"added": "$x>0$."}, "nl/a: it holds with a condition of ours; expected `without it`"),
        ({"verdict": "corrected", "added": "$x>0$."}, ""),
        ({"added": "$x>0$.", "without it": "Undefined: the quotient."}, ""),
        ({"parts": {"a": {"note": "Fails.", "excluded by": "“x”, Eq. 1"}}}, ""),
        ({"parts": {"a": {"note": "Fails.", "edge": "ties"}}}, ""),
        ({"parts": {"a": {"note": "Fails.", "counterexample": "0"}}}, ""),
        ({"parts": {"a": {"note": "Nothing can fail."}}}, ""),
    ],
)
def test_a_failing_regime_without_an_answer_is_named(row, told):
    found = findings.unexcused("nl/a", {"verdict": "holds", "added": ""} | row)
    assert [part.startswith(told) for part in found] == ([True] if told else [])


def test_every_claim_has_a_finding():
    assert list(findings.known()) and findings.known().keys() == ledger.claims().keys()


def test_grades_go_from_the_gravest_to_the_least():
    """In this order a letter tells of errors, and the ledger page lets a reader choose them."""
    assert findings.GRADES == ("conclusion", "proof", "hypothesis", "constant", "misprint")
    schema = json.loads((_paths.root() / "data" / "findings" / "schema.json").read_text())
    fields = schema["additionalProperties"]["properties"]
    assert tuple(fields["grade"]["enum"]) == findings.GRADES


def test_roots_are_roots():
    known = findings.known()
    for row in known.values():
        if "root" in row:
            assert known[row["root"]]["root"] == row["root"], row["id"]


@pytest.mark.parametrize(
    ("claim", "fields", "message"),
    [
        ("acl/thm6", {"grade": None}, "'grade' is a required property"),
        ("acl/thm6", {"grade": "grave"}, "'grave' is not one of"),
        ("acl/thm6", {"root": None}, "'root' is a required property"),
        ("acl/num11", {"root": "acl/thm1"}, "is acl/thm1, which is no root"),
        ("acl/thm6", {"since": None}, "'since' is a required property"),
        ("acl/thm6", {"since": "23.11.2026"}, "'23.11.2026' does not match"),
        ("acl/thm6", {"since": "2026-13-01"}, "'2026-13-01' does not match"),
        ("acl/thm1", {"since": "2026-11-23"}, "False schema"),
        ("acl/thm6", {"reply": REPLY | {"date": "soon"}}, "reply/date: 'soon' does not match"),
        ("acl/thm6", {"reply": REPLY | {"text": ""}}, "reply/text: ''"),
        ("acl/thm6", {"reply": {"by": "A", "text": "B"}}, "reply: 'date' is a required property"),
        ("acl/thm6", {"reply": {"date": "2026-11-23", "text": "B"}}, "reply: 'by' is a required"),
        ("acl/thm6", {"reply": {"date": "2026-11-23", "by": "A"}}, "reply: 'text' is a required"),
        ("acl/thm6", {"reply": REPLY | {"to": "us"}}, "reply: Addit.*; expected some of date"),
        ("acl/thm1", {"withdrawn": {"text": "A"}}, "withdrawn: 'date' is a required"),
        ("acl/thm1", {"withdrawn": {"date": "2026-11-26"}}, "withdrawn: 'text' is a required"),
        ("acl/thm1", {"withdrawn": {"date": "today", "text": "A"}}, "'today' does not match"),
        ("acl/thm1", {"without it": "Unknown."}, "without it: 'Unknown.' does not match"),
        ("acl/thm1", {"parts": {"a": {"excluded by": "Sec. 5"}}}, "'Sec. 5' does not match"),
        ("acl/thm1", {"parts": {"a": {"edge": ""}}}, "parts/a/edge: ''"),
        ("acl/thm1", {"added": None}, "'added' is a required property"),
        ("acl/thm1", {"added": 3}, "3 is not of type 'string'"),
        ("acl/thm1", {"grade": "proof"}, "False schema .*; leave it out here"),
        ("acl/thm1", {"verdict": "differs"}, "'open' is a required property"),
        ("acl/thm1", differing("the rate"), "open: 'the rate' is not of type 'object'"),
        ("acl/thm1", differing({"unprinted": ["a"]}), "open: 'varied' is a required"),
        ("acl/thm1", differing({"varied": TRIED}), "open: 'unprinted' is a required"),
        ("acl/thm1", differing({"unprinted": [], "varied": TRIED}), "open/unprinted: .* non-empty"),
        ("acl/thm1", differing({"unprinted": ["a."], "varied": TRIED}), "unprinted/0: 'a.' does"),
        ("acl/thm1", varied({}), "open/varied: .* non-empty"),
        ("acl/thm1", varied({"b": "C."}), "varied/b: 'C.' is"),
        ("acl/thm1", varied({"b": {}}), "varied/b: .* non-empty"),
        ("acl/thm1", varied({"b": {"1": "C"}}), "b/1: 'C' does"),
        ("acl/thm1", varied({"b": {1: "C."}}), "1 is not of type"),
        ("acl/thm1", differing(LEFT | {"note": "B."}), "open: Additional properties"),
        ("acl/thm1", {"open": LEFT}, "False schema"),
        ("acl/thm1", {"verdict": "true"}, "'true' is not one of"),
        ("ddn/thm1", {"verdict": "holds", "in_short": SHORT, "added": ""}, "is not of acl"),
        ("acl/thm1", {"in_short": None}, "'in_short' is a required property"),
        ("acl/thm1", {"in_short": SHORT * 10}, "in_short: .* is too long"),
        ("acl/thm1", {"in_short": "True."}, "in_short: 'True.' is too short"),
        ("acl/thm1", {"in_short": SHORT.rstrip(".")}, "in_short: .*; expected: The answer"),
    ],
)
def test_a_damaged_row_is_named(damaged, claim, fields, message):
    with pytest.raises(FindingsError, match=rf"{claim}.*{message}"):
        damaged(claim, **fields)
