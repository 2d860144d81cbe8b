"""Where the steps of a run come from: one at a time, or drawn ahead and, on a GPU, one CUDA graph.

Both train alike: on the CPU the losses are the same to the bit.
"""

import logging
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.func import vmap

from clcore.experiments.trainer import Trainer
from clcore.images.image_sets import ImageSet, batches, order_of
from clcore.sweep.configs import out_of_memory

BLOCK = 512  # steps that are drawn for at once: 25 kB each at a batch of 128, 200 kB on the way
WARM = 3  # steps before a graph is recorded, in which libraries and the optimiser set themselves up

log = logging.getLogger(__name__)


class OneByOne:
    """Batch and draws of a step are made when it is taken."""

    looks = True  # at the loss within an epoch, too

    def __init__(
        self, trainer: Trainer, train: ImageSet, total: Float[Tensor, ""], start: int
    ) -> None:
        size = trainer.settings.batch
        self.trainer, self.total = trainer, total
        self.source = batches(train, size, trainer.order, trainer.device, start=start)

    def take(self, step: int, epoch: int, each: int) -> None:
        """One update, as `Trainer.step`; its loss is added to the total."""
        self.total += self.trainer.step(next(self.source)[0], step, epoch, each)

    def settle(self) -> None:
        """Wait until net and total are those of the last step."""


class Ahead:
    """All random numbers are drawn for BLOCK steps at once, which leaves of a step a fixed
    list of operations on fixed tensors. Nothing is read back before the end of an epoch.

    On a CUDA device that list is recorded as a graph and replayed on its own stream, in parallel
    with other runs; if none can be recorded, a warning explains why and it is launched.

    pixels: all images, on the device; each: steps of an epoch.
    """

    looks = False

    def __init__(
        self,
        trainer: Trainer,
        pixels: UInt8[Tensor, "n c h w"],
        total: Float[Tensor, ""],
        each: int,
    ) -> None:
        self.trainer, self.pixels, self.total, self.each = trainer, pixels, total, each
        device, self.size = trainer.device, trainer.settings.batch
        self.drawn: dict[str, Tensor] = {}
        self.steps, self.taken = range(0), 0  # drawn for; taken
        self.place = torch.zeros(1, dtype=torch.int64, device=device)  # among those drawn for
        self.number = torch.zeros((), dtype=torch.int64, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream, self.recording = None, device.type == "cuda"
        if self.recording:
            self.stream = torch.cuda.Stream(device)
            self.stream.wait_stream(torch.cuda.current_stream(device))

    def _there(self) -> AbstractContextManager:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def take(self, step: int, epoch: int, each: int) -> None:
        """One update, as `Trainer.step`; its loss is added to the total."""
        with self._there():
            if step not in self.steps:
                self._draw(step, epoch)
            if step % each == 0 or not self.taken:
                self.trainer.begin(step, epoch, each)
            if self.recording and self.graph is None and self.taken >= WARM:
                self._record()
            if self.graph is None:
                self._one()
            else:
                self.graph.replay()
        self.taken += 1

    def settle(self) -> None:
        """Wait until net and total are those of the last step."""
        if self.stream is not None:
            self.stream.synchronize()
            # What is asked of the device from here on, such as a total of zero, is before a step.
            self.stream.wait_stream(torch.cuda.current_stream(self.trainer.device))

    def _draw(self, step: int, epoch: int) -> None:
        """Fill the tensors that steps read, from this step to at most the end of its epoch."""
        first = epoch * self.each
        self.steps = range(step, min(step + BLOCK, first + self.each))
        shape = (self.size, *self.pixels.shape[1:])
        numbers = torch.arange(self.steps.start, self.steps.stop, device=self.place.device)
        drawn = vmap(lambda number: self.trainer.drawn(number, shape))(numbers)
        order = order_of(self.trainer.order, epoch, len(self.pixels))
        rows = order[: self.each * self.size].reshape(self.each, self.size)
        drawn["batch"] = rows[step - first : self.steps.stop - first]
        for name, t in drawn.items():
            if name not in self.drawn:
                self.drawn[name] = t.new_zeros(min(self.each, BLOCK), *t.shape[1:])
            self.drawn[name][: len(t)].copy_(t)
        self.place.zero_()
        self.number.fill_(step)

    def _one(self) -> None:
        """The step at `place`, without a look at any value."""
        params = {name: t.index_select(0, self.place)[0] for name, t in self.drawn.items()}
        pixels = self.pixels.index_select(0, params.pop("batch"))
        self.total += self.trainer.update(pixels, self.number, params)
        self.place += 1
        self.number += 1

    def _record(self) -> None:
        """Record `_one`, which trains nothing."""
        # Gradients are then made anew, in memory of the graph's own.
        self.trainer.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self._one()
        except Exception as error:
            if out_of_memory(error):
                raise
            self.recording = False
            reason = str(error).strip().split("\n")[0]
            log.warning("no CUDA graph: %s: %s; slower", type(error).__name__, reason)
        else:
            self.graph = graph
