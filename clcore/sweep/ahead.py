"""What a run draws for the steps to come, several periods at a time.

The small draws of a step (an order of the samples, words of random bits) are some hundred
operations on a few numbers each, which cost more to call than to do. Made for many steps at once
they are the same numbers and the same few calls.
"""

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_flatten, tree_unflatten

from clcore.sweep.lower import Flat, trace
from clcore.sweep.step import Chunk, Problem, period

STEPS = 16
"""Steps that are drawn for at once: enough to spread the calls, few enough to stay in a cache."""


class Ahead:
    """The draws of `Problem.ahead` for one chunk of runs, step by step; none where it has none.

    They are a function of run and step alone, so that they do not depend on where one begins.
    """

    def __init__(self, problem: Problem, part: Chunk) -> None:
        self.problem, self.part = problem, part
        self.length = len(period(problem, part))
        self.many = max(1, STEPS // self.length)
        self.leaves, self.shape = tree_flatten((part.fixed["keys"], part.fixed["values"]))
        self.block, self.names, self.found = -1, [], []
        self.draw: Flat | None = None

    def _draw(self, periods: Tensor, *leaves: Tensor) -> list[Tensor]:
        keys, values = tree_unflatten(leaves, self.shape)
        static, ahead = self.part.static, self.problem.ahead
        assert ahead is not None
        with self.problem.device:
            drawn = vmap(lambda key, value: vmap(lambda p: ahead(key, p, static | value))(periods))(
                keys, values
            )
        self.names = list(drawn)
        # Runs and steps on the first axes, one step after another.
        return [t.flatten(1, 2) for t in drawn.values()]

    def at(self, step: int) -> dict[str, Tensor]:
        """What all runs have drawn for a step, runs on the first axis."""
        if self.problem.ahead is None:
            return {}
        block, place = divmod(step, self.many * self.length)
        if block != self.block:
            periods = block * self.many + torch.arange(self.many, device=self.problem.device)
            if self.draw is None:
                self.draw = trace(self._draw, [periods, *self.leaves])
            self.block, self.found = block, self.draw(periods, *self.leaves)
        return {n: t[:, place] for n, t in zip(self.names, self.found, strict=True)}
