"""Pretraining runs in one process, started or resumed."""

import dataclasses
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from clcore import random as cr
from clcore.experiments.pretraining.loop import Loop, go
from clcore.experiments.trainer import Settings
from clcore.images import image_sets, processes
from clcore.images.evaluation import require_labels
from clcore.images.image_sets import ImageSet
from clcore.sweep.configs import out_of_memory


class OutOfMemory(torch.OutOfMemoryError):
    """The device's memory does not hold a step of these runs; saved results are unchanged."""


def run(
    train: ImageSet,
    test: ImageSet,
    settings: Settings,
    *,
    checkpoint: Path | str | None = None,
    **options: Any,
) -> pd.DataFrame:
    """`together` for one run: its table without the column `run`.

    checkpoint: its file. Errors: as there.
    """
    paths = None if checkpoint is None else [checkpoint]
    return together(train, test, [settings], checkpoints=paths, **options).drop(columns="run")


def together(
    train: ImageSet,
    test: ImageSet,
    settings: Sequence[Settings],
    *,
    device: torch.device | str = "cpu",
    checkpoints: Sequence[Path | str] | None = None,
    record: Sequence[int] | None = None,
    stop_after: float | None = None,
    whole: bool = False,
    progress: bool = True,
    checkpoint_every: float = 60.0,
    ahead: bool | None = None,
) -> pd.DataFrame:
    """Pretrain on `train`, evaluate after the epochs in `record` (the last; 0 is the net at its
    start): one run for each of the settings, a step of each in turn, in one process.

    One row a recorded epoch: run (position in `settings`), loss_name, seed, epoch, loss (mean over
    the epoch), linear and knn (top-1 in [0, 1] on `test`), converged (of the linear classifier),
    tv_*, unit_*, norm_* of each of `first_convolutions`, diverged, seconds (by the clock, of
    training all of them so far). A run whose loss, weights or features stop being finite ends with
    a row that has diverged=True and no numbers.

    With `checkpoints`, a file each, the states are written every `checkpoint_every` seconds and
    before every evaluation, and the same call, or one with more epochs, goes on from them.
    `stop_after` seconds raise `Stopped`; with `whole`, so does a pace that would exceed them. Under
    torchrun every process takes its share of each batch, and the loss is that of the whole batch.

    ahead: draw for many steps at once and, on a GPU, replay one CUDA graph per step, each run on
    its own stream; None: on a GPU only, by one process, whose memory holds the images. On the CPU
    the numbers are the same to the bit. Raises ValueError for data, settings or a checkpoint
    that do not fit, OutOfMemory.
    """
    device = processes.own(device)
    paths = [None if p is None else Path(p) for p in checkpoints or [None] * len(settings)]
    epochs = [sorted({s.epochs} if record is None else set(record)) for s in settings]
    parts = {s.images: _subset(train, s.images) for s in settings}
    for s, recorded in zip(settings, epochs, strict=True):
        _check(parts[s.images], test, s, recorded)
    ahead = device.type == "cuda" and processes.join()[1] == 1 if ahead is None else ahead
    loops: list[Loop] = []
    try:
        pixels = {
            n: image_sets.resident(part, device) if ahead else None for n, part in parts.items()
        }
        for s, recorded, path in zip(settings, epochs, paths, strict=True):
            loops.append(Loop(parts[s.images], test, s, recorded, device, path, pixels[s.images]))
        go(loops, stop_after, checkpoint_every, progress, whole)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        names = "; ".join(f"{s.loss}, seed {s.seed}" for s in settings)
        kept = [_kept(loop, path) for loop, path in zip_longest(loops, paths[: max(1, len(loops))])]
        raise OutOfMemory(
            f"{names}: {device} is out of memory ({error!s:.100}{_memory(device)}): "
            f"{'; '.join(dict.fromkeys(kept))}{_advice(train, settings[0])}"
        ) from error
    tables = [_table(loop, recorded) for loop, recorded in zip(loops, epochs, strict=True)]
    return pd.concat([t.assign(run=n) for n, t in enumerate(tables)], ignore_index=True)


def _table(loop: Loop, recorded: Sequence[int]) -> pd.DataFrame:
    last = loop.settings.epochs
    rows = loop.state.rows
    return pd.DataFrame(
        [r for r in rows if r["epoch"] in recorded or (r["diverged"] and r["epoch"] <= last)]
    )


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


def _memory(device: torch.device) -> str:
    """A GPU's memory and the processes that use it, in words; nothing about the host's."""
    if device.type != "cuda":
        return ""
    free, total = torch.cuda.mem_get_info(device)
    most = torch.cuda.max_memory_allocated(device)
    return (
        f"; the card has {total / 2**30:.1f} GiB, {free / 2**30:.1f} free; this process wanted "
        f"more than {most / 2**30:.1f}"
    )


def _kept(loop: Loop | None, path: Path | None) -> str:
    """What is kept of a run when memory ran out."""
    if loop is not None and path and loop.saved:
        return f"{path} holds step {loop.saved[0]}, from which the same settings go on"
    if path and path.exists():
        return f"{path} is as it was"
    return "nothing is saved yet" if path else "without a checkpoint nothing is kept"


def _advice(train: ImageSet, settings: Settings) -> str:
    """What goes on from there and what begins anew."""
    each = ""
    if train.pixels.nbytes <= image_sets.RESIDENT:
        each = f", each of which holds {train.pixels.nbytes / 2**20:.0f} MiB of images"
    return (
        f". Run fewer side by side (jobs{each}), which changes no run; or lower batch "
        f"({settings.batch}), width ({settings.width}) or the recipe's size, or set mixed=True: "
        "other settings are another run and begin at step 0"
    )
