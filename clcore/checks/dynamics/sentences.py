"""Checks of ncl's sentences on its theorems in abstract, introduction and overview: training.

Losses are exact: all latents and masks.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from clcore.checks.dynamics.srelu import from_identity
from clcore.checks.dynamics.srelu_push import ends
from clcore.checks.dynamics.srelu_starts import Warm, random_rows, unbiased, warm
from clcore.ledger import Trial, check, strict, typical, worst
from clcore.reference import Array, tensors
from clcore.theory.sparse import srelu_dynamics as sd

# --------------------------------------------------------------------- what training can remedy


def _scaled(W: Tensor, norms: str) -> Tensor:
    return W / W.norm(dim=-1 if norms == "rows" else -2, keepdim=True) if norms != "none" else W


def trained_nets(
    w: Warm,
    norms: str = "rows",
    decay: float = 1.0,
    together: bool = False,
    head: bool = False,
    rounds: int = 12,
    steps: int = 16,
    rate: float = 5.0,
) -> Array:
    """[two, draws, d, d]: where the directions of all rows end, by autograd of Eq. 13.

    Theorem 3's loop, its half-rounds of `steps` steps; `together`: both nets in every step instead;
    `head`: behind the net that moves a predictor, trained with it, its rows scaled, as in Eq. 7;
    `decay`: the factor of the weights in each step, a tenth as long as `rate` if not 1.
    """
    online, target, b_online, b_target, alpha, kappa = tensors(*w)
    seen = sd.views(*sd.latents(kappa, online.shape[-1]), alpha)
    nets, biases = [online, target], (b_online, b_target)
    P = torch.eye(online.shape[-1], dtype=online.dtype).repeat(len(online), 1, 1)
    eta = ((rate if decay == 1 else rate / 10) / (2 * alpha**2 * kappa))[:, None, None]

    def slopes(k: int, other: Tensor, head_now: Tensor) -> tuple[Tensor, ...]:
        """Of the loss by net k and by the predictor, for the outputs of the other net."""
        free = [nets[k].clone().requires_grad_()]
        u = sd.outputs(free[0], biases[k], seen)
        if head:
            free.append(head_now.clone().requires_grad_())
            u = u @ free[1].mT
        value = 2 - 2 * torch.einsum("rkn,rkn,rk->r", u, other, seen.mass)
        return torch.autograd.grad(value.sum(), free)

    held: list[Tensor] = []
    for step in range(2 * rounds * steps):
        moving = (0, 1) if together else (step // steps % 2,)
        if together or step % steps == 0:  # what moves does not change the other net's outputs
            held = [sd.outputs(nets[1 - k], biases[1 - k], seen) for k in moving]
        found = [slopes(k, other, P) for k, other in zip(moving, held, strict=True)]
        for k, (slope, *turn) in zip(moving, found, strict=True):
            nets[k] = _scaled(decay * nets[k] - eta * slope, norms)
            if head:
                P = _scaled(P - eta * turn[0], "rows")
    return torch.stack([_scaled(W, "rows") for W in nets]).numpy()


def trained(w: Warm, **changes: Any) -> Array:
    """[draws]: how far `trained_nets` end from I."""
    return from_identity(trained_nets(w, **changes))


def _beside(*worlds: Warm) -> Warm:
    """Several sets of starts as one, to be trained together; runs do not see each other."""
    return Warm(*(np.concatenate(parts) for parts in zip(*worlds, strict=True)))


def _turns(online: Array, target: Array, b: Array, b2: Array, alpha: float, kappa: float) -> float:
    """How far one start ends from I: after 20 rounds in which each net goes to its limit against
    the other, the entry of both that is farthest off."""
    for _ in range(20):
        online = ends(target, b2, online, b, alpha, kappa)
        target = ends(online, b, target, b2, alpha, kappa)
    return max(np.abs(W - np.eye(len(W))).max() for W in (online, target))


@check("ncl/rem14")
def rem14(t: Trial) -> None:
    """Training can remedy bad optima, given a careful choice of predictor (Sec. 1; Sec. 5).

    Given   Theorem 3's loop, in which each network goes to its limit against the other, rows of
            norm 1: the exact loss, warm starts, d = 3, with a predictor and without.
    Claim   (1) Training can remedy bad optima: the loop ends at the truth, I. (2) This is tied to a
            predictor: without one the loop ends 0.01 or more from the truth.
    Fails   (2): without a predictor it ends at I. Corrected: (3) it ends nearer than 0.01 with one
            and without. Controls: (1), (3) no bias, random rows; (2) a predictor, the truth itself.
    """
    w = warm(t.rng, max(4, min(t.draws, 20)), 3, 0.3)
    without, with_predictor = trained(w, rounds=20), trained(w, head=True, rounds=36)
    slow = with_predictor >= 0.01  # one start in ten thousand takes hundreds of rounds
    if slow.any():
        rest = Warm(*(x[slow] for x in w))
        with_predictor[slow] = trained(rest, head=True, rounds=600)
    remedy = t.part("training can remedy it", 1e-9, controls=typical)
    tied = t.part("tied to a predictor", 0.01, ">=", controls=worst)
    right = t.corrected("tied to a predictor", 0.01, controls=typical, draws=len(without))

    # (1) Distance of the ends from the truth.
    remedy.add(without)

    # (2) The same distance must be large without a predictor; by a second run of the loop, too.
    tied.add(without).fails_by([_turns(*row) for row in zip(*w, strict=True)])
    tied.breaks("with a predictor: ends at the truth, too", with_predictor)
    tied.breaks("the truth itself", from_identity(np.broadcast_to(np.eye(3), (2, 1, 3, 3))))

    # (3) Corrected: both kinds of ends are at the truth; with a predictor some still approach it.
    right.add(without, with_predictor)

    # (1), (3) Nets that do not get there: linear ones, and those from random rows.
    linear, scattered = np.split(trained(_beside(unbiased(w), random_rows(t.rng, w))), 2)
    for part in (remedy, right):
        part.breaks("no bias", linear).breaks("random rows", scattered)
    tied.says(linear=np.median(linear), scattered=np.median(scattered))


def _least_cosine(nets: Array) -> float:
    """The least Minimum max-cosine (Eq. 11) of all these nets; their rows have norm 1."""
    return float(np.abs(nets).max(-2).min())


@check("ncl/rem16")
def rem16(t: Trial) -> None:
    """Non-contrastive learning is sensitive to algorithm, non-linearity, normalisation (Sec. 2.2).

    Given   Theorem 3's loop, in which each network goes to its limit against the other, rows of
            norm 1, from warm starts, its choices changed; medians of the share of a start's error
            that is left.
    Claim   (1) Without the non-linearity half is left or more; (2) without the norm a tenth or
            more; (3) without the norm, half-rounds leave three times what both nets at once do, or
            more.
    Fails   (1), (2) for the loop as it is, columns for rows, both nets in every step, and without a
            norm for both nets at once, with a weight decay of 0.9 or not, all of which leave less;
            (1) for no norm; (3) with rows normalised.

    Half-rounds run until directions converge, as in the theorem.
    """
    w = warm(t.rng, max(6, min(t.draws, 20)), 3, 0.3)
    rows = np.stack([W / np.linalg.norm(W, axis=-1, keepdims=True) for W in (w.online, w.target)])
    start, cosines = from_identity(rows), [_least_cosine(rows)]

    def left(w: Warm, **changes: Any) -> Array:
        nets = trained_nets(w, **changes)
        cosines.append(_least_cosine(nets))
        return from_identity(nets) / np.tile(start, len(w.online) // len(start))

    free = {"norms": "none", "rounds": 2, "steps": 64}
    once = {"norms": "none", "rounds": 4, "steps": 8, "together": True}
    # The same four ways to train, with the non-linearity and without.
    both = _beside(w, unbiased(w))
    ways = [left(both, **changes) for changes in ({}, {"together": True}, free, once)]
    (loop, every_step, halves, at_once), lines = zip(*(np.split(x, 2) for x in ways), strict=True)
    same = {
        "as in Theorem 3": loop,
        "columns for rows": left(w, norms="columns"),
        "both nets in every step": every_step,
    }
    decays = left(w, norms="none", decay=0.9, together=True)
    # (1) Without the non-linearity, trained in any of the four ways.
    linear = t.part("non-linearity: none", 0.5, ">=", measured=typical)
    linear.add(np.minimum.reduce(lines))  # the most that any of them gains
    # (2) Without the normalisation, one net and then the other.
    unscaled = t.part("normalisation: none", 0.1, ">=", measured=typical).add(halves)
    for part in (linear, unscaled):
        for what, errors in same.items():
            part.breaks(what, errors, by=strict)
        part.breaks("weight decay for the norm", decays, by=typical)
        part.breaks("no norm, both nets at once", at_once, by=typical)
    linear.breaks("no norm", halves, by=typical)
    # (3) What half-rounds leave over what both nets at once leave.
    part = t.part("training algorithm, without the norm", 3.0, ">=", measured=typical)
    part.add(_over(halves, at_once))
    kept = _over(same["as in Theorem 3"], same["both nets in every step"])
    part.breaks("rows normalised", kept, by=typical)
    longer = left(w, rate=50.0, **once)
    part.says(**{k: np.median(v) for k, v in {"at_once": at_once, "longer": longer}.items()})
    short = left(w, norms="none", rounds=8, steps=8)
    unscaled.says(short=np.median(short))
    linear.says(least=min(cosines))


def _over(one: Array, two: Array) -> Array:
    """Errors over others; below 1e-6 all are alike."""
    return np.maximum(one, 1e-6) / np.maximum(two, 1e-6)
