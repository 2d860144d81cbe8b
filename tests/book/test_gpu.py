"""What needs a GPU, within a limit of time: rehearsed on the CPU, and what stops it half-way."""

import json
import lzma
import os
import subprocess
import sys
import tarfile
import time

import pandas as pd
import pytest
import torch

from clcore import _device, _paths
from clcore.book import gpu
from clcore.book.gpu import cuda_tests, tables
from clcore.checks.minmax import printed_cells
from clcore.experiments import pretraining
from clcore.images import image_sets


def test_rehearsed_on_a_cpu(tmp_path):
    """All steps, at tiny sizes: one table, and at most eight files of what was found."""
    out = tmp_path / "found"
    done = subprocess.run(
        [sys.executable, "-m", "clcore", "gpu", "--device", "cpu", "--rehearse", "--out", str(out)],
        env=os.environ | {"CLCORE_BUILD": str(tmp_path / "build"), "OMP_NUM_THREADS": "1"},
        cwd=_paths.root(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "no CUDA" not in done.stderr and "chapters  " in done.stdout.replace("|", " ")
    files = {file.name for file in out.iterdir()}
    assert files == {
        *("summary.json", "tests.txt", "chapters.tar.xz"),
        *(f"{name}.{end}" for name in CHAPTERS for end in ("csv", "json")),
    }
    summary = json.loads((out / "summary.json").read_text())
    assert {row["step"] for row in summary["rows"]} == set(gpu.STEPS) and summary["torch"]
    assert all(row["fine"] and row["seconds"] >= 0 for row in summary["rows"])
    with lzma.open(out / "chapters.tar.xz") as packed, tarfile.open(fileobj=packed) as archive:
        names = archive.getnames()
        ledger = json.load(archive.extractfile("ledger.json"))
    assert names == ["0-start-here.ipynb", "ledger.json", "outcomes.json"]
    assert ledger["book"]["device"] == "cpu" and ledger["rows"]
    table = pd.read_csv(out / f"{CHAPTERS[0]}.csv")
    assert list(table.columns) == list(tables.COLUMNS) and not table.diverged.any()
    assert set(table.loss_name) == set(printed_cells.ROWS) and list(table.epoch.unique()) == [0, 1]


CHAPTERS = ("1-minmax-images", "4-dual-networks-images")


def test_a_machine_without_cuda_says_so_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "auto"):
        with pytest.raises(_device.NoDevice, match=r"[^\n]*--device cpu --rehearse goes through"):
            gpu.command(tmp_path / "out", device)
    assert not (tmp_path / "out").exists()
    for given, told in (
        ({"only": ["site"]}, "expected --only in tests, chapters, tables; got 'site'"),
        ({"minutes": 0.0}, "expected --minutes above 0, got 0"),
    ):
        with pytest.raises(ValueError, match=told):
            gpu.command(tmp_path / "out", "cpu", rehearse=True, **given)


@pytest.fixture
def plan(tmp_path):
    return gpu.Plan(tmp_path, "cpu", 1, True, False, time.monotonic() + 600)


def test_a_step_that_takes_too_long_or_fails_leaves_the_others_theirs(plan, monkeypatch):
    def slow(plan):
        plan.found("slow", "first", "done", 0.0, True)
        time.sleep(600)

    def failing(plan):
        raise RuntimeError("CUDA error: device-side assert triggered\nand a long story")

    gpu._within(plan, "slow", 0.5 / 600, slow)
    gpu._within(plan, "failing", 1.0, failing)
    kept = json.loads((plan.out / "summary.json").read_text())["rows"]
    assert [row["result"] for row in kept] == [
        *("done", "its time was over"),
        "failed: RuntimeError: CUDA error: device-side assert triggered and a long story",
    ]
    assert [row["fine"] for row in kept] == [True, False, False]


def test_tests_are_counted_from_what_is_written_so_far(tmp_path):
    log = tmp_path / "tests.txt"
    log.write_text(
        "tests/test_cuda.py::test_a PASSED                    [ 33%]\n"
        "tests/test_cuda.py::test_b SKIPPED (no CUDA on t...) [ 66%]\n"
        "[gw1] [ 70%] FAILED tests/test_cuda.py::test_c\n"
        "[gw0] [100%] PASSED tests/test_cuda.py::test_d\n"
        "FAILED tests/test_cuda.py::test_c - assert 1 == 2\n"
    )
    assert cuda_tests.counted(log) == {"PASSED": 2, "SKIPPED": 1, "FAILED": 1}


def test_batches_are_whole_rows_of_the_papers_tables():
    order = [(b.chapter, b.seed) for b in tables.batches()]
    assert order == [(name, seed) for name in CHAPTERS for seed in range(5)]
    first, *_, last = tables.batches()
    assert first.losses == tuple(printed_cells.ROWS) and first.record == (0, 100)
    assert {"nce", "exact", "exact-noise", "beta-0.5", "beta+0.2"} < set(last.losses)
    assert len({pretraining.checkpoint_name(s) for s in last.settings(epochs=100)}) == 8


def test_only_whole_batches_are_begun_and_kept(plan, monkeypatch):
    """The third would not end in time; what the first two found is there."""
    took = []

    def together(train, test, settings, **options):
        took.append(options["stop_after"])
        if len(took) > 2:
            raise pretraining.Stopped("97 epochs are left")
        rows = [(s.loss, s.seed, e) for s in settings for e in options["record"]]
        table = pd.DataFrame(rows, columns=["loss_name", "seed", "epoch"])
        return table.assign(
            run=0, loss=1.0, linear=0.5, knn=0.5, converged=True, diverged=False, seconds=1.0
        )

    monkeypatch.setattr(pretraining, "together", together)
    plan.rehearse = False
    images = image_sets.load("digits")
    own = {"epochs": 100, "images": 3}
    monkeypatch.setattr(tables, "_data", lambda plan: (images, None, own))
    tables.run(plan)
    table = pd.read_csv(plan.out / "1-minmax-images.csv")
    assert sorted(table.seed.unique()) == [0, 1] and len(table) == 2 * 6 * 2
    assert [row["fine"] for row in plan.rows] == [True, True, False]
    assert "not in this time: 97 epochs are left" in plan.rows[-1]["result"]
