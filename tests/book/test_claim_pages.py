"""The page of a claim, its frame, and the claims for machines."""

import json
import re

import jsonschema
import numpy as np
import pytest
import sympy
from made_rows import SUMMARY, check, claim_page, made, row, todo, wrong
from markupsafe import Markup, escape

from clcore import ledger
from clcore.book.build import legible
from clcore.book.site import claims, code, fragments
from clcore.book.site.claims import frame, pages
from clcore.book.site.claims.printed import tables
from clcore.ledger import exact, findings, registry
from clcore.ledger import map as claim_map
from clcore.ledger.findings import Step
from clcore.ledger.rungs import RUNGS
from clcore.ledger.trial import Trial


def test_a_blocked_row_says_what_is_missing() -> None:
    html = claim_page(todo(verdict="blocked", blocked="STL-10 & a GPU"))
    assert "STL-10 &amp; a GPU" in html


OPEN = {"unprinted": ["the temperature"], "varied": {"it": {"0.2": "Passes.", "0.5": "Fails."}}}


def test_settings_that_were_tried_are_a_table_and_the_rest_stands_below_it():
    more = {"unprinted": ["the noise", "the rate"], "decides": "the noise.", "runs": "five."}
    more |= {"varied": OPEN["varied"] | {"rate": {"1": "None."}}, "not varied": "$\\tau<1$."}
    html = claim_page(row("depends", open=more))
    assert re.findall("<li>(the .*?)</li>", html) == ["the noise;", "the rate."]
    table = re.search('class="cl-table cl-stacked">.*?</table>', html, re.DOTALL)[0]
    heads = re.findall('<th scope="row"(.*?)>(.*?)</th>', table)
    assert heads == [(' rowspan="2"', "it"), ("", "rate")]
    cells = re.findall('<td data-label="(.*?)">(.*?)</td>', table)
    assert {at for at, _ in cells} == {"Value", "Result"}
    assert [text for _, text in cells] == ["0.2", "Passes.", "0.5", "Fails.", "1", "None."]
    said = re.findall(r"<p><b>([\w ]+):</b> (.*?)</p>", html)
    assert said[:3] == [
        ("Decisive", "the noise."),
        ("Not varied", r"\(\tau&lt;1\)."),
        ("Runs", "five."),
    ]


def test_a_row_names_what_was_added_and_what_is_left_open() -> None:
    html = claim_page(row("depends", added="$A\\succeq0$", open=OPEN))
    assert r"<b>Added by us</b> \(A\succeq0\)" in html
    term = '<a class="cl-term" href="../book/glossary.html#term-temperature">temperature</a>'
    assert f"<b>Left open by the paper</b>\n<p>the {term}.</p>" in html
    readings = [check(note="0.3"), check(form="open", setting="at 0.2", part="order", note="0.9")]
    html = claim_page(row("depends", open=OPEN, checks=readings))
    whole, order = re.findall(r'<p class="cl-part-name">(.*?)</p>.*?<p>(.*?)</p>', html, re.DOTALL)
    assert whole == ("whole statement", "0.3") and order == ("order", "0.9")
    assert "passes: at 0.2" in html
    html = claim_page(wrong(id="acl/eq71", root="acl/thm6"))
    assert 'Follows from <a href="../claims/acl-thm6.html">Tian 2022, Theorem 6</a>' in html


def test_a_part_under_several_settings_is_a_table_that_repeats_measurements_alone():
    at = [("printed", "", "It is 1. So it goes."), ("open", "hot", "It is 2. So it goes.")]
    at += [("open", "cold", "It is 1. So it goes.")]
    checks = [check(form=f, setting=s, note=n, part="rise") for f, s, n in at]
    html = claim_page(row("depends", open=OPEN, checks=checks))
    (table,) = re.findall("<caption>rise, setting by setting.*?</table>", html, re.DOTALL)
    heads = [head.strip() for head in re.findall('<th scope="row">([^<]*)', table)]
    assert heads == ["first choice", "hot", "cold"]
    assert table.count("So it goes.") == 1 and table.count("It is 1.") == 2
    assert "passes: hot" not in html


def test_more_than_four_settings_are_folded_under_how_many_pass():
    """The first choice stays in sight."""
    at = [check(part="rise"), *(check(form="open", setting=n, part="rise") for n in "abcd")]
    assert "other settings" not in claim_page(row("depends", open=OPEN, checks=at))
    lost = check(form="open", setting="e", part="rise", passed=False)
    html = claim_page(row("depends", open=OPEN, checks=[*at, lost]))
    seen, folded = html.split("<summary>5 other settings: 4 pass</summary>")
    assert re.findall('<th scope="row">([^<]*)', seen)[-1].strip() == "first choice"
    folded = folded.split("</details>")[0]
    heads = [head.strip() for head in re.findall('<th scope="row">([^<]*)', folded)]
    assert heads == ["a", "b", "c", "d", "e"]


def test_a_printed_table_is_a_table_and_a_lone_number_is_left_to_the_statement():
    html = claim_page(row(id="ncl/tab2"))
    assert "<summary>Numbers as printed</summary>" in html
    assert '<th scope="row">NCL-linear</th>' in html and "<td>0.12 ± 0.03</td>" in html
    assert "symmetric ReLU</th>" in html and "pr_sparse" not in html and "mean:" not in html
    lone = next(c for c, r in ledger.claims().items() if r["numbers"] and not tables(r["numbers"]))
    assert "Numbers as printed" not in claim_page(row(id=lone))


def test_cells_say_yes_no_and_what_is_not_printed():
    rows = [{"model": "a", "bn": True, "n": None}, {"model": "b", "x": {"mean": 1, "std": 0.5}}]
    (made,) = tables({"rows": rows, "lone": 3})
    assert made["columns"] == ["model", "BatchNorm", "runs", "x"]
    assert made["rows"] == [["a", "yes", "not printed", ""], ["b", "", "", "1 ± 0.5"]]


def test_numbers_under_names_of_names_are_one_table():
    """As many decimals as the longest has; the names in words; what is printed bold says so."""
    cells = {"N2": {"e100": [84.2, 0.3], "e300": [1.25, 0.0]}, "N10": {"e100": [-0.0, 0.1]}}
    (made,) = tables({"cells": {"L_nce": cells, "pr_sparse": cells}, "unit": "percent"})
    assert made["columns"] == ["", "", "100 epochs", "300 epochs"]
    assert made["rows"] == [
        ["InfoNCE", "N = 2", "84.20 ± 0.3", "1.25 ± 0.0"],
        ["InfoNCE", "N = 10", "-0.00 ± 0.1", ""],
        ["Pr(sparse)", "N = 2", "84.20 ± 0.3", "1.25 ± 0.0"],
        ["Pr(sparse)", "N = 10", "-0.00 ± 0.1", ""],
    ]
    bold = {"mean": 1.5, "std": 0.25, "n": 5, "highlighted": True}
    (made,) = tables({"nce": {"e100": bold}, "nce_exact": {"e100": bold}})
    assert made["rows"] == [
        ["InfoNCE", "1.5 ± 0.25 (bold)"],
        ["exact weights", "1.5 ± 0.25 (bold)"],
    ]


def test_no_printed_table_shows_a_key_of_its_file():
    for claim, printed in ledger.claims().items():
        for table in tables(printed["numbers"]):
            names = [*table["columns"], *(cell for cells in table["rows"] for cell in cells)]
            raw = [n for n in names if re.search(r"_(?![^$]*\$)|^[a-z]+\d+$|=\S|\*", n)]
            assert not raw, f"{claim}: {raw} needs words in clcore/book/site/claims/printed.py"


def test_the_page_says_what_was_given_claimed_and_broken_with_the_lines_that_did_it():
    html = claim_page(row(id="nl/thm4"))
    for name, words in (
        ("Given", "linear h"),
        ("Claim", "s<sub>km</sub> b<sub>k</sub>(W)"),
        ("Fails", "ReLU filters"),
    ):
        assert words in html.partition(f"<dt>{name}</dt><dd>")[2].partition("</dd>")[0]
    shown = html.partition('aria-label="The check">')[2].partition("</div>")[0]
    (place,) = registry.of("nl/thm4")
    assert Markup(shown).striptags() == " ".join(place.source.split())
    assert html.index("<dt>Given</dt>") > html.index('class="cl-answer"')
    assert "<dt>Refuted</dt>" in claim_page(row(id="ncl/rem5"))


def test_a_row_of_runs_says_where_they_are_recorded_and_is_run_by_its_chapter():
    html = claim_page(row(id="ncl/rem5", notebook="6-training"))
    told = Markup(html.partition("<dt>Runs</dt>")[2].partition("</dd>")[0]).striptags()
    assert "data/recorded/6-dynamics, data/recorded/6-landscape;" in told
    assert "clcore check" not in html, "which would refuse a row of runs"
    assert "<dt>Runs</dt>" not in claim_page(row(id="nl/thm4", notebook="5-two-layer"))


def test_what_a_check_says_of_itself_is_for_people_on_every_page():
    for claim in ledger.claims():
        page = f'<article class="bd-article">{claim_page(row(id=claim))}</article>'
        assert legible.faults(page) == [], claim


def test_the_answer_comes_first_with_grade_certainty_and_chapter():
    html = claim_page(wrong())
    first = html.index('class="cl-answer"')
    assert html.index("<h1>") < first < html.index('class="cl-explained"') < html.index("Claimed")
    assert "Grade constant</a>: a factor, an exponent" in html
    assert "Tested on random inputs</a>" in html
    assert '<a href="../chapters/1-a.html#claim-acl-thm1">One &amp; all</a>' in html
    assert "Explained in" not in claim_page(todo())


def test_a_sentence_is_shown_for_the_verdict_for_which_it_was_written(monkeypatch):
    known = findings.known()["acl/thm1"] | {"verdict": "holds", "in_short": "True of $x$."}
    monkeypatch.setattr(findings, "known", lambda: {"acl/thm1": known})
    assert pages.answer(row()) == "True of $x$."
    assert pages.answer(wrong()) == pages.ANSWERS["corrected"]
    known["in_short"] = ""
    assert pages.answer(row()) == pages.ANSWERS["holds"]
    assert pages.answer(row(care=["misprint"])).startswith("True if read with care")
    assert set(pages.ANSWERS) == set(ledger.VERDICTS)
    assert set(pages.CERTAINTY) == set(RUNGS)


def test_certainty_names_small_sizes_and_cases_where_a_proof_is_of_some():
    proved = [check(proofs=[{"rung": "proved", "at": "n = 3"}])]
    assert pages.certainty(row(rung="proved", checks=proved)).endswith(", for small sizes")
    certified = pages.certainty(row(rung="certified", checks=proved))
    assert certified.endswith(", in the cases that its parts name")
    assert pages.certainty(row(rung="sampled", checks=proved)) == pages.CERTAINTY["sampled"]
    assert pages.certainty(todo()) == ""


def test_a_chapter_explains_a_claim_at_the_box_of_its_statement():
    book = SUMMARY | {"chapters": [{"name": "2-deep-linear-pca", "title": "2.1 Deep linear nets"}]}
    found = pages.explained(row(id="acl/thm3", notebook="2-deep-linear-pca"), book)
    assert found == {
        "address": "chapters/2-deep-linear-pca.html#thm-acl-3",
        "name": "chapter 2.1",
        "title": "Deep linear nets",
    }
    found = pages.explained(row(id="acl/eq1", notebook="2-deep-linear-pca"), book)
    assert found["address"] == row()["anchor"], "no box: the cell that checks it"


def test_what_lets_a_run_pass_is_a_setting_and_no_correction():
    def run(verdict: str, **fields: str) -> str:
        return claim_page(
            row(verdict=verdict, checks=[check(correction="The rate 0.02", **fields)])
        )

    assert "Passes with" in run("differs") and "Correction" not in run("differs")
    refuted = run("differs", counterexample="A cell")
    assert "Correction" in refuted and "Passes with" not in refuted
    assert "Passes with" not in run("corrected")


def test_a_body_goes_into_the_frame_and_a_frame_without_its_place_is_refused(tmp_path):
    site, bodies = tmp_path / "site", tmp_path / "bodies"
    (site / "claims").mkdir(parents=True)
    bodies.mkdir()
    (bodies / "acl-thm1.html").write_text(
        "<title>T &amp; U</title>\n<h1>x</h1>\n", encoding="utf-8"
    )
    empty = site / "claims" / "frame.html"
    empty.write_text(f"{frame.TITLE} {frame.FRAME}.html <p>{frame.BODY}</p>", encoding="utf-8")
    frame.wrap(bodies, site)
    made = (site / "claims" / "acl-thm1.html").read_text(encoding="utf-8")
    assert made == "T &amp; U claims/acl-thm1.html <p><h1>x</h1>\n</p>" and not empty.exists()
    empty.write_text(frame.TITLE, encoding="utf-8")
    with pytest.raises(frame.FrameError, match="expected the mark"):
        frame.wrap(bodies, site)
    empty.write_text(frame.TITLE + frame.BODY, encoding="utf-8")
    (bodies / "acl-thm1.html").write_text("<h1>x</h1>", encoding="utf-8")
    with pytest.raises(frame.FrameError, match="expected <title>"):
        frame.wrap(bodies, site)


def test_a_row_says_what_it_rests_on_and_is_used_by():
    around = ("nl/thm1", *claim_map.rests_on("nl/thm1"), *claim_map.used_by("nl/thm1"))
    assert "nl/eq65" in around
    rows = [
        row(id=c, paper="nl", verdict="corrected" if c == "nl/eq65" else "holds") for c in around
    ]
    html = made(*rows)[claims.page_of("nl/thm1")]
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
    assert html.count("in this form:") == len(uses)


def test_a_theorem_shows_its_proof_step_by_step(monkeypatch):
    html = claim_page(row(id="acl/thm4"))
    assert "The printed proof, step by step: 3 executed</summary>" in html and "Only" not in html
    with monkeypatch.context() as patch:
        patch.setattr(
            findings, "steps", lambda _: (Step("A", (("acl/lem13", ""),)), Step("B", (), "C"))
        )
        html = claim_page(row(id="acl/thm4"))
    assert "The printed proof, step by step: 1 executed, 1 only read</summary>" in html
    assert "Only read. C" in html
    html = claim_page(row(id="acl/thm3"))
    assert "step by step: 10 executed</summary>" in html
    assert '<a href="../claims/acl-eq40.html">Tian 2022, Eqs. 40-43</a>, Eq. 43' in html
    assert 'id="steps"' not in claim_page(row(id="acl/eq40"))


def test_a_control_of_a_proof_counts_its_own_entries():
    """Not those of the proof that went through: here that has one entry, the control two."""
    part = Trial(["acl/thm1"]).part("", 1e-9).add(np.zeros(3)).breaks("off", np.ones(3))
    x = exact.vector("x", 2)
    part.proves(
        exact.equal(x[0], x[0]), breaks={"no 2": exact.equal(2 * x, sympy.Matrix([x[0], 2 * x[1]]))}
    )
    here = ledger.Ledger("made")
    here.check(part.record())
    record = here.records[0]
    assert "control, no 2: fails in 1 of 2" in claim_page(row(checks=[record]))
    document = json.loads(made(row(checks=[record]))["claims.json"])
    (proof,) = document["claims"][0]["checks"][0]["proofs"]
    assert proof["control"] == {"no 2": {"failing": 1, "entries": 2}}
    jsonschema.validate(document, json.loads(made()["claims.schema.json"]))


def test_claims_json_keeps_its_schema_and_a_wrong_field_is_refused() -> None:
    slipped = row(misprints=[{"part": "", "misprint": "$a$ for $b$"}], grade="misprint")
    rows = [row("depends", open=OPEN), wrong(), todo(blocked="a GPU"), slipped]
    rows[0]["checks"] = [check(measured=float("nan"), shares={"1/2 dropped": 0.9})]
    document = json.loads(made(*rows)["claims.json"])
    schema = json.loads(made()["claims.schema.json"])
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    validator.validate(document)
    told = "Not printed: the temperature. it, 0.2: Passes. it, 0.5: Fails."
    assert document["claims"][0]["open"] == told
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


def test_a_claim_with_a_certificate_shows_it_and_links_its_file() -> None:
    html = claim_page(wrong(id="nl/thm1", paper="nl", root="nl/thm1"))
    assert 'href="../certificates/nl-thm1.py"' in html
    assert escape(code.certificate("nl/thm1")["prints"]) in html
    assert "../certificates/" not in claim_page(wrong())


def test_a_part_has_its_lines_beside_its_numbers_and_shows_each_once():
    parts = ("Eq. 14", "(1) co-linear", "Eq. 14")
    checks = [check(claim="nl/thm4", part=part) for part in parts]
    checks[-1] |= {"form": "corrected"}
    html = claim_page(row(id="nl/thm4", checks=checks))
    first, second = html.partition('<ul class="cl-parts">')[2].split('<li class="cl-part">')[1:]
    assert first.count("<dt>Outcome</dt>") == 2 and second.count("<dt>Outcome</dt>") == 1
    told = Markup(first.partition("<details")[2]).striptags()
    assert "Eq. 14: s_km b_k" in told or 't.part("Eq. 14"' in told
    assert (
        "shown under <i>Eq. 14</i>" in second and "_second(velocity)" in Markup(second).striptags()
    )
    address = re.search(r'href="\.\./(code/[^"#]+)#L-(\d+)"', first)
    place = registry.of("nl/thm4")[0]
    assert address[1] == code.page_of(place.file)
    page = code.module_page(place.file, [])
    assert f'id="L-{address[2]}"' in page and ">b_k linear in W</a>" in page


def test_helpers_in_the_lines_of_a_part_are_links_where_they_are_named_first():
    part = check(claim="ddn/eq51")
    html = claim_page(row(id="ddn/eq51", checks=[part])).partition('class="cl-part-code"')[2]
    html = html.partition("</details>")[0]
    found = re.findall(r'<a href="\.\./(code/[^"#]+)#(L-\d+)"><span class="n">(.*?)</a>', html)
    named = [Markup(name).striptags() for *_, name in found]
    assert named.count("_norm") == 1 and {"_one_sample", "dw.vec"} <= set(named)
    assert "unit" not in named, "an argument's name is no function"
    files = {code.page_of(place.file): place.file for place in registry.places()}
    for page, line, name in found:
        if page in files:
            at = files[page].read_text(encoding="utf-8").splitlines()[int(line[2:]) - 1]
            assert at.startswith(f"def {Markup(name).striptags()}(")


def test_a_part_of_a_chapters_cell_says_so():
    one = row(id="acl/thm1", checks=[check(part="autograd on both sides")])
    html = claim_page(one)
    cell = f'Made by a cell of <a href="../{one["anchor"]}">its chapter</a>.'
    assert cell in html and "cl-part-code" not in html
    assert "Made by a cell of its chapter." in claim_page(one | {"anchor": None})


def test_a_counterexample_that_parts_share_comes_once() -> None:
    shared = {"counterexample": "$x=1$", "passed": False}
    parts = [check(part=f"Eq. {k}", **shared) for k in (1, 2)]
    page = claim_page(wrong() | {"checks": [*parts, check(form="corrected", correction="$2$")]})
    assert page.count(r"\(x=1\)") == 1 and "<b>Eq. 1; Eq. 2.</b>" in page
    assert "Further counterexamples" not in page


def test_a_sentence_that_the_notes_of_a_part_share_comes_once():
    notes = ("Most p. It ends at 0.3; Ever so.", "Most p. It ends at 0.9. By Eq. 4; Ever so.")
    checks = [check(claim="nl/thm4", part="Eq. 14", note=note) for note in notes]
    html = claim_page(row(id="nl/thm4", checks=checks))
    assert html.count("Most p.") == 1 and "It ends at 0.9. By Eq. 4.<" in html


def test_a_page_says_what_the_names_in_its_lines_stand_for():
    html = claim_page(row(id="nl/eq143", checks=[check(claim="nl/eq143", part="Eq. 143")]))
    names = re.search('<details class="cl-names">.*?</details>', html, re.DOTALL)[0]
    told = dict(re.findall(r"<dt>.*?<code>(\w[\w.]*).*?</code>.*?</dt>\n<dd>(.*?)</dd>", names))
    assert {"pull_of", "solved", "two_layer.modulation", "relative"} <= set(told)
    assert "what δ<sub>k</sub> stands for" in told["pull_of"]
    assert names.count('<a href="../code/checks/two_layer/modulation/top.html#L-') == 3


def test_a_helper_without_its_head_has_its_parameters_above_its_lines():
    html = claim_page(row(id="ncl/eq16", checks=[check(claim="ncl/eq16", part="any W")]))
    assert re.search(r"<code>rises\(t, positive=None, overlaps=True\)</code></a>: Eq. 16 ", html)


def test_a_helper_of_the_name_of_its_check_has_its_own_link_and_words():
    html = claim_page(row(id="nl/eq103", checks=[check(claim="nl/eq103")]))
    found = re.findall(
        r'class="cl-code-of"><a .*?/(\w+).html#.*?<code>(.*?)</code></a>(.*?)</p>', html
    )
    assert [one[:2] for one in found] == [("theorem3", "eq103"), ("proofs", "eq103(part)")]
    assert "the radius is an edge" in found[1][2]
