"""The build on a small project of its own: cache, failures, what is refused."""

import re

import nbformat
import pytest
from small_project import CHECK, PARAMETERS, last, notebook

from clcore import _paths
from clcore.book import build
from clcore.book.parameters import ParameterError


def test_runs_once_and_then_comes_from_the_cache(project, capsys):
    assert build.build("smoke", only=["good"]) == 0
    rows = {row["id"]: row for row in last(project)["rows"]}
    assert rows["acl/thm1"]["verdict"] == "holds"
    assert rows["acl/thm1"]["control"] == {"broken": 1.0}
    assert rows["acl/thm1"]["profile"] == "smoke"
    assert rows["acl/thm2"]["verdict"] == "todo"
    status = {c["name"]: c["status"] for c in last(project)["book"]["chapters"]}
    assert status == {"good": "ok", "other": "missing"}
    capsys.readouterr()
    assert build.build("smoke", only=["good"]) == 0
    out = capsys.readouterr().out
    assert "running" not in out
    assert "cached" in out
    # A damaged entry is named, and only that chapter runs again.
    (entry,) = (project / "_build" / "cache").glob("good-*")
    executed = entry / "executed.ipynb"
    executed.write_bytes(executed.read_bytes()[:-200])
    assert build.build("smoke", only=["good"]) == 0
    out = capsys.readouterr().out
    assert "damaged cache entry" in out
    assert "good: ok" in out


def test_failures_are_told_and_do_not_stop_the_others(project, capsys):
    bars = (
        "import sys\nfrom tqdm import tqdm\n"
        "for _ in tqdm(range(300), file=sys.stdout, mininterval=0): pass"
    )
    notebook(project / "chapters" / "good.ipynb", bars, CHECK)
    notebook(project / "chapters" / "other.ipynb", "x = 1\nraise KeyError('the gap')")
    assert build.build("smoke", jobs=2) == 1
    said = capsys.readouterr()
    assert "KeyError: 'the gap'" in said.err
    cells = nbformat.read(project / "chapters" / "other.ipynb", 4).cells
    (broken,) = [cell for cell in cells if "the gap" in cell.source]
    assert f"in cell {broken.id}:" in said.err
    assert "raise KeyError('the gap')" in said.err
    assert "Traceback" in said.err
    assert "2 chapters to run, 2 at a time" in said.out
    ends = [line for line in said.out.splitlines() if " after " in line]
    assert sorted(line.split(":")[0] for line in ends) == ["good", "other"]
    assert [re.search(r"\(. of .\)", line).group() for line in ends] == ["(1 of 2)", "(2 of 2)"]
    assert [line.endswith("KeyError: 'the gap'") for line in ends] == [
        line.startswith("other") for line in ends
    ]
    (entry,) = (project / "_build" / "cache").glob("good-*")
    cells = nbformat.read(entry / "executed.ipynb", 4).cells
    (bar,) = [c for c in cells if "tqdm" in c.source]
    (output,) = bar.outputs
    assert len(output.text.strip().splitlines()) == 1, "one line a progress bar"
    assert "300/300" in output.text
    assert not list((project / "_build" / "cache").glob("other-*")), "a failure is not cached"


def test_solutions_are_run_in_smoke_and_not_shown(project, capsys):
    path = project / "chapters" / "good.ipynb"
    plain = nbformat.read(path, 4)

    def solved(code: str) -> None:
        text = f"```{{solution}} x\n```\n\n```python\n{code}\n```"
        cells = [*plain.cells[:-1], nbformat.v4.new_markdown_cell(text), plain.cells[-1]]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=plain.metadata), path)

    solved("from clcore.book import plots\nraise KeyError('unsolved')")
    assert build.build("smoke", only=["good"]) == 1
    said = capsys.readouterr().err
    assert "in cell solution-1:" in said and "KeyError: 'unsolved'" in said
    solved("from clcore.book import plots")
    assert build.build("smoke", only=["good"]) == 0
    (entry,) = (project / "_build" / "cache").glob("good-*")
    executed = nbformat.read(entry / "executed.ipynb", 4).cells
    own = [c.id for c in executed if "injected-parameters" not in c.metadata.get("tags", [])]
    assert own == [c.id for c in nbformat.read(path, 4).cells]
    # What a solution imports counts where it is run, and only there.
    before = {p: build.plan(p, None, "cpu")[0].key for p in ("smoke", "book")}
    with (project / "clcore" / "book" / "plots.py").open("a") as file:
        file.write("\n# an edit\n")
    after = {p: build.plan(p, None, "cpu")[0].key for p in ("smoke", "book")}
    assert after["smoke"] != before["smoke"] and after["book"] == before["book"]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            "kernel died.*killed it for mem",
        ),
        ("raise MemoryError('n = 10^9')", "MemoryError: n = 10.9\nThe chapter ran out of memory"),
        ("here.ledger.check('acl/thm1', 0, 1, {})", "needs a negative control"),
        ("here.ledger.check('acl/thm99', 0, 1, {'b': 2})", "did you mean"),
    ],
)
def test_what_went_wrong_in_a_kernel(project, capsys, cell, told):
    import re

    notebook(project / "chapters" / "good.ipynb", cell)
    assert build.build("smoke", only=["good"]) == 1
    said = capsys.readouterr().err
    assert re.search(told, said, re.DOTALL), said
    assert cell.splitlines()[0] in said


def test_chapter_that_never_closes_is_refused(project, capsys):
    path = project / "chapters" / "good.ipynb"
    book = nbformat.read(path, 4)
    book.cells.pop()
    nbformat.write(book, path)
    assert build.build("smoke", only=["good"]) == 1
    assert "its last cell must call close()" in capsys.readouterr().err


def test_edit_concerns_only_what_depends_on_it(project):
    def both():
        return {run.name: run.key for run in build.plan("smoke", None, "cpu")}

    before = both()
    assert both() == before
    with (project / "clcore" / "book" / "plots.py").open("a") as file:
        file.write("\n# an edit\n")
    after = both()
    assert after["good"] == before["good"]
    assert after["other"] != before["other"]
    with (project / "clcore" / "ledger" / "recorder.py").open("a") as file:
        file.write("\n# an edit of what every chapter needs\n")
    assert both()["good"] != before["good"]
    for room, concerned in (("book/site", False), ("ledger", True), ("book", True)):
        before = both()
        for template in (project / "clcore" / room / "templates").iterdir():
            template.write_text(template.read_text() + "<!-- an edit -->")
        assert (both()["good"] != before["good"]) is concerned, room
    after = both()
    one_more = {run.name: run.key for run in build.plan("book", None, "cpu")}
    assert one_more["good"] != after["good"], "the profile counts"
    now = both()
    paper = {run.name: run.key for run in build.plan("paper", None, "cpu")}
    (project / "data" / "recorded" / "good").mkdir(parents=True)
    (project / "data" / "recorded" / "good" / "a.csv").write_text("x\n1\n")
    assert both()["good"] != now["good"]
    assert both()["other"] == now["other"]
    assert {run.name: run.key for run in build.plan("paper", None, "cpu")} == paper, (
        "a paper run makes the recorded results, and must not run again for having made them"
    )


def test_unknown_things_are_refused_before_a_kernel_starts(project):
    with pytest.raises(build.BuildError, match="chapters of good, other; got 'best'"):
        build.plan("smoke", ["best"], "cpu")
    with pytest.raises(ParameterError, match="profile in smoke, book, paper"):
        build.plan("quick", None, "cpu")
    with pytest.raises(ParameterError, match="expected device in"):
        build.plan("smoke", None, "gpu")
    (project / "chapters" / "other.ipynb").unlink()
    with pytest.raises(build.BuildError, match="lists chapters/other"):
        build.plan("smoke", None, "cpu")


def test_places_do_not_depend_on_where_one_stands(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLCORE_BUILD", "made/here")
    assert _paths.build_dir() == tmp_path / "made" / "here"


@pytest.mark.parametrize(
    ("cells", "parameters", "told"),
    [
        ([], None, "other failed: ParameterError: .*has no parameters cell"),
        (["x ="], PARAMETERS, "other failed: SyntaxError"),
        ([], PARAMETERS.replace("seed = 0", "seed = -4"), "expected seed to be an integer"),
        (
            ["here.ledger.check('acl/thm1', 0, 1, {'b': 2}, form='corrected', correction='c')"],
            PARAMETERS,
            "other failed: LedgerError: .*printed form never was",
        ),
    ],
)
def test_broken_chapter_fails_alone(project, capsys, cells, parameters, told):
    import re

    notebook(project / "chapters" / "other.ipynb", *cells, parameters=parameters)
    assert build.build("smoke") == 1
    said = capsys.readouterr()
    assert re.search(told, said.err, re.DOTALL), said.err
    assert "good: ok" in said.out
    assert build.build("smoke", only=["good"]) == 0, "a broken chapter is no matter of another"


def test_edit_while_a_chapter_runs_is_noticed(project, capsys):
    edited = project / "clcore" / "book" / "plots.py"
    cell = f"from clcore.book import plots\nopen({str(edited)!r}, 'a').write('# edit')"
    notebook(project / "chapters" / "good.ipynb", cell)
    assert build.build("smoke", only=["good"]) == 1
    assert "were edited while it ran" in capsys.readouterr().err
    assert not list((project / "_build" / "cache").glob("good-*"))


def test_cache_entry_of_another_kind_is_not_an_error(project, capsys):
    assert build.build("smoke", only=["good"]) == 0
    (entry,) = (project / "_build" / "cache").glob("good-*")
    (entry / "run.json").write_text("[1, 2]")
    assert build.build("smoke", only=["good"]) == 0
    assert "damaged cache entry" in capsys.readouterr().out


def test_a_chapter_alone_goes_on_with_the_checkpoints_of_a_build(project):
    """As with papermill: the paper profile without a folder of its own in the environment."""
    cell = (
        "import os\nof_build = os.environ.pop('CLCORE_CHECKPOINTS')\n"
        "alone = chapter.start('good', {'In': In} | dict(profile='paper', device='auto', seed=0))\n"
        "same = str(alone.checkpoint('x').parent) == of_build\n"
        "here.ledger.check('acl/thm1', float(not same), 0.5, {'broken': 1.0})"
    )
    notebook(project / "chapters" / "good.ipynb", cell)
    assert build.build("paper", only=["good"]) == 0
    row = next(r for r in last(project)["rows"] if r["id"] == "acl/thm1")
    assert row["verdict"] == "holds"
