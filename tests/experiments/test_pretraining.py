"""Pretraining of tiny nets: the table, runs that are stopped and resumed, and bad input."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from clcore.experiments import pretraining, trainer
from clcore.experiments.image_losses import LOSSES
from clcore.experiments.pretraining import Settings, curve, filters, loop, run
from clcore.images import augmentations as aug
from clcore.images import image_sets

RECIPE = aug.Recipe(8, scale=(0.5, 1.0), jitter=(0.4, 0.4, 0.0, 0.0))
TINY = Settings(
    batch=32, epochs=2, lr=1e-2, width=4, hidden=8, out=8, stem="small", recipe=RECIPE, images=96
)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def digits():
    return image_sets.load("digits", "train"), image_sets.load("digits", "test")


def quiet(digits, settings=TINY, **options):
    return run(*digits, settings, progress=False, **options)


def same(first, second):
    """Whether two tables agree to the bit, times apart."""
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds"), second.drop(columns="seconds"), check_exact=True
    )


def test_table(digits):
    table = quiet(digits, dataclasses.replace(TINY, loss="nce", seed=3), record=[0, 2])
    assert list(table.epoch) == [0, 2] and list(table.seed) == [3, 3]
    assert list(table.loss_name) == ["nce", "nce"] and not table.diverged.any()
    assert np.isnan(table.loss[0]) and 3 < table.loss[1] < 5
    assert table.linear.between(0.15, 1).all() and table.knn.between(0.15, 1).all()
    net = trainer.network(dataclasses.replace(TINY, seed=3), 1)
    w = net.backbone.layer2[1].conv1.weight.detach()
    assert table["norm_layer2.1"][0] == pytest.approx(float(w.flatten(1).norm(dim=1).mean()))
    shape = table["unit_conv1"] * table["norm_conv1"] / table["tv_conv1"]
    assert shape.between(0.8, 1.2).all()
    assert len([c for c in table if c.startswith("tv_")]) == 9


# ----------------------------------------------------------------------------- stopped and resumed


def test_resumed_is_the_same_to_the_bit(digits, tmp_path):
    settings = dataclasses.replace(TINY, loss="exact-noise")
    whole = quiet(digits, settings, checkpoint=tmp_path / "whole.pt", record=[0, 1, 2])
    for _ in range(5):  # steps 1 to 5 of 6, in epochs of 3
        with pytest.raises(pretraining.Stopped, match="with a checkpoint, call again"):
            quiet(
                digits, settings, checkpoint=tmp_path / "parts.pt", record=[0, 1, 2], stop_after=0
            )
    parts = quiet(digits, settings, checkpoint=tmp_path / "parts.pt", record=[0, 1, 2])
    same(whole, parts)
    assert curve(tmp_path / "whole.pt").equals(curve(tmp_path / "parts.pt"))
    first, second = (filters(tmp_path / f"{name}.pt") for name in ("whole", "parts"))
    assert all(torch.equal(w, second[name]) for name, w in first.items()) and len(first) == 9
    assert not torch.equal(first["conv1"], trainer.network(settings, 1).backbone.conv1.weight)


def test_more_epochs_go_on_and_fewer_are_read(digits, tmp_path):
    path = tmp_path / "run.pt"
    two = quiet(digits, checkpoint=path, record=[1, 2])
    longer = dataclasses.replace(TINY, epochs=3)
    same(
        quiet(digits, longer, record=[1, 2, 3]),
        quiet(digits, longer, checkpoint=path, record=[1, 2, 3]),
    )
    written = path.stat().st_mtime_ns
    same(two, quiet(digits, checkpoint=path, record=[1, 2]))
    assert len(curve(path)) == 3 and path.stat().st_mtime_ns == written
    with pytest.raises(ValueError, match=r"is past epochs \[0\], which were not recorded"):
        quiet(digits, longer, checkpoint=path, record=[0, 3])


def test_divergence_is_recorded_and_stops(digits, tmp_path, caplog):
    settings = dataclasses.replace(TINY, optimizer="sgd", lr=1e30, epochs=5)
    table = quiet(digits, settings, checkpoint=tmp_path / "run.pt", record=[0, 1, 5])
    assert list(table.epoch) == [0, 1] and list(table.diverged) == [False, True]
    assert table[["loss", "linear", "knn", "tv_conv1"]].loc[1].isna().all()
    assert "diverged in epoch 1" in caplog.text
    alone = quiet(digits, settings)
    assert list(alone.diverged) == [True] and set(alone.columns) == set(table.columns)
    same(table, quiet(digits, settings, checkpoint=tmp_path / "run.pt", record=[0, 1, 5]))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_may_diverge(digits, loss):
    settings = dataclasses.replace(TINY, loss=loss, optimizer="sgd", lr=1e30, epochs=1)
    assert list(quiet(digits, settings).diverged) == [True]


@pytest.mark.parametrize("lr", [1e8, 1e16])
def test_finite_weights_may_have_no_features(digits, tmp_path, lr, monkeypatch):
    """The last step before an evaluation can leave weights whose outputs overflow."""
    settings = dataclasses.replace(
        TINY, optimizer="sgd", lr=lr, epochs=1, batch=32, images=32, stem="small"
    )
    seen = []
    found = loop.evaluated

    def evaluated(*args):
        seen.append(found(*args))
        return seen[-1]

    monkeypatch.setattr(loop, "evaluated", evaluated)
    for _ in range(2):  # and once more from the checkpoint
        table = quiet(digits, settings, checkpoint=tmp_path / "run.pt")
        assert list(table.diverged) == [True] and table.linear.isna().all()
        assert table.seconds.item() > 0
    assert seen == [None], "the weights were not finite; take a smaller rate"


def test_other_pixels_are_another_run(digits, tmp_path):
    train, test = digits
    quiet(digits, TINY, checkpoint=tmp_path / "run.pt")
    other = dataclasses.replace(train, pixels=255 - train.pixels)
    with pytest.raises(ValueError, match="another run: data is"):
        quiet((other, test), TINY, checkpoint=tmp_path / "run.pt")


def test_out_of_memory_says_what_is_kept_and_what_to_do(digits, tmp_path, monkeypatch):
    path, step = tmp_path / "run.pt", trainer.Trainer.step

    def full(self, pixels, number, *rest):
        if number == 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return step(self, pixels, number, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "step", full)
        advice = (
            r"\. Run fewer .*\(jobs, each of which holds 0 MiB of images\), which changes no run; "
            r"or lower batch \(32\), width \(4\).* are another run and begin at step 0$"
        )
        with pytest.raises(pretraining.OutOfMemory, match="nothing is saved yet" + advice):
            quiet(digits, checkpoint=path)  # the first minute is not over
        assert not path.exists()
        for kept, options in (
            ("run.pt holds step 4", {"checkpoint_every": 0.0}),
            ("run.pt holds step 4", {}),
        ):
            with pytest.raises(pretraining.OutOfMemory, match=kept + ", from which .*" + advice):
                quiet(digits, checkpoint=path, **options)
        assert len(curve(path)) == 1  # three steps an epoch
        other = tmp_path / "other.pt"
        with pytest.raises(pretraining.OutOfMemory, match=r"other\.pt holds step 3, from"):
            quiet(digits, checkpoint=other, record=[1, 2])  # saved before it was evaluated
    same(quiet(digits), quiet(digits, checkpoint=path))
    written = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", lambda *_, **__: torch.empty(2**55))
        with pytest.raises(pretraining.OutOfMemory, match=r"run\.pt is as it was"):
            quiet(digits, checkpoint=path)
    assert path.read_bytes() == written

    def failing(*_):
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")

    for other in (lambda *_: torch.empty(2**55), failing):
        monkeypatch.setattr(trainer.Trainer, "step", other)
        with pytest.raises(pretraining.OutOfMemory, match=r"cpu is out of .* nothing is kept\."):
            quiet(digits)
    monkeypatch.setattr(trainer.Trainer, "step", lambda *_: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match=r"inconsistent tensor size|size mismatch"):
        quiet(digits)


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 97}, r"batch: expected at most the 96 images of .* \(train\), got 97"),
        ({"images": 5000}, "images: expected 1 to 1438, as .* has, got 5000"),
    ],
)
def test_settings_that_do_not_fit_the_data(digits, change, message):
    with pytest.raises(ValueError, match=message):
        quiet(digits, dataclasses.replace(TINY, **change))


def test_record_and_labels(digits):
    with pytest.raises(ValueError, match=r"record: expected epochs between 0 and 2, got \[3\]"):
        quiet(digits, record=[1, 3])
    wrong = dataclasses.replace(digits[0], labels=digits[0].labels + 1)
    with pytest.raises(ValueError, match=r"labels of -1 to 9 for 10 classes, got 10 for image"):
        quiet((wrong, digits[1]), dataclasses.replace(TINY, images=None))


def test_splits_number_the_same_classes(digits):
    fewer = dataclasses.replace(digits[1], classes=digits[1].classes[:-1])
    with pytest.raises(ValueError, match=r"the same classes in both splits.*8, 9; .* 7, 8$"):
        quiet((digits[0], fewer))


def test_images_without_labels_train_but_are_not_evaluated(digits):
    labels = digits[0].labels.copy()
    labels[::2] = -1
    table = quiet((dataclasses.replace(digits[0], labels=labels), digits[1]))
    labels = np.full_like(labels, -1)
    with pytest.raises(ValueError, match="expected some images with labels, for the linear"):
        quiet((dataclasses.replace(digits[0], labels=labels), digits[1]))
    full = quiet(digits)
    assert table.loss[0] == full.loss[0] and table.linear[0] != full.linear[0]


def test_checkpoints_of_others(digits, tmp_path):
    path = tmp_path / "run.pt"
    quiet(digits, dataclasses.replace(TINY, epochs=1), checkpoint=path)
    kept = path.read_bytes()
    with pytest.raises(ValueError, match="another architecture: width is 4 there, 8 here"):
        quiet(digits, dataclasses.replace(TINY, width=8), checkpoint=path)
    with pytest.raises(ValueError, match=r"another run: seed is 0 there, 1 here\. Ask for these"):
        quiet(digits, dataclasses.replace(TINY, seed=1), checkpoint=path)
    fewer = dataclasses.replace(digits[1], labels=digits[1].labels[:50])
    fewer = dataclasses.replace(fewer, pixels=fewer.pixels[:50])
    with pytest.raises(ValueError, match=r"another run: test is \[.* 359, .* here"):
        quiet((digits[0], fewer), dataclasses.replace(TINY, epochs=1), checkpoint=path)
    assert path.read_bytes() == kept
    path.write_bytes(kept[:1000])
    with pytest.raises(ValueError, match=r"no checkpoint of a pretraining run, or damaged"):
        quiet(digits, checkpoint=path)
    with pytest.raises(ValueError, match=r"is not there; `run` with checkpoint="):
        filters(tmp_path / "absent.pt")


def test_settings_from_texts():
    found = pretraining.parsed(["lr=1e-3", "tau=1", "mixed=true", "recipe={size: 9, blur: 3}"])
    assert (found.lr, found.tau, found.mixed) == (1e-3, 1, True)
    assert found.recipe == aug.Recipe(9, blur=3)
    assert pretraining.parsed(["tau=5e-1", "images=null"]) == Settings(tau=0.5)
    for text, kind in (("batch=many", "int"), ("seed=1.5", "int"), ("tau=warm", "float or null")):
        with pytest.raises(ValueError, match=f"--set {text.split('=')[0]}: expected {kind}, got"):
            pretraining.parsed([text])
    with pytest.raises(ValueError, match=r"NAME=VALUE, NAME one of .*; got 'learning_rate=1'"):
        pretraining.parsed(["learning_rate=1"])
    found = pretraining.parsed(["recipe={size: 8, jitter: [0.4, 0.4, 0, 0], flip: 0}"]).recipe
    assert found == aug.Recipe(8, jitter=(0.4, 0.4, 0, 0), flip=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{size: 8, foo: 1}", r"expected names of size, scale, .*, blur_chance; got foo$"),
        ("{blur: 3}", r"expected a size \(pixels of a side\), got only \{'blur': 3\}"),
        ("{size: 8, scale: 0.5}", r"expected a list of 2 numbers for scale, got 0\.5"),
        (
            "{size: 8, jitter: [0.4, 0.4]}",
            r"expected a list of 4 numbers for jitter, got \[0\.4, 0",
        ),
        ("{size: 8, scale: [low, 1]}", r"expected a list of 2 numbers for scale, got \['low', 1\]"),
        ("{size: 8, flip: often}", r"expected a number for flip, got 'often'"),
        ("{size: 8, flip: [0.5]}", r"expected a number for flip, got \[0\.5\]"),
        ("{size: 8.5}", r"expected a whole number for size, got 8\.5"),
        ("{size: 8", r"expected a value of YAML, such as .*; got '\{size: 8'"),
    ],
)
def test_recipes_from_texts_are_checked(text, message):
    with pytest.raises(ValueError, match=f"^--set recipe: {message}"):
        pretraining.parsed([f"recipe={text}"])
