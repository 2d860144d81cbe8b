"""Whatever is asked to compute on a GPU does so there: found with a device that only pretends."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fake_cuda
import pytest
import torch

from clcore import _paths
from clcore.experiments import sparse_training
from clcore.experiments.image_losses import LOSSES


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What went wrong, by case; in a process of its own, which must never see a real device."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler for the guard of a device that is not there")
    folder, home = tmp_path_factory.mktemp("guard"), Path(torch.__file__).parent
    (folder / "guard.cpp").write_text(fake_cuda.GUARD)
    options = ["-std=c++20", "-shared", "-fPIC", f"-I{home / 'include'}", f"-L{home / 'lib'}"]
    subprocess.run(
        [compiler, *options, "guard.cpp", "-lc10", "-o", "guard.so"], cwd=folder, check=True
    )
    done = subprocess.run(
        [sys.executable, fake_cuda.__file__, folder / "guard.so"],
        env=_paths_and_no_gpu(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _paths_and_no_gpu():
    path = os.pathsep.join([str(_paths.root()), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def test_nothing_strays_from_the_device(told):
    wrong = {name: why for name, why in told.items() if why and not name.startswith("control")}
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())


@pytest.mark.parametrize(
    ("control", "why"),
    [
        ("data of a sweep on the CPU", "two devices, cuda:0 and cpu"),
        ("draws on the CPU", "expected all on cuda:0, got ['cpu']"),
        ("an index of values", "DynamicOutputShapeException"),
        ("a value is read", "DataDependentOutputException"),
        ("no device named", "two devices, cuda:0 and cpu"),
    ],
)
def test_faults_of_each_kind_are_found(told, control, why):
    assert why in told[f"control: {control}"]


def test_every_model_and_loss_is_asked(told):
    names = "\n".join(told)
    for model in sparse_training.MODELS:
        assert f"sparse {model} paper" in names
    assert sum(f"pretraining {loss}\n" in f"{names}\n" for loss in LOSSES) >= len(LOSSES) - 2
