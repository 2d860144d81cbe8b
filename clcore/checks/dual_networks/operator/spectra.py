"""What is recorded on the way of population descent: eigenvalues of VE_l and EV_l (ddn, Thm. 3)."""

import numpy as np
import torch

from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer
from clcore.ledger import Trial, typical
from clcore.reference import Array, absolute
from clcore.theory.operator import descent


def _eigenvalues(at: Layer) -> tuple[Array, Array]:
    """Of VE_l and of EV_l, rising, by sums over samples and views, [draws, w]."""
    _, p, _, q = dw.parts(at.world)
    p, q, K = p[..., None, None], q[..., None, None], at.K.numpy()
    mean = (q * K).sum(2)
    centred, inside = mean - (p * mean).sum(1, keepdims=True), K - mean[:, :, None]
    squares = [v @ v.swapaxes(-1, -2) for v in (centred, inside)]
    operators = (p * squares[0]).sum(1), (p * (q * squares[1]).sum(2)).sum(1)
    return tuple(np.linalg.eigvalsh(v) for v in operators)


def recorded(t: Trial) -> None:
    """Eigenvalues before the first step and after the last; where a net diverges, no numbers, and
    those of all others. Controls: VE and EV exchanged, the other end of the way."""
    part = t.defines("eigenvalues on the way", 1e-9, controls=typical)
    lost = t.defines("a net that diverges", 0.0)
    rng, case, draws = t.stream("eigenvalues"), dw.infonce(0.5), 4
    world = dw.world(rng, draws, 4, "additive", 0.3, samples=3)
    start = dw.torch_layers([0.7 * w for w in dw.weights(rng, draws, (4, 5, 3))])

    def path(weights: tuple) -> descent.Path:
        return descent.train(weights, world, case.ours, case.library_weight, 0.3, 4, 2)

    found = path(start)
    ends = [
        [_eigenvalues(Layer(world, [w.numpy() for w in weights], k + 1)) for k in range(2)]
        for weights in (start, found.weights)
    ]
    for k, ours in enumerate(zip(found.between, found.within, strict=True)):
        for end, here, there in ((0, 0, 1), (-1, 1, 0)):
            for side in (0, 1):
                part.add(absolute(ours[side][end], ends[here][k][side]))
                part.breaks("exchanged", absolute(ours[side][end], ends[here][k][1 - side]))
                part.breaks("other end", absolute(ours[side][end], ends[there][k][side]))
    far = path(tuple(w * torch.tensor([1e200, 1, 1, 1])[:, None, None] for w in start))
    for ours, alone in zip(far.between + far.within, found.between + found.within, strict=True):
        lost.add(ours[:, 0].isfinite().sum(), absolute(ours[:, 1:], alone[:, 1:]))
        lost.breaks("as if it had not", alone[:, 0].isfinite().sum())
    steps = t.defines("steps that are recorded", 0.0)
    for every, asked in ((1, [0, 1, 2, 3]), (2, [0, 2, 3]), (4, [0, 3])):
        way = descent.train(start, world, case.ours, case.library_weight, 0.3, 3, every)
        steps.add(float(way.steps != asked), abs(len(way.residue) - len(asked)))
        steps.breaks("without the last", float(way.steps != asked[:-1]))
    one = torch.ones(draws, 5, 1, dtype=torch.float64)
    active = (world.points[0] @ start[0][0].mT).clamp(min=0).sum(0).argmax()
    one[0, active] = 1e200  # of the operator above this unit only some entries are too large
    above = path((one * start[0], start[1]))
    for ours in (above.between[1], above.within[1]):
        lost.add(ours[0, 0].isfinite().sum(), (~ours[0, 1:].isfinite()).sum())
