"""One pretraining run, begun or gone on with."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from clcore import random as cr
from clcore.experiments.pretraining.loop import Loop
from clcore.experiments.trainer import Settings
from clcore.images import image_sets, processes
from clcore.images.evaluation import require_labels
from clcore.images.image_sets import ImageSet
from clcore.sweep.configs import out_of_memory


class OutOfMemory(RuntimeError):
    """The device's memory does not hold a step of this run; what was saved is untouched."""


def run(
    train: ImageSet,
    test: ImageSet,
    settings: Settings,
    *,
    device: torch.device | str = "cpu",
    checkpoint: Path | str | None = None,
    record: Sequence[int] | None = None,
    stop_after: float | None = None,
    progress: bool = True,
    checkpoint_every: float = 60.0,
) -> pd.DataFrame:
    """Pretrain on `train`, evaluate after the epochs in `record` (the last; 0 is the net at its
    start).

    One row a recorded epoch: loss_name, seed, epoch, loss (mean over the epoch), linear and knn
    (top-1 in [0, 1] on `test`), converged (of the linear classifier), tv_*, unit_*, norm_* of each
    of `first_convolutions`, diverged, seconds (of training so far). A run whose loss, weights or
    features stop being finite ends with a row that has diverged=True and no numbers.

    With `checkpoint`, a file, the state is written every `checkpoint_every` seconds and before
    every evaluation, and the same call, or one with more epochs, goes on from it. `stop_after`
    seconds raise `Stopped`. Under torchrun every process takes its share of each batch, and the
    loss is that of the whole batch. Raises ValueError for data, settings or a checkpoint that do
    not fit, OutOfMemory.
    """
    device = processes.own(device)
    record = sorted({settings.epochs} if record is None else set(record))
    path = None if checkpoint is None else Path(checkpoint)
    train = _subset(train, settings.images)
    _check(train, test, settings, record)
    loop = None
    try:
        loop = Loop(train, test, settings, record, device, path)
        loop.go(stop_after, checkpoint_every, progress)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise OutOfMemory(
            f"{device} is out of memory ({error!s:.100}): {_advice(loop, path, train, settings)}"
        ) from error
    rows = [
        row
        for row in loop.state.rows
        if row["epoch"] in record or (row["diverged"] and row["epoch"] <= settings.epochs)
    ]
    return pd.DataFrame(rows)


def _subset(images: ImageSet, count: int | None) -> ImageSet:
    """`count` images, the same for every run."""
    if count is None:
        return images
    if not 1 <= count <= len(images):
        raise ValueError(f"images: expected 1 to {len(images)}, as {images.label} has, got {count}")
    at = np.sort(cr.permutation(cr.key(0), len(images))[:count].numpy())
    return dataclasses.replace(images, pixels=images.pixels[at], labels=images.labels[at])


def _check(train: ImageSet, test: ImageSet, s: Settings, record: Sequence[int]) -> None:
    if train.classes != test.classes:
        raise ValueError(
            f"expected the same classes in both splits, for a label is a place among them: "
            f"{train.label} ({train.split}) has {', '.join(train.classes)}; {test.label} "
            f"({test.split}) has {', '.join(test.classes)}"
        )
    require_labels(train, unlabelled=True)
    require_labels(test)
    if (train.labels < 0).all():
        raise ValueError(
            f"{train.label} ({train.split}): expected some images with labels, for the linear "
            'classifier; join a labelled split, such as "train+unlabeled"'
        )
    if s.batch > len(train):
        raise ValueError(
            f"batch: expected at most the {len(train)} images of {train.label} ({train.split}), "
            f"got {s.batch}"
        )
    world = processes.join()[1]
    if s.batch % world:
        raise ValueError(f"batch: expected a multiple of the {world} processes, got {s.batch}")
    if outside := sorted(e for e in record if not 0 <= e <= s.epochs):
        raise ValueError(f"record: expected epochs between 0 and {s.epochs}, got {outside}")


def _advice(loop: "Loop | None", path: Path | None, train: ImageSet, settings: Settings) -> str:
    """What is kept when memory ran out, what goes on from there and what begins anew."""
    if loop is not None and path and loop.saved:
        kept = f"{path} holds step {loop.saved[0]}, from which the same settings go on"
    elif path and path.exists():
        kept = f"{path} is as it was"
    else:
        kept = "nothing is saved yet" if path else "without a checkpoint nothing is kept"
    each = ""
    if train.pixels.nbytes <= image_sets.RESIDENT:
        each = f", each of which holds {train.pixels.nbytes / 2**20:.0f} MiB of images"
    return (
        f"{kept}. Run fewer side by side (jobs{each}), which changes no run; or lower batch "
        f"({settings.batch}), width ({settings.width}) or the recipe's size, or set mixed=True: "
        "other settings are another run and begin at step 0"
    )
