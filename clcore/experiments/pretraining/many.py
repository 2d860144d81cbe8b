"""Many pretraining runs, side by side."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from clcore._device import bfloat16, require_bfloat16
from clcore.experiments.pretraining.checkpoint import checkpoint_name, mark_of
from clcore.experiments.pretraining.single import together
from clcore.experiments.trainer import Settings
from clcore.grid import Grid, Request, launchers
from clcore.grid.launchers import Launcher
from clcore.images.augmentations import Recipe
from clcore.images.image_sets import ImageSet
from clcore.sweep.checkpoint import Stopped


def faster(choice: str, device: torch.device | str) -> dict[str, bool]:
    """Settings that a GPU is faster with (`mixed`, `channels_last`), or none.

    choice: "yes", "no", or "auto", which is yes on CUDA devices with native bfloat16 (compute
    capability 8 or more). Errors: another word; "yes" for a CUDA device without.
    """
    if choice not in ("auto", "yes", "no"):
        raise ValueError(f"fast: expected one of auto, yes, no, got {choice!r}")
    if choice == "auto" and torch.device(device).type == "cuda":
        choice = "yes" if bfloat16(device) else "no"
    if choice == "yes":
        require_bfloat16(device)
    return {"mixed": True, "channels_last": True} if choice == "yes" else {}


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
    launcher: Launcher | None = None,
) -> pd.DataFrame:
    """`run` for each of the settings, `jobs` at a time; one table, with the settings' position as
    column `run`.

    On the CPU each has its own process, or goes to another launcher. On a GPU, which a task
    does not share, a task is `jobs` runs of one loss, `together` in one process.

    Each keeps its own file in the folder `checkpoints` (`checkpoint_name`), so that the same call
    goes on with whatever is unfinished; what is finished has its rows under results/ there.
    `stop_after` seconds, counted once for all, raise
    `Stopped`. Errors: as `run`; no settings, or the same ones twice; those of a grid.
    """
    names = [checkpoint_name(s) for s in settings]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"settings: expected different runs, at least one, got {names}")
    folder = None if checkpoints is None else Path(checkpoints)
    mark = mark_of(train, test, settings[0])
    lanes = jobs if torch.device(device).type == "cuda" else 1
    local = launchers.Local(jobs) if jobs > 1 and lanes == 1 else launchers.Serial()
    request = Request(
        stack,
        [asdict(s) for s in settings],
        chunk=lanes,
        options={"record": None if record is None else list(record)},
        free={
            "checkpoints": folder and str(folder.resolve()),
            "until": None if stop_after is None else time.time() + stop_after,
            "lanes": lanes,
        },
        shared={"train": train, "test": test},
        inputs={name: mark[name] for name in ("data", "test", "channels", "processes")},
    )
    tasks = Grid(folder and folder / "results", launcher or local, device, progress)
    return tasks.gather([request])[0].table


def stack(
    configs: Sequence[dict[str, Any]],
    train: ImageSet,
    test: ImageSet,
    record: Sequence[int] | None,
    checkpoints: str | None,
    until: float | None,
    lanes: int = 1,
    device: str = "cpu",
    progress: bool = False,
    chunk: int = 1,
) -> pd.DataFrame:
    """Runs for settings as dicts, `lanes` of them `together`. Raises Stopped when the time is over,
    after each had its turn; whatever each has reached is in its checkpoint."""
    tables, finished = [], 0
    settings = [_settings(config) for config in configs]
    for first in range(0, len(settings), lanes):
        some = settings[first : first + lanes]
        paths = [Path(checkpoints) / checkpoint_name(s) for s in some] if checkpoints else None
        try:
            table = together(
                train,
                test,
                some,
                device=device,
                checkpoints=paths,
                record=record,
                stop_after=None if until is None else until - time.time(),
                progress=progress,
            )
        except Stopped:
            continue
        tables.append(table.assign(run=first + table.run))
        finished += len(some)
    if finished < len(settings):
        raise Stopped(
            f"{finished} of {len(settings)} runs are finished; with checkpoints, the same call "
            "goes on"
        )
    return pd.concat(tables, ignore_index=True)


def _settings(config: dict[str, Any]) -> Settings:
    """What `asdict` made a dict of."""
    own: dict[str, Any] = dict(config)
    if not isinstance(own["recipe"], str):
        own["recipe"] = Recipe(**own["recipe"])
    return Settings(**own)
