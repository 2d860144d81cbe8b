"""What is relied on where one node is sent uphill: where it ends or stays, and how far it goes."""

import numpy as np
import torch

from clcore.ledger import Trial, fraction, pooled
from clcore.reference import Array, absolute
from clcore.theory.one_layer import basins, one_layer


def tops(t: Trial, ascents: list[tuple[Array, Array, Array, str]]) -> None:
    """No random start of the plane ends lower, and from where all but a few end, the energy falls
    to both sides: 600 steps reach 2.26 radians, and the first may pass a narrow top. Controls: the
    starts. ascents: points, starts, ends, activation."""
    part = t.defines("ends are maxima", 0.02, measured=fraction, controls=fraction)
    higher = t.defines("ends are higher than starts", 1e-6, controls=pooled)

    def energy(x: Array, w: Array, kind: str, angle: float = 0.0) -> Array:
        c, s = np.cos(angle), np.sin(angle)
        u = w @ np.array([[c, s], [-s, c]]) @ x.T
        return (u if kind == "linear" else np.maximum(u, 0)).var(-1)

    def rise(x: Array, w: Array, kind: str) -> Array:
        sides = (energy(x, w, kind, angle) for angle in (0.01, -0.01))
        return np.maximum(*sides) - energy(x, w, kind)

    for x, start, end, kind in ascents:
        enough = (start * end).sum(-1) > np.cos(2.0)
        part.add(rise(x, end, kind)[enough] > 0)
        part.breaks("starts", rise(x, start, kind) > 0)
        higher.add(energy(x, start, kind) - energy(x, end, kind))
        higher.breaks("the other way round", energy(x, end, kind) - energy(x, start, kind))
    _where_nothing_opens(t)
    _lengths(t)


def _where_nothing_opens(t: Trial) -> None:
    """Where no input opens the gate, the energy is flat and a start stays. Control: linear."""
    part = t.defines("no gate open: it stays", 1e-15)
    x, w = t.stream("nothing opens").uniform(0.5, 1.5, (2, 6, 2))
    start = torch.tensor(-w / np.linalg.norm(w, axis=-1, keepdims=True))
    for kind in ("relu", "linear"):
        end = basins.climb(one_layer.samples(torch.tensor(x)), start, kind, steps=50)
        off = absolute(end, start)
        part.add(off) if kind == "relu" else part.breaks("linear", off)


def _lengths(t: Trial) -> None:
    """A linear node far from both ends keeps its direction: its first steps add up to the angle
    between it and its start. Lengths fall by one factor to the last. Control: all of one length."""
    part = t.defines("lengths of steps", 1e-12)
    x = t.stream("lengths").uniform(0.5, 1.5, (6, 1)) * [[2.0, 1.0]]
    x = np.concatenate([x, -x])
    start = torch.tensor([[np.cos(2.0), np.sin(2.0)]])
    world = one_layer.samples(torch.tensor(x))
    for steps in (1, 2, 3, 5):
        end = basins.climb(world, start, "linear", steps, 0.02, 0.001)
        angle = torch.acos((start * end).sum(-1)).numpy()
        lengths = np.geomspace(0.02, 0.001, steps)
        part.add(np.abs(angle - np.arctan(lengths).sum()))
        if steps > 1:
            part.breaks("one length", np.abs(angle - steps * np.arctan(0.02)))
