"""A pretraining run between its checkpoints: steps, records, saves."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from clcore.experiments.pretraining.checkpoint import mark_of, restore, save
from clcore.experiments.pretraining.evaluation import columns, evaluated
from clcore.experiments.trainer import Settings, Trainer
from clcore.images import processes
from clcore.images.image_sets import ImageSet, batches
from clcore.sweep.checkpoint import Stopped

CHECK_EVERY = 20  # steps between looks at the loss, which make a device wait

log = logging.getLogger(__name__)


class Loop:
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
        self.path, self.mark = path, mark_of(train, test, settings)
        self.trainer = Trainer(settings, train.pixels.shape[1], device)
        self.state = restore(path, self.mark, self.trainer)
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
        save(self.path, self.mark, self.trainer, self.state)
        self.saved = self._progress()

    def _row(self, epoch: int, loss: float, diverged: bool, found: dict[str, Any]) -> None:
        s = self.settings
        row = {"loss_name": s.loss, "seed": s.seed, "epoch": epoch, "loss": loss, **found}
        self._clock()
        self.state.rows.append(row | {"diverged": diverged, "seconds": self.state.seconds})

    def _diverged(self, epoch: int) -> None:
        log.warning("%s, seed %d: diverged in epoch %d", *self._name(), epoch)
        self._row(epoch, math.nan, True, columns(self.trainer))

    def _record(self, epoch: int) -> None:
        self._save()  # what follows may fail; the epoch is not lost
        loss = self.state.losses[epoch - 1] if epoch else math.nan
        found = evaluated(self.trainer, self.train, self.test)
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
        """Train to the last epoch, recording on the way. Errors: Stopped, after so many seconds."""
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


def _finite(trainer: Trainer, total: Tensor) -> bool:
    """Whether losses, weights and running statistics are numbers."""
    state = trainer.net.state_dict().values()
    largest = torch.stack([t.abs().amax() for t in state if t.is_floating_point()])
    return bool(total.isfinite() & largest.isfinite().all())
