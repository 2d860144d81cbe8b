"""What becomes a link in the words of a claim's page: terms, and claims by their places."""

import re

from clcore.book.site.claims.linker import Linker


def test_terms_and_claims_are_linked_once_and_never_inside_formulas():
    linked = Linker("..", own="acl/thm1")
    html = linked(
        "By Eq. 1, Eq. 1 and Theorem 1: the temperature $Eq. 2$ `Eq. 2`, Eq. 999, Eq. (2)"
    )
    assert html.count('href="../claims/acl-eq1.html"') == 1
    assert "acl-thm1" not in html and "999</a>" not in html
    assert r"\(Eq. 2\)" in html and "<code>Eq. 2</code>" in html
    assert html.count("acl-eq2.html") == 1 and html.count("term-temperature") == 1
    assert "term-temperature" not in linked("the temperature"), "once a page"
    html = linked("as acl/thm3, acl/thm3; acl/thm1, acl/none1, code/acl/thm4")
    assert html.count('href="../claims/acl-thm3.html"') == 1 == html.count("<a ")
    assert html.endswith("Theorem 3</a>, Theorem 3; Theorem 1, acl/none1, code/acl/thm4")


def test_what_another_paper_states_is_linked_to_that_paper() -> None:
    html = Linker("..", own="nl/thm1")("by acl Eq. 2, nl Eq. 3 and acl/thm3")
    links = re.findall(r'<a href="../claims/(\S+?).html"[^>]*>(.*?)</a>', html)
    assert links == [
        *(("acl-eq2", "Tian 2022, Eq. 2"), ("nl-eq3", "Eq. 3")),
        ("acl-thm3", "Tian 2022, Theorem 3"),
    ]
    html = Linker("..", own="nl/thm1")("by acl Theorems 2 and 3, and Tian 2022,\nTheorem 1")
    assert re.findall(r"claims/(\S+?)\.html", html) == ["acl-thm2", "acl-thm3", "acl-thm1"]


def test_assumptions_and_every_number_of_a_list_are_linked():
    html = Linker("..", own="nl/thm1")("Assumption 1, Assumption 2, Assumption 9; Assumption 1")
    assert html.count('nl-rem3.html"') == html.count('nl-rem15.html"') == 1
    assert html.count("<a ") == 2

    def links(text: str, own: str = "nl/thm1") -> list[tuple[str, str]]:
        html = Linker("..", own)(text)
        return re.findall(r'<a href="../claims/(\S+?).html"[^>]*>(.*?)</a>', html)

    assert links("Eqs. (2), (3) and (5)") == [
        *(("nl-eq2", "Eqs. (2)"), ("nl-eq3", "(3)"), ("nl-eq5", "(5)"))
    ]
    assert links("Theorems 1, 3 do not apply") == [("nl-thm3", "3")]
    assert links("Corollaries 1 and 2, Eqs. 5-6") == [
        *(("nl-cor1", "Corollaries 1"), ("nl-cor2", "2"), ("nl-eq5", "Eqs. 5"), ("nl-eq6", "6"))
    ]
    assert links("By Theorem 2, 3 draws; Eqs. 2.5") == [("nl-thm2", "Theorem 2")]
    assert links("Assumptions 1 and 3", "ncl/thm3") == [
        *(("ncl-def4", "Assumptions 1"), ("ncl-def6", "3"))
    ]
