"""HTML from templates: text is shown and never run, formulas reach MathJax whole, and nothing that
a template shows may be missing."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from jinja2 import PackageLoader, TemplateNotFound, UndefinedError

from clcore import ledger
from clcore.ledger import Check, Ledger
from clcore.ledger.html import check_table, cited, placed, render
from clcore.ledger.outcomes import number
from clcore.ledger.tex import typeset

PACKAGES = ("clcore.ledger", "clcore.book", "clcore.book.site")
TEMPLATES = [(p, name) for p in PACKAGES for name in PackageLoader(p).list_templates()]
NASTY = """<script>alert("1")</script> & it's $x<y \\& z>0$"""
READ = """<script>alert("1")</script> & it's \\(x<y \\& z>0\\)"""


class Seen(HTMLParser):
    """What a browser makes of a page: its tags, its ids, its text with references resolved."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.ids, self.text = [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(*checks: Check) -> str:
    """The HTML of one call that records all these checks."""
    found = []
    book = Ledger("x", show=lambda html, text, records: found.append(html))
    book.run([lambda draws, seed: iter(checks)], 1, 0)
    (html,) = found
    assert type(html) is str, "what a kernel sends is plain text"
    return html


@pytest.mark.parametrize(
    "check",
    [
        Check("acl/thm1", 0, 1, {"b": 2}, note=NASTY),
        Check("acl/thm1", 0, 1, {"b": 2}, part=NASTY),
        Check("acl/thm1", 0, 1, {NASTY: 2}),
        Check("acl/thm1", 0, 1, {"as typeset": 2}, misprint=NASTY),
        Check("acl/fig7", 0, 1, {"b": 2}, form="open", setting=NASTY, evidence="protocol"),
    ],
    ids=["note", "part", "control", "misprint", "setting"],
)
def test_what_a_check_says_is_shown_and_not_run(check: Check) -> None:
    seen = Seen(shown(check))
    assert "script" not in seen.tags
    assert READ in seen.text


def test_a_blocked_claim_says_what_is_missing() -> None:
    found = []
    book = Ledger("x", show=lambda html, text, records: found.append(html))
    book.blocked("acl/fig7", NASTY)
    seen = Seen(found[0])
    assert "script" not in seen.tags and f"blocked: {READ}" in seen.text
    assert seen.ids == ["claim-acl-fig7"]


def test_a_claim_is_linked_to_by_its_first_row() -> None:
    parts = [("acl/thm1", "a"), ("acl/thm2", "a"), ("acl/thm1", "b")]
    html = shown(*(Check(claim, 0, 1, {"b": 2}, part=part) for claim, part in parts))
    assert Seen(html).ids == ["claim-acl-thm1", "claim-acl-thm2"]
    assert html.count('href="../book/ledger.html#acl-thm1"') == 2
    assert html.index('id="claim-acl-thm1"') < html.index('id="claim-acl-thm2"')


def test_a_row_shows_what_was_measured() -> None:
    control = {"one": 2, "two": 1e30}
    seen = Seen(shown(Check("acl/thm1", 0.25, 1, control, part="p", note="n", draws=7)))
    words = f"acl/thm1 Tian 2022, Theorem 1: {ledger.claim('acl/thm1')['title']} "
    words += "p · n passes 0.25 ≤ 1 one: 2 two: 10³⁰ sampled, 7 draws"
    assert " ".join(seen.text.split()).endswith(words)
    failed = shown(Check("acl/thm1", 3, 1, {"b": 2}, counterexample="c"))
    assert '<span class="cl-mark cl-fail">fails</span>' in failed and "3 &gt; 1" in failed
    assert "cl-part" not in failed, "nothing is said of it"


def test_a_control_that_some_draws_let_through_says_in_how_many_it_fails() -> None:
    check = Check("acl/thm1", 0, 1, {"most": 2, "all": 3, "one": 4})
    seen = Seen(shown(replace(check, shares={"most": 0.976, "all": 1.0})))
    assert "most: 2 (fails in 98 % of draws) all: 3 one: 4" in " ".join(seen.text.split())
    seldom = Seen(shown(replace(check, shares={"most": 0.001, "one": 0.0})))
    words = "most: 2 (fails in under 1 % of draws) all: 3 one: 4 (fails in 0 % of draws)"
    assert words in " ".join(seldom.text.split())


def test_html_has_no_empty_line_which_would_end_it_in_markdown() -> None:
    html = shown(Check("acl/thm1", 0, 1, {"b": 2}), Check("acl/thm2", 0, 1, {"b": 2, "c": 3}))
    lines = html.strip().splitlines()
    assert [line for line in lines if not line.strip()] == []


@pytest.mark.parametrize(("package", "name"), TEMPLATES, ids=[n for _, n in TEMPLATES])
def test_a_missing_value_is_an_error(package: str, name: str) -> None:
    if name == "shared.html":  # only macros
        assert render(package, name).strip() == ""
        return
    with pytest.raises(UndefinedError, match="is undefined"):
        render(package, name)


def test_a_missing_field_of_a_record_is_an_error() -> None:
    book = Ledger("x")
    book.check("acl/thm1", 0, 1, {"b": 2})
    (record,) = book.records
    shown = check_table([record], {"acl/thm1": "holds"})
    assert "acl/thm1" in shown and "1 claim checked" in shown
    assert '<span class="cl-verdict cl-holds">1 holds</span>' in shown
    for field in ("claim", "part", "passed", "measured", "control", "draws", "note", "misprint"):
        with pytest.raises((UndefinedError, KeyError), match=field):
            check_table([{k: v for k, v in record.items() if k != field}], {"acl/thm1": "holds"})
    with pytest.raises(TemplateNotFound):
        render("clcore.ledger", "nothing.html")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("$a$ and $$b$$", r"\(a\) and \[b\]"),
        (r"\frac{a}{b} < c", r'<code class="cl-tex">\frac{a}{b} &lt; c</code>'),
        ("in `rows <2`, `x.y` & $a$", r"in <code>rows &lt;2</code>, <code>x.y</code> &amp; \(a\)"),
        ("$a\n+b$", "\\(a\n+b\\)"),
        (r"$a<b \& c$ & <b>", r"\(a&lt;b \&amp; c\) &amp; &lt;b&gt;"),
        (r"\{0\} {", r'<code class="cl-tex">\{0\} {</code>'),
    ],
)
def test_latex_is_marked_for_mathjax(text: str, html: str) -> None:
    assert typeset(text) == html
    shown = render("clcore.book", "provenance.html", facts={}, first=(), rest=typeset(text))
    assert shown.count(html) == 1


def test_the_provenance_is_folded_to_what_decides_the_numbers() -> None:
    facts = {"chapter": "x", "profile": "book", "seed": 0, "numpy": "2"}
    html = render("clcore.book", "provenance.html", facts=facts, first=("profile", "seed"), rest="")
    assert "<summary>profile book, seed 0</summary>" in html and html.count("<tr>") == 4


@pytest.mark.parametrize(
    ("measured", "relation", "text"),
    [
        (2.0, "<=", "2 > 1"),
        (0.5, "<=", "0.5 ≤ 1"),
        (2.0, ">=", "2 ≥ 1"),
        (0.5, ">=", "0.5 < 1"),
        (float("nan"), "<=", "nan against 1"),
    ],
)
def test_comparison_tells_the_truth(measured: float, relation: str, text: str) -> None:
    record = {"measured": measured, "bound": 1.0, "relation": relation, "control": {}}
    assert ledger.comparison(record) == text


def test_a_folded_table_counts_claims_by_verdict_not_records():
    """Two records of one claim are one claim; the reader must hear of a correction."""
    book = Ledger("x")
    for claim, part in (("acl/thm1", "a"), ("acl/thm1", "b"), ("acl/thm2", "")):
        book.check(claim, 0, 1, {"b": 2}, part=part)
    records = book.records
    shown = check_table(records, {"acl/thm1": "holds", "acl/thm2": "holds"})
    assert "2 claims checked" in shown and ">2 hold<" in shown
    shown = check_table(records, {"acl/thm1": "corrected", "acl/thm2": "holds"})
    assert shown.index(">1 holds<") < shown.index(">1 corrected<")
    assert shown.count('id="claim-') == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (-0.0, "0"), (-1e-9, "-1e-09"), (0.12345, "0.123"), (float("nan"), "nan")],
)
def test_a_number_has_three_digits_and_zero_no_sign(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "beside", "shown"),
    [
        (1.00105, (0.9999,), "1.001"),
        (0.9999, (0.5, 1.00105), "0.9999"),
        (0.5, (0.9999,), "0.5"),
        (1.0, (1.0,), "1"),
        (1 + 1e-13, (1.0,), "1"),
    ],
)
def test_a_number_is_told_from_those_beside_it(value, beside, shown):
    assert number(value, *beside) == shown


def test_settings_that_parts_share_are_columns_and_others_rows():
    """One row per part, no cell filled that was not run; a part's own setting is a row."""
    book = Ledger("x")
    run = {"evidence": "protocol"}
    for part, settings in (("a", ("hot", "wet")), ("b", ("hot",))):
        book.check("acl/thm1", 2, 1, {"c": 3}, part=part, **run)
        for setting in settings:
            book.check("acl/thm1", 0, 1, {"c": 3}, part=part, form="open", setting=setting, **run)
    html = check_table(book.records, {"acl/thm1": "depends"})
    alone, _, shared = html.partition('<table class="cl-table cl-settings">')
    assert "passes: wet" in alone and "passes: hot" not in alone
    assert "<b>1</b> hot." in alone and "wet" not in shared
    assert (shared.count("✗"), shared.count("✓"), shared.count('<th scope="row">')) == (2, 2, 2)
    assert "<td></td>" not in shared and html.count('id="claim-') == 1


@pytest.mark.parametrize(
    ("text", "paper", "said"),
    [
        ("As acl/def1; see `acl/thm5`.", "acl", "As Definition 1; see Theorem 5."),
        ("As acl/thm5 (acl/none).", "ncl", "As Tian 2022, Theorem 5 (acl/none)."),
        ("(ncl/def4..def7)", "ncl", "(Assumption 1 to Assumption 4)"),
        ("acl/thm5 by acl Eq. 4", "", "Tian 2022, Theorem 5 by Tian 2022, Eq. 4"),
        ("nl/eq148", "nl", "Eq. (148)"),
    ],
)
def test_an_id_becomes_the_place_of_its_claim(text: str, paper: str, said: str) -> None:
    assert placed(text, paper) == said


def test_a_paper_is_told_by_what_it_is_cited_as_and_its_own_not_at_all() -> None:
    assert cited("K_l (ddn Def. 1), ddn Eqs. 2 and 3", "ddn") == "K_l (Def. 1), Eqs. 2 and 3"
    assert cited("alpha of acl Eq. 4", "nl") == "alpha of Tian 2022, Eq. 4"
    kept = "the constant of acl; acl-mean Eq. 4, nl's Eq. 3, acl/eq4"
    assert cited(kept, "nl") == kept
