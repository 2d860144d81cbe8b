"""Many pretraining runs, side by side."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from joblib import Parallel, delayed

from clcore.experiments.pretraining.checkpoint import checkpoint_name
from clcore.experiments.pretraining.single import run
from clcore.experiments.trainer import Settings
from clcore.images.image_sets import ImageSet
from clcore.sweep.checkpoint import Stopped


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
