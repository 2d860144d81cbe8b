"""Steps that are drawn ahead, and runs side by side in one process: they train as one run alone."""

import dataclasses

import pandas as pd
import pytest
import torch

from clcore.experiments import pretraining, trainer
from clcore.experiments.pretraining import Settings, curve, run, steps, together
from clcore.experiments.trainer import Trainer
from clcore.images import augmentations as aug
from clcore.images import image_sets

RECIPE = aug.Recipe(8, scale=(0.5, 1.0), jitter=(0.4, 0.4, 0.0, 0.0), blur=3)
TINY = Settings(
    batch=32, epochs=2, lr=1e-2, width=4, hidden=8, out=8, stem="small", recipe=RECIPE, images=96
)
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits():
    return image_sets.load("digits", "train"), image_sets.load("digits", "test")


def same(first, second):
    """Whether two tables agree to the bit, times and places apart."""
    first, second = (
        t.drop(columns=["seconds", "run"], errors="ignore").reset_index(drop=True)
        for t in (first, second)
    )
    pd.testing.assert_frame_equal(first, second, check_exact=True)


@pytest.mark.parametrize("block", [2, steps.BLOCK])  # the last of an epoch smaller, and one for all
@pytest.mark.parametrize(
    "change",
    [
        {"loss": "exact-noise"},
        {"loss": "inverse", "noise": "weights", "eta": 0.1, "optimizer": "sgd"},
        {"loss": "beta-0.5", "schedule": "released", "mixed": True, "seed": 3},
    ],
    ids=lambda change: change["loss"],
)
def test_drawn_ahead_is_the_same_to_the_bit(digits, tmp_path, monkeypatch, change, block):
    monkeypatch.setattr(steps, "BLOCK", block)
    monkeypatch.setattr(trainer, "FULL_RATE", 0)  # so that the schedule falls
    settings = dataclasses.replace(TINY, **change)
    options = {"record": [1, 2], "progress": False}
    plain = run(*digits, settings, ahead=False, checkpoint=tmp_path / "plain.pt", **options)
    fast = run(*digits, settings, ahead=True, checkpoint=tmp_path / "ahead.pt", **options)
    same(plain, fast)
    one, two = (torch.load(tmp_path / f"{name}.pt") for name in ("plain", "ahead"))
    assert all(torch.equal(t, two["net"][name]) for name, t in one["net"].items())


def test_draws_for_many_steps_are_those_of_each():
    own = Trainer(dataclasses.replace(TINY, recipe=aug.RECIPES["stl10"]), 3, CPU)
    shape = (4, 3, 40, 56)  # an oblong picture, in which some crops do not fit
    many = torch.func.vmap(lambda number: own.drawn(number, shape))(torch.arange(5, 44))
    for place, number in enumerate(range(5, 44)):
        one = own.drawn(number, shape)
        assert list(one) == list(many)
        assert all(torch.equal(t, many[name][place]) for name, t in one.items()), number
    assert not torch.equal(many["sigma"][0], many["sigma"][1])


def test_stopped_anywhere_and_gone_on_with_either_way(digits, tmp_path):
    path, options = tmp_path / "run.pt", {"record": [1, 2], "progress": False}
    for number in range(5):  # steps 1 to 5 of 6, in epochs of 3
        with pytest.raises(pretraining.Stopped, match="with a checkpoint, call again"):
            run(*digits, TINY, checkpoint=path, ahead=number % 2 == 0, stop_after=0, **options)
    same(run(*digits, TINY, checkpoint=path, ahead=True, **options), run(*digits, TINY, **options))


def test_runs_side_by_side_are_those_alone(digits, tmp_path):
    """Of different losses, batches and lengths; one of them diverges, the others go on."""
    settings = [
        dataclasses.replace(TINY, loss="nce", epochs=3),
        dataclasses.replace(TINY, loss="exact", seed=1, batch=40, images=None, epochs=1),
        dataclasses.replace(TINY, optimizer="sgd", lr=1e30),
    ]
    paths = [tmp_path / pretraining.checkpoint_name(s) for s in settings]
    with pytest.raises(pretraining.Stopped):
        together(*digits, settings, checkpoints=paths, stop_after=0.0, progress=False, ahead=True)
    table = together(*digits, settings, checkpoints=paths, progress=False, ahead=True)
    assert list(table.run) == [0, 1, 2] and list(table.diverged) == [False, False, True]
    for number, s in enumerate(settings):
        same(table[table.run == number], run(*digits, s, progress=False))
    assert len(curve(paths[0])) == 3


def test_whole_runs_only(digits, monkeypatch):
    """A pace that is too slow is told after the second epoch."""
    clock = iter(range(10**6))
    monkeypatch.setattr(pretraining.loop.time, "monotonic", lambda: 0.1 * next(clock))
    settings = dataclasses.replace(TINY, epochs=50)
    with pytest.raises(pretraining.Stopped, match=r"48 epochs are left, of \d.* s each, but only"):
        together(*digits, [settings], stop_after=10, whole=True, progress=False)


@pytest.mark.parametrize("loss", ["exact-noise", "square", "inverse", "entropy", "beta+0.2"])
def test_a_step_that_is_drawn_reads_no_value(digits, loss, monkeypatch):
    """A CUDA graph could not hold one that does."""
    own = Trainer(dataclasses.replace(TINY, loss=loss), 1, CPU)
    pixels = torch.from_numpy(digits[0].pixels[:96].copy())
    ahead = steps.Ahead(own, pixels, torch.zeros((), dtype=torch.float64), 3)
    ahead.take(0, 0, 3)
    monkeypatch.setattr(own.optimizer, "step", lambda: None)  # Adam of the CPU keeps numbers there

    def read(*_, **__):
        raise AssertionError("a value is read, or sent to the device")

    for name in ("tensor", "as_tensor", "from_numpy", "nonzero"):
        monkeypatch.setattr(torch, name, read)
    for name in ("item", "tolist", "nonzero", "__float__", "__int__", "__bool__", "__index__"):
        monkeypatch.setattr(torch.Tensor, name, read)
    ahead.take(1, 0, 3)


def test_out_of_memory_names_the_runs(digits, tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(Trainer, "update", full)
    settings = [dataclasses.replace(TINY, loss=loss) for loss in ("nce", "exact")]
    with pytest.raises(
        pretraining.OutOfMemory,
        match=r"^nce, seed 0; exact, seed 0: cpu is out of memory .* 2\.00 GiB\): without a check.*"
        r"nothing is kept\. Run fewer side by side",
    ):
        together(*digits, settings, progress=False, ahead=True)
    assert not [*tmp_path.iterdir()]


def test_a_checkpoint_of_another_device_keeps_this_ones_way(digits, tmp_path):
    """Fused, capturable and a rate that is a tensor are a GPU's; they are no part of a run."""
    path = tmp_path / "run.pt"
    with pytest.raises(pretraining.Stopped):
        run(*digits, TINY, checkpoint=path, stop_after=0, progress=False)
    saved = torch.load(path)
    for group in saved["optimizer"]["param_groups"]:
        group |= {"lr": torch.tensor(7.0), "capturable": True, "fused": None}
    torch.save(saved, path)
    same(run(*digits, TINY, checkpoint=path, progress=False), run(*digits, TINY, progress=False))
