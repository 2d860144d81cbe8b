"""The drawings of what rests on what: right boxes and arrows, right words, safe text."""

import re
from functools import cache
from xml.etree import ElementTree

import pytest

from clcore import ledger
from clcore.book.site import drawing
from clcore.ledger import VERDICTS
from clcore.ledger import map as claim_map
from clcore.ledger.html import SHOWN, row_id

# e rests on d, and both on c through b; a on all.
SMALL = {"a": ("b", "c", "d"), "b": ("c",), "c": (), "d": ("b",), "far": ("a",)}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The map SMALL in place of the papers'."""
    reach = {claim: {*near} for claim, near in SMALL.items()}
    for _ in SMALL:
        for found in reach.values():
            found |= {below for near in set(found) for below in reach[near]}
    monkeypatch.setattr(claim_map, "rests_on", SMALL.__getitem__)
    monkeypatch.setattr(claim_map, "below", reach.__getitem__)


def row(claim: str, verdict: str = "holds", **changed: object) -> dict:
    out = {"id": claim, "paper": "acl", "where": f"Lemma {claim}, App. B", "title": f"On {claim}"}
    return out | {"verdict": verdict, "notebook": "1-a"} | changed


@cache
def rows() -> list[dict]:
    """All claims, with the verdicts dealt out in turn, each in a chapter of its group."""
    return [
        claim
        | {
            "verdict": VERDICTS[at % len(VERDICTS)],
            "notebook": f"{claim['paper']}-{claim['chapter']}",
        }
        for at, claim in enumerate(ledger.claims().values())
    ]


CHAPTERS = sorted({f"{c['paper']}-{c['chapter']}" for c in ledger.claims().values()})


def test_worst_verdict_at_any_distance(small: None) -> None:
    verdicts = {"a": "refuted", "b": "holds", "c": "corrected", "d": "differs", "far": "holds"}
    worst = {claim: drawing.worst_below(claim, verdicts) for claim in SMALL}
    assert worst == {
        "a": "corrected",
        "b": "corrected",
        "c": "",
        "d": "corrected",
        "far": "refuted",
    }
    assert sorted(drawing.WORST) == sorted(VERDICTS) == sorted(drawing.GLYPHS)


def test_edges_that_follow_are_left_out_and_hidden_claims_leave_a_dash(small: None) -> None:
    full = drawing.edges(["a", "b", "c", "d"])
    assert full == {("a", "d"): True, ("d", "b"): True, ("b", "c"): True}
    assert drawing.edges(["far", "d", "c"], {"a", "b"}) == {("far", "d"): False, ("d", "c"): False}


def _reach(links: dict) -> set[tuple[str, str]]:
    found = set(links)
    while more := {(a, d) for a, b in found for c, d in links if b == c} - found:
        found |= more
    return found


@pytest.mark.parametrize("name", CHAPTERS)
def test_arrows_are_the_maps_and_boxes_lead_to_the_ledger(name: str) -> None:
    html = drawing.figure(name, rows())
    own = [r["id"] for r in rows() if r["notebook"] == name]
    shown, elsewhere = drawing.drawn(own)
    nodes = {*shown, *elsewhere}
    assert len(nodes) <= drawing.MANY
    svg = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])
    space = "{http://www.w3.org/2000/svg}"
    boxes = {box.get("data-id"): box for box in svg.iter(f"{space}a")}
    assert set(boxes) == nodes
    verdicts = {r["id"]: r["verdict"] for r in rows()}
    for claim, box in boxes.items():
        assert box.get("href") == f"../book/ledger.html#{row_id(claim)}"
        words = " | ".join(text.text for text in box.iter(f"{space}text"))
        assert f"{drawing.GLYPHS[verdicts[claim]]} {SHOWN[verdicts[claim]]}" in words
        worst = drawing.worst_below(claim, verdicts)
        assert ("rests on:" in words) == bool(worst)
        assert f"Verdict: {SHOWN[verdicts[claim]]}." in box.get("aria-label")
        assert not worst or words.endswith(f"{drawing.GLYPHS[worst]} {SHOWN[worst]}")
    arrows = [(p.get("data-from"), p.get("data-to")) for p in svg.iter(f"{space}path")]
    arrows = [ends for ends in arrows if ends != (None, None)]
    assert len(arrows) == len(set(arrows))
    if len(shown) == len(own):
        direct = {(a, b) for a in nodes for b in claim_map.rests_on(a) if b in nodes}
        assert set(arrows) <= direct
        assert _reach(dict.fromkeys(arrows)) == _reach(dict.fromkeys(direct))
    listed = html[html.index("The same as a list") :]
    assert re.findall(r'<li><a href="../book/ledger.html#([^"]+)"', listed) == [
        row_id(claim) for claim in own
    ]
    assert html == drawing.figure(name, rows()), "the same in every build"


def test_titles_are_escaped(small: None) -> None:
    title = 'If a<b & "c">d, </svg><script>'
    html = drawing.figure("1-a", [row(claim, title=title) for claim in SMALL])
    assert "<script" not in html and html.count("</svg>") == 1
    assert "If a&lt;b &amp; &#34;c&#34;&gt;d" in html
    assert html.count('class="cl-box') == len(SMALL)


def test_claims_of_other_chapters_are_marked_and_no_claims_give_nothing(small: None) -> None:
    given = [row("far"), row("a", "corrected", notebook="2-b"), *map(row, "bcd")]
    html = drawing.figure("1-a", given)
    box = re.search(r'<a [^>]*data-id="a"[^>]*>', html)[0]
    assert "cl-elsewhere" in box and "In another chapter." in box
    assert 'id="cl-drawing-title"' in html and 'role="graphics-document"' in html
    assert drawing.section("3-c", given) == ""


def test_labels_leave_out_sections_but_keep_numbers() -> None:
    where = {
        "Theorem 3, Sec. 4": "Theorem 3",
        "Eq. 4 (= Eqs. 20, 87), Thm 1": "Eq. 4",
        "Eqs. (51)-(56), App. B.3": "Eqs. (51)-(56)",
        "Eq. (4) = Eq. (42)": "Eq. (4)",
    }
    assert {place: drawing.label(row("a", where=place)) for place in where} == where


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    monkeypatch.setattr(drawing.sys, "executable", "/nowhere/python")
    with pytest.raises(drawing.DrawingError, match=r"graphviz-pure.*pip install"):
        drawing.figure("1-a", [row(claim) for claim in SMALL])
