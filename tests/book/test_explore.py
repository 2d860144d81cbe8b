"""Figures with sliders: what is in the page, and what is refused."""

import json
import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from clcore import _paths
from clcore.book import explore

TABLE = pd.DataFrame({"τ": [1, 2], "value": [3.0, 4.5]})


def drawn(height=1.0):
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.plot([0, height])
    return figure


@pytest.fixture
def shown(monkeypatch):
    """What was displayed: HTML, PNG and text of each figure."""
    found = []
    monkeypatch.setattr(explore, "_display", lambda *parts: found.append(parts))
    monkeypatch.setattr(explore.chapter, "profile", lambda: "book")
    return found


def frames(html: str) -> list[dict]:
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html, re.S)[1])


def test_frames_come_in_the_order_of_the_sliders_and_begin_at_the_start(shown):
    explore.frames(
        lambda a, b: drawn(a * len(b)),
        {"a": [1, 2, 3], "kind": ["x", "yy"]},
        says=lambda a, b: f"a is {a}, kind {b} <&>",
        alt="A line.",
        table=TABLE,
        start=(2, 0),
    )
    ((html, png, text),) = shown
    said = [f["says"] for f in frames(html)]
    assert said == [f"a is {a}, kind {b} <&>" for a in (1, 2, 3) for b in ("x", "yy")]
    assert len({f["source"] for f in frames(html)}) == 6 - 1  # 1 * "yy" and 2 * "x" look alike
    assert 'data-first="4"' in html and f'src="{frames(html)[4]["source"]}"' in html
    assert 'alt="A line. a is 3, kind x &lt;&amp;&gt;"' in html
    assert text == "A line. a is 3, kind x <&>" and png
    assert html.count('type="range"') == 1 and 'aria-valuetext="3"' in html
    assert '<td class="cl-num">4.5</td>' in html and html.count("<tr>") == 3


def test_two_values_are_a_switch_that_names_both(shown, monkeypatch):
    def names():
        explore.frames(
            lambda a, kind: drawn(a),
            {"a": [1, 2, 3], "kind": ["x", "y & z"]},
            says=lambda a, kind: f"{a} {kind}",
            alt="A.",
            table=TABLE,
            start=(0, 1),
        )
        html = shown.pop()[0]
        assert 'role="radiogroup" aria-label="kind"' in html
        assert html.count('type="range"') == 1 and "<span>y &amp; z</span>" in html
        assert re.findall(r'value="(\d)"( checked)?>', html) == [("0", ""), ("1", " checked")]
        return set(re.findall(r'type="radio" name="(.*?)"', html))

    (name,) = names()
    monkeypatch.setattr(explore.chapter, "profile", lambda: "smoke")
    assert names() == {name}  # in smoke, where a slider has two values, it stays a slider


def test_in_a_notebook_the_script_comes_with_the_figure(shown, monkeypatch, tmp_path):
    explore.frames(drawn, {"a": [1, 2]}, says=str, alt="A.", table=TABLE)
    script = (_paths.root() / "book" / "_static" / "explore.js").read_text()
    assert shown[0][0].endswith(f"</div><script data-notebook>\n{script}</script>\n")
    monkeypatch.setattr("clcore._paths.root", lambda: tmp_path)  # a clone without the book
    explore.frames(drawn, {"a": [1, 2]}, says=str, alt="A.", table=TABLE)
    assert "data-notebook" not in shown[1][0]


def test_without_a_start_it_is_the_middle(shown):
    explore.frames(drawn, {"a": [1, 2, 3]}, says=str, alt="A.", table=TABLE)
    assert 'data-first="1"' in shown[0][0] and plt.get_fignums() == []


def test_in_smoke_two_values_of_each_slider_are_drawn_and_all_are_put_into_words(
    shown, monkeypatch
):
    monkeypatch.setattr(explore.chapter, "profile", lambda: "smoke")
    said = []
    explore.frames(
        lambda a, b: drawn(a * b),
        {"a": [1, 2, 3, 4], "b": [5, 6, 7]},
        says=lambda a, b: said.append((a, b)) or f"a is {a}, b {b}",
        alt="A line.",
        table=TABLE,
        start=(2, 0),
    )
    ((html, _, text),) = shown
    assert [f["says"] for f in frames(html)] == [f"a is {a}, b {b}" for a in (2, 3) for b in (5, 6)]
    assert text == "A line. a is 3, b 5" and 'data-first="2"' in html
    assert re.findall(r'aria-valuetext="(\d)"', html) == ["3", "5"]
    assert len(said) == 12


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"sliders": {}}, "at least two values"),
        ({"sliders": {"a": [1]}}, "at least two values"),
        ({"start": (2,)}, r"expected a start below \[2\]"),
        ({"start": (0, 0)}, r"expected a start below \[2\]"),
        ({"draw": lambda a: 1 / 0}, "the frame at a = 1 cannot be drawn: division by zero"),
        ({"alt": "x" * explore.LIMIT}, "at most 600,000 bytes"),
    ],
)
def test_what_is_refused(shown, more, told):
    given = {"draw": drawn, "sliders": {"a": [1, 2]}, "says": str, "alt": "A.", "table": TABLE}
    given |= more
    with pytest.raises(ValueError, match=told):
        explore.frames(given.pop("draw"), given.pop("sliders"), **given)
    assert shown == []
