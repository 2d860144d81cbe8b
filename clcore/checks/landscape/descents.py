"""The descent and the measure by which ncl Theorem 1's minimisers are looked for, by loops."""

from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from clcore.ledger import Trial, pooled
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml


def by_loops(t: Trial) -> None:
    """Both, against a loop over runs. Controls: no step undone; the mean difference."""
    _steps(t)
    _gaps(t)


def _unit(W: Array) -> Array:
    return W / np.sqrt((W**2).sum(0))


def _run(W: Array, A: Array, B: Array, steps: int, rate: float, undo: bool = True) -> Array:
    """One run on sum A (W - B)^2: along the sphere of every column, longer steps after each that
    does not raise the loss, half as long after one that does, which is undone."""

    def loss(V: Array) -> float:
        return (A * (V - B) ** 2).sum()

    W = _unit(W)
    for _ in range(steps):
        slope = 2 * A * (W - B)
        tried = _unit(W - rate * (slope - W * (W * slope).sum(0)))
        better = loss(tried) <= loss(W)
        W, rate = (tried if better or not undo else W), rate * (1.2 if better else 0.5)
    return W


def _steps(t: Trial) -> None:
    part, rng = t.defines("descent run by run", 1e-10, controls=pooled), t.stream("run by run")
    A, B = rng.uniform(0.5, 2, (4, 3)), rng.standard_normal((4, 3))
    starts = rng.standard_normal((min(t.draws, 10), 4, 3))
    slope, to = tensors(A, B)

    def loss(W: Tensor) -> Tensor:
        return (slope * (W - to) ** 2).sum((-1, -2))

    for steps, rate in ((1, 0.01), (4, 1.0), (6, 0.3)):
        ours = ml.descend(loss, *tensors(starts), steps, rate).numpy()
        for found, W in zip(ours, starts, strict=True):
            part.add(np.abs(found - _run(W, A, B, steps, rate)).max())
            if rate == 1:
                far = _run(W, A, B, steps, rate, undo=False)
                part.breaks("no step undone", np.abs(found - far).max())


def _gaps(t: Trial) -> None:
    part, rng = t.defines("how far from a permutation", 0.0, controls=pooled), t.stream("gaps")
    for d in (2, 3, 4):
        every = np.eye(d)[list(permutations(range(d)))]
        noise = (
            rng.standard_normal((5, 6, d, d))
            * np.array([0.01, 0.1, 0.3, 0.6, 1])[:, None, None, None]
        )
        W = every[rng.integers(len(every), size=(5, 6))] + noise
        W[0, 0, :, 1] = W[0, 0, :, 0]  # two columns on one row
        ours = ml.permutation_gap(torch.from_numpy(W)).numpy()
        for k in np.ndindex(5, 6):
            tops = [P for P in every if (W[k][P == 1] == W[k].max(0)[P.argmax(1)]).all()]
            right = np.abs(W[k] - tops[0]).max() if tops else 1.0
            part.add(abs(ours[k] - right))
            if tops:
                part.breaks("the mean difference", abs(ours[k] - np.abs(W[k] - tops[0]).mean()))
