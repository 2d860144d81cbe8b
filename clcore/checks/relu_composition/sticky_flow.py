"""The library's flow of one hidden ReLU node, step by step in numpy (acl Sec. 5.2)."""

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Trial, typical
from clcore.reference import Array, mixture, relative, tensors
from clcore.theory.relu import relu_two_layer


def steps_by_hand(t: Trial) -> None:
    """One step of the library's flow in numpy, from w with entries at 0 that X pushes up, and with
    entries that the step takes below 0. Controls: no mask, no clip."""
    part = t.defines("clcore's step", 1e-12, controls=typical)
    rate, count = 0.3, 5 * t.draws
    w = np.abs(t.rng.standard_normal((count, 4))) * [1.0, 1.0, 0.0, 0.05]
    w /= np.linalg.norm(w, axis=-1, keepdims=True)
    X = t.rng.standard_normal((count, 4, 4))
    X = X + X.swapaxes(-1, -2)
    X[:, 2] = X[:, :, 2] = 2.0  # up, against the mask
    X[:, 3] = X[:, :, 3] = -4.0  # and down, beyond 0

    def step(mask: bool, clip: bool) -> Array:
        push = np.einsum("bij,bj->bi", X, w) * ((w > 0) if mask else 1)
        moved = w + rate * (push - (w * push).sum(-1, keepdims=True) * w)
        moved = np.maximum(moved, 0) if clip else moved
        return moved / np.linalg.norm(moved, axis=-1, keepdims=True)

    _follows_again(t)
    _fixed_again(t)
    own = step(True, True)
    part.add(relative(relu_two_layer.sticky_step(*tensors(X, w), rate), own))
    part.breaks("no mask", relative(step(False, True), own))
    part.breaks("no clip", relative(step(True, False), own))
    _unit_vectors(t)


def _unit_vectors(t: Trial) -> None:
    """Which unit vectors count as some e_m, up to a tolerance. Control: those that do not."""
    part = t.defines("what counts as one e_m", 0.0)
    for modes, tol in ((2, 1e-6), (3, 1e-6), (5, 1e-3)):
        e = np.concatenate([np.eye(modes), -np.eye(modes)])
        for far in (0.0, 0.5, 2.0, 1.0 / tol):
            w = e + far * tol * np.roll(e, 1, -1)
            unit = w / np.linalg.norm(w, axis=-1, keepdims=True)
            found = relu_two_layer.one_hot(torch.from_numpy(unit), tol).numpy()
            part.add(np.abs(found - float(far < 1)))
            if far > 1:
                part.breaks("with a second entry", 1.0 - found)
        short = relu_two_layer.one_hot(torch.from_numpy((1 - 2 * tol) * e), tol).numpy()
        part.add(short.astype(float))


def _follows_again(t: Trial) -> None:
    """The library's flow whose weights follow w, again in numpy; of views a tenth as large, where
    X is below 1, and of views that are 0, where w stays. Controls: weights of the start; |X| taken
    to be at least 1."""
    part = t.defines("clcore's flow where the weights follow", 1e-9, controls=typical)
    small = t.defines("clcore's flow where the weights follow, X small or 0", 1e-9)
    rng, tau, rate, steps = t.stream("follows"), 0.3, 0.1, 25
    x, x2 = mixture.field(rng, min(t.draws, 20), 10, 3)
    first = mixture.starts(rng, len(x), 3)
    functions = ref.table1(tau, 0.0)[0][1:]

    def matrix(w: Array, scale: float) -> Array:
        z, z2 = (scale * v @ w[..., None] for v in (x, x2))
        alpha = ref.importance(*ref.distances(z, z2), *functions)
        return mixture.covariance(alpha, scale * x, scale * x2)

    def ends(follows: bool, scale: float = 1.0, least: float = 0.0) -> Array:
        w = first
        for _ in range(steps):
            X = matrix(w if follows else first, scale)
            w = _moved(X, w, rate / _size(X, least))
        return w

    pair = losses.infonce_pair(tau, 0.0)

    def found(scale: float = 1.0) -> Array:
        views = tensors(scale * x, scale * x2, first)
        return relu_two_layer.loss_driven_limit(*views, pair, rate, steps)[0].numpy()

    part.add(relative(found(), ends(True)))
    part.breaks("weights of the start", relative(found(), ends(False)))
    small.add(relative(found(0.1), ends(True, 0.1)), relative(found(0.0), first))
    small.breaks("|X| at least 1", relative(found(0.1), ends(True, 0.1, 1.0)))


def _size(X: Array, least: float = 0.0) -> Array:
    """|X|, 1 where it is 0, [draws, 1]."""
    size = np.sqrt((X**2).sum((-1, -2)))[:, None]
    return np.maximum(np.where(size > 0, size, 1.0), least)


def _moved(X: Array, w: Array, pace: Array) -> Array:
    """One sticky step along the unit sphere."""
    push = np.einsum("bij,bj->bi", X, w) * (w > 0)
    w = np.maximum(w + pace * (push - (w * push).sum(-1, keepdims=True) * w), 0)
    return w / np.sqrt((w**2).sum(-1, keepdims=True))


def _ends(X: Array, w: Array, **how: float) -> Array:
    return relu_two_layer.sticky_limit(*tensors(X, w), **how).numpy()


def _fixed_again(t: Trial) -> None:
    """The library's flow of a fixed X, again in numpy, for X small and large, with any multiple of
    the identity added, which moves nothing, alone or not. Controls: |X| with it, |X| taken to
    be at least 1."""
    part = t.defines("clcore's flow of a fixed matrix", 1e-9, controls=typical)
    rng, rate, steps, modes = t.stream("fixed"), 0.2, 12, 4
    count = min(t.draws, 40)
    X = rng.standard_normal((count, modes, modes))
    X = X + X.swapaxes(-1, -2)
    level = X - np.trace(X, axis1=-2, axis2=-1)[:, None, None] / modes * np.eye(modes)
    first, shift = mixture.starts(rng, count, modes), rng.uniform(3, 6, (count, 1, 1))
    for scale in (0.0, 0.01, 1.0, 100.0):
        moved = scale * (X + shift * np.eye(modes)) if scale else shift * np.eye(modes)
        again, short = first, first
        for _ in range(steps):
            again = _moved(scale * level, again, rate / _size(scale * level))
            wrong = scale * level if scale < 1 else moved
            short = _moved(wrong, short, rate / _size(wrong, float(scale < 1)))
        ours = _ends(moved, first, rate=rate, steps=steps)
        part.add(relative(ours, again))
        if scale:
            name = "|X| at least 1" if scale < 1 else "the multiple counts"
            part.breaks(name, relative(ours, short))
    part.add(np.abs(_ends(X, 0 * first, steps=2)).max(-1))  # what has no direction stays 0
