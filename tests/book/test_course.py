"""The course kit: what is taught when, notebooks with and without solutions, slides."""

import ast
import importlib
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from clcore import _folders, _paths
from clcore.book import course, exercises
from clcore.book.course import kit, notebooks, plain
from clcore.book.course.kit import pages
from clcore.book.grading.mark import variable

sessions = importlib.import_module("clcore.book.course.sessions")  # a function hides it

CHAPTERS = [path for s in course.sessions().values() for path in s.notebooks]


def test_sessions_last_what_their_steps_last_and_show_what_is_there():
    known = course.sessions()
    assert len(known) >= 10 and known["minmax"].minutes == 90
    for session in known.values():
        assert 40 <= session.minutes <= 120, session.id
        assert any(step.figures for step in session.steps)
        assert session.needs


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"chapters": ["9-none"]}, "no chapter 9-none"),
        ({"figures": ["fig-none"]}, "no figure fig-none"),
        ({"claims": ["acl/none"]}, "acl/none"),
        ({"minutes": 0}, "minimum"),
    ],
)
def test_a_damaged_plan_is_named(monkeypatch, change, told):
    entry = {"id": "a", "title": "A", "chapters": ["1-minmax"], "needs": "n"}
    step = {"minutes": 5, "title": "t", "what": "w", "claims": [], "figures": []}
    entry |= {k: v for k, v in change.items() if k in entry}
    step |= {k: v for k, v in change.items() if k in step}
    found = {"sessions": [entry | {"steps": [step]}], "plans": {}, "lines": {}}
    if "minutes" in change:
        import jsonschema

        with pytest.raises(jsonschema.ValidationError, match=told):
            jsonschema.validate(found, sessions._SCHEMA)
        return
    monkeypatch.setattr(sessions, "_known", lambda: found)
    sessions.sessions.cache_clear()
    with pytest.raises(ValueError, match=told):
        sessions.sessions()
    sessions.sessions.cache_clear()


def test_homework_fits_and_begins_with_the_easy():
    for weeks in course.plans().values():
        for week in weeks:
            for session in week["sessions"]:
                own = exercises.texts(session.notebooks[0])
                chosen = [e for e in week["exercises"] if e.id in own]
                assert sum(e.minutes for e in chosen) <= 90
                assert [e.level for e in chosen] == sorted(e.level for e in chosen)
    assert {len(weeks) for weeks in course.plans().values()} == {4, 10}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_students_get_no_solution_and_instructors_every_one(path):
    """Of code: the smoke build has run each solution with its check, and a wrong one fails it."""
    source = "".join("".join(c["source"]) for c in json.loads(path.read_text())["cells"])
    ids = re.findall(r"^:label: (ex-[\w-]+)$", source, re.M)
    assert ids == exercises.ids(path)
    student = notebooks.assignment(path, "student")
    full = notebooks.assignment(path, "instructor")
    answers = {c.id: c.source for c in student.cells if c.id.endswith("-answer")}
    assert list(answers) == [f"{name}-answer" for name in ids]
    for name in ids:
        assert answers[f"{name}-answer"] == (
            f'{variable(name)} = ...  # yours\nexercises.check("{name}", {variable(name)})'
        )
    text = "\n".join(c.source for c in student.cells)
    assert "{solution}" not in text and "**Solution.**" not in text and "{exercise}" not in text
    solved = {c.id: c.source for c in full.cells if c.id.endswith("-answer")}
    for name in ids:
        assert f'exercises.check("{name}", {variable(name)})' in solved[f"{name}-answer"]


def test_run_all_goes_through_with_empty_answers_and_counts_them():
    """In one kernel, all empty answers, each chapter with its count at the end."""
    cells = [nbformat.v4.new_code_cell("from clcore.book import exercises")]
    for path in CHAPTERS:
        book = notebooks.assignment(path, "student")
        book.cells[-1].id = f"score-{path.stem}"
        cells += [c for c in book.cells if c.id.endswith("-answer") or c.id.startswith("score-")]
    book = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(book, resources={"metadata": {"path": "."}}).execute()
    told = ["".join(o.get("text", "") for o in cell.outputs) for cell in book.cells[1:]]
    counts = [text for text in told if " of " in text.splitlines()[0] and "Without" in text]
    assert len(counts) == len(CHAPTERS)
    assert all(re.match(r"0 of \d+ right\.\nWithout an answer: Exercise ", c) for c in counts)
    assert sum(": no answer yet; it asks for " in text for text in told) > 10


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_students_notebook_is_plain_markdown_with_its_pictures(path):
    of = plain.page(path)
    book = notebooks.assignment(path, "student", of=of)
    text = "\n".join(c.source for c in book.cells if c.cell_type == "markdown")
    assert not re.search(r"^[`:]{3,}\{|\{[\w:]+\}`|^:[a-z-]+:|\.\./book|^\([\w-]+\)=$", text, re.M)
    shown = re.findall(r"!\[[^\]]*\]\(pictures/([^)]+)\)", text)
    assert sorted(set(shown)) == sorted(of.pictures)
    assert all(picture.exists() for picture in of.pictures.values())


def test_directives_and_roles_become_words():
    of = plain.Page(_paths.root() / "chapters" / "1-minmax.ipynb", {"seen": "three"})
    source = (
        "(here)=\n````{prf:theorem} A name\n:label: thm-acl-2\nText $x$.\n\n$$\ny\n$$\n````\n"
        "By {prf:ref}`thm-acl-2` of {cite:t}`tian2022deep` and {cite:p}`tian2022deep`: "
        "{glue:text}`seen`, {numref}`fig-players`, [errata](../book/errata.md)."
    )
    assert of.plain(source) == (
        "> **Tian 2022, Theorem 2 (A name).** Text $x$.\n>\n> $$\n> y\n> $$\n"
        "By Tian 2022, Theorem 2 of Tian (2022) and (Tian 2022): three, "
        f"Figure 1.1.{list(sessions.figures(of.notebook)).index('fig-players') + 1}, errata."
    )


def test_marks_for_otter_enclose_solution_and_test():
    book = notebooks.assignment(_paths.root() / "chapters" / "0-start-here.ipynb", "otter")
    raw = [c.source.splitlines()[0] for c in book.cells if c.cell_type == "raw"]
    marks = ["# BEGIN QUESTION", "# BEGIN SOLUTION", "# END SOLUTION", "# BEGIN TESTS"]
    assert raw == ["# ASSIGNMENT CONFIG", *([*marks, "# END TESTS", "# END QUESTION"] * 4)]
    assert "name: ex_start_1" in "\n".join(c.source for c in book.cells)
    with pytest.raises(ValueError, match="a kind of student, instructor, otter; got 'none'"):
        notebooks.assignment(Path("x"), "none")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_each_question_for_otter_has_a_name_of_its_own(path):
    """Otter's last cell runs the tests of all questions, after all answers."""
    cells = {c.id: c.source for c in notebooks.assignment(path, "otter").cells}
    tests = {name.removesuffix("-test"): s for name, s in cells.items() if name.endswith("-test")}
    asked = {name: ast.unparse(ast.parse(s).body[0].value.args[1]) for name, s in tests.items()}
    assert len({*asked.values()}) == len(asked) and "answer" not in asked.values()
    for name, answer in asked.items():
        assert re.search(rf"`{answer}\b", cells[name]), "the question says it"
        others = [cells[f"{other}-answer"] for other in asked if other != name]
        assert _bound(cells[f"{name}-answer"], answer)
        assert not any(_bound(code, answer) or _bound(code, "answer") for code in others)


def _bound(code, name):
    return any(
        (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.FunctionDef) and node.name == name)
        for node in ast.walk(ast.parse(code))
    )


def test_the_page_for_teachers_has_every_session():
    text = pages()["_generated/sessions.md"]
    for session in course.sessions().values():
        assert f"{session.minutes} minutes, with [](../../chapters/{session.chapters[0]})" in text
    assert "**Sticky weights.** Predict the five curves" in text  # the note begins with the title
    assert "?.**" not in text
    plans = pages()["_generated/plans.md"]
    assert plans.count("\n| 10 |") == 1 and "Exercise 0.1 (" in plans and "ex-" not in plans


def test_a_session_that_is_not_there(tmp_path):
    with pytest.raises(course.CourseError, match="expected sessions of start, minmax"):
        course.make(tmp_path, ["none"])


def test_slides_work_without_a_network_and_have_their_notes(site, tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(site.parent))
    monkeypatch.delenv("CLCORE_REPOSITORY_URL", raising=False)
    said = course.make(tmp_path / "kit", ["start"], otter=True)
    assert len(said) == 7 and "CLCORE_REPOSITORY_URL" in said[3]
    deck = (tmp_path / "kit" / "slides" / "start.html").read_text()
    session = course.sessions()["start"]
    assert deck.count('<aside class="notes">') >= len(session.steps)
    assert all(f"<h2>{step.title}</h2>" in deck for step in session.steps)
    assert not re.search(r'(?:src|href)="https?://', deck)
    assert "Tian 2022, Eq. 2, corrected" in deck and 'class="deck-check' in deck
    made = {p.parent.name for p in (tmp_path / "kit").glob("*/*.ipynb")}
    assert made == {"student", "instructor", "otter"}
    if (tmp_path / "kit" / "notation.pdf").exists():
        assert (tmp_path / "kit" / "notation.pdf").read_bytes().startswith(b"%PDF")


def test_a_site_of_another_build_than_the_ledger_is_not_mixed_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("a site")
    (tmp_path / "ledger.json").write_text(json.dumps({"book": {"commit": "new"}, "rows": []}))
    for said in (None, {"commit": "old"}):
        if said:
            (tmp_path / "html" / "site.json").write_text(json.dumps(said))
        with pytest.raises(course.CourseError, match=r"of different builds.*make book"):
            course.make(tmp_path / "kit")
    assert not (tmp_path / "kit").exists()
    # Of one build, the folder of somebody's is what is in the way.
    (tmp_path / "html" / "site.json").write_text(json.dumps({"commit": "new"}))
    keynote = tmp_path / "talks" / "slides" / "keynote.txt"
    keynote.parent.mkdir(parents=True)
    keynote.write_text("mine")
    with pytest.raises(_folders.NotOurs, match="talks: it holds slides, and no"):
        course.make(tmp_path / "talks")
    _folders.mark(tmp_path / "talks")
    with pytest.raises(_folders.NotOurs, match=r"slides: it holds keynote\.txt, and no"):
        course.make(tmp_path / "talks")
    assert [p.name for p in keynote.parent.iterdir()] == ["keynote.txt"]


def test_without_a_build_there_is_nothing_to_show(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path))
    with pytest.raises(course.CourseError, match="run `make book`"):
        course.make(tmp_path / "kit")


def test_students_get_a_folder_that_needs_no_clone(tmp_path, monkeypatch):
    monkeypatch.setenv("CLCORE_BUILD", str(tmp_path / "none"))
    monkeypatch.setenv("CLCORE_REPOSITORY_URL", "https://example.org/a/book")
    folder = _folders.begin(tmp_path / "student")
    kit._notebooks(folder, "student", [course.sessions()["start"]], "")
    told = (folder / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\d+\. ", told, re.M)) == 10
    assert re.search(r"-e git\+https://example\.org/a/book\S*#egg=clcore\[book\]", told)
    book = nbformat.read(folder / "0-start-here.ipynb", 4)
    for name in re.findall(r"\]\((pictures/[^)]+)\)", "\n".join(c.source for c in book.cells)):
        assert (folder / name).stat().st_size > 0
