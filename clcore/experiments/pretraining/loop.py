"""Pretraining runs between their checkpoints: steps, records, saves."""

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from clcore.experiments.pretraining.checkpoint import mark_of, restore, save
from clcore.experiments.pretraining.evaluation import columns, evaluated
from clcore.experiments.pretraining.steps import Ahead, OneByOne
from clcore.experiments.trainer import Settings, Trainer
from clcore.images import processes
from clcore.images.image_sets import ImageSet
from clcore.sweep.checkpoint import Stopped

CHECK_EVERY = 20  # steps between looks at the loss, which make a device wait

log = logging.getLogger(__name__)


class Loop:
    """A run between its checkpoints. pixels: all images on the device, for steps that are drawn
    ahead; without, they are taken one by one."""

    def __init__(
        self,
        train: ImageSet,
        test: ImageSet,
        settings: Settings,
        record: Sequence[int],
        device: torch.device,
        path: Path | None,
        pixels: Tensor | None = None,
    ) -> None:
        self.train, self.test, self.settings, self.record = train, test, settings, record
        self.path, self.mark = path, mark_of(train, test, settings)
        self.trainer = Trainer(settings, train.pixels.shape[1], device)
        self.state = restore(path, self.mark, self.trainer)
        self.saved = self._progress() if path and path.exists() else None
        processes.agreed(False, device)  # all have read before one writes
        self.each = len(train) // settings.batch
        # The sum of an epoch's losses stays on the device, so that a step waits for nothing.
        self.total = torch.tensor(self.state.total, dtype=torch.float64, device=device)
        self.steps: OneByOne | Ahead = (
            OneByOne(self.trainer, train, self.total, self.state.step)
            if pixels is None
            else Ahead(self.trainer, pixels, self.total, self.each)
        )
        self.lap = time.monotonic()
        late = [e for e in record if e * self.each < self.state.step and not self._has(e)]
        if late and not self.state.diverged:
            raise ValueError(
                f"record: the checkpoint {path} is past epochs {late}, which were not recorded; "
                "ask for later ones, or give this run its own checkpoint"
            )

    def _has(self, epoch: int) -> bool:
        return any(row["epoch"] == epoch for row in self.state.rows)

    def _progress(self) -> tuple[int, int]:
        return self.state.step, len(self.state.rows)

    def clock(self) -> None:
        """Count the time until now as training."""
        now = time.monotonic()
        self.state.seconds, self.lap = self.state.seconds + now - self.lap, now

    def save(self) -> None:
        """Write the state, unless it is there."""
        if self.saved == self._progress():
            return
        self.steps.settle()
        self.clock()
        self.state.total = float(self.total)
        save(self.path, self.mark, self.trainer, self.state)
        self.saved = self._progress()

    def _row(self, epoch: int, loss: float, diverged: bool, found: dict[str, Any]) -> None:
        s = self.settings
        row = {"loss_name": s.loss, "seed": s.seed, "epoch": epoch, "loss": loss, **found}
        self.clock()
        self.state.rows.append(row | {"diverged": diverged, "seconds": self.state.seconds})

    def _diverged(self, epoch: int) -> None:
        log.warning("%s, seed %d: diverged in epoch %d", *self._name(), epoch)
        self._row(epoch, math.nan, True, columns(self.trainer))

    def _record(self, epoch: int) -> None:
        self.save()  # what follows may fail; the epoch is not lost
        loss = self.state.losses[epoch - 1] if epoch else math.nan
        found = evaluated(self.trainer, self.train, self.test)
        self.lap = time.monotonic()
        if found is None:
            self._diverged(epoch)
        else:
            self._row(epoch, loss, False, found)
        self.save()

    def due(self) -> bool:
        """Whether the net is to be evaluated before its next step."""
        epoch, within = divmod(self.state.step, self.each)
        return not (within or self.state.diverged or self._has(epoch)) and epoch in self.record

    def goes_on(self) -> bool:
        """Whether there is a step to take; evaluates what is due before it."""
        epoch = self.state.step // self.each
        if self.due():
            self._record(epoch)
        if epoch < self.settings.epochs and not self.state.diverged:
            return True
        self.save()
        return False

    def advance(self) -> None:
        """One step, and what ends with it."""
        state, epoch = self.state, self.state.step // self.each
        self.steps.take(state.step, epoch, self.each)
        state.step += 1
        ended = state.step % self.each == 0
        if not ended and (state.step % CHECK_EVERY or not self.steps.looks):
            return
        self.steps.settle()
        if not _finite(self.trainer, self.total):
            self._diverged(epoch + 1)
        if ended:
            state.losses.append(float(self.total) / self.each)
            self.total.zero_()
            self.steps.settle()

    def _name(self) -> tuple[str, int]:
        return self.settings.loss, self.settings.seed


def go(
    loops: Sequence[Loop],
    stop_after: float | None,
    save_every: float,
    progress: bool,
    whole: bool = False,
) -> None:
    """Train all to their last epochs, a step of each in turn, recording on the way.

    Raises Stopped after so many seconds; with `whole`, as soon as the pace shows that they will not
    be enough.
    """
    trainer, going = loops[0].trainer, list(loops)
    began = saved = time.monotonic()
    pace = _Pace(loops, began)
    hidden = not progress or trainer.rank > 0
    total = sum(loop.settings.epochs * loop.each for loop in loops)
    with tqdm(total=total, initial=sum(loop.state.step for loop in loops), disable=hidden) as bar:
        bar.set_description("; ".join("{}, seed {}".format(*loop._name()) for loop in loops))
        while going := _ready(going):
            for loop in going:
                loop.advance()
            bar.update(len(going))
            # Several processes have several clocks, and asking all of them takes time.
            if trainer.world > 1 and going[0].state.step % CHECK_EVERY:
                continue
            now = time.monotonic()
            over = stop_after is not None and now - began >= stop_after
            if processes.agreed(over, trainer.device):
                for loop in loops:
                    loop.save()
                raise Stopped(f"after {now - began:.1f} s; with a checkpoint, call again")
            if whole and stop_after is not None:
                pace.require(now, began + stop_after)
            if now - saved >= save_every:
                for loop in loops:
                    loop.save()
                saved = now


def _ready(loops: Sequence[Loop]) -> list[Loop]:
    """Those that have a step to take. The time of evaluations is nobody's training."""
    measured = any(loop.due() for loop in loops)
    if measured:
        for loop in loops:
            loop.steps.settle()
            loop.clock()
    going = [loop for loop in loops if loop.goes_on()]
    if measured:
        for loop in loops:
            loop.lap = time.monotonic()
    return going


class _Pace:
    """Seconds of the last epoch of the longest of some runs, the first, which sets up, left out."""

    def __init__(self, loops: Sequence[Loop], now: float) -> None:
        self.longest = max(loops, key=lambda loop: loop.settings.epochs * loop.each)
        self.done, self.last = 0, now

    def require(self, now: float, end: float) -> None:
        """Raise Stopped if at this pace the runs do not end in time."""
        loop = self.longest
        if loop.state.step % loop.each:
            return
        seconds, self.last, self.done = now - self.last, now, self.done + 1
        left = loop.settings.epochs - loop.state.step // loop.each
        if self.done > 1 and now + left * seconds > end:
            raise Stopped(
                f"{left} epochs are left, of {seconds:.2f} s each, but only {end - now:.0f} s"
            )


def _finite(trainer: Trainer, total: Tensor) -> bool:
    """Whether losses, weights and running statistics are numbers."""
    state = trainer.net.state_dict().values()
    largest = torch.stack([t.abs().amax() for t in state if t.is_floating_point()])
    return bool(total.isfinite() & largest.isfinite().all())
