"""Contrastive pretraining of a ResNet-18 on images, and its evaluation: acl Sec. 6, ddn Sec. 7.

The papers' protocol is what `Settings` has by default: batch 128, Adam at rate 1e-2 (CIFAR-10;
1e-3 for STL-10) with momentum 0.9, no weight decay, ResNet-18 with the standard stem also at 32
pixels, projector 512-512-128, tau 0.5. Labels are used for evaluation only. Both views of a batch
go through the net together, so BatchNorm's statistics are of all 2n (the papers do not say; the
released program takes each view's own).

Everything random is a function of the seed and the step: a run that was stopped and resumed is,
on the CPU, the same to the bit as one that was not.
"""

import dataclasses
import hashlib
import json
import logging
import math
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pandas as pd
import torch
import yaml
from jaxtyping import Float
from joblib import Parallel, delayed
from torch import Tensor
from tqdm import tqdm

from clcore import random as cr
from clcore._files import write_atomic
from clcore.experiments.trainer import Settings, Trainer
from clcore.images import augmentations as aug
from clcore.images import image_sets, processes
from clcore.images.evaluation import NEIGHBOURS, features, knn, linear_probe, require_labels
from clcore.images.filter_variation import total_variation
from clcore.images.image_sets import ImageSet, batches
from clcore.nets.resnet import ResNet, first_convolutions
from clcore.sweep.checkpoint import Stopped, Unreadable, read, write
from clcore.sweep.configs import out_of_memory

__all__ = ["OutOfMemory", "Settings", "Stopped", "curve", "filters", "grid", "run"]

CHECK_EVERY = 20  # steps between looks at the loss, which make a device wait
PIXELS = 4096  # images of a set that a checkpoint is compared with, at least


log = logging.getLogger(__name__)


class OutOfMemory(RuntimeError):
    """The device's memory does not hold a step of this run; what was saved is untouched."""


@dataclass
class State:
    """step: updates done; total: sum of the losses of the epoch begun; losses: means of the
    finished ones; rows: of the table; seconds: of training, evaluation left out."""

    step: int = 0
    total: float = 0.0
    losses: list[float] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def diverged(self) -> bool:
        return any(row["diverged"] for row in self.rows)


_ARCHITECTURE = ("channels", "stem", "width", "hidden", "out")


def _mark(train: ImageSet, test: ImageSet, settings: Settings) -> dict[str, Any]:
    """What decides a run's numbers, the number of epochs apart: more can be asked for later. Of
    many images some PIXELS, evenly spread, stand for all."""
    mark = asdict(settings) | {"recipe": asdict(settings.augmentation)}
    del mark["epochs"]
    mark["channels"] = train.pixels.shape[1]
    for name, s in (("data", train), ("test", test)):
        some = np.ascontiguousarray(s.pixels[:: max(1, len(s) // PIXELS)])
        mark[name] = [
            s.label,
            s.split,
            *s.pixels.shape,
            zlib.crc32(s.labels.data),
            zlib.crc32(some.data),
        ]
    mark["processes"] = processes.join()[1]
    return json.loads(json.dumps(mark))


def _save(path: Path | None, mark: dict[str, Any], trainer: Trainer, state: State) -> None:
    if path is None or trainer.rank:
        return
    saved = {
        "settings": mark,
        "net": trainer.net.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "state": vars(state),
    }
    write(path, saved)


def _read(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    try:
        return read(path, ("settings", "net", "optimizer", "state"), device)
    except FileNotFoundError:
        raise ValueError(f"{path} is not there; `run` with checkpoint={path} makes it") from None
    except Unreadable as error:
        raise ValueError(
            f"{path} is no checkpoint of a pretraining run, or damaged ({error}); delete it, and "
            "the run starts over"
        ) from error


def _restore(path: Path | None, mark: dict[str, Any], trainer: Trainer) -> State:
    """Bring net and optimiser to where the checkpoint left them. Errors: one of another run."""
    if path is None or not Path(path).exists():
        return State()
    saved = _read(path, trainer.device)
    found = saved["settings"]
    other = [name for name in mark if found.get(name) != mark[name]]
    if other:
        kind = "another architecture" if set(other) & set(_ARCHITECTURE) else "another run"
        differ = "; ".join(f"{n} is {found.get(n)} there, {mark[n]} here" for n in other)
        raise ValueError(
            f"{path} is a checkpoint of {kind}: {differ}. Ask for these settings, or give this run "
            "a checkpoint of its own"
        )
    trainer.net.load_state_dict(saved["net"])
    trainer.optimizer.load_state_dict(saved["optimizer"])
    return State(**saved["state"])


def filters(checkpoint: Path | str) -> dict[str, Float[Tensor, "out in h w"]]:
    """`first_convolutions` of the net in a checkpoint; "conv1" are the filters that are shown.
    Errors: no such file, or another kind."""
    return first_convolutions(_backbone(_read(Path(checkpoint))))


def _backbone(saved: dict[str, Any]) -> ResNet:
    s = saved["settings"]
    net = ResNet(s["stem"], s["width"], s["channels"])
    prefix = "backbone."
    own = {n.removeprefix(prefix): t for n, t in saved["net"].items() if n.startswith(prefix)}
    net.load_state_dict(own)
    return net


def curve(checkpoint: Path | str) -> pd.DataFrame:
    """The mean training loss of every finished epoch: columns epoch, loss. Errors: as filters."""
    losses = _read(Path(checkpoint))["state"]["losses"]
    return pd.DataFrame({"epoch": range(1, len(losses) + 1), "loss": losses})


# ------------------------------------------------------------------------------------------ a run


def _subset(images: ImageSet, count: int | None) -> ImageSet:
    """`count` images, the same for every run."""
    if count is None:
        return images
    if not 1 <= count <= len(images):
        raise ValueError(f"images: expected 1 to {len(images)}, as {images.label} has, got {count}")
    at = np.sort(cr.permutation(cr.key(0), len(images))[:count].numpy())
    return dataclasses.replace(images, pixels=images.pixels[at], labels=images.labels[at])


def _labelled(images: ImageSet) -> ImageSet:
    at = images.labels >= 0
    if at.all():
        return images
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


def _evaluated(trainer: Trainer, train: ImageSet, test: ImageSet) -> dict[str, Any] | None:
    """Accuracies, and per layer the means over filters of total variation (as they are, and at
    norm 1) and of norms; None where features are not finite."""
    backbone, device = trainer.backbone, trainer.device
    parts = []
    for images in (_labelled(train), test):
        labels = torch.from_numpy(images.labels).to(device)
        parts += [features(backbone, images, device), labels]
    if not all(found.isfinite().all() for found in parts[::2]):
        return None
    probe = linear_probe(*parts)
    found = {"linear": probe.accuracy, "converged": probe.converged}
    found["knn"] = knn(*parts, k=min(NEIGHBOURS, len(parts[0])))
    for name, w in first_convolutions(backbone).items():
        variation, norm = total_variation(w), w.flatten(1).norm(dim=1)
        found[f"tv_{name}"] = float(variation.mean())
        found[f"unit_{name}"] = float((variation / norm).mean())
        found[f"norm_{name}"] = float(norm.mean())
    return found


def _columns(trainer: Trainer) -> dict[str, Any]:
    """What `_evaluated` would find, without numbers."""
    layers = first_convolutions(trainer.backbone)
    names = [f"{kind}_{layer}" for layer in layers for kind in ("tv", "unit", "norm")]
    return {"linear": math.nan, "converged": False, "knn": math.nan} | dict.fromkeys(
        names, math.nan
    )


def _finite(trainer: Trainer, total: Tensor) -> bool:
    """Whether losses, weights and running statistics are numbers."""
    state = trainer.net.state_dict().values()
    largest = torch.stack([t.abs().amax() for t in state if t.is_floating_point()])
    return bool(total.isfinite() & largest.isfinite().all())


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
        loop = _Loop(train, test, settings, record, device, path)
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


class _Loop:
    """A run between its checkpoints."""

    def __init__(
        self,
        train: ImageSet,
        test: ImageSet,
        settings: Settings,
        record: Sequence[int],
        device: torch.device,
        path: Path | None,
    ) -> None:
        self.train, self.test, self.settings, self.record = train, test, settings, record
        self.path, self.mark = path, _mark(train, test, settings)
        self.trainer = Trainer(settings, train.pixels.shape[1], device)
        self.state = _restore(path, self.mark, self.trainer)
        self.saved = self._progress() if path and path.exists() else None
        processes.agreed(False, device)  # all have read before one writes
        self.each = len(train) // settings.batch
        # The sum of an epoch's losses stays on the device, so that a step waits for nothing.
        self.total = torch.tensor(self.state.total, dtype=torch.float64, device=device)
        self.lap = time.monotonic()
        late = [e for e in record if e * self.each < self.state.step and not self._has(e)]
        if late and not self.state.diverged:
            raise ValueError(
                f"record: the checkpoint {path} is past epochs {late}, which were not recorded; "
                "ask for later ones, or give this run a checkpoint of its own"
            )

    def _has(self, epoch: int) -> bool:
        return any(row["epoch"] == epoch for row in self.state.rows)

    def _progress(self) -> tuple[int, int]:
        return self.state.step, len(self.state.rows)

    def _clock(self) -> None:
        now = time.monotonic()
        self.state.seconds, self.lap = self.state.seconds + now - self.lap, now

    def _save(self) -> None:
        if self.saved == self._progress():
            return
        self._clock()
        self.state.total = float(self.total)
        _save(self.path, self.mark, self.trainer, self.state)
        self.saved = self._progress()

    def _row(self, epoch: int, loss: float, diverged: bool, found: dict[str, Any]) -> None:
        s = self.settings
        row = {"loss_name": s.loss, "seed": s.seed, "epoch": epoch, "loss": loss, **found}
        self._clock()
        self.state.rows.append(row | {"diverged": diverged, "seconds": self.state.seconds})

    def _diverged(self, epoch: int) -> None:
        log.warning("%s, seed %d: diverged in epoch %d", *self._name(), epoch)
        self._row(epoch, math.nan, True, _columns(self.trainer))

    def _record(self, epoch: int) -> None:
        self._save()  # what follows may fail; the epoch is not lost
        loss = self.state.losses[epoch - 1] if epoch else math.nan
        found = _evaluated(self.trainer, self.train, self.test)
        self.lap = time.monotonic()
        if found is None:
            self._diverged(epoch)
        else:
            self._row(epoch, loss, False, found)
        self._save()

    def _step(self, source: Iterator[tuple[Tensor, Tensor]]) -> None:
        state, epoch = self.state, self.state.step // self.each
        self.total += self.trainer.step(next(source)[0], state.step, epoch, self.each)
        state.step += 1
        ended = state.step % self.each == 0
        if (ended or state.step % CHECK_EVERY == 0) and not _finite(self.trainer, self.total):
            self._diverged(epoch + 1)
        if ended:
            state.losses.append(float(self.total) / self.each)
            self.total.zero_()

    def _name(self) -> tuple[str, int]:
        return self.settings.loss, self.settings.seed

    def go(self, stop_after: float | None, save_every: float, progress: bool) -> None:
        s, state, device = self.settings, self.state, self.trainer.device
        source = batches(self.train, s.batch, self.trainer.order, device, start=state.step)
        began = saved = time.monotonic()
        hidden = not progress or self.trainer.rank > 0
        with tqdm(total=s.epochs * self.each, initial=state.step, disable=hidden) as bar:
            bar.set_description("{}, seed {}".format(*self._name()))
            while True:
                epoch, within = divmod(state.step, self.each)
                if not (within or state.diverged or self._has(epoch)) and epoch in self.record:
                    self._record(epoch)
                if epoch >= s.epochs or state.diverged:
                    break
                self._step(source)
                bar.update()
                # Several processes have several clocks, and asking all of them takes time.
                if self.trainer.world > 1 and state.step % CHECK_EVERY:
                    continue
                now = time.monotonic()
                over = stop_after is not None and now - began >= stop_after
                if processes.agreed(over, device):
                    self._save()
                    raise Stopped(f"after {now - began:.1f} s; with a checkpoint, call again")
                if now - saved >= save_every:
                    self._save()
                    saved = now
        self._save()


def _advice(loop: "_Loop | None", path: Path | None, train: ImageSet, settings: Settings) -> str:
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


# ---------------------------------------------------------------------------------------- many runs


def faster(choice: str, device: torch.device | str) -> dict[str, bool]:
    """Settings that a GPU is faster with (`mixed`, `channels_last`), or none.

    choice: "yes", "no", or "auto", which is yes on CUDA devices with bfloat16 of their own (compute
    capability 8 or more). Errors: another word.
    """
    if choice not in ("auto", "yes", "no"):
        raise ValueError(f"fast: expected one of auto, yes, no, got {choice!r}")
    if choice == "auto" and torch.device(device).type == "cuda":
        choice = "yes" if torch.cuda.get_device_capability(device) >= (8, 0) else "no"
    return {"mixed": True, "channels_last": True} if choice == "yes" else {}


def checkpoint_name(settings: Settings) -> str:
    """The file of a run in a grid's folder: loss, seed and a digest of all settings but epochs."""
    fields = asdict(settings) | {"recipe": asdict(settings.augmentation)}
    del fields["epochs"]
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:10]
    return f"{settings.loss}-{settings.seed}-{digest}.pt"


def grid(
    train: ImageSet,
    test: ImageSet,
    settings: Sequence[Settings],
    *,
    jobs: int = 1,
    device: torch.device | str = "cpu",
    checkpoints: Path | str | None = None,
    record: Sequence[int] | None = None,
    stop_after: float | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """`run` for each of the settings, `jobs` at a time in processes of their own; one table, with
    the settings' position as column `run`.

    Each keeps its own file in the folder `checkpoints` (`checkpoint_name`), so that the same call
    goes on with whatever is unfinished. On "cuda" the runs take turns over all GPUs, several on
    one when jobs exceeds their number. `stop_after` seconds, counted once for all, raise `Stopped`.
    Errors: as `run`; no settings, or the same ones twice.
    """
    names = [checkpoint_name(s) for s in settings]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"settings: expected different runs, at least one, got {names}")
    until = None if stop_after is None else time.time() + stop_after
    gpus = torch.cuda.device_count() if str(device) == "cuda" else 0
    tasks = [
        delayed(_one)(
            train,
            test,
            s,
            until,
            device=f"cuda:{number % gpus}" if gpus else device,
            checkpoint=None if checkpoints is None else Path(checkpoints) / name,
            record=record,
            progress=progress and jobs == 1,
        )
        for number, (s, name) in enumerate(zip(settings, names, strict=True))
    ]
    tables = Parallel(n_jobs=jobs)(tasks)
    if missing := sum(table is None for table in tables):
        raise Stopped(
            f"{len(tables) - missing} of {len(tables)} runs are finished; with checkpoints, the "
            "same call goes on"
        )
    return pd.concat([t.assign(run=n) for n, t in enumerate(tables)], ignore_index=True)


def _one(
    train: ImageSet, test: ImageSet, settings: Settings, until: float | None, **options: Any
) -> pd.DataFrame | None:
    """One run of a grid, None when the time is over."""
    left = None if until is None else until - time.time()
    try:
        return run(train, test, settings, stop_after=left, **options)
    except Stopped:
        return None


# ---------------------------------------------------------------------------------------- by hand


def parsed(assignments: Sequence[str]) -> Settings:
    """Settings from texts such as "loss=nce", "images=1000", "recipe={size: 224, blur: 23}".

    Values are YAML. Errors: no "=", an unknown name, no YAML, a value of another type.
    """
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    found: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"--set: expected NAME=VALUE, NAME one of {[*fields]}; got {text!r}")
        try:
            meant = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError(
                f"--set {name}: expected a value of YAML, such as 3, nce or {{size: 8, blur: 3}}; "
                f"got {value!r}"
            ) from None
        found[name] = _typed(name, fields[name].type, meant)
    return Settings(**found)


def _recipe(given: dict[str, Any]) -> aug.Recipe:
    """A recipe of one's own. Errors: an unknown name, none for size, a value of another type."""
    fields = {field.name: field for field in dataclasses.fields(aug.Recipe)}
    if strange := [str(name) for name in given if name not in fields]:
        raise ValueError(
            f"--set recipe: expected names of {', '.join(fields)}; got {', '.join(strange)}"
        )
    if "size" not in given:
        raise ValueError(f"--set recipe: expected a size (pixels of a side), got only {given}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        kinds = get_args(fields[name].type)
        values = value if kinds and isinstance(value, list) else [value]
        whole = fields[name].type is int
        fit = all(type(v) is int or (type(v) is float and not whole) for v in values)
        if not fit or len(values) != (len(kinds) or 1):
            expected = f"a list of {len(kinds)} numbers" if kinds else "a number"
            expected = "a whole number" if whole else expected
            raise ValueError(f"--set recipe: expected {expected} for {name}, got {value!r}")
        found[name] = tuple(values) if kinds else value
    return aug.Recipe(**found)


def _typed(name: str, kind: Any, value: Any) -> Any:
    """A value from YAML as one of the type of a field of Settings. Errors: it cannot be."""
    if get_origin(kind) is Literal:
        return value  # Settings knows which
    kinds = get_args(kind) or (kind,)
    if float in kinds and type(value) in (str, int):
        with suppress(ValueError):
            value = float(value)  # YAML takes 1e-3 for a text
    if aug.Recipe in kinds and isinstance(value, dict):
        value = _recipe(value)
    if type(value) not in kinds:
        names = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
        raise ValueError(f"--set {name}: expected {names}, got {value!r}")
    return value


def command(
    data: str,
    out: Path,
    assignments: Sequence[str],
    record: Sequence[int] | None,
    train: str,
    test: str,
    device: str,
) -> Path | None:
    """`python -m clcore pretrain`: one run, its checkpoint and its table (CSV) in the folder `out`.

    The table's path; None in all processes of torchrun but the first. Errors: as `parsed` and
    `run`; an `out` that can be no folder.
    """
    settings = parsed(assignments)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--out: expected a folder for checkpoint and table, got {out} ({error.strerror}); "
            "nothing was trained"
        ) from None
    load = image_sets.folder if Path(data).is_dir() else image_sets.load
    splits = load(data, train), load(data, test)
    name = checkpoint_name(settings)
    table = run(*splits, settings, device=device, checkpoint=out / name, record=record or None)
    if processes.join()[0]:
        return None
    file = (out / name).with_suffix(".csv")
    write_atomic(file, table.assign(data=splits[0].label).to_csv(index=False).encode())
    return file
