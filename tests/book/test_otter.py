"""Otter itself: `otter assign` on an assignment, `otter run` on what students hand in."""

import json
import os
import subprocess
from pathlib import Path

import nbformat
import pytest

from clcore import _paths
from clcore.book.course import environment, notebooks

OTTER = os.environ.get("CLCORE_OTTER", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OTTER, reason="needs Otter: make test-all, or CLCORE_OTTER=.../otter"),
]


def otter(folder, *args):
    run = subprocess.run(
        [str(Path(OTTER).absolute()), *map(str, args)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]
    return run


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """An assignment of chapter 0, which Otter has tried on the solutions."""
    folder = tmp_path_factory.mktemp("otter")
    path = _paths.root() / "chapters" / "0-start-here.ipynb"
    nbformat.write(
        notebooks.assignment(path, "otter", config=environment.otter()), folder / path.name
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLCORE_REPOSITORY_URL", "https://example.org/a/book")
        needs = environment.conda(environment.requirements())
    (folder / "environment.yml").write_text(needs, encoding="utf-8")
    otter(folder, "assign", path.name, "dist")
    return folder / "dist"


def test_the_autograder_names_what_it_needs(dist):
    import zipfile

    (made,) = (dist / "autograder").glob("*.zip")
    needs = zipfile.ZipFile(made).read("environment.yml").decode()
    assert (
        "torch==" in needs
        and "git+https://example.org/a/book@" in needs
        and "clcore" in needs
        and "otter-grader" in needs
    )


SOLVED = {
    "answer_start_1": "answer_start_1 = 5.55",
    "answer_start_2": "def answer_start_2(z):\n    return 1 - z.mean(0).norm()",
    "answer_start_3": "def answer_start_3(s, tau):\n"
    "    return (torch.softmax(s / tau, 1) - torch.eye(len(s))) / (len(s) * tau)",
    "answer_start_4": "answer_start_4 = 0.347",
}
CHEAT = "exercises.check = lambda *a, **k: None"
SUBMISSIONS = {
    "right": (SOLVED, 4),
    "half-right": (SOLVED | {"answer_start_1": "answer_start_1 = 8", "answer_start_4": "1 / 0"}, 2),
    "wrong": ({name: f"{name} = 1e3" for name in SOLVED}, 0),
    "renamed, out of order": (dict(reversed(SOLVED.items())), 4),
    "replaced check": ({name: f"{CHEAT}\n{name} = 0" for name in SOLVED}, 0),
    "imported answers": (
        {
            "answer_start_1": "from clcore.book.exercises import start_here\n"
            "answer_start_1 = start_here.guessing()",
            "answer_start_4": "import clcore.book.exercises.start_here as s\n"
            "answer_start_4 = s.kinder()",
        },
        0,
    ),
}


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_what_is_handed_in_gets_its_marks(dist, tmp_path, name):
    answers, points = SUBMISSIONS[name]
    book = nbformat.read(dist / "student" / "0-start-here.ipynb", 4)
    for cell in book.cells:  # as Otter leaves the place of a solution
        if cell.cell_type == "code" and cell.source.strip() == "...":
            cell.source = ""
    book.cells += [nbformat.v4.new_code_cell(source) for source in answers.values()]
    path = tmp_path / ("ann.ipynb" if name.startswith("renamed") else "0-start-here.ipynb")
    nbformat.write(book, path)
    (made,) = (dist / "autograder").glob("*.zip")
    otter(tmp_path, "run", path, "-a", made, "-o", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert sum(test.get("score", 0) for test in results["tests"]) == points
