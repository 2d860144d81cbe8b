"""The pages of errata: both forms with their numbers, consequences below their root, replies."""

import html
import re

import pytest
from made_rows import check, claim_page, row, todo, wrong

from clcore import _paths, ledger
from clcore.book.site import errata, fragments, letters
from clcore.ledger.findings import GRADES


def whole(*rows: dict) -> str:
    """All pages of errata, one after another."""
    return "\n".join(errata.files(list(rows)).values())


def test_errata_show_both_forms_with_their_measurements() -> None:
    text = whole(row(), wrong(), todo())
    assert "Of the 2 claims checked so far, 1 need no correction: 1 holds as printed. " in text
    assert (
        "1 are false as printed and come from 1 errors. "
        "Of these errors and the misprints together, 1 of " in text
    )
    assert "## Constants and indices\n\n### acl/thm1" in text
    for piece in (
        r"\(N=2\) gives \(\frac14\)",
        r"\(\frac{2}{\tau}\), not \(&lt;1\)",
        r"\(a&lt;b\)",
        "0.25 &gt; 10⁻¹⁰",
        "2·10⁻¹⁴ ≤ 10⁻¹⁰",
        "1/2 dropped: 0.5",
        'href="../../chapters/1-a.html#claim-acl-thm1"',
        'href="../ledger.html#acl-thm1"',
        '<li id="acl-thm1"><a href="errata/acl.html#acl-thm1">',
    ):
        assert piece in text


def test_a_text_that_parts_share_is_told_once_with_their_names() -> None:
    shared = {"counterexample": "$x=1$", "note": "both", "passed": False}
    parts = [check(part="Eq. 1", **shared), check(part="Eq. 2", **shared)]
    mended = [check(part=f"Eq. {k}", form="corrected", correction=f"${k}$") for k in (1, 2)]
    entry = wrong() | {"checks": [*parts, *mended]}
    assert errata.told(entry) == [
        ("Counterexample", "Eq. 1; Eq. 2", "$x=1$"),
        ("Note", "Eq. 1; Eq. 2", "both"),
        ("What holds", "Eq. 1", "$1$"),
        ("What holds", "Eq. 2", "$2$"),
    ]
    unnamed = wrong() | {"checks": [check(**shared), parts[1]]}
    assert errata.told(unnamed)[0] == ("Counterexample", "whole statement; Eq. 2", "$x=1$")
    page = errata.files([entry])["errata/acl.md"]
    assert page.count(r"\(x=1\)") == 1 and "Counterexample (Eq. 1; Eq. 2)" in page
    letter = letters.text("acl", [entry])
    assert letter.count("$x=1$") == 1 and "What holds (Eq. 2):" in letter


def test_errata_of_a_refuted_claim_say_that_nothing_mends_it() -> None:
    text = whole(wrong("refuted"))
    assert "No correction has been found." in text and "cl-refuted" in text


def test_errata_say_plainly_when_there_are_none() -> None:
    text = whole(row(), row("blocked"), todo())
    assert "There is nothing to correct: of the 1 claims checked so far, none" in text
    assert "\n### " not in text and text.count("Nothing checked so far needs correction") == 4


def test_errata_put_a_consequence_below_its_root() -> None:
    after = wrong(id="acl/eq71", root="acl/thm6", where="Eq. 71", grade="constant")
    root = wrong(id="acl/thm6", root="acl/thm6", where="Theorem 6", grade="conclusion")
    text = whole(after, row(), root)
    assert "2 are false as printed and come from 1 errors. " in text
    assert "Most of" not in text
    assert text.count("\n### ") == 1 and "## Conclusions\n\n### acl/thm6" in text
    assert text.index("### acl/thm6") < text.index('<details id="acl-eq71">')
    lines = r'row">(\w+)</th>.*?((?:<td class="cl-num">[^<]*</td>\s*)+)</tr>'
    numbers = re.findall(lines, text, re.DOTALL)
    cells = {name: re.findall(r"<td[^>]*>(.*?)</td>", html) for name, html in numbers}
    assert cells["conclusion"] == ["1", "0", "0", "0", "1"]
    assert cells["constant"] == ["0 (1)", "0", "0", "0", "0 (1)"]


def test_a_misprint_is_no_error_of_what_it_belongs_to() -> None:
    slips = [{"part": "", "misprint": "$a<b$ for $b<a$"}]
    slipped = row(grade="misprint", root="acl/thm1", misprints=slips, care=["misprint"])
    text = whole(slipped, row(id="acl/eq1"))
    assert (
        "2 need no correction: 1 holds as printed and 1 holds if read with care (1 with a m" in text
    )
    assert "## Misprints" in text and r"\(a&lt;b\) for \(b&lt;a\)" in text
    assert "\n###" not in text and "Counterexample" not in text
    assert 'data-grade="misprint"' in fragments.ledger_row(slipped)
    twice = [{"part": part, "misprint": "$u$ for $v$"} for part in ("Eq. 1", "Eq. 2")]
    shared = whole(slipped | {"misprints": twice})
    assert r"Eq. 1, Eq. 2: \(u\) for \(v\)" in " ".join(shared.split())


def test_every_grade_has_its_rule_on_the_page() -> None:
    text = (_paths.root() / "book" / "judging.md").read_text()
    assert set(errata.SECTIONS) == set(errata.MEANING) == set(GRADES)
    for grade in GRADES:
        assert f"**{grade}**" in text


def test_an_erratum_has_its_certificate_and_only_its_own():
    text = whole(wrong(id="nl/thm1", paper="nl", root="nl/thm1"))
    script = (_paths.root() / "data" / "certificates" / "nl-thm1.py").read_text()
    block = text.split('<details class="cl-certificate">')[1].split("</details>")[0]
    assert 'href="../../certificates/nl-thm1.py"' in block
    shown = html.unescape(re.sub(r"<[^>]+>", "", block))
    assert script in shown
    assert (_paths.root() / "data" / "certificates" / "nl-thm1.txt").read_text() in shown
    assert "cl-certificate" not in whole(wrong())


REPLY = {"date": "2026-11-23", "by": "A. <b>", "text": "Agreed: $a<b$."}
SAID = (
    '<blockquote class="cl-reply mathjax_process">\n<p>Agreed: \\(a&lt;b\\).</p>\n'
    '<footer>Reply by A. &lt;b&gt;, <time datetime="2026-11-23">2026-11-23</time></footer>'
)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of acl with a date and a reply."""
    known = dict(errata.findings.known())
    for claim in ("acl/thm1", "acl/thm6"):
        known[claim] = known[claim] | {"since": "2026-11-21", "reply": REPLY}
    monkeypatch.setattr(errata.findings, "known", lambda: known)


@pytest.mark.usefixtures("answered")
def test_an_entry_has_its_date_and_the_reply_to_it() -> None:
    after = wrong(id="acl/thm6", root="acl/thm1", where="Theorem 6")
    text = errata.files([wrong(), after])["errata/acl.md"]
    assert text.count(SAID) == text.count("First listed 2026-11-21 · ") == 2
    assert text.index(SAID) < text.index('<details id="acl-thm6">') < text.rindex(SAID)
    slips = [{"part": "", "misprint": "$a$ for $b$"}]
    slipped = row(grade="misprint", root="acl/thm1", misprints=slips)
    assert SAID in errata.files([slipped])["errata/acl.md"]


def test_an_entry_without_a_reply_says_nothing_of_one() -> None:
    text = whole(wrong(), row(id="acl/thm6"))
    assert "Reply by" not in text and "First listed" not in text


def test_a_letter_asks_each_question_once_and_names_its_rows() -> None:
    of = {"unprinted": ["the rate"], "varied": {}}
    more = of | {"unprinted": ["the rate", "the $a$"]}
    rows = [row("differs", id="acl/tab2a", where="Table 2", open=of)]
    rows += [row("depends", id="acl/fig3", where="Fig. 3, Sec. 4", open=more), row()]
    text = letters.text("acl", rows)
    assert "- the rate. Rows: Table 2, Fig. 3" in text and "- the $a$. Rows: Fig. 3" in text
    page = letters.files(rows)["letters/acl.md"]
    assert 'the rate. Rows: <a href="../../claims/acl-tab2a.html">Table 2</a>' in page
    for letter in (page, " ".join(text.split())):
        assert "our text copy lacks the figures' pictures" in letter
    assert "One line from you" not in letters.text("acl", [row("partial")])


def test_a_consequence_at_the_place_of_its_root_has_its_title() -> None:
    root = wrong(id="acl/eq2", root="acl/eq2", where="App. C.1")
    near = wrong(id="acl/eq12", root="acl/eq2", where="App. C.1, a choice", title="The choice")
    far = wrong(id="acl/eq14", root="acl/eq2", where="Eq. 14, App. C", title="The rest")
    rows = [root, near, far]
    assert "It affects: App. C.1 (The choice), Eq. 14\n" in letters.text("acl", rows)
    page = letters.files(rows)["letters/acl.md"]
    assert 'errata/acl.html#acl-eq12">App. C.1 (The choice)</a>' in page
    assert 'errata/acl.html#acl-eq14">Eq. 14</a>' in page


def test_a_letter_calls_claims_what_their_paper_calls_them() -> None:
    bad = check(passed=False, counterexample="As acl/lem3 and nl/thm1 have it, acl Eq. 2.")
    text = letters.text("acl", [wrong(id="acl/thm6", root="acl/thm6") | {"checks": [bad]}])
    assert "    As Lemma 3 and Tian 2023, Theorem 1 have it, Eq. 2.\n" in text
    assert "python -m clcore check acl/thm6" in text


def test_a_letter_breaks_no_formula_and_no_word_at_a_hyphen() -> None:
    assert letters.wrapped("semi-definite $a = b$", 12) == "semi-definite\n$a = b$"
    assert letters.wrapped("at $a = b$\nof  it", 10) == "at $a = b$\nof it"
    long = "$a = b + c + d$"
    assert letters.wrapped(long, 8) == "$a = b +\nc + d$", "longer than a line"


def test_rows_of_one_place_are_told_apart_in_a_question() -> None:
    of = {"unprinted": ["the rate"], "varied": {}}
    rows = [row("depends", id=i, where="Sec. 5", open=of) for i in ("acl/num14", "acl/num15")]
    assert "the rate. Rows: Sec. 5 (acl/num14), Sec. 5 (acl/num15)" in letters.text("acl", rows)


def test_a_letter_separates_two_misprints_of_one_row() -> None:
    slips = [{"part": "", "misprint": "$a$ for $b$"}, {"part": "it", "misprint": "$c$ for $d$"}]
    slipped = row(grade="misprint", root="acl/thm1", misprints=slips)
    assert "$a$ for $b$; $c$ for $d$" in letters.text("acl", [slipped])
    assert r"\(b\)<br>" in letters.files([slipped])["letters/acl.md"]


def test_a_letter_lists_the_misprints_of_a_false_row_too() -> None:
    slips = [{"part": "Eq. 3", "misprint": "$a$ for $b$"}]
    text = letters.text("acl", [wrong(misprints=slips), wrong(id="acl/eq2")])
    assert text.split("\nMisprints\n")[1].count("* ") == 1 and "Theorem 1: $a$ for $b$" in text


def test_a_letter_says_what_each_unsettled_run_gave() -> None:
    rows = [row("depends", in_short="Depends on $c$, as in acl/thm6."), row("differs")]
    text = letters.text("acl", rows)
    assert "(depends)\n    Depends on $c$, as in Theorem 6.\n" in text
    assert r"Depends on \(c\), as in Theorem 6." in letters.files(rows)["letters/acl.md"]


def test_a_number_that_cannot_be_is_listed_whatever_decides_its_row() -> None:
    cannot = check(passed=False, counterexample="$.18\\pm.3$ of five numbers in $[0,1]$")
    table = row("differs", id="acl/tab2a", checks=[check(), cannot])
    page = errata.files([row(), table])["errata/acl.md"]
    listed = page.split("## Impossible numbers")[1]
    assert r"acl-tab2a.html" in listed and r"\(.18\pm.3\) of five numbers" in listed
    assert "Impossible as printed:\n    $.18\\pm.3$ of five" in letters.text("acl", [table])
    assert r"Impossible as printed: \(.18\pm.3\)" in letters.files([table])["letters/acl.md"]
    assert "Impossible" not in whole(row("differs"), row(), wrong(id="acl/eq2"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(), row()], "2 hold as printed"),
        (
            [row(care=["edge"])],
            "1 holds if read with care (1 with an unintended edge case excluded)",
        ),
        (
            [row(), row(care=["misprint", "condition"]), row("reproduced"), row("differs")],
            "1 holds as printed, 1 holds if read with care (1 with a misprint corrected, 1 with a "
            "condition or convention of ours; 1 for two of these reasons) and 1 is reproduced",
        ),
        ([wrong()], "0 hold as printed"),
    ],
)
def test_what_holds_is_counted_as_printed_or_with_care(rows: list[dict], said: str) -> None:
    assert fragments.held(rows) == said


def test_a_row_read_with_care_says_so() -> None:
    careful = row(care=["condition"])
    assert "read with care" in fragments.ledger_row(careful)
    assert ">Read with care</a>" in claim_page(careful)
    assert "read with care" not in (fragments.ledger_row(row()) + claim_page(row())).lower()


@pytest.fixture
def taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """acl/thm1 has something withdrawn, and nothing else has."""
    known = {claim: row | {"withdrawn": None} for claim, row in errata.findings.known().items()}
    known["acl/thm1"]["withdrawn"] = {"date": "2026-11-26", "text": "We said $a<b$; it is not."}
    monkeypatch.setattr(errata.findings, "known", lambda: known)


@pytest.mark.usefixtures("taken_back")
def test_what_we_take_back_is_told_with_its_day() -> None:
    rows = [row(), wrong(id="acl/thm6", root="acl/thm6")]
    told = '<time datetime="2026-11-26">2026-11-26</time>: We said \\(a&lt;b\\); it is not.'
    page = errata.files(rows)["errata/acl.md"]
    assert page.index("## Constants and indices") < page.index("## Withdrawn") < page.index(told)
    assert "Of our own entries we withdrew 1: each" in errata.files(rows)["errata.md"]
    assert told in letters.files(rows)["letters/acl.md"]
    told = f"* Theorem 1: {row()['title']}, 2026-11-26:\n    We said $a<b$; it is not."
    assert told in letters.text("acl", rows)
    assert "<b>Withdrawn by us, 2026-11-26</b> We said" in claim_page(row())
    others = [wrong(id="acl/thm6", root="acl/thm6")]
    assert "ithdrawn" not in whole(*others) + letters.text("acl", others) + claim_page(others[0])


def test_a_page_says_what_stands_then_weighs_what_does_not() -> None:
    grades = ("constant", "hypothesis", "proof", "conclusion")
    some = [wrong(id=f"acl/lem{n}", root=f"acl/lem{n}", grade=g) for n, g in enumerate(grades, 4)]
    slips = [{"part": "", "misprint": "$a$ for $b$"}]
    slipped = row(id="acl/lem2", grade="misprint", root="acl/lem2", misprints=slips)
    slipped |= {"care": ["misprint"]}
    text = errata.files([slipped, *some, row()])["errata/acl.md"]
    heads = [errata.SECTIONS[grade] for grade in GRADES]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["What stands", *heads]
    words = " ".join(re.sub(r"<[^>]+>", "", text.split("## What stands")[1]).split())
    assert "Of the 6 rows of this paper 1 holds as printed and 1 holds if read with care" in words
    assert "(1 with a misprint corrected). In the ledger: 2 hold." in words
    assert ledger.papers()["acl"]["version"] in text.split("## What stands")[0]


def test_rows_that_rest_on_an_erratum_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    above = {"acl/thm1": {"acl/a"}, "acl/lem1": {"acl/a", "acl/b"}, "acl/lem2": set()}
    monkeypatch.setattr(errata.claim_map, "above", above.__getitem__)
    told = [">1 row rests on acl/thm1<", ">2 rows rest on acl/lem1<"]
    text = errata.files([wrong(id=claim, root=claim) for claim in above])["errata/acl.md"]
    assert re.findall(r">\d+ rows? rests? on [^<]*<", text) == told


@pytest.mark.parametrize(("number", "folded"), [(10, False), (11, True)])
def test_what_stands_is_folded_where_it_is_long(number: int, folded: bool) -> None:
    ids = [c for c in ledger.claims() if c.startswith("acl/")][:number]
    text = errata.files([row(id=claim) for claim in ids])["errata/acl.md"]
    stands = text.split("## What stands")[1]
    assert f"corollaries that stand: {number}" in stands
    assert ("<details>" in stands) is folded
    assert stands.count('<li><a href="../../claims/acl-') == number


def test_every_entry_has_its_line_on_the_front_page() -> None:
    front = errata.files([wrong(), wrong(id="nl/thm1", paper="nl", root="nl/thm1")])["errata.md"]
    for paper, place in (("acl", "acl-thm1"), ("nl", "nl-thm1")):
        assert f'<li id="{place}"><a href="errata/{paper}.html#{place}">' in front
