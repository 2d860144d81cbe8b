"""Many runs at a time, and one run in two processes (the slow part is starting them)."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from clcore import _paths
from clcore.experiments import pretraining
from clcore.experiments.pretraining import Settings, curve, grid, run
from clcore.images import augmentations as aug
from clcore.images import image_sets

RECIPE = aug.Recipe(8, scale=(0.5, 1.0), jitter=(0.4, 0.4, 0.0, 0.0))
TINY = Settings(
    batch=32, epochs=1, lr=1e-2, width=4, hidden=8, out=8, stem="small", recipe=RECIPE, images=64
)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits():
    return image_sets.load("digits", "train"), image_sets.load("digits", "test")


def test_grid(digits, tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # rounding depends on their number
        monkeypatch.setenv(name, "1")
    settings = [dataclasses.replace(TINY, loss=n) for n in ("infonce", "exact")]
    options = {"checkpoints": tmp_path, "progress": False}
    with pytest.raises(pretraining.Stopped, match="0 of 2 runs are finished"):
        grid(*digits, settings, stop_after=0, **options)
    table = grid(*digits, settings, jobs=2, **options)
    assert list(table.run) == [0, 1] and list(table.loss_name) == ["infonce", "exact"]
    for number, s in enumerate(settings):
        alone = run(*digits, s, progress=False)
        one = table[table.run == number].drop(columns="run").reset_index(drop=True)
        pd.testing.assert_frame_equal(
            one.drop(columns="seconds"), alone.drop(columns="seconds"), check_exact=True
        )
        assert (tmp_path / pretraining.checkpoint_name(s)).exists()
    with pytest.raises(ValueError, match="settings: expected different runs"):
        grid(*digits, [TINY, dataclasses.replace(TINY, epochs=5)])


def test_faster_settings_are_for_gpus_and_change_nothing_else(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert pretraining.faster("auto", "cpu") == pretraining.faster("no", "cuda") == {}
    on = {"mixed": True, "channels_last": True}
    assert pretraining.faster("auto", "cuda:1") == pretraining.faster("yes", "cpu") == on
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert pretraining.faster("auto", "cuda") == {}, "bfloat16 is emulated there"
    with pytest.raises(
        ValueError, match=r"expected a GPU with bfloat16 .* got cuda of 7\.5; leave"
    ):
        pretraining.faster("yes", "cuda")
    fast = dataclasses.replace(TINY, **on)
    assert pretraining.checkpoint_name(fast) != pretraining.checkpoint_name(TINY)
    with pytest.raises(ValueError, match="fast: expected one of auto, yes, no, got 'on'"):
        pretraining.faster("on", "cpu")


def test_two_processes_have_the_curve_of_one(digits, tmp_path):
    texts = "loss=exact-noise epochs=2 batch=32 images=96 width=4 hidden=8 out=8 stem=small"
    own = [*texts.split(), "optimizer=sgd", "lr=1e-3", "recipe={size: 8, jitter: [0.4, 0.4, 0, 0]}"]
    settings = pretraining.parsed(own)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, "-m", "clcore", "pretrain", "digits", "--out", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_paths.root())}
    done = subprocess.run(
        [*command, *(part for text in own for part in ("--set", text))],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    name = pretraining.checkpoint_name(settings)
    table = run(*digits, settings, progress=False, checkpoint=tmp_path / "one.pt")
    one, two = curve(tmp_path / "one.pt").loss, curve(tmp_path / name).loss
    assert len(two) == 2 and np.allclose(one, two, rtol=1e-4, atol=1e-6)
    assert one.std() > 1e-3  # it moves much more than that
    other = pd.read_csv((tmp_path / name).with_suffix(".csv"))
    assert other["tv_layer4.0"][0] == pytest.approx(table["tv_layer4.0"][0], rel=1e-4)
    with pytest.raises(ValueError, match="another run: processes is 2 there, 1 here"):
        run(*digits, settings, progress=False, checkpoint=tmp_path / name)
