"""A pretraining run's file: what it holds, whether it is of this run, what can be read from it."""

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from clcore.experiments.trainer import Settings, Trainer
from clcore.images import processes
from clcore.images.image_sets import ImageSet
from clcore.nets.resnet import ResNet, first_convolutions
from clcore.sweep.checkpoint import Unreadable, read, write

PIXELS = 4096  # images of a set that a checkpoint is compared with, at least


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
        """Whether a row of the table is of a run that diverged."""
        return any(row["diverged"] for row in self.rows)


_ARCHITECTURE = ("channels", "stem", "width", "hidden", "out")


def mark_of(train: ImageSet, test: ImageSet, settings: Settings) -> dict[str, Any]:
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


def save(path: Path | None, mark: dict[str, Any], trainer: Trainer, state: State) -> None:
    """Write the state, from the first process, if there is a file for it."""
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


def restore(path: Path | None, mark: dict[str, Any], trainer: Trainer) -> State:
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
            "its own checkpoint"
        )
    trainer.net.load_state_dict(saved["net"])
    # What the optimiser does follows from the settings and the device, which may be another.
    own = trainer.optimizer.state_dict()["param_groups"]
    trainer.optimizer.load_state_dict(saved["optimizer"] | {"param_groups": own})
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


def checkpoint_name(settings: Settings) -> str:
    """The file of a run in a grid's folder: loss, seed and a digest of all settings but epochs."""
    fields = asdict(settings) | {"recipe": asdict(settings.augmentation)}
    del fields["epochs"]
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:10]
    return f"{settings.loss}-{settings.seed}-{digest}.pt"
