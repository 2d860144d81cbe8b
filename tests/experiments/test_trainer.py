"""One update of pretraining: every loss and setting, the views, the noise, the schedule."""

import dataclasses
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from clcore import _paths
from clcore import random as cr
from clcore.experiments import trainer
from clcore.experiments.image_losses import LOSSES
from clcore.experiments.trainer import Settings, Trainer
from clcore.images import augmentations as aug
from clcore.images import evaluation, image_sets

RECIPE = aug.Recipe(8, scale=(0.5, 1.0), jitter=(0.4, 0.4, 0.0, 0.0))
TINY = Settings(batch=32, lr=1e-2, width=4, hidden=8, out=8, stem="small", recipe=RECIPE)
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits():
    return image_sets.load("digits", "train")


@pytest.fixture(scope="module")
def plain(digits):
    return step_losses(digits, TINY)


def step_losses(images, settings, steps=3):
    own = Trainer(settings, 1, CPU)
    source = image_sets.batches(images, settings.batch, own.order)
    return [float(own.step(next(source)[0], t, t, 1)) for t in range(steps)]


def test_training_lowers_the_loss(digits):
    found = step_losses(digits, dataclasses.replace(TINY, loss="nce", lr=3e-3), steps=60)
    assert np.mean(found[-10:]) < np.mean(found[:10]) - 0.1


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains_and_repeats(digits, loss):
    settings = dataclasses.replace(TINY, loss=loss)
    first, second = (step_losses(digits, settings, 2) for _ in range(2))
    assert first == second and np.isfinite(first).all()


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": "sgd", "lr": 0.1},
        {"weight_decay": 0.1},
        {"noise": "weights", "eta": 0.1},
        {"eta": 10.0},
        {"tau": 0.1},
        {"momentum": 0.5},
        {"seed": 1},
        {"stem": "standard"},
        {"mixed": True},
        {"recipe": dataclasses.replace(RECIPE, flip=0.0)},
    ],
    ids=str,
)
def test_every_setting_changes_the_run(digits, plain, change):
    found = step_losses(digits, dataclasses.replace(TINY, **change))
    assert found[-1] != plain[-1] and np.isfinite(found).all()


def test_layout_changes_rounding_only(digits):
    plain = dataclasses.replace(TINY, width=trainer.NARROW, optimizer="sgd", lr=0.01)
    other = dataclasses.replace(plain, channels_last=True)
    found = [step_losses(digits, settings, steps=2) for settings in (plain, other)]
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_a_net_too_narrow_for_the_layout_is_refused(digits):
    with pytest.raises(ValueError, match=r"channels_last on the CPU: expected a width of at least"):
        Trainer(dataclasses.replace(TINY, channels_last=True), 1, CPU)


def compiled_and_eager() -> None:
    """Both passes of "exact"; traced, with the kernels of eager mode."""
    torch.compile = partial(torch.compile, backend="eager")
    settings, found = dataclasses.replace(TINY, loss="exact"), []
    for switch in (False, True):
        own = Trainer(dataclasses.replace(settings, compile=switch), 1, CPU)
        source = image_sets.batches(image_sets.load("digits", "train"), 32, own.order)
        losses = [float(own.step(next(source)[0], t, 0, 9)) for t in range(2)]
        found.append((losses, own.net.state_dict(), own.forward))
    (losses, state, _), (other, compiled, forward) = found
    assert forward is not own.net and other == pytest.approx(losses, rel=1e-5)
    assert list(compiled) == list(state)  # a checkpoint fits both
    for name in ("backbone.bn1.running_var", "backbone.layer4.1.conv2.weight"):
        assert torch.allclose(state[name], compiled[name], atol=1e-5)


def test_compiled_is_the_same():
    """In a process of its own, as one compiles; what other tests have traced is not in it."""
    run = "import test_trainer; test_trainer.compiled_and_eager(); print('the same')"
    path = os.pathsep.join([str(Path(__file__).parent), str(_paths.root())])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", run], env=environment, capture_output=True, text=True
    )
    assert done.stdout.endswith("the same\n"), done.stderr[-2000:]


@pytest.mark.parametrize("at", ["at once", "at the first call", "on the way back"])
def test_without_a_compiler_it_trains_uncompiled(unchecked_shapes, digits, monkeypatch, caplog, at):
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, grad):
            raise RuntimeError("no compiler found\nand a long story")

    def broken(net, **options):
        def call(*given):
            z = net(*given)
            return Broken.apply(z if at == "on the way back" else Broken.backward(None, z))

        return call if at != "at once" else Broken.backward(None, None)

    monkeypatch.setattr(torch, "compile", broken)
    settings, found = dataclasses.replace(TINY, loss="exact"), []
    for switch in (False, True):
        own = Trainer(dataclasses.replace(settings, compile=switch), 1, CPU)
        source = image_sets.batches(digits, 32, own.order)
        losses = [float(own.step(next(source)[0], t, 0, 9)) for t in range(2)]
        found.append((losses, own.net.state_dict()))
    (losses, state), (other, tried) = found
    assert losses == other and all(torch.equal(state[name], tried[name]) for name in state)
    assert "not compiled: RuntimeError: no compiler found; training runs uncompiled" in caplog.text


def test_mixed_precision_ends_at_the_outputs(digits):
    own = Trainer(dataclasses.replace(TINY, mixed=True), 1, CPU)
    kinds = []
    own.net.backbone.layer1[0].conv1.register_forward_hook(lambda _, __, y: kinds.append(y.dtype))
    z = own.outputs(torch.from_numpy(digits.pixels[:32] / np.float32(255)))
    assert kinds == [torch.bfloat16] and z.dtype == torch.float32
    assert torch.allclose(z.norm(dim=1), torch.ones(32), atol=1e-6)
    assert all(p.dtype == torch.float32 for p in own.net.parameters())


# --------------------------------------------------------------------------------- parts of a step


def test_a_share_of_the_views_is_a_part_of_all():
    x = cr.uniform(cr.key(1), (6, 3, 8, 8))
    recipe = dataclasses.replace(RECIPE, jitter=(0.4, 0.4, 0.4, 0.1), blur=3)
    whole = trainer.views(cr.key(2), x, recipe).unflatten(0, (2, 6))
    share = trainer.views(cr.key(2), x, recipe, slice(2, 5)).unflatten(0, (2, 3))
    assert torch.equal(share, whole[:, 2:5])
    assert not torch.equal(whole[0], whole[1])


def test_training_and_evaluation_see_pixels_from_0_to_1(digits, monkeypatch):
    """BatchNorm hides another scale from the loss, not from a net whose statistics are at rest."""
    still = aug.Recipe(8, (1.0, 1.0), (1.0, 1.0), flip=0.0, jitter_chance=0.0, gray=0.0)
    own = Trainer(dataclasses.replace(TINY, loss="exact", recipe=still), 1, CPU)
    pixels = torch.from_numpy(digits.pixels[:32].copy())
    whole, seen = pixels / 255, []
    monkeypatch.setattr(own, "forward", lambda x: seen.append(x) or own.net(x))
    own.loss(pixels, 0)
    views, plain = seen
    torch.testing.assert_close(views, torch.cat([whole, whole]), atol=1e-6, rtol=0)
    assert torch.equal(plain, whole)
    few = dataclasses.replace(digits, pixels=digits.pixels[:32], labels=digits.labels[:32])
    body = own.net.backbone
    monkeypatch.setattr(body, "forward", lambda x: seen.append(x) or x.flatten(1))
    evaluation.features(body, few, device=CPU)
    assert torch.equal(seen[-1], whole)


@pytest.mark.parametrize("noise", ["gradient", "weights"])
def test_noise_is_xavier_times_eta(digits, noise, monkeypatch):
    """eta * Xavier on the gradient; or W to (1 - eta) W + eta Xavier. SGD shows both directly."""
    settings = dataclasses.replace(
        TINY, loss="exact", optimizer="sgd", momentum=0.0, lr=0.5, hidden=400, noise=noise, eta=0.2
    )
    batch = torch.from_numpy(digits.pixels[:32].copy())
    if noise == "weights":  # the gradient would be taken elsewhere
        monkeypatch.setattr(trainer, "loss", lambda *_, **__: torch.zeros((), requires_grad=True))
    found = []
    for eta in (0.2, 0.0):
        own = Trainer(dataclasses.replace(settings, eta=eta), 1, CPU)
        own.step(batch, 0, 0, 10)
        found.append(dict(own.net.named_parameters()))
    for name, w in found[1].items():
        difference = (found[0][name] - w).detach()
        if w.ndim < 2:
            assert not difference.any()
            continue
        scale = -0.5 * 0.2
        if noise == "weights":
            difference, scale = difference + 0.2 * w.detach(), 0.2
        bound = (6 / (w[0].numel() + w.numel() / w.shape[1])) ** 0.5
        assert 0.9 < float(difference.abs().max() / (abs(scale) * bound)) < 1.001, name
        spread = float(difference.std() / (abs(scale) * bound / 3**0.5))
        assert abs(spread - 1) < 4 / w.numel() ** 0.5, name


def test_the_pass_for_exact_weights_leaves_running_statistics_alone(digits):
    batch = torch.from_numpy(digits.pixels[:32].copy())
    means = []
    for loss in ("nce", "exact"):
        own = Trainer(dataclasses.replace(TINY, loss=loss), 1, CPU)
        own.net.train()
        own.loss(batch, 0)
        means.append(own.net.backbone.bn1.running_mean.clone())
    assert torch.equal(*means) and means[0].any()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_moves_nothing_between_host_and_device(digits, loss, monkeypatch):
    """A GPU would have to wait for it."""

    def moved(*_, **__):
        raise AssertionError("a copy")

    recipe = dataclasses.replace(RECIPE, blur=3)
    own = Trainer(dataclasses.replace(TINY, loss=loss, recipe=recipe, eta=0.1), 1, CPU)
    batch = torch.from_numpy(digits.pixels[:32].copy())
    for name in ("tensor", "as_tensor", "from_numpy"):
        monkeypatch.setattr(torch, name, moved)
    for name in ("item", "tolist", "__float__", "__int__", "__bool__"):
        monkeypatch.setattr(torch.Tensor, name, moved)
    own.net.train()
    own.loss(batch, 3).backward()
    own._perturb_gradients(3)


def test_released_schedule(digits):
    own = Trainer(dataclasses.replace(TINY, schedule="released"), 1, CPU)
    batch = torch.from_numpy(digits.pixels[:32].copy())
    rates = []
    for epoch in (0, 10, 20, 30):
        own.step(batch, 20 * epoch, epoch, 20)
        rates.append(own.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1e-2, 1e-2, 0.5e-2, 0.0], abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "simclr"}, "loss: expected one of infonce"),
        ({"optimizer": "lars"}, "optimizer: expected one of adam, sgd, got 'lars'"),
        ({"schedule": "cosine"}, "schedule: expected one of constant, released"),
        ({"noise": "input"}, "noise: expected one of gradient, weights"),
        ({"recipe": "cifar"}, "recipe: expected one of cifar10, stl10, mnist or an augm"),
        ({"epochs": 0}, "epochs: expected at least 1, got 0"),
        ({"batch": 1}, "batch: expected at least 2, got 1"),
        ({"lr": float("nan")}, "lr: expected a finite number above 0, got nan"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_settings_are_checked(unchecked_shapes, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)
