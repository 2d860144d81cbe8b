"""The build on a small project of its own: cache, failures, what is refused."""

import contextlib
import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from small_project import CHECK, PARAMETERS, last, make_project, notebook

from clcore import ledger
from clcore.book import build
from clcore.book.build import shown
from clcore.book.build.cache import _digest, from_cache, gather
from clcore.book.parameters import ParameterError
from clcore.book.site import stage
from clcore.ledger import findings
from clcore.ledger import map as claim_map

BARS = (
    "import sys\nfrom tqdm import tqdm\n"
    "for _ in tqdm(range(300), file=sys.stdout, mininterval=0): pass"
)
# A busy machine: the kernel says that a cell is done 6 s after its reply; papermill waits for 4.
LATE = """import time
from IPython import get_ipython
kernel = get_ipython().kernel
publish = kernel._publish_status
def late(status, *more, **named):
    if status == "idle":
        kernel._publish_status = publish
        time.sleep(6)
    return publish(status, *more, **named)
kernel._publish_status = late"""
RUN = ("good", "unsolved", "killed", "memory", "unclosed", "edited")
UNPLANNED = ("unset", "unparsed", "unseeded")


@dataclass
class Built:
    """A project after its build, and what that returned and printed."""

    root: Path
    status: int
    out: str
    err: str
    again: int  # what a second build of the good chapter alone returned
    ledger: dict

    def told(self, name: str) -> str:
        """What was said of a chapter that failed."""
        heads = rf"^(?=(?:{'|'.join(RUN + UNPLANNED)}) (?:failed|dead): )"
        (found,) = [t for t in re.split(heads, self.err, flags=re.M) if t.startswith(f"{name} ")]
        return found

    def cell(self, name: str, text: str) -> str:
        """The id of the cell of a chapter that has a text."""
        cells = nbformat.read(self.root / "chapters" / f"{name}.ipynb", 4).cells
        (found,) = [cell.id for cell in cells if text in cell.source]
        return found

    def entries(self, name: str) -> list[Path]:
        return list((self.root / "_build" / "cache").glob(f"{name}-*"))


@pytest.fixture(scope="module")
def built(tmp_path_factory, at):
    """One chapter that is as it should be, and one of each kind that is not, in one build."""
    root = tmp_path_factory.mktemp("built")
    make_project(root, *RUN, *UNPLANNED)
    chapters = {name: root / "chapters" / f"{name}.ipynb" for name in RUN + UNPLANNED}
    notebook(chapters["good"], BARS, LATE, CHECK, solution="from clcore.book import compare")
    unsolved = "from clcore.book import compare\nraise KeyError('unsolved')"
    notebook(chapters["unsolved"], frame=False, solution=unsolved)
    killed = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    notebook(chapters["killed"], killed, frame=False)
    notebook(chapters["memory"], "x = 1\nraise MemoryError('n = 10^9')", frame=False)
    notebook(chapters["unclosed"], "x = 1", frame=False)
    plots = root / "clcore" / "book" / "plots.py"
    edit = f"from clcore.book import plots\nopen({str(plots)!r}, 'a').write('# edit')"
    notebook(chapters["edited"], edit)
    notebook(chapters["unset"], parameters=None)
    notebook(chapters["unparsed"], "x =")
    notebook(chapters["unseeded"], parameters=PARAMETERS.replace("seed = 0", "seed = -4"))
    out, err = io.StringIO(), io.StringIO()
    with at(root):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = build.build("smoke", jobs=2)
        found = last(root)
        again = build.build("smoke", only=["good"])
    return Built(root, status, out.getvalue(), err.getvalue(), again, found)


@pytest.fixture
def finished(built, project):
    """A project whose chapter `good` is in the cache already."""
    shutil.copy(built.root / "chapters" / "good.ipynb", project / "chapters")
    (entry,) = built.entries("good")
    shutil.copytree(entry, project / "_build" / "cache" / entry.name)
    return project


def test_runs_once_and_then_comes_from_the_cache(built, finished, capsys):
    assert build.build("smoke", only=["good"]) == 0
    out = capsys.readouterr().out
    assert "running" not in out
    assert "cached" in out
    for found in (built.ledger, last(finished)):
        rows = {row["id"]: row for row in found["rows"]}
        assert rows["acl/thm1"]["verdict"] == "holds"
        assert rows["acl/thm1"]["control"] == {"broken": 1.0}
        assert rows["acl/thm1"]["profile"] == "smoke"
        assert rows["acl/thm2"]["verdict"] == "todo"
    status = {c["name"]: c["status"] for c in last(finished)["book"]["chapters"]}
    assert status == {"good": "ok", "other": "missing"}
    # A damaged entry is named, and only that chapter runs again.
    (entry,) = (finished / "_build" / "cache").glob("good-*")
    executed = entry / "executed.ipynb"
    executed.write_bytes(executed.read_bytes()[:-200])
    assert build.build("smoke", only=["good"]) == 0
    out = capsys.readouterr().out
    assert "damaged cache entry" in out
    assert "good: ok" in out
    assert from_cache(build.plan("smoke", None, "cpu")[0])


def test_a_whole_build_in_which_nothing_changed_looks_no_closer(finished, monkeypatch, capsys):
    toc = finished / "_toc.yml"
    toc.write_text(toc.read_text().replace(', {"file": "chapters/other"}', ""))
    assert build.build("smoke", only=["good"]) == 0
    assert not (finished / "_build" / "seal.json").exists(), "it may not have been the whole"
    assert build.build("smoke") == 0
    first = capsys.readouterr().out.split("chapter  ")[-1]
    monkeypatch.setattr(build, "plan", None)
    assert build.build("smoke") == 0
    out = capsys.readouterr().out
    assert "Nothing has changed" in out
    assert out.split("chapter  ")[-1].splitlines()[:3] == first.splitlines()[:3]
    for options in ({"only": ["good"]}, {"force": True}):
        with pytest.raises(TypeError):  # it asks for a plan
            build.build("smoke", **options)
    (finished / "book").mkdir()
    (finished / "book" / "new.md").write_text("# New")
    with pytest.raises(TypeError):
        build.build("smoke")


def test_a_build_in_which_a_file_was_edited_is_not_sealed(finished, monkeypatch):
    toc = finished / "_toc.yml"
    toc.write_text(toc.read_text().replace(', {"file": "chapters/other"}', ""))

    def edit(rows, book, chapters):
        path = finished / "requirements.txt"
        path.write_text(path.read_text() + "# edited\n")
        return ""

    monkeypatch.setattr(stage, "build", edit)
    assert build.build("smoke") == 0
    assert not (finished / "_build" / "seal.json").exists()


@pytest.mark.parametrize("content", ["[1, 2]", "[" * 100_000 + "]" * 100_000, "{odd types}"])
def test_cache_entry_of_another_kind_is_not_an_error(finished, capsys, content):
    run = build.plan("smoke", None, "cpu")[0]
    assert from_cache(run)
    (run.entry / "run.json").write_text(content)
    if content.startswith("{"):
        odd = b'{"cells": [1, "x"]}'
        (run.entry / "executed.ipynb").write_bytes(odd)
        (run.entry / "run.json").write_text(json.dumps({"sha256": _digest(odd, {})}))
    run = build.plan("smoke", None, "cpu")[0]
    assert not from_cache(run) and run.status == "waiting"
    assert "damaged cache entry" in capsys.readouterr().out
    assert not run.entry.exists()


def test_a_folder_in_a_files_place_is_no_hindrance(finished):
    for name in ("ledger.json", "lock", "site.log", "seal.json"):
        (finished / "_build" / name).mkdir(parents=True)
    assert build.build("smoke", only=["good"]) == 0
    assert last(finished)["rows"]


def test_what_a_chapter_said_to_stderr_is_no_part_of_its_page():
    """It names folders of the machine, and the pages leave it out."""
    said = [("stdout", "a result"), ("stderr", "/folder/of/kernel.py:1: UserWarning")]
    outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in said]
    cell = nbformat.v4.new_code_cell("f()", outputs=outputs)
    page = shown._as_shown(nbformat.v4.new_notebook(cells=[cell]), {}, [])
    assert [output["text"] for output in page["cells"][0]["outputs"]] == ["a result"]


def test_a_changed_digit_of_what_a_run_took_is_found(finished, capsys):
    run = build.plan("smoke", None, "cpu")[0]
    said = json.loads((run.entry / "run.json").read_text())
    (run.entry / "run.json").write_text(json.dumps(said | {"seconds": said["seconds"] + 1}))
    assert not from_cache(run)
    assert "is not as it was written" in capsys.readouterr().out


def test_failures_are_told_and_do_not_stop_the_others(built):
    assert built.status == 1
    assert f"{len(RUN)} chapters to run, 2 at a time" in built.out
    ends = [line for line in built.out.splitlines() if " after " in line]
    assert sorted(line.split(":")[0] for line in ends) == sorted(RUN)
    assert [re.search(r"\(. of .\)", line).group() for line in ends] == [
        f"({n} of {len(RUN)})" for n in range(1, len(RUN) + 1)
    ]
    assert [line.endswith("KeyError: 'unsolved'") for line in ends] == [
        line.startswith("unsolved") for line in ends
    ]
    status = {c["name"]: c["status"] for c in built.ledger["book"]["chapters"]}
    assert status == dict.fromkeys(RUN + UNPLANNED, "failed") | {"good": "ok", "killed": "dead"}
    for name in (*RUN[1:], *UNPLANNED):
        assert not built.entries(name), "a failure is not cached"
    assert built.again == 0, "a broken chapter is no matter of another"


def test_a_progress_bar_is_one_line(built):
    (entry,) = built.entries("good")
    cells = nbformat.read(entry / "executed.ipynb", 4).cells
    (bar,) = [c for c in cells if "tqdm" in c.source]
    (output,) = bar.outputs
    assert len(output.text.strip().splitlines()) == 1, "one line a progress bar"
    assert "300/300" in output.text


def test_solutions_are_run_in_smoke_and_not_shown(built, project):
    said = built.told("unsolved")
    assert "in cell solution-1:" in said and "KeyError: 'unsolved'" in said
    (entry,) = built.entries("good")
    executed = nbformat.read(entry / "executed.ipynb", 4).cells
    own = [c.id for c in executed if "injected-parameters" not in c.metadata.get("tags", [])]
    written = nbformat.read(built.root / "chapters" / "good.ipynb", 4).cells
    assert own == [c.id for c in written]
    # What a solution imports counts where it is run, and only there.
    path = project / "chapters" / "good.ipynb"
    notebook(path, CHECK, solution="from clcore.book import plots")
    before = {p: build.plan(p, None, "cpu")[0].key for p in ("smoke", "book")}
    with (project / "clcore" / "book" / "plots.py").open("a") as file:
        file.write("\n# an edit\n")
    after = {p: build.plan(p, None, "cpu")[0].key for p in ("smoke", "book")}
    assert after["smoke"] != before["smoke"] and after["book"] == before["book"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("killed", "kernel died.*killed it for mem"),
        ("memory", "MemoryError: n = 10.9\nThe chapter ran out of memory.*Traceback"),
    ],
)
def test_what_went_wrong_in_a_kernel(built, name, told):
    said = built.told(name)
    assert re.search(told, said, re.DOTALL), said
    cell = {"killed": "os.kill(os.getpid()", "memory": "raise MemoryError('n = 10^9')"}[name]
    assert cell in said
    assert f"in cell {built.cell(name, cell)}:" in said


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("unset", "unset failed: ParameterError: .*has no parameters cell"),
        ("unparsed", "unparsed failed: SyntaxError"),
        ("unseeded", "expected seed to be an integer"),
        ("unclosed", r"its last cell must call close\(\)"),
        ("edited", "were edited while it ran"),
    ],
)
def test_broken_chapter_fails_alone(built, name, told):
    assert re.search(told, built.told(name), re.DOTALL)
    assert "good: ok" in built.out


def test_records_that_contradict_one_another_are_refused(built, at):
    (entry,) = built.entries("good")
    executed = json.loads((entry / "executed.ipynb").read_text())
    with at(built.root):
        run = build.plan("smoke", None, "cpu")[0]
        assert gather(run, executed)["records"]
        for cell in executed["cells"]:
            for output in cell.get("outputs", []):
                for record in output.get("data", {}).get(ledger.RECORDS_MIME, []):
                    record |= {"form": "corrected", "correction": "c"}
        with pytest.raises(ledger.LedgerError, match="printed form never was"):
            gather(run, executed)


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


def test_a_wrong_address_is_told_before_anything_runs(project, monkeypatch, capsys):
    monkeypatch.setenv("CLCORE_REPOSITORY_URL", "https://user:secret@example.org/owner/name")
    with pytest.raises(ValueError, match="without user or password") as told:
        build.build("smoke")
    assert "secret" not in str(told.value)
    assert capsys.readouterr().out == "" and not (project / "_build").exists()


def test_unknown_things_are_refused_before_a_kernel_starts(project):
    with pytest.raises(build.BuildError, match="chapters of good, other; got 'best'; a new one "):
        build.plan("smoke", ["best"], "cpu")
    with pytest.raises(ParameterError, match="profile in smoke, book, paper"):
        build.plan("quick", None, "cpu")
    with pytest.raises(ParameterError, match="expected device in"):
        build.plan("smoke", None, "gpu")
    (project / "chapters" / "other.ipynb").unlink()
    with pytest.raises(build.BuildError, match="lists chapters/other"):
        build.plan("smoke", None, "cpu")


def test_a_chapter_of_a_group_that_does_not_exist_fails_by_name(project):
    file = project / "chapters" / "good.ipynb"
    file.write_text(file.read_text().replace("acl/minmax", "acl/minimax"))
    good, other = build.plan("smoke", None, "cpu")
    assert (good.status, other.status) == ("failed", "waiting")
    for told in ("good.ipynb", "'acl/minimax'", "did you mean acl/minmax"):
        assert told in good.outcome["error"]


def test_what_the_data_lack_is_refused_before_a_kernel_starts(project, monkeypatch, request):
    known = dict(findings.known())
    with monkeypatch.context() as patch:
        patch.setattr(findings, "known", lambda: known)
        del known["acl/thm1"]
        with pytest.raises(findings.FindingsError, match="acl/thm1: no entry yet in data/findings"):
            build.build("smoke")
    rows = {"acl/thm1": {"stated_with": ["acl/nothing"]}}
    monkeypatch.setattr(claim_map, "claims", lambda: rows)
    request.addfinalizer(claim_map.clear)
    claim_map.clear()
    with pytest.raises(ledger.LedgerError, match="acl/thm1 rests on 'acl/nothing'"):
        build.build("smoke")
    assert not (project / "_build").exists()


def test_words_that_no_check_takes_up_are_refused_when_every_chapter_is_there(monkeypatch):
    """Of a claim whose runs are not all there, a part may not be there either."""
    known = {claim: {"parts": {"gradeint": {}}} for claim in ("acl/thm1", "acl/thm2", "acl/thm3")}
    monkeypatch.setattr(findings, "known", lambda: known)
    said = {"part": "gradient", "words": "gradient", "said": {}}
    records = [
        {"claim": "acl/thm1", **said},
        {"claim": "acl/thm2", "evidence": "partial", **said},
        {"claim": "acl/thm3", "blocked": "a GPU", **said},
    ]
    run = build.Run("good", Path("good.ipynb"), {}, status="ok", result={"records": records})
    gone = build.Run("other", Path("other.ipynb"), {}, status="missing")
    build._refuse_unsaid([run, gone])
    told = r"parts that no check has: acl/thm1 'gradeint' \(did you mean gradient\?\); give"
    with pytest.raises(build.BuildError, match=told):
        build._refuse_unsaid([run])


def test_the_environment_does_not_change_what_a_chapter_shows(project, monkeypatch, tmp_path):
    """Another back end of matplotlib, another kernel of this name, no asserts, relative folders;
    modules and settings of the reader's."""
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text('{"argv": ["false"], "display_name": "another", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    settings = tmp_path / "home" / ".config" / "matplotlib" / "matplotlibrc"
    settings.parent.mkdir(parents=True)
    settings.write_text("figure.dpi: 33\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "tabulate.py").write_text("raise ValueError('of the reader')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("CLCORE_DATA", "sets")
    monkeypatch.setenv("CLCORE_BUILD", "made")
    figure = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    places = (
        "import matplotlib as mpl, tabulate\nfrom clcore import _paths\n"
        f"found = (str(_paths.build_dir()), str(_paths.data_dir()), __debug__, "
        "mpl.rcParamsDefault['figure.dpi'], mpl.rcParams['axes.facecolor'])\n"
        f"if found != {(str(project / 'made'), str(project / 'sets'), True, 100.0, 'white')}:\n"
        "    raise ValueError(found)"
    )
    notebook(project / "chapters" / "good.ipynb", figure, places, CHECK)
    assert build.build("smoke", only=["good"]) == 0
    (entry,) = (project / "made" / "cache").glob("good-*")
    assert '"image/png"' in (entry / "executed.ipynb").read_text()
