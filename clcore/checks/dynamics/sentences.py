"""Checks of what ncl says of its theorems in its abstract, introduction and overview: training.

Losses are exact: all latents and masks.
"""

import numpy as np
import torch
from torch import Tensor

from clcore.checks.dynamics.srelu import Warm, from_identity, warm
from clcore.checks.dynamics.srelu_code import ends
from clcore.ledger import Trial, check, strict, typical, worst
from clcore.reference import Array
from clcore.theory.sparse import srelu_dynamics as sd

# --------------------------------------------------------------------- what training can remedy


def _scaled(W: Tensor, norms: str) -> Tensor:
    return W / W.norm(dim=-1 if norms == "rows" else -2, keepdim=True) if norms != "none" else W


def trained(
    w: Warm,
    norms: str = "rows",
    decay: float = 1.0,
    together: bool = False,
    head: bool = False,
    rounds: int = 12,
    steps: int = 16,
) -> Array:
    """[draws]: how far the directions of all rows end from I, by autograd of Eq. 13.

    Theorem 3's loop, its half-rounds of `steps` steps; `together`: both nets in every step instead;
    `head`: behind the net that moves a predictor, trained with it, its rows scaled, as in Eq. 7;
    `decay`: what the weights are multiplied by in each step.
    """
    online, target, b_online, b_target, alpha, kappa = w.torch()
    seen = sd.views(*sd.latents(kappa, online.shape[-1]), alpha)
    nets, biases = [online, target], (b_online, b_target)
    P = torch.eye(online.shape[-1], dtype=online.dtype).repeat(len(online), 1, 1)
    eta = ((5.0 if decay == 1 else 0.5) / (2 * alpha**2 * kappa))[:, None, None]

    def slopes(k: int, head_now: Tensor) -> tuple[Tensor, ...]:
        own, turn = nets[k].clone().requires_grad_(), head_now.clone().requires_grad_()
        u = sd.outputs(own, biases[k], seen) @ turn.mT
        v = sd.outputs(nets[1 - k], biases[1 - k], seen)
        value = 2 - 2 * torch.einsum("rkn,rkn,rk->r", u, v, seen.mass)
        return torch.autograd.grad(value.sum(), [own, turn])

    for step in range(2 * rounds * steps):
        moving = (0, 1) if together else (step // steps % 2,)
        found = [slopes(k, P) for k in moving]
        for k, (slope, turn) in zip(moving, found, strict=True):
            nets[k] = _scaled(decay * nets[k] - eta * slope, norms)
            if head:
                P = _scaled(P - eta * turn, "rows")
    return from_identity(torch.stack([_scaled(W, "rows") for W in nets]).numpy())


def _random_rows(rng: np.random.Generator, w: Warm) -> Warm:
    rows = rng.standard_normal((2, *w.online.shape))
    rows = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return w._replace(online=rows[0], target=rows[1])


def _linear(w: Warm) -> Warm:
    return w._replace(b_online=0 * w.b_online, b_target=0 * w.b_target)


def _turns(online: Array, target: Array, b: Array, b2: Array, alpha: float, kappa: float) -> float:
    """`trained` of one start once more, by `ends` of 20 rounds."""
    for _ in range(20):
        online = ends(target, b2, online, b, alpha, kappa)
        target = ends(online, b, target, b2, alpha, kappa)
    return max(np.abs(W - np.eye(len(W))).max() for W in (online, target))


@check("ncl/rem14")
def rem14(t: Trial) -> None:
    """Where Theorem 3's loop ends: at the truth, with a predictor and without.

    Controls: no bias, random rows; if it were tied to a predictor, without one it would end away
    from the truth: there the controls are the loop with a predictor and the truth itself.
    """
    w = warm(t.rng, max(4, min(t.draws, 20)), 3, 0.3)
    without, head = trained(w, rounds=20), trained(w, head=True, rounds=36)
    remedy = t.part("training can remedy it", 1e-9, controls=typical)
    tied = t.part("tied to a predictor", 0.01, ">=", controls=worst)
    right = t.corrected("tied to a predictor", 1e-9, controls=typical, draws=len(without))
    remedy.add(without)
    tied.add(without).fails_by([_turns(*row) for row in zip(*w, strict=True)])
    tied.breaks("with a predictor", head).breaks("the truth", 0.0)
    right.add(without, head)
    linear, scattered = trained(_linear(w)), trained(_random_rows(t.rng, w))
    for part in (remedy, right):
        part.breaks("no bias", linear).breaks("random rows", scattered)


@check("ncl/rem16")
def rem16(t: Trial) -> None:
    """Theorem 3's loop with its choices changed: which changes keep it from the truth.

    One at a time, the non-linearity and the norm; controls: the loop as it is; columns scaled for
    rows; both nets in every step; a weight decay of 0.9 in the place of the norm. The algorithm
    where the norm is gone: half-rounds over both nets at once, net by net as many steps. Control:
    the same with the norm.
    """
    w = warm(t.rng, max(6, min(t.draws, 20)), 3, 0.3)
    same = {
        "as in Theorem 3": trained(w),
        "columns for rows": trained(w, norms="columns"),
        "both nets in every step": trained(w, together=True),
    }
    decays = trained(w, norms="none", decay=0.9, together=True)
    halves = trained(w, norms="none", rounds=8, steps=8)
    for name, found in (
        ("non-linearity: none", trained(_linear(w))),
        ("normalisation: none", halves),
    ):
        part = t.part(name, 1e-5, ">=", measured=typical).add(found)
        for what, errors in same.items():
            part.breaks(what, errors, by=strict)
        part.breaks("weight decay for the norm", decays, by=typical)
    at_once = trained(w, norms="none", rounds=4, steps=8, together=True)
    part = t.part("training algorithm, without the norm", 3.0, ">=", measured=typical)
    part.add(_over(halves, at_once))
    kept = _over(same["as in Theorem 3"], same["both nets in every step"])
    part.breaks("rows normalised", kept, by=typical)
    part.says(halves=np.median(halves), at_once=np.median(at_once))


def _over(one: Array, two: Array) -> Array:
    """Errors over others; below 1e-8 all are alike."""
    return np.maximum(one, 1e-8) / np.maximum(two, 1e-8)
