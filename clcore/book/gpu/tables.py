"""Image tables at full size, 100 epochs each, as a step of `clcore.book.gpu`: whole runs only.

One call to `together` trains a batch: all losses of a table from one seed, so that a table
has no gaps whenever the time ends. Settings are those of the chapters' size "full-100".
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from clcore._files import write_atomic, write_json
from clcore.book.provenance import made
from clcore.checks.dual_networks.residue import images as ddn
from clcore.checks.minmax import printed_cells as acl
from clcore.experiments import pretraining
from clcore.experiments.pretraining import Settings
from clcore.images import augmentations as aug
from clcore.images import image_sets
from clcore.images.image_sets import ImageSet
from clcore.sweep import Stopped

if TYPE_CHECKING:
    from clcore.book.gpu import Plan

DATASET, EPOCHS = "cifar10-jpeg", 100
RESERVE = 5.0  # seconds a run for its evaluation at the end, which the pace of epochs leaves out
COLUMNS = (
    *("loss_name", "seed", "epoch", "loss", "linear", "knn", "converged", "diverged", "seconds"),
    *("dataset", "label", "images", "width", "classes"),
)
TINY = {"width": 4, "hidden": 8, "out": 8, "stem": "small", "images": 96, "batch": 32}


@dataclass(frozen=True)
class Batch:
    """Runs of one seed. chapter: whose record they are; record: epochs that are evaluated."""

    chapter: str
    losses: tuple[str, ...]
    seed: int
    record: tuple[int, ...]

    def settings(self, **own: Any) -> list[Settings]:
        """A run a loss."""
        return [Settings(loss=loss, seed=self.seed, **own) for loss in self.losses]


def batches() -> Iterator[Batch]:
    """In the order in which they are trained: acl Table 2 with three seeds, then five; ddn Tables 2
    and 3, with the two losses between them."""
    for seed in range(5):
        yield Batch("1-minmax-images", tuple(acl.ROWS), seed, (0, EPOCHS))
    for seed in range(5):
        losses = (*ddn.LOSSES, *ddn.BETWEEN)
        yield Batch("4-dual-networks-images", losses, seed, (0, EPOCHS // 5, EPOCHS))


def shared(device: str, compile: bool = False) -> dict[str, Any]:
    """Settings of all runs on this device."""
    fast = pretraining.faster("auto", device) | {"compile": compile}
    return {"epochs": EPOCHS, "recipe": aug.RECIPES["cifar10"]} | fast


def run(plan: "Plan") -> None:
    """As many batches as the time allows; after each, the table and its provenance are written:
    <chapter>.csv and .json, to go to data/recorded/<chapter>/cifar10-jpeg-full-100."""
    began = time.monotonic()
    train, test, own = _data(plan)
    parts: dict[str, list[pd.DataFrame]] = {}
    longest = 0.0
    for batch in batches():
        what = f"{batch.chapter}, seed {batch.seed}, {len(batch.losses)} runs"
        start, left = time.monotonic(), plan.left() - RESERVE * len(batch.losses)
        if left < longest or (plan.rehearse and batch.seed):
            continue
        try:
            table = pretraining.together(
                train,
                test,
                batch.settings(**own),
                device=plan.device,
                record=sorted({min(epoch, own["epochs"]) for epoch in batch.record}),
                stop_after=max(left, 0.01),
                whole=True,
                progress=False,
                ahead=True,
            )
        except Stopped as stopped:
            seconds = time.monotonic() - start
            plan.found("tables", what, f"not in this time: {stopped}", seconds, False)
            break
        seconds = time.monotonic() - start
        longest = max(longest, seconds)
        pace = table.seconds.max() / len(batch.losses) / own["epochs"]
        parts.setdefault(batch.chapter, []).append(_as_recorded(table, train, own))
        _write(plan, batch, pd.concat(parts[batch.chapter]), own, start - began + seconds)
        best = 100 * table[table.epoch == table.epoch.max()].linear.mean()
        words = f"{pace:.3f} s a run and epoch, mean accuracy {best:.1f} %"
        plan.found("tables", what, words, seconds, True)
    if not parts:
        plan.found("tables", "all", "no batch was finished", time.monotonic() - began, False)


def _data(plan: "Plan") -> tuple[ImageSet, ImageSet, dict[str, Any]]:
    """Both splits and the settings."""
    name = "digits" if plan.rehearse else DATASET
    own = shared(plan.device, plan.compile)
    if plan.rehearse:
        own |= TINY | {"epochs": 1, "recipe": aug.Recipe(8, jitter=(0.4, 0.4, 0.0, 0.0))}
    return image_sets.load(name), image_sets.load(name, "test"), own


def _as_recorded(table: pd.DataFrame, train: ImageSet, own: dict[str, Any]) -> pd.DataFrame:
    count = own.get("images", len(train))
    width = own.get("width", Settings.width)
    more = {"dataset": train.name, "label": train.label, "images": count, "width": width}
    return table.assign(**more, classes=len(train.classes))[list(COLUMNS)]


def _write(
    plan: "Plan", batch: Batch, table: pd.DataFrame, own: dict[str, Any], seconds: float
) -> None:
    from clcore.book.gpu import machine

    csv = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    about = machine(plan.device)
    size = {"dataset": DATASET, "size": "full-100", "fast": "auto", "compile": plan.compile}
    said = {
        "chapter": batch.chapter,
        "profile": "paper",
        "seed": 0,
        "machine": about["card"],
        "seconds": round(seconds, 1),
        "side_by_side": len(batch.losses),
        **about,
        **made(),
        "parameters": size | {"epochs": own["epochs"]},
    }
    write_json(plan.out / f"{batch.chapter}.json", said)
    write_atomic(plan.out / f"{batch.chapter}.csv", csv.encode())
