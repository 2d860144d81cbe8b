"""The page of a claim, the words that the ledger searches, and the claims for machines."""

import json
import re

import jsonschema
import pytest
from made_rows import SUMMARY, check, claim_page, made, row, todo, wrong
from markupsafe import escape

from clcore import ledger
from clcore.book.site import claims, code, fragments
from clcore.ledger import findings
from clcore.ledger import map as claim_map


def test_a_blocked_row_says_what_is_missing() -> None:
    html = claim_page(todo(verdict="blocked", blocked="STL-10 & a GPU"))
    assert "STL-10 &amp; a GPU" in html


def test_a_row_names_what_was_added_and_what_is_left_open() -> None:
    html = claim_page(row("depends", added="$A\\succeq0$", open="the temperature"))
    assert r"<b>Added by us</b> \(A\succeq0\)" in html
    assert "<b>Left open by the print</b> the temperature" in html
    readings = [check(note="0.3"), check(form="open", setting="at 0.2", part="order", note="0.9")]
    html = claim_page(row("depends", open="the temperature", checks=readings))
    assert "<b>Note:</b> 0.3" in html and "<b>Note (order; at 0.2):</b> 0.9" in html
    html = claim_page(wrong(id="acl/eq71", root="acl/thm6"))
    assert 'Follows from <a href="../claims/acl-thm6.html">acl/thm6</a>' in html


def test_the_printed_numbers_stand_below_the_statement():
    html = claim_page(row(id="ncl/tab2"))
    assert "<summary>Numbers as printed</summary>" in html
    assert "- model: NCL-linear" in html and "mean: 0.12" in html
    bare = next(c for c, r in ledger.claims().items() if not r["numbers"])
    assert "Numbers as printed" not in claim_page(row(id=bare))


def test_a_row_says_what_it_rests_on_and_is_used_by():
    every = [
        row(id=c, paper="nl", verdict="corrected" if c == "nl/eq65" else "holds")
        for c in ledger.claims()
    ]
    html = made(*every)[claims.page_of("nl/thm1")]
    assert "<b>Rests on</b>" in html and 'href="../book/ledger.html?below=nl/thm1#claims"' in html
    rests = re.search(r'data-rests="([^"]*)"', fragments.ledger_row(row(id="nl/thm1")))[1].split()
    assert rests == list(claim_map.rests_on("nl/thm1"))
    shown = html[: html.index('<details id="steps">')].count("(corrected)")
    assert shown == (*rests, *claim_map.used_by("nl/thm1")).count("nl/eq65")
    every = "".join(fragments.ledger_table([row(id=claim) for claim in ledger.claims()]))
    assert every.count("data-rests=") == sum(bool(claim_map.rests_on(c)) for c in ledger.claims())


def test_a_row_that_rests_on_a_corrected_one_says_which_form_it_uses():
    using = {c: r["uses"] for c, r in ledger.claims().items() if r.get("uses")}
    known = findings.known()
    needed = {
        (claim, other)
        for claim in known
        for other in claim_map.rests_on(claim)
        if known[claim]["verdict"] in ("holds", "reproduced")
        and known[other]["verdict"] == "corrected"
    }
    assert {(claim, other) for claim, uses in using.items() for other in uses} == needed
    claim, uses = next(iter(using.items()))
    html = claim_page(row(id=claim))
    assert html.count("<b>Used of ") == len(uses)


def test_a_theorem_shows_its_proof_step_by_step():
    html = claim_page(row(id="acl/thm4"))
    assert "The printed proof, step by step: 2 executed, 1 only read</summary>" in html
    assert "Only read. Compared are the trajectories" in html
    html = claim_page(row(id="acl/thm3"))
    assert "step by step: 10 executed</summary>" in html
    assert '<a href="../claims/acl-eq40.html">acl/eq40</a>, Eq. 43' in html
    assert 'id="steps"' not in claim_page(row(id="acl/eq40"))


def test_claims_json_keeps_its_schema_and_a_wrong_field_is_refused() -> None:
    slipped = row(misprints=[{"part": "", "misprint": "$a$ for $b$"}], grade="misprint")
    rows = [row("depends", open="the temperature"), wrong(), todo(blocked="a GPU"), slipped]
    rows[0]["checks"] = [check(measured=float("nan"), shares={"1/2 dropped": 0.9})]
    document = json.loads(made(*rows)["claims.json"])
    schema = json.loads(made()["claims.schema.json"])
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    validator.validate(document)
    assert document["claims"][0]["checks"][0]["measured"] == "nan"
    assert document["claims"][0]["proved_from"] == ledger.claims()["acl/thm1"]["proved_from"]
    for name, value in (("verdict", "true"), ("grade", "bad"), ("page", "acl.html"), ("more", 1)):
        broken = document | {"claims": [document["claims"][0] | {name: value}]}
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(broken)
    enums = {k: v["enum"] for k, v in schema["$defs"]["claim"]["properties"].items() if "enum" in v}
    assert tuple(enums["verdict"]) == ledger.VERDICTS


def test_a_citation_names_the_row_the_verdict_and_the_sources() -> None:
    text = claims.citation(wrong(), SUMMARY)
    assert text.startswith("@misc{clcore-acl-thm1,\n  title = {acl/thm1: Descending is ascending},")
    assert "note = {corrected; built 2000-01-02 from 0123456789abcdef}" in text
    for commit, told in (
        ("0123456789ab-dirty", "0123456789ab-dirty"),
        ("unknown", "an unknown commit"),
    ):
        of = claims.citation(wrong(), SUMMARY | {"commit": commit})
        assert f"built 2000-01-02 from {told}}}" in of
    assert text.count("{") == text.count("}")
    assert text in json.loads(made(wrong())["claims.json"])["claims"][0]["citation"]


def test_the_words_of_a_claim_are_all_that_its_page_says() -> None:
    said = row(statement="The <i>Energy</i> of $W$", checks=[check(note="A Sticky weight")])
    words = json.loads(made(said)["claims/words.json"])["acl/thm1"]
    for text in ("the <i>energy</i> of \\(w\\)", "a sticky weight", "descending is ascending"):
        assert text in words
    assert "@misc" not in words


def test_a_claim_with_a_certificate_shows_it_and_links_its_file() -> None:
    html = claim_page(wrong(id="nl/thm1", paper="nl", root="nl/thm1"))
    assert 'href="../certificates/nl-thm1.py"' in html
    assert escape(code.certificate("nl/thm1")["prints"]) in html
    assert "../certificates/" not in claim_page(wrong())
