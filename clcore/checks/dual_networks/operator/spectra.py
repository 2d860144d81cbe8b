"""What is recorded on the way of population descent: eigenvalues of VE_l and EV_l (ddn, Thm. 3)."""

from itertools import product

import numpy as np
import torch

from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import Layer
from clcore.ledger import Trial, typical
from clcore.reference import STEP, Array, absolute
from clcore.theory.operator import covariance_operator as co
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
    _descended(t)


def _terms(case: dw.Case, at: Layer, normalised: bool) -> tuple[Array, Array]:
    """The exact operator of a layer and V^xi / 2 of its Kbar, [draws, w, w], by a loop over a
    sample, its two views, and a negative: Theorem 1, Eqs. 5 and 41."""
    _, p, x, q = dw.parts(at.world)
    f, K = dw.output(at.net, x, normalised), dw.connection(at.net, at.number, x)
    plain = dw.output(at.net, dw.parts(at.world)[0], normalised)[:, :, 0]
    seen = K, K
    if normalised:
        own = K / np.linalg.norm(dw.output(at.net, x), axis=-1)[..., None, None]
        seen = own - (own @ f[..., None]) @ f[..., None, :], own
    exact, main, (samples, views) = 0.0, 0.0, q.shape[1:]
    for s, i, r, j in product(range(samples), range(views), range(samples), range(views)):
        for k in range(views):
            near, far = dw.half(f[:, s, i], f[:, s, k]), dw.half(f[:, s, i], f[:, r, j])
            slopes = (case.page(near + STEP * 1j, far), case.page(near, far + STEP * 1j))
            chance = p[:, s] * q[:, s, i] * q[:, s, k] * p[:, r] * q[:, r, j]
            for slope, there in zip(slopes, (seen[1][:, s, k], seen[1][:, r, j]), strict=True):
                pair = seen[0][:, s, i] @ (seen[1][:, s, i] - there).swapaxes(-1, -2)
                exact = exact - (chance * slope.imag / STEP)[:, None, None] * pair
    for s, r in product(range(samples), repeat=2):
        mass = p[:, s] * p[:, r] * case.weight(dw.half(plain[:, s], plain[:, r])) / 2
        left, right = ((q[..., None, None] * v).sum(2) for v in seen)
        pair = (left[:, s] - left[:, r]) @ (right[:, s] - right[:, r]).swapaxes(-1, -2)
        main = main + mass[:, None, None] * pair
    return exact, main


def _spread(world: co.World, f: Array) -> Array:
    """Of outputs f: the mean variance of a sample's views, and the variance of their means."""
    _, p, _, q = dw.parts(world)
    mean = (q[..., None] * f).sum(2)
    inside = (p[..., None] * q * ((f - mean[:, :, None]) ** 2).sum(-1)).sum((1, 2))
    across = (p * ((mean - (p[..., None] * mean).sum(1, keepdims=True)) ** 2).sum(-1)).sum(1)
    return np.stack([inside, across], -1)


def _descended(t: Trial) -> None:
    """Three steps of descent, plain and normalised outputs, one tower and both: where the weights
    go, by complex steps; |theta| over |V^xi / 2| at the start, and both spreads. Controls: the
    other number of towers, layers exchanged, spreads exchanged."""
    moved, share = t.defines("steps of descent", 1e-10), t.defines("theta on the way", 1e-9)
    spread, rng = t.defines("spreads on the way", 1e-10), t.stream("descent")
    case, draws, rate = dw.infonce(2.0), 2, 0.2  # at a small temperature xi vanishes
    for normalised, tied in product((False, True), repeat=2):
        world = dw.world(rng, draws, 4, "additive", 0.4, samples=2, views=2)
        start = [0.7 * w for w in dw.weights(rng, draws, (4, 4, 3))]
        ours = descent.train(
            dw.torch_layers(start),
            world,
            case.ours,
            case.library_weight,
            rate,
            3,
            3,
            normalised,
            tied,
        )
        ends = [list(start), list(start)]
        for towers, net in zip((tied, not tied), ends, strict=True):
            for _ in range(3):
                steps = [
                    Layer(world, list(net), k + 1).descent(case, towers, normalised) for k in (0, 1)
                ]
                for k, step in enumerate(steps):
                    rows, columns = net[k].shape[1:]
                    turned = step.reshape(draws, columns, rows).swapaxes(1, 2)
                    net[k] = net[k] + rate * turned
        for k in (0, 1):
            moved.add(absolute(ours.weights[k], ends[0][k]))
            moved.breaks("the other number of towers", absolute(ours.weights[k], ends[1][k]))
            exact, main = _terms(case, Layer(world, start, k + 1), normalised)
            size = (np.linalg.norm(v, axis=(1, 2)) for v in (exact - main, main))
            ratio = np.divide(*size)
            share.add(absolute(ours.residue[0][:, k], ratio) / (1 + ratio))
            share.breaks("the other layer", absolute(ours.residue[0][:, 1 - k], ratio))
        for at, net in ((0, start), (-1, ends[0])):
            found = _spread(world, dw.output(net, dw.parts(world)[2], normalised))
            spread.add(absolute(ours.spread[at], found))
            spread.breaks("exchanged", absolute(ours.spread[at], found[:, ::-1]))
