"""Whether the residue of Theorem 4 shrinks in training (ddn Sec. 4.1)."""

from functools import partial
from itertools import product

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
    least = t.part("theta is not zero", 1e-3, ">=", draws=4 * SEEDS)
    part = partial(t.part, bound=1.0, evidence="protocol", sort="trained")
    share = part("views' spread over samples' spread, shrinks", draws=4 * SEEDS)
    itself = {
        tau: part("theta itself, plain outputs, shrinks", setting=words, draws=2 * SEEDS)
        for tau, words in ((0.5, ""), (2.0, "temperature 2"))
    }
    over = {
        choice: part("theta over the operator, shrinks", setting=words, draws=2 * SEEDS)
        for choice, words in SETTINGS.items()
    }
    for name, (normalised, tau) in product(("InfoNCE", "triplet"), SETTINGS):
        case, rate = (dw.infonce(tau), 0.6 * tau) if name == "InfoNCE" else (dw.triplet(tau), 0.6)
        layers = [0.7 * w for w in dw.weights(t.rng, SEEDS, (6, 8, 6, 3))]
        world = dw.world(t.rng, SEEDS, 6, "additive", 0.3, samples=5)
        start = ref.tensors(*layers)
        ends = [_path(start, world, case, rate, normalised, STEPS, sign) for sign in (1, -1)]
        nets = [start, *(path.weights for path in ends)]
        # |theta| at the start, after training, and after steps that push views apart: of the loss.
        seen = [_path(weights, world, case, rate, normalised, 0) for weights in nets]
        theta = [path.residue[0].numpy() for path in seen]
        _follow(over[normalised, tau], theta)
        if not normalised:
            _follow(itself[tau], [_residues(weights, world, case) for weights in nets])
        if tau == 0.5:
            least.add(np.nanmedian(theta[0]))
            least.breaks("L_simp", _never(Layer(world, layers, 2)))
            spread = [(path.spread[0, ..., 0] / path.spread[0, ..., 1]).numpy() for path in seen]
            if normalised:
                _follow(share, spread, "views pushed apart, normalised outputs")
            else:
                share.add(np.nanmedian(spread[1] / spread[0]))


def _path(
    weights: tuple,
    world: co.World,
    case: dw.Case,
    rate: float,
    normalised: bool,
    length: int,
    sign: int = 1,
):
    """`length` steps on the loss of sign * r_+; nothing recorded but its end."""

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
