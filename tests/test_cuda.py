"""Pretraining on a GPU: that it runs, goes on, and gives what the CPU gives up to rounding."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist

from clcore import _paths
from clcore import random as cr
from clcore.experiments import pretraining
from clcore.experiments import sparse_panels as sp
from clcore.experiments import token_panels as tp
from clcore.experiments.image_losses import LOSSES
from clcore.experiments.pretraining import Settings, checkpoint_name, curve, filters, grid, run
from clcore.experiments.pretraining import steps as pretraining_steps
from clcore.experiments.trainer import Trainer
from clcore.grid import Grid
from clcore.images import augmentations as aug
from clcore.images import evaluation, image_sets, processes

RECIPE = aug.Recipe(8, scale=(0.5, 1.0), jitter=(0.4, 0.4, 0.0, 0.0))
TINY = Settings(
    epochs=2, batch=32, lr=1e-3, width=4, hidden=8, out=8, stem="small", recipe=RECIPE, images=96
)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA on this machine")


@pytest.fixture(scope="module")
def digits():
    return image_sets.load("digits", "train"), image_sets.load("digits", "test")


def step_losses(own, images):
    source = image_sets.batches(images, own.settings.batch, own.order, own.device)
    return [float(own.step(next(source)[0], t, 0, 9)) for t in range(2)]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_has_the_cpus_values(digits, monkeypatch, loss):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # convolutions of ten bits
    settings = dataclasses.replace(TINY, loss=loss)
    here, there = (step_losses(Trainer(settings, 1, device), digits[0]) for device in (CPU, CUDA))
    assert np.isfinite(there).all()
    assert there[0] == pytest.approx(here[0], rel=1e-3, abs=5e-4)


@pytest.mark.parametrize("loss", ["infonce", "exact"])  # without and with a pass of plain images
def test_fast_settings_together_are_close_to_plain(unchecked_shapes, digits, loss):
    plain = dataclasses.replace(TINY, loss=loss)
    fast = dataclasses.replace(plain, mixed=True, channels_last=True, compile=True)
    own = Trainer(fast, 1, CUDA)
    found, expected = step_losses(own, digits[0]), step_losses(Trainer(plain, 1, CUDA), digits[0])
    assert own.forward is not own.net, "it fell back; is there a C compiler?"
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(expected[0], rel=0.02, abs=0.02)
    assert all(p.isfinite().all() and p.dtype == torch.float32 for p in own.net.parameters())


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_resumed_has_the_curve_of_the_whole(digits, tmp_path, optimizer):
    settings = dataclasses.replace(TINY, optimizer=optimizer)
    options = {"device": "cuda", "record": [0, 1, 2], "progress": False}
    whole = run(*digits, settings, checkpoint=tmp_path / "whole.pt", **options)
    for _ in range(5):  # steps 1 to 5 of 6
        with pytest.raises(pretraining.Stopped):
            run(*digits, settings, checkpoint=tmp_path / "parts.pt", stop_after=0, **options)
    parts = run(*digits, settings, checkpoint=tmp_path / "parts.pt", **options)
    one, two = (curve(tmp_path / f"{name}.pt").loss for name in ("whole", "parts"))
    assert len(two) == 2 and np.allclose(one, two, rtol=0.01)
    assert list(parts.epoch) == [0, 1, 2] and np.allclose(whole.linear, parts.linear, atol=0.05)
    weights = filters(tmp_path / "parts.pt")  # a GPU's checkpoint, read on the CPU
    assert all(w.device == CPU for w in weights.values())


@pytest.mark.parametrize(
    "change",
    [
        {"loss": "exact-noise"},
        {"optimizer": "sgd", "schedule": "released", "noise": "weights", "eta": 0.01},
        {"loss": "inverse", "mixed": True, "channels_last": True},
    ],
    ids=str,
)
def test_a_graph_trains_as_steps_one_by_one(digits, change):
    """Draws, batches, rates and noise are those of each step, though every replay is the same."""
    settings = dataclasses.replace(TINY, **change)
    few = dataclasses.replace(digits[0], pixels=digits[0].pixels[:96], labels=digits[0].labels[:96])
    graph, plain = (Trainer(settings, 1, CUDA) for _ in range(2))
    totals = [torch.zeros((), dtype=torch.float64, device=CUDA) for _ in range(2)]
    pixels = image_sets.resident(few, CUDA)
    taken = (
        pretraining_steps.Ahead(graph, pixels, totals[0], 3),
        pretraining_steps.OneByOne(plain, few, totals[1], 0),
    )
    found = []
    for step in range(12):  # four epochs
        for way in taken:
            way.take(step, step // 3, 3)
            way.settle()
        found.append([float(total) for total in totals])
    assert taken[0].graph is not None, "nothing was recorded"
    losses = np.diff(np.array(found), axis=0)
    assert np.isfinite(losses).all() and np.ptp(losses[:, 1]) > 1e-3
    assert np.allclose(losses[:, 0], losses[:, 1], rtol=0.05, atol=0.05)
    close = {
        n: torch.allclose(p, dict(plain.net.named_parameters())[n], atol=0.02)
        for n, p in graph.net.named_parameters()
    }
    assert all(close.values()), close


def test_runs_side_by_side(digits, tmp_path):
    settings = [dataclasses.replace(TINY, loss=loss) for loss in ("infonce", "nce")]
    options = {"device": "cuda", "progress": False}
    table = grid(*digits, settings, jobs=2, checkpoints=tmp_path, **options)
    assert list(table.loss_name) == ["infonce", "nce"] and not table.diverged.any()
    for number, s in enumerate(settings):
        assert table.loss[number] == pytest.approx(run(*digits, s, **options).loss[0], rel=0.01)
        assert (tmp_path / checkpoint_name(s)).exists()


def test_classifiers_give_what_the_cpu_gives():
    labels = cr.randint(cr.key(0), 600, 0, 3)
    centres, noise = (cr.normal(cr.key(k), (n, 5), torch.float64) for k, n in ((1, 3), (2, 600)))
    x = noise + centres[labels]
    parts = x[:400], labels[:400], x[400:], labels[400:]
    there = [part.cuda() for part in parts]
    found, expected = evaluation.linear_probe(*there), evaluation.linear_probe(*parts)
    assert found.converged and found.accuracy == pytest.approx(expected.accuracy, abs=1 / 200)
    assert evaluation.knn(*there) == pytest.approx(evaluation.knn(*parts), abs=1 / 200)


@pytest.mark.parametrize("resident", [0, 2**30])  # cut on the host, and on the device
def test_batches_are_the_cpus(digits, resident):
    here = image_sets.batches(digits[0], 32, cr.key(1))
    there = image_sets.batches(digits[0], 32, cr.key(1), "cuda", resident=resident)
    for (x, y), (u, v), _ in zip(here, there, range(3), strict=False):
        assert u.device.type == v.device.type == "cuda"
        assert torch.equal(x, u.cpu()) and torch.equal(y, v.cpu())


def test_sweeps_give_what_the_cpu_gives():
    """Panels of chapter 6, and the filters of chapter 5 as a picture."""
    tiny = {"n": 64, "batch": 32, "p": 8, "d": 4, "m": 8}
    for panel in ("cl-basic", "ncl-basic", "simsiam", "simclr"):
        here, there = (
            sp.runs(panel, [0, 1], 2, (0.1,), grid=Grid(device=device, progress=False), **tiny)
            for device in (CPU, CUDA)
        )
        assert np.allclose(here.minimum, there.minimum, atol=1e-3), panel
    tokens = tp.filters("paper", [0], steps=2, grid=Grid(device="cuda"))
    assert tp.montage(tokens, 1).device == CPU


def test_nccl_with_one_process(digits):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = torch.arange(6.0, device="cuda").requires_grad_()
        total = processes._Sum.apply(x)
        (total**2).sum().backward()
        assert torch.equal(total, x) and torch.equal(x.grad, 2 * x)
        alone, shared = (Trainer(TINY, 1, CUDA) for _ in range(2))
        shared.forward = processes.parallel(shared.forward)
        found, expected = (step_losses(own, digits[0]) for own in (shared, alone))
        assert found == pytest.approx(expected, rel=0.01)
    finally:
        dist.destroy_process_group()


def test_torchrun_with_one_process_has_the_curve_of_none(digits, tmp_path):
    own = "epochs=2 batch=32 images=96 lr=1e-3 width=4 hidden=8 out=8 stem=small"
    texts = [*own.split(), "recipe={size: 8, jitter: [0.4, 0.4, 0, 0]}"]
    settings = pretraining.parsed(texts)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    command = [*launcher, "-m", "clcore", "pretrain", "digits", "--device", "cuda"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), *(part for text in texts for part in ("--set", text))],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(_paths.root())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run(*digits, settings, device="cuda", progress=False, checkpoint=tmp_path / "one.pt")
    one, two = curve(tmp_path / "one.pt").loss, curve(tmp_path / checkpoint_name(settings)).loss
    assert len(two) == 2 and np.allclose(one, two, rtol=0.01)
