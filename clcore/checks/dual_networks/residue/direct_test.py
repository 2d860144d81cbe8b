"""Residue and operator in the gradient of a net, as Sec. 7 of ddn measures them."""

from functools import partial

import numpy as np
import pandas as pd
import torch

from clcore.checks.dual_networks import worlds as dw
from clcore.experiments import residue_share
from clcore.ledger import Trial, check, typical, worst
from clcore.losses import anchors
from clcore.reference import Array, relative, tensors
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co

DOMINANT = 0.5  # the residue at most half of the operator's part: then they are within 30 degrees


def tidy(shares: residue_share.Shares, **columns: float) -> pd.DataFrame:
    """One row a recorded step, run and layer: step, seed, layer, ratio, overlap, cosine, reversed,
    loss, spread, and the given columns."""
    steps, runs, layers = shares.ratio.shape
    at = np.indices((steps, runs, layers)).reshape(3, -1)
    table = pd.DataFrame({"step": np.array(shares.steps)[at[0]], "seed": at[1], "layer": at[2] + 1})
    for name in ("ratio", "overlap", "cosine", "reversed"):
        table[name] = getattr(shares, name).flatten().numpy()
    for name in ("loss", "spread"):
        table[name] = getattr(shares, name).numpy()[at[0], at[1]]
    return table.assign(**columns)


def medians(shares: pd.DataFrame) -> pd.DataFrame:
    """Medians over runs, one row per setting (tied, scale of the crops), step and layer."""
    names = ["ratio", "overlap", "cosine", "reversed", "loss", "spread"]
    return shares.groupby(["tied", "scale", "step", "layer"])[names].median().reset_index()


def dominance(t: Trial, shares: pd.DataFrame) -> None:
    table = medians(shares)
    name, runs = "direct test: the operator dominates", shares.seed.nunique()
    part = t.part(name, DOMINANT, controls=worst, draws=runs, evidence="partial")
    part.add(table.ratio)
    part.breaks("operator's sign turned", table.reversed)
    last = table.step.max()
    start, end = (table[table.step == step].groupby("scale").ratio.max() for step in (0, last))
    each = (
        f"{start[scale]:.2f} to {end[scale]:.2f} (crops of area {scale:g} to 1)"
        for scale in start.index
    )
    cosine = table[table.step == last].groupby("scale").cosine.min().min()
    part.says(ratios=", ".join(each), cosine=cosine)


@check("ddn/rem13")
def rem13_split(t: Trial) -> None:
    """The operator dominates the residue; gradient noise helps slightly (Sec. 7).

    Given   ReLU nets of three layers in finite worlds, InfoNCE of normalised outputs, tau = 1/2.
    Claim   The direct test measures what it says: theta vec(W_l) as a difference of two gradients
            by autograd is the residue's operator on vec(W_l).
    Fails   where half of the weighted covariance is left in the residue's operator, or all of it.

    Whether the operator dominates is judged on runs.
    """
    nets, tau = min(t.draws, 12), 0.5
    name = "direct test: how it is measured"
    split = t.part(name, 1e-8, controls=typical, draws=2 * nets)
    for strength in (0.2, 0.6):
        world = dw.world(t.rng, nets, 4, "additive", strength)
        weights = tensors(*dw.weights(t.rng, nets, (4, 6, 5, 3)))
        operator, whole = _pulls(weights, world, tau)

        # theta vec(W_l) is what autograd leaves of the gradient beside the operator's part.
        _, by_autograd = residue_share.split_gradient(weights, world, tau)
        for layer, theta in enumerate(by_autograd, 1):
            error = partial(_off, theta, weights, world, layer)
            split.add(error(whole - operator))
            split.breaks("half of the operator", error(whole - operator / 2))
            split.breaks("without the operator", error(whole))


Layers = tuple[torch.Tensor, ...]


def _pulls(weights: Layers, world: co.World, tau: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Slopes by distances of views of normalised outputs, [draws, S V, S V]: those of V^xi, with xi
    at the un-augmented samples, and those of InfoNCE."""
    plain = cn.unit(cn.trace(weights, world.samples).output)
    xi = co.infonce_weight(co.half_distances(plain, plain), tau)
    f = world.shaped(cn.unit(cn.trace(weights, world.points).output), 1)
    operator = co.weighted_pulls(xi, world)
    return operator, co.pulls(partial(anchors.infonce, tau=tau), f, world)


def _off(
    theta: torch.Tensor, weights: Layers, world: co.World, layer: int, pull: torch.Tensor
) -> Array:
    """How far vec(theta) is from the operator with these slopes on vec(W_l), [draws]; normalised
    outputs."""
    seen = cn.trace(weights, world.points)
    right = cn.normalised_connection(seen, layer)
    op = co.operator(right @ cn.projector(seen.output), right, pull)
    by_operator = (op @ cn.vec(weights[layer - 1])[..., None])[..., 0]
    return relative(cn.vec(theta), by_operator, 1e-6)
