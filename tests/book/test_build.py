"""The build on a small project of its own: cache, failures, kills, a full disk, the lock."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from clcore import _paths, ledger
from clcore.book import build, keys
from clcore.book.parameters import ParameterError
from clcore.book.site import stage

REPOSITORY = Path(__file__).parents[2]
PARAMETERS = 'profile = "book"\ndevice = "auto"\nseed = 0'


def notebook(path: Path, *cells: str, parameters: str | None = PARAMETERS) -> None:
    """A chapter: title, parameters, start, the given cells, close."""
    name = path.stem
    book = nbformat.v4.new_notebook(metadata={"clcore": {"claims": ["acl/minmax"]}})
    book.cells.append(nbformat.v4.new_markdown_cell(f"# Chapter {name}"))
    if parameters is not None:
        tagged = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
        book.cells.append(tagged)
    begin = f'from clcore.book import chapter\nhere = chapter.start("{name}", globals())'
    for source in (begin, *cells, "here.close()"):
        book.cells.append(nbformat.v4.new_code_cell(source))
    path.parent.mkdir(exist_ok=True)
    nbformat.write(book, path)


CHECK = 'here.ledger.check("acl/thm1", 1e-12, 1e-9, {"broken": 1.0}, draws=3)'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of clcore and the claims with two chapters, `good` and `other`, and no site."""
    root = tmp_path / "project"
    ignore = shutil.ignore_patterns("__pycache__", "cache", "recorded")
    shutil.copytree(REPOSITORY / "clcore", root / "clcore", ignore=ignore)
    shutil.copytree(REPOSITORY / "data", root / "data", ignore=ignore)
    shutil.copy(REPOSITORY / "requirements.txt", root)
    entries = [{"file": "chapters/good"}, {"file": "chapters/other"}]
    toc = {"format": "jb-book", "root": "book/index", "chapters": entries}
    (root / "_toc.yml").write_text(json.dumps(toc))
    notebook(root / "chapters" / "good.ipynb", CHECK)
    notebook(root / "chapters" / "other.ipynb", "from clcore.book import plots")
    monkeypatch.setenv("CLCORE_ROOT", str(root))
    monkeypatch.setenv("CLCORE_BUILD", str(root / "_build"))
    monkeypatch.setattr(stage, "build", lambda rows, book, chapters: "")
    # What tests before this one, of the same process, have read for another root.
    ledger.claims.cache_clear()
    keys._versions.cache_clear()
    yield root
    ledger.claims.cache_clear()


def last(root: Path) -> dict:
    return json.loads((root / "_build" / "ledger.json").read_text())


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
    with (project / "clcore" / "ledger" / "core.py").open("a") as file:
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


def test_closure_follows_a_claim_to_its_check_and_imports_through_subpackages():
    names = {
        str(p.relative_to(_paths.root() / "clcore"))
        for p in keys.closure(['here.ledger.run(["acl/eq1"], 1, 0)'])
    }
    assert {"checks/minmax/family.py", "losses/contrast.py", "losses/pairs.py"} <= names
    assert {"ledger/printed.py", "_paths.py"} <= names
    assert {"__init__.py", "checks/minmax/__init__.py", "losses/__init__.py"} <= names
    assert not names & {"book/build/__init__.py", "sweep/engine.py", "sweep/__init__.py"}


@pytest.mark.parametrize(
    ("source", "package", "found"),
    [
        ("import clcore.sweep", "", {"clcore", "clcore.sweep"}),
        ("import clcore.sweep as s", "", {"clcore.sweep"}),
        ("from clcore import sweep", "", {"clcore.sweep"}),
        ("from . import sweep", "clcore", {"clcore.sweep"}),
        ("from .sweep import train", "clcore", {"clcore.sweep.train"}),
        ("from ..ledger import Check", "clcore.checks", {"clcore.ledger.Check"}),
        ("from .a import b", "clcore.checks", {"clcore.checks.a.b"}),
    ],
)
def test_imports_are_resolved(source, package, found):
    assert keys.imported(source, package) == found


PAIRS = {"losses/pairs.py"}
FAMILY = PAIRS | {"losses/contrast.py", "losses/infonce_family.py"}
ROOM = FAMILY | {"losses/modules.py", "losses/minplayer.py", "losses/sources.py"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from clcore.losses import infonce_pair", PAIRS),
        ("from clcore.losses.pairs import infonce_pair", PAIRS),
        ("from clcore.losses import pairs", PAIRS),
        ("from clcore.losses import infonce as loss", FAMILY),
        ("from clcore.losses import InfoNCE", FAMILY | {"losses/modules.py"}),
        ("from clcore import losses", ROOM),
        ("from clcore.losses import *", ROOM),
        ("import clcore.losses as losses", ROOM),
        ("from clcore import __version__", set()),
        ("import numpy", None),
    ],
)
def test_a_front_is_followed_to_the_file_that_defines_a_name(source, found):
    around = {"__init__.py", "_front.py"}
    if "losses" in source:
        around |= {"losses/__init__.py"}
    names = {str(p.relative_to(_paths.root() / "clcore")) for p in keys.closure([source])}
    assert names == (set() if found is None else around | found)


def test_who_has_all_of_clcore_in_hand_depends_on_all_rooms():
    names = {str(p.relative_to(_paths.root() / "clcore")) for p in keys.closure(["import clcore"])}
    assert ROOM | {"theory/trees/lucky_nodes.py", "sweep/engine.py", "nets/resnet.py"} <= names
    assert not any(n.startswith(("checks", "book", "experiments", "ledger")) for n in names)


def test_a_notebook_names_its_claims_by_group_or_one_by_one(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"metadata": {"clcore": {"claims": ["acl/minmax", "acl/fig7"]}}}))
    found = keys.claimed(path)
    assert len(found) == 25
    assert [i for i in found if ledger.claim(i)["chapter"] != "minmax"] == ["acl/fig7"]
    path.write_text(json.dumps({"metadata": {}}))
    assert keys.claimed(path) == []


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


def start_build(root: Path, only: str = "['good']", **environment: str) -> subprocess.Popen:
    script = (
        "from clcore.book import build; build.stage.build = lambda *a: ''\n"
        f"raise SystemExit(build.build('smoke', only={only}, jobs=2))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell starts background jobs with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.05)


def test_killed_build_carries_on_and_a_second_one_waits(project, tmp_path):
    """SIGKILL in the middle of a chapter: nothing is left running, and training resumes."""
    mark = tmp_path / "begun"
    cell = (
        "import os, time\nfrom pathlib import Path\n"
        "state = here.checkpoint('training')\n"
        "resumed = state.exists()\n"
        "state.parent.mkdir(parents=True, exist_ok=True)\nstate.write_text('half way')\n"
        f"Path({str(mark)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(0 if resumed else 300)\n"
        "here.ledger.check('acl/thm1', float(not resumed), 0.5, {'broken': 1.0})"
    )
    notebook(project / "chapters" / "good.ipynb", cell)
    first = start_build(project)
    wait_for(mark)
    with pytest.raises(build.BuildError, match=r"another build is running in .*process \d+"):
        build.build("smoke", only=["good"])
    first.send_signal(signal.SIGKILL)
    first.wait()
    kernel = int(mark.read_text())
    end = time.monotonic() + 20
    while Path(f"/proc/{kernel}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{kernel}").exists(), "the kernel outlived its build"
    again = start_build(project)
    said, _ = again.communicate(timeout=200)
    assert again.returncode == 0, said
    row = next(r for r in last(project)["rows"] if r["id"] == "acl/thm1")
    assert row["verdict"] == "holds", "the second run did not find the first one's checkpoint"
    assert not list((project / "_build" / "checkpoints").glob("*")), "kept after it was of use"
    assert not (project / "_build" / "work").exists() or not any(
        (project / "_build" / "work").iterdir()
    )


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


def test_what_others_put_on_the_path_is_not_installed(tmp_path, monkeypatch):
    """As setuptools does, which torch imports to compile."""
    before = keys._versions()
    vendored = tmp_path / "wheel-0.0.1.dist-info"
    vendored.mkdir()
    (vendored / "METADATA").write_text("Metadata-Version: 2.1\nName: wheel\nVersion: 0.0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    keys._versions.cache_clear()
    assert keys._versions() == before and before["torch"]


def test_interrupt_ends_everything(project, tmp_path):
    """Ctrl-C that reaches the build alone: it ends the kernels of both chapters, and soon."""
    marks = [tmp_path / name for name in ("good", "other")]
    for mark in marks:
        cell = (
            "import os, time\nfrom pathlib import Path\n"
            f"Path({str(mark)!r}).write_text(str(os.getpid()))\ntime.sleep(300)"
        )
        notebook(project / "chapters" / f"{mark.name}.ipynb", cell)
    run = start_build(project, only="None")
    for mark in marks:
        wait_for(mark)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=20)
    assert run.returncode not in (0, None)
    assert " after " not in said, "what was ended is told as if it had failed"
    for mark in marks:
        kernel = Path("/proc") / mark.read_text()
        assert not kernel.exists() or "zombie" in (kernel / "status").read_text()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 KB, where mounting one is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True)
    except OSError as error:
        pytest.skip(f"no mount here: {error}")
    if done.returncode:
        pytest.skip("mounting a small file system needs more rights than this test has")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_is_told_and_nothing_is_lost(project, small_disk):
    notebook(project / "chapters" / "good.ipynb", CHECK, "print('x\\n' * 200_000)")
    run = start_build(project, CLCORE_BUILD=str(small_disk))
    said = run.communicate(timeout=120)[0]
    assert run.returncode not in (0, -9), said
    assert "no space left (or quota reached) while writing" in said
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    again = start_build(project, CLCORE_BUILD=str(small_disk))
    said = again.communicate(timeout=120)[0]
    assert again.returncode == 0, said
    assert "acl/thm1" in (small_disk / "ledger.json").read_text()
