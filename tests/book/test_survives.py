"""What survives, and the letters: every sentence fits its verdict, every erratum is told."""

import pytest
from made_rows import check, row, wrong

from clcore import ledger
from clcore.book.site import letters, survives
from clcore.ledger import findings, headlines, tex

KNOWN = headlines.known()
EVERY = [(paper, entry) for paper, known in KNOWN.items() for entry in known["claims"]]


@pytest.mark.parametrize(("paper", "entry"), EVERY, ids=lambda v: v if isinstance(v, str) else "")
def test_no_sentence_outlives_its_verdict(paper, entry):
    known = findings.verdicts()
    assert entry["rows"] == {claim: known[claim] for claim in entry["rows"]}


def test_each_paper_has_about_ten_headlines_and_all_are_read_in_three_minutes():
    assert list(KNOWN) == list(ledger.papers())
    assert all(9 <= len(known["claims"]) <= 12 for known in KNOWN.values())
    words = [k["in_short"] for k in KNOWN.values()] + [entry["says"] for _, entry in EVERY]
    assert len(" ".join(words).split()) < 3 * 240


def headline(paper="acl", claim="acl/thm1"):
    return next(e for e in KNOWN[paper]["claims"] if claim in e["rows"])


def test_a_headline_shows_its_rows_and_the_way_to_the_counterexample():
    about = headline(claim="acl/thm3")
    rows = [
        wrong(id="acl/num11", where="Abstract", title="Almost all"),
        wrong(id="acl/thm3", where="Theorem 3, Sec. 4", title="Rank one", rung="proved"),
    ]
    made = survives.files(rows)
    page = made["survives/acl.md"]
    assert about["says"] in page and about["found"] in page
    assert page.count("<section") == 1, "a headline without its rows is left out"
    assert '<a href="../../claims/acl-thm3.html">Tian 2022, Theorem 3</a>: Rank one' in page
    assert '<span class="cl-rung">(proved)</span>' in page
    assert 'href="../errata/acl.html#acl-thm3"' in page
    overview = made["survives.md"]
    lead = f'<a href="../claims/acl-num11.html">{about["says"]}</a>'
    assert lead in overview and "claims/acl-thm3.html" not in overview
    assert KNOWN["ncl"]["in_short"] in made["_generated/papers.md"]


def test_no_badge_is_better_than_the_worst_of_its_rows():
    """Computed for every headline that there is, at the verdicts that are known."""
    known = findings.verdicts()
    worst = ("refuted", "differs", "depends", "corrected", "blocked", "partial", "todo")
    for paper, entry in EVERY:
        ids = list(entry["rows"])
        rows = [row(known[claim], id=claim, paper=paper) for claim in ids]
        page = survives.files(rows)["survives.md"]
        badges = {f"cl-{known[claim]}" for claim in ids}
        first = next((v for v in worst if f"cl-{v}" in badges), None)
        line = next(
            li for li in page.split("<li")[1:] if f">{tex.typeset(entry['says'])}</a>" in li
        )
        assert first is None or f'"cl-verdict cl-{first}"' in line, entry["says"]


def test_a_sentence_is_withheld_where_a_build_finds_another_verdict():
    entry = headline()
    page = survives.files([row("differs")])["survives/acl.md"]
    assert entry["says"] in page and entry["found"] not in page
    assert "A verdict has changed since" in page


LETTER = [
    wrong(id="nl/thm1", paper="nl", root="nl/thm1", grade="hypothesis", title="Stable"),
    wrong(id="nl/thm2", paper="nl", root="nl/thm1", where="Theorem 2", title="After it"),
    row(id="nl/thm3", paper="nl", grade="misprint", root="nl/thm3", where="Theorem 3")
    | {"misprints": [{"part": "", "misprint": "$a$ for $b$"}], "care": ["misprint"]},
    row("depends", id="nl/fig4", paper="nl", where="Figure 4", title="Curves", kind="figure"),
]


def test_a_letter_tells_every_root_with_the_command_that_repeats_it():
    text = letters.text("nl", LETTER)
    title = ledger.papers()["nl"]["title"]
    assert text.startswith(f'To the authors of\n"{title}"\n')
    assert "4 rows" in text and "Of these 1 holds if read with care (1 with a misp" in " ".join(
        text.split()
    )
    assert "* Theorem 1: Stable" in text
    assert r"$N=2$ gives $\frac14$" in text and r"$\frac{2}{\tau}$, not $<1$" in text
    assert "It affects: Theorem 2" in text and "* Theorem 2" not in text
    assert "Repeat it: python -m clcore check nl/thm1" in text
    assert "data/certificates/nl-thm1.py" in text
    assert "* Theorem 3: $a$ for $b$" in text
    assert "* Figure 4: Curves (depends)" in text
    assert "&" not in text.replace("\\&", "") and max(map(len, text.splitlines())) <= 100
    html = letters.files(LETTER)["letters/nl.md"]
    assert r"\(\frac{2}{\tau}\), not \(&lt;1\)" in html
    assert "<code>python -m clcore check nl/thm1</code>" in html


def test_a_letter_weighs_before_it_counts():
    rows = [
        wrong(id="acl/lem7", root="acl/lem7", grade="constant", title="A factor"),
        wrong(id="acl/thm5", root="acl/thm5", grade="conclusion", title="The end"),
    ]
    text = letters.text("acl", rows)
    assert text.index("The end") < text.index("A factor")
    assert "Misprints\n" not in text and "could not settle" not in text


def test_a_part_is_named_only_where_there_are_several():
    checks = [check(part="a", counterexample="one"), check(part="b", counterexample="two")]
    text = letters.text("acl", [wrong() | {"checks": checks}])
    assert "Counterexample (a):" in text and "Counterexample (b):" in text
    assert "Counterexample:" in letters.text("acl", [wrong()])
