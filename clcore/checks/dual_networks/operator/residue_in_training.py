"""Whether the residue of Theorem 4 shrinks in training (ddn Sec. 4.1)."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer, residue
from clcore.ledger import Part, Trial, check
from clcore.reference import Array
from clcore.theory.operator import connection as net
from clcore.theory.operator import covariance_operator as co
from clcore.theory.operator import descent


def _residues(weights: tuple, world: co.World, case: dw.Case) -> Array:
    """|theta| of every layer, plain outputs, [L, draws]."""
    seen = net.trace(weights, world.points)
    pull = co.pulls(case.ours, world.shaped(seen.output, 1), world)
    plain = net.trace(weights, world.samples).output
    xi = case.library_weight(co.half_distances(plain, plain))
    connections = [world.shaped(net.connection(seen, k + 1), 2) for k in range(len(weights))]
    found = [torch.linalg.matrix_norm(co.residue(K, pull, xi, world)) for K in connections]
    return torch.stack(found).numpy()


SEEDS = 24  # nets a setting
SETTINGS = {
    (False, 0.5): "",
    (False, 2.0): "plain outputs, temperature 2",
    (True, 0.5): "normalised outputs, temperature 0.5",
    (True, 2.0): "normalised outputs, temperature 2",
}
"""Of what the remark leaves open: normalised outputs or not, and the temperature. The first counts
as printed."""
STEPS = 60


@check("ddn/rem15")
def rem15(t: Trial) -> None:
    """The residue shrinks in training with the spread of views (Sec. 4.1).

    Given   ReLU nets of three layers in finite worlds, 24 seeds a setting, 60 steps of both towers
            under InfoNCE and the triplet loss; outputs plain or normalised, tau = 0.5 or 2: what
            theta shrinks against, and in which net, the print leaves open.
    Claim   theta is not zero, and in training its size, its ratio to the weighted covariance, and
            the spread of views over that of samples go down: medians of end over start below 1.
    Fails   theta not zero: for L_simp. Shrinking: for as many steps that push views apart. The size
            and the ratio depend on the open settings, each of which has a part.
    """
    runs = list(_trained(t))
    part = partial(t.part, bound=1.0, evidence="protocol", sort="trained")

    # theta is not zero at the start.
    least = t.part("theta is not zero", 1e-3, ">=", draws=4 * SEEDS)
    for run in (one for one in runs if one.tau == 0.5):
        least.add(np.nanmedian(run.theta[0]))
        least.breaks("L_simp", _never(run.at))

    # The spread of views over that of samples.
    share = part("views' spread over samples' spread, shrinks", draws=4 * SEEDS)
    for run in (one for one in runs if one.tau == 0.5):
        if run.normalised:
            _follow(share, run.spread, "views pushed apart, normalised outputs")
        else:
            start, end, _ = run.spread
            share.add(np.nanmedian(end / start))

    # theta itself, plain outputs.
    for tau, words in ((0.5, ""), (2.0, "temperature 2")):
        itself = part("theta itself, plain outputs, shrinks", setting=words, draws=2 * SEEDS)
        for run in (one for one in runs if one.tau == tau and not one.normalised):
            _follow(itself, [_residues(weights, run.at.world, run.case) for weights in run.weights])

    # theta over the weighted covariance.
    for choice, words in SETTINGS.items():
        over = part("theta over the operator, shrinks", setting=words, draws=2 * SEEDS)
        for run in (one for one in runs if (one.normalised, one.tau) == choice):
            _follow(over, run.theta)


class Run(NamedTuple):
    """Nets of one loss and setting, at their layer 2; and three of each, at the start, after
    training, and after as many steps that push views apart: weights; theta, its norm over that of
    the weighted covariance, by layer; spread, E[sigma_aug^2] over the variance between samples."""

    normalised: bool
    tau: float
    case: dw.Case
    at: Layer
    weights: list[tuple]
    theta: list[Array]
    spread: list[Array]


def _trained(t: Trial) -> Iterator[Run]:
    """Both losses under all SETTINGS."""
    for name, (normalised, tau) in product(("InfoNCE", "triplet"), SETTINGS):
        case, rate = (dw.infonce(tau), 0.6 * tau) if name == "InfoNCE" else (dw.triplet(tau), 0.6)
        layers = [0.7 * w for w in dw.weights(t.rng, SEEDS, (6, 8, 6, 3))]
        world = dw.world(t.rng, SEEDS, 6, "additive", 0.3, samples=5)
        path = partial(_path, world=world, case=case, rate=rate, normalised=normalised)
        start = ref.tensors(*layers)
        nets = [start, *(path(start, length=STEPS, sign=sign).weights for sign in (1, -1))]
        seen = [path(weights, length=0) for weights in nets]
        theta = [one.residue[0].numpy() for one in seen]
        spread = [(one.spread[0, ..., 0] / one.spread[0, ..., 1]).numpy() for one in seen]
        yield Run(normalised, tau, case, Layer(world, layers, 2), nets, theta, spread)


def _path(
    weights: tuple,
    world: co.World,
    case: dw.Case,
    rate: float,
    normalised: bool,
    length: int,
    sign: int = 1,
) -> descent.Path:
    """`length` steps on the loss of sign * r_+, recorded at the start alone."""

    def loss(near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
        return case.ours(sign * near, far)

    return descent.train(
        weights, world, loss, case.library_weight, rate, length, length + 1, normalised, tied=True
    )


def _follow(part: Part, sizes: list[Array], what: str = "views pushed apart") -> None:
    """Medians of end over start, of sizes at the start, after training, after the control's."""
    first, trained, broken = sizes
    part.add(np.nanmedian(trained / first))
    part.breaks(what, np.nanmedian(broken / first))


def _never(at: Layer) -> float:
    """The residue of L_simp over its operator, the largest of all draws."""
    S = at.world.chances.shape[-1]
    none = residue(at, dw.simple(), torch.ones(SEEDS, S, S, dtype=torch.float64))
    size = torch.linalg.matrix_norm(at.between)
    return float((torch.linalg.matrix_norm(none) / size).max())
