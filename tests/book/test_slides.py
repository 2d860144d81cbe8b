"""Slides: their order, minutes and notes; formulas in pieces; what a lecturer adds."""

import dataclasses
import importlib
import re
import shutil

import made_up_build
import pytest

from clcore.book import course
from clcore.book.course import decks, pictures, slides, wide

sessions = importlib.import_module("clcore.book.course.sessions")  # a function hides it
SESSIONS = list(course.sessions().values())
MINMAX = course.sessions()["minmax"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return made_up_build.write(tmp_path_factory.mktemp("course") / "build")


@pytest.fixture
def made(built, tmp_path, monkeypatch):
    """The slides of a session, from the made-up build."""
    monkeypatch.setenv("CLCORE_BUILD", str(built))

    def of(session, rows=None):
        claims = {claim for step in session.steps for claim in step.claims}
        found = {claim: made_up_build.row(claim) for claim in claims} | (rows or {})
        return slides.made(session, found, pictures.write(session, tmp_path))

    return of


OPENING = {
    "fig-a": {
        **{"chapter": "1-minmax", "title": "A", "caption": "c", "alt": "a", "opens": True},
        **{"files": ["a.svg"], "says": [""], "keep": False},
    }
}


def step(**more):
    return sessions.Step(
        **{"minutes": 5, "title": "A step", "what": "w", "claims": (), "figures": ()} | more
    )


def alone(*steps):
    return dataclasses.replace(MINMAX, steps=steps)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda s: s.id)
def test_the_minutes_of_the_slides_are_those_of_the_session(made, session):
    found = made(session)
    assert sum(slide.minutes for slide in found) == session.minutes
    at = 0
    for slide in found:
        assert slide.begins == at and slide.minutes >= 0.5
        at += slide.minutes
    starts = [slide.begins for slide in found if slide.first]
    before = [sum(s.minutes for s in session.steps[:k]) for k in range(len(session.steps))]
    assert starts == before, "a step begins where the plan says"


@pytest.mark.parametrize("session", SESSIONS, ids=lambda s: s.id)
def test_every_slide_says_what_to_ask_and_none_is_shown_twice(made, session):
    found = made(session)
    assert all(any("Ask" in note for note in slide.notes) for slide in found)
    assert found[0].kind == "picture" and found[0].about["opens"], "the opening drawing first"
    for chapter in session.chapters:
        shown = [s.about for s in found if s.kind == "picture" and s.about["chapter"] == chapter]
        assert [about["opens"] for about in shown[:1]] == [True]
    stated = [s.about["row"]["id"] for s in found if s.kind == "statement"]
    assert len(stated) == len(set(stated))
    assert set(stated) == {claim for step in session.steps for claim in step.claims}
    files = [file for s in found if s.kind == "picture" for file in s.about["files"]]
    assert len(files) == len(set(files))


def test_what_is_corrected_has_its_corrected_form(made):
    row = made_up_build.row("acl/thm5")
    first, second = step(claims=("acl/thm5",)), step(claims=("acl/thm5",), figures=("fig-thm1",))
    found = made(alone(first, second), {"acl/thm5": row})
    kinds = [slide.kind for slide in found]
    assert kinds == ["picture", "statement", "corrected", "picture"], "where it comes last"
    (_, text) = found[2].about["instead"][0]
    assert "Require $\\mathcal E(w_1(0))>0$" in text and "node is dead" in found[2].about["example"]
    assert found[1].about["line"].startswith("for $w\\ge0$")
    bare = row | {"checks": row["checks"][:1]}
    assert "corrected" not in [s.kind for s in made(alone(first), {"acl/thm5": bare})]


@pytest.mark.parametrize(
    ("record", "stands", "broken"),
    [
        ({}, "holds, up to rounding", ["off by 0.25", "off by less than a thousandth"]),
        ({"bound": 0.0}, "holds exactly", ["off by 0.25", "off by less than a thousandth"]),
        ({"bound": 1e-3, "control": {"a": 1}}, "holds to a thousandth", ["off by 1"]),
        (
            {"bound": 0.1, "measured": 0.05, "control": {"a": 0.3}},
            "0.05 (must be at most 0.1)",
            ["0.3 (must be at most 0.1)"],
        ),
        (
            {"relation": ">=", "bound": 0.9, "measured": 0.95, "control": {"a": 0.0, "b": -2e9}},
            "0.95 (must be at least 0.9)",
            [
                "next to nothing (must be at least 0.9)",
                "less than minus ten thousand (must be at least 0.9)",
            ],
        ),
        # A bound next to 0 asks for a sign, not for two equal sides.
        (
            {"relation": ">=", "bound": 1e-5, "measured": 0.16, "control": {"a": 7e-17, "b": 0.0}},
            "0.16 (must be above 0)",
            ["0, up to rounding (must be above 0)", "0 (must be above 0)"],
        ),
        (
            {"bound": -1e-8, "measured": -0.00611, "control": {"a": 1.2e-5}},
            "-0.00611 (must be below 0)",
            ["1.2·10⁻⁵ (must be below 0)"],
        ),
        (
            {"relation": ">=", "bound": -1e-12, "measured": 0.5, "control": {"a": -9e-6}},
            "0.5 (must be at least 0)",
            ["-9·10⁻⁶ (must be at least 0)"],
        ),
        ({"control": {"a": 2e10}}, "holds, up to rounding", ["off by more than ten thousand"]),
        ({"control": {"a": float("nan")}}, "holds, up to rounding", ["no number comes out"]),
    ],
)
def test_controls_are_words_and_never_a_measured_zero(made, record, stands, broken):
    row = made_up_build.row("acl/eq4")
    row["checks"] = [row["checks"][0] | record]
    (slide,) = [
        s for s in made(alone(step(claims=("acl/eq4",))), {"acl/eq4": row}) if s.kind == "controls"
    ]
    assert slide.about["stands"] == stands
    assert [told for _, told in slide.about["controls"]] == broken


def test_a_step_that_shows_nothing_lists_exercises(made):
    (_, slide) = made(alone(step(title="Try", minutes=15)))
    assert slide.kind == "exercises" and slide.title == "Try"
    assert slide.about["now"] and slide.about["home"]
    assert sum(text.minutes for text in slide.about["now"]) <= 15 and slide.about["fits"]
    (_, slide) = made(alone(step(title="Try", minutes=1)))
    assert len(slide.about["now"]) == 1 and not slide.about["fits"]


def test_slides_of_ones_own_come_after_the_exercises_and_leave_them_their_time(made):
    mine = slides.of_markdown("# Thanks", "")
    session = alone(step(title="Try", minutes=15))
    rows = {"acl/eq4": made_up_build.row("acl/eq4")}
    _, tried, last = slides.made(session, rows, OPENING, ((), (mine,)))
    assert (tried.kind, last.title) == ("exercises", "Thanks")
    assert tried.minutes > 3 * last.minutes


def test_a_session_without_short_exercises_is_refused(made, monkeypatch):
    monkeypatch.setattr(slides, "assigned", lambda session, minutes: [])
    with pytest.raises(course.CourseError, match="'Try': no exercise of an hour or less"):
        made(alone(step(title="Try", minutes=15)))


def test_more_slides_than_half_minutes_are_refused(made):
    crowded = alone(step(minutes=1, slides=("# a", "# b", "# c")))
    with pytest.raises(course.CourseError, match=r"minmax, 'A step': expected 1 to 2 slides"):
        made(crowded)


def test_a_slide_of_ones_own_needs_a_heading(made):
    where = "data/course.yaml, minmax, 'A step': expected a slide that begins"
    with pytest.raises(course.CourseError, match=where):
        made(alone(step(slides=("no heading",))))
    with pytest.raises(course.CourseError, match=r"begins with '# Its title'; got 'no heading'"):
        slides.of_markdown("no heading", "x.md")
    assert slides.of_markdown("## Mine\n\n$x$", "").about["text"] == "$x$"
    with pytest.raises(course.CourseError, match="expected one slide; '## More' begins another"):
        slides.of_markdown("# Mine\n\ntext\n\n## More\n", "")
    code = "```python\n# a comment\n```"
    assert slides.of_markdown(f"# Mine\n\n{code}", "").about["text"] == code


def test_captions_are_words_and_a_missing_figure_is_named(made, built, tmp_path, monkeypatch):
    octant = alone(step(claims=("acl/thm5",), figures=("fig-octant",)))
    octant = dataclasses.replace(octant, chapters=("3-relu-composition",))
    captions = [s.about["caption"] for s in made(octant) if s.kind == "picture"]
    assert "(Tian 2022, Theorem 5)" in captions[-1]
    assert not any("{" in re.sub(r"\$[^$]*\$", "", text) for text in captions)
    folder = tmp_path / "build"
    shutil.copytree(built, folder)
    page = folder / "executed" / "3-relu-composition.ipynb"
    page.write_text('{"cells": []}')
    monkeypatch.setenv("CLCORE_BUILD", str(folder))
    with pytest.raises(
        course.CourseError, match="expected the figure fig-octant in the last build"
    ):
        pictures.write(octant, tmp_path)


def test_a_statement_without_a_picture_has_a_line(monkeypatch):
    known = sessions._known()
    told = {k: v for k, v in known["lines"].items() if k != "acl/lem1"}
    for lines, said in (
        (told, "no line of derivation for acl/lem1"),
        (known["lines"] | {"acl/def1": "x"}, "no step shows acl/def1"),
    ):
        monkeypatch.setattr(sessions, "_known", lambda lines=lines: known | {"lines": lines})
        sessions.sessions.cache_clear()
        with pytest.raises(course.CourseError, match=said):
            sessions.sessions()
    monkeypatch.undo()
    sessions.sessions.cache_clear()


def test_a_long_formula_is_cut_between_its_sides_and_nowhere_else():
    long = r"\dot w_k=P_{w_k}^\perp(s_k^2A_k(w_k)+\delta_k\Delta_k\Delta_k^T)w_k=a+b_{i=1}^{-1}+c"
    found = wide.pieces(long)
    assert len(found) > 1 and "".join(p.removeprefix("{}") for p in found) == long
    assert all(p.startswith("{}") for p in found[1:])
    assert all(p.count("{") == p.count("}") for p in found)
    assert wide.pieces("a=b") == ["a=b"]
    fixed = r"\left(aaaaaaaaaaaaaaaaaaaa=bbbbbbbbbbbbbbbbbbb+c\right)"
    assert wide.pieces(fixed) == [fixed]
    assert wide.cut(f"so ${long}$.").count("\u200b") == len(found) - 1
    assert wide.cut("if $x$, so") == r"if $x\text{,}$ so"
    small = "$" + "a=bbbbbbbbbbbbbbbbbb+c" * 2 + "=6.9e-23$"
    assert "10^{-23}" in wide.cut(small) and "e$" not in wide.cut(small)
    assert wide.width(r"\frac{aaaa}{bb}x_i") == pytest.approx(5.7)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda s: s.id)
def test_no_piece_of_a_statement_is_wider_than_a_slide(made, session):
    for slide in made(session):
        if slide.kind == "statement":
            text = slide.about["text"] + slide.about["line"]
            for formula in wide._MATH.findall(text):
                assert all(wide.width(piece) < 75 for piece in wide.pieces(formula)), formula


def test_decks_are_made_with_slides_of_ones_own_and_the_others_stay(built, tmp_path, monkeypatch):
    own = tmp_path / "mine"
    (own / "start").mkdir(parents=True)
    (own / "start" / "0-me.md").write_text("# Who I am\n\n![me](me.png) and $x$.\n")
    (own / "start" / "2-more.md").write_text("# After two\n\nText.\n")
    (own / "start" / "me.png").write_bytes(
        made_up_build.base64.b64decode(made_up_build._picture("png"))
    )
    out = made_up_build.decks(built, tmp_path / "slides", monkeypatch, ["start"], own)
    first = (out / "start.html").read_text()
    heads = re.findall(r"<h([23])>(.*?)</h\1>", first)
    assert heads[0] == ("2", "Who I am") and ("3", "After two") in heads
    assert heads.index(("3", "After two")) > heads.index(("2", "InfoNCE in two lines"))
    assert 'src="_images/start-me.png"' in first, "apart from another session's me.png"
    assert (out / "_images" / "start-me.png").read_bytes() == (own / "start/me.png").read_bytes()
    assert {p.name for p in own.rglob("*") if p.is_file()} == {"0-me.md", "2-more.md", "me.png"}
    # Fragments: the verdict, the corrected form, the controls one by one, frames.
    assert first.count("fragment") > 6 and '<tr class="fragment">' in first
    (out / "start.pdf").write_text("printed before")
    (out / "linear.pdf").write_text("printed before")
    monkeypatch.setattr(decks, "_build", _quick)
    made_up_build.decks(built, out, monkeypatch, ["linear"])
    assert (out / "start.html").read_text() == first and (out / "start.pdf").exists()
    assert (out / "linear.html").exists() and not (out / "linear.pdf").exists()
    index = (out / "index.html").read_text()
    assert 'href="start.html"' in index and 'href="linear.html"' in index
    assert "minmax.html" not in index


def _quick(source, made):
    """In place of Sphinx: the text of each deck."""
    made.mkdir()
    for file in source.glob("*.md"):
        (made / file.with_suffix(".html").name).write_text(file.read_text())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none/0-a.md", "expected folders called as sessions, start, minmax"),
        ("start/a.md", "expected a name such as 2-my-slide.md"),
        ("start/9-a.md", "0 to 4"),
        ("start/9-a.MD", "0 to 4"),
        ("2-a.md", "expected a slide in the folder of its session, start, minmax"),
    ],
)
def test_a_slide_without_a_place_is_refused(built, tmp_path, monkeypatch, name, told):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("# A title")
    with pytest.raises(course.CourseError, match=told):
        made_up_build.decks(built, tmp_path / "out", monkeypatch, ["start"], tmp_path)
    assert not (tmp_path / "out").exists()
    with pytest.raises(course.CourseError, match="expected a folder with slides at"):
        made_up_build.decks(built, tmp_path / "out", monkeypatch, ["start"], tmp_path / "no")


def test_slides_that_are_not_text_and_what_editors_leave(tmp_path):
    here = tmp_path / "own" / "start"
    (here / ".ipynb_checkpoints").mkdir(parents=True)
    (here / ".ipynb_checkpoints" / "2-a-checkpoint.md").write_text("# Old")
    (here / "._2-a.md").write_bytes(b"\xff")
    (here / "2-a b.md").write_text("# New\n", encoding="utf-8-sig")
    start = course.sessions()["start"]
    found = decks._own(start, tmp_path / "source", tmp_path / "own")
    assert [[slide.title for slide in after] for after in found] == [[], [], ["New"], [], []]
    (here / "1-latin.md").write_bytes("# Gradient de l'énergie".encode("latin-1"))
    with pytest.raises(course.CourseError, match=r"1-latin\.md: expected text in UTF-8"):
        decks._own(start, tmp_path / "source", tmp_path / "own")


def test_slides_inside_of_the_course_are_refused_and_stay(built, tmp_path, monkeypatch):
    from clcore import _folders

    out = _folders.own(tmp_path / "course" / "slides")
    mine = out / "talks" / "start" / "0-me.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("# Mine")
    with pytest.raises(course.CourseError, match=r"expected slides of yours outside of .*slides"):
        made_up_build.decks(built, out, monkeypatch, own=out / "talks")
    with pytest.raises(course.CourseError, match=r"expected slides of yours outside of .*course"):
        course.make(tmp_path / "course", own=out / "talks")
    assert mine.read_text() == "# Mine"
    assert {p.name for p in (tmp_path / "course").iterdir()} == {"slides"}


OVER = """() => {
  const found = [];
  for (const page of document.querySelectorAll('.pdf-page')) {
    const frame = page.getBoundingClientRect();
    for (const part of page.querySelectorAll('section *')) {
      const box = part.getBoundingClientRect();
      if (!box.width || !box.height || part.closest('aside, mjx-assistive-mml')) continue;
      const over = [frame.left - box.left, box.right - frame.right, frame.top - box.top,
                    box.bottom - frame.bottom];
      if (Math.max(...over) > 1) {
        found.push(`${page.querySelector('h1, h2, h3')?.textContent}: ${part.tagName} ${over}`);
        break;
      }
    }
  }
  return found;
}"""


def test_no_slide_overflows(built, chromium, tmp_path, monkeypatch):
    """All decks with everything revealed, one slide per page; two of them on a laptop's screen,
    light and dark."""
    from clcore.book import browser

    out = made_up_build.decks(built, tmp_path / "slides", monkeypatch)
    with browser.served(out) as address:
        tab = chromium.new_page(viewport={"width": 1280, "height": 720})
        tab.set_default_timeout(120_000)
        problems = []
        tab.on("pageerror", lambda error: problems.append(str(error)))
        for session in SESSIONS:
            tab.goto(f"{address}{session.id}.html?print-pdf")
            tab.wait_for_selector(".pdf-page", state="attached")
            tab.evaluate("window.MathJax?.startup?.promise")
            tab.evaluate("document.fonts.ready.then(() => true)")
            assert tab.evaluate(OVER) == [], session.id
            assert not tab.locator("mjx-merror").count(), session.id
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            tab.goto(f"{address}start.html")
            tab.wait_for_function("window.Reveal?.isReady?.()")
            ground = "getComputedStyle(document.querySelector('.reveal-viewport')).backgroundColor"
            light = tab.evaluate(ground) == "rgb(255, 255, 255)"
            assert light == (scheme == "light")
        assert problems == []
        tab.close()
