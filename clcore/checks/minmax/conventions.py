"""InfoNCE of a batch in every convention of the papers, by a loop over anchors."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from clcore import reference as ref
from clcore.experiments.image_losses import near_weights
from clcore.ledger import Trial, pooled
from clcore.losses import anchors, contrast, minplayer, modules
from clcore.losses.contrast import energy, inter_distances, pairwise_importance
from clcore.losses.infonce_family import infonce
from clcore.reference import Array, relative, tensors

ROWS = {
    "acl": ("distance", "first", "same", "tau", "sum"),
    "acl-mean": ("distance", "first", "same", "tau", "mean"),
    "acl-both": ("distance", "both", "same", "tau", "mean"),
    "cpc": ("distance", "first", "same", "", "sum"),
    "simclr-first": ("cosine", "first", "same", "", "sum"),
    "simclr": ("cosine", "both", "all", "", "sum"),
    "nt-xent": ("cosine", "both", "all", "", "mean"),
    "ddn": ("distance", "both", "all", "", "mean"),
    "ncl": ("cosine", "first", "other", "", "mean"),
    "nl": ("distance", "first", "same", "tau", "sum"),
    "nl-unit": ("cosine", "first", "same", "tau", "sum"),
    "nl-released": ("cosine", "first", "same", "", "mean"),
}
"""Similarity, anchors, whose views are negatives, what multiplies, sum or mean over samples."""


def _by_hand(z: Array, z2: Array, tau: float, eps: float, row: tuple[str, ...]) -> Array:
    """[draws], of views [draws, n, d]."""
    similarity, anchors, negatives, scale, reduction = row

    def near(a: Array, b: Array) -> Array:
        if similarity == "distance":
            return -((a - b) ** 2).sum(-1) / 2
        return (a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1))

    sides, n, total = (z, z2), z.shape[1], 0.0
    ways = (0, 1) if anchors == "both" else (0,)
    for own in ways:
        others = {"same": (own,), "other": (1 - own,), "all": (0, 1)}[negatives]
        for i in range(n):
            anchor = sides[own][:, i]
            positive = np.exp(near(anchor, sides[1 - own][:, i]) / tau)
            far = [
                np.exp(near(anchor, sides[k][:, j]) / tau)
                for k in others
                for j in range(n)
                if j != i
            ]
            total = total - np.log(positive / (eps * positive + sum(far)))
    total = total / len(ways) * (tau if scale else 1.0)
    return total / n if reduction == "mean" else total


def conventions(t: Trial) -> None:
    """Every row of the table, with the positive in the denominator and without; the modules."""
    part = t.defines("conventions of the papers", 1e-11, controls=pooled)
    z, z2 = ref.views(t.stream("conventions"), min(t.draws, 20), 5, 3)
    both, names = tensors(z, z2), list(ROWS)
    for k, (name, row) in enumerate(ROWS.items()):
        for tau, eps in ((0.5, 1.0), (0.2, 0.0), (1.0, 0.3)):
            found = infonce(*both, tau, eps, name).numpy()
            part.add(relative(found, _by_hand(z, z2, tau, eps, row), 1.0))
            # Similarity, anchors and negatives of another row, scale and mean of this one.
            later = [ROWS[names[(k + n) % len(names)]][:3] for n in range(5, len(names) + 5)]
            other = (*next(v for v in later if v != row[:3]), *row[3:])
            part.breaks(
                "another row's pairs", relative(found, _by_hand(z, z2, tau, eps, other), 1.0)
            )
            twice = _by_hand(z, z2, 2 * tau, eps, row)
            part.breaks("tau doubled", relative(found, twice, 1.0))
        one = modules.InfoNCE(0.5, how=name)(both[0][0], both[1][0]).numpy()
        part.add(relative(one[None], _by_hand(z[:1], z2[:1], 0.5, 1.0, row), 1.0))
    for name, phi, psi in ref.table1():
        module = modules.ContrastiveLoss(name)
        inter, intra = ref.distances(z[:1], z2[:1])
        value = module(both[0][0], both[1][0]).numpy()
        part.add(relative(value[None], ref.family_loss(inter, intra, phi, psi) / 5, 1.0))
        weights = module.importance(both[0][0], both[1][0]).numpy()
        part.add(relative(weights[None], ref.importance(inter, intra, phi, psi), 1.0))
    _costs(t, *both)
    _held(t, both)
    _refused(t, both)
    _limits(t, *both)


def _costs(t: Trial, z: Tensor, z2: Tensor) -> None:
    """The price of a pair's weight, 2 (d_ij - d_i), by a loop over pairs. Control: d_i added."""
    part = t.defines("costs of pairs", 1e-12)
    inter, intra = ref.distances(z.numpy(), z2.numpy())
    found = minplayer.cost(z, z2).numpy()
    part.add(relative(found, ref.costs(inter, intra), 1.0))
    part.breaks("d_i added", relative(found, ref.costs(inter, -intra), 1.0))


def _limits(t: Trial, z: Tensor, z2: Tensor) -> None:
    """Settings outside their range are refused, those on a closed end of it are taken. Controls:
    the same inside and outside."""
    part = t.defines("ranges of settings", 0.0)
    costs, inter = minplayer.cost(z, z2), inter_distances(z)
    open_ends: list[tuple[Callable[[float], Tensor], float]] = [
        (lambda tau: infonce(z, z2, tau), 0.0),
        (lambda tau: minplayer.entropy_weights(costs, tau), 0.0),
        (lambda tau: minplayer.square_weights(costs, tau), 0.0),
        (lambda tau: minplayer.inverse_weights(costs, tau), 0.0),
        (lambda gamma: minplayer.inverse_weights(costs, 0.5, gamma), 1.0),
        (lambda mass: minplayer.entropy_weights(costs, 0.5, mass), 0.0),
        (lambda tau: near_weights(inter[0], tau), 0.0),
        (lambda gamma: near_weights(inter[0], 0.5, gamma), 0.0),
        (lambda tau: anchors.soft_triplet(inter[..., 0], inter[..., 1:2], tau, 0.5), 0.0),
    ]
    closed_ends: list[tuple[Callable[[float], Tensor], float]] = [
        (lambda p: minplayer.direct_weights(inter, p), 1.0),
        (lambda eps: contrast.infonce(z, z2, 0.5, eps), 0.0),
        (lambda margin: anchors.soft_triplet(inter[..., 0], inter[..., 1:2], 0.5, margin), 0.0),
    ]

    def taken(call: Callable[[float], Tensor], value: float) -> float:
        try:
            call(value)
        except ValueError:
            return 0.0
        return 1.0

    for call, end in open_ends:
        part.add(taken(call, end), taken(call, end - 0.2), 1 - taken(call, end + 0.2))
        part.breaks("inside", taken(call, end + 0.2)).breaks("outside", 1 - taken(call, end))
    for call, end in closed_ends:
        part.add(taken(call, end - 0.2), 1 - taken(call, end), 1 - taken(call, end + 0.2))
        part.breaks("inside", taken(call, end)).breaks("outside", 1 - taken(call, end - 0.2))


def _refused(t: Trial, both: tuple[Tensor, Tensor]) -> None:
    """A module takes outputs of a net, no labels in their place and no lists. Control: outputs."""
    part = t.defines("a module refuses what is no output", 0.0)
    outputs = [v[0] for v in both]
    cases = [("", [v.round().long() for v in outputs]), ("", [v.tolist() for v in outputs])]
    for module in (modules.InfoNCE(), modules.ContrastiveLoss("MINE")):
        for name, views in (*cases, ("outputs", outputs)):
            try:
                taken = 1.0 + 0 * float(module(*views))
            except TypeError:
                taken = 0.0
            part.breaks(name, taken) if name else part.add(taken)


def _held(t: Trial, both: tuple[Tensor, Tensor]) -> None:
    """The weights that a module gives are held: the gradient of the energy with them, as they are,
    is the module's. Control: weights that follow the outputs."""
    part = t.defines("a module's weights are held", 1e-11, controls=pooled)
    for name in (row[0] for row in ref.table1()):
        module = modules.ContrastiveLoss(name)
        for pair in zip(*both, strict=True):
            z, z2 = (v.detach().requires_grad_() for v in pair)

            def pushes(value: Tensor, z: Tensor = z) -> Array:
                return torch.autograd.grad(value, z)[0].numpy()[None]

            whole = pushes(module(z, z2))
            held, moving = module.importance(z, z2), pairwise_importance(z, z2, module.pair)
            part.add(relative(-pushes(energy(held, z, z2)) / (2 * len(z)), whole, 1.0))
            if moving.requires_grad and moving.grad_fn is not None:
                part.breaks(
                    "weights that follow",
                    relative(-pushes(energy(moving, z, z2)) / (2 * len(z)), whole),
                )
