"""One tower or two (ddn Sec. 3): what the gradient with respect to W_1 alone leaves out.

Tied weights move through both towers of a pair. Their gradients, by complex steps, against the
first tower's: of one pair, of one sample of a loss, and of whole populations.
"""

from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import (
    Layer,
    Objective,
    descent,
    layers,
    operator,
    pair_weights,
    residue,
    weighted,
)
from clcore.checks.dual_networks.residue.theorem4 import STRENGTHS, Measured, slope_of
from clcore.checks.dual_networks.residue.weights import CASES
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative
from clcore.theory.operator import covariance_operator as co


def _exchanged(pair: nets.Pair) -> nets.Pair:
    return nets.Pair(pair.second, pair.first, pair.x2, pair.x1, pair.name)


def _pairs(t: Trial) -> None:
    """The second tower's gradient of any pair, and what tied weights get of it."""
    # The second tower's gradient is Eq. 1 with the towers exchanged.
    second = t.part("the second tower, any weights", 1e-11, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws):
        f1, f2 = pair.outputs
        for layer in range(1, pair.depth + 1):
            expected = dw.vec(nets.weight_gradient(_exchanged(pair), layer))
            floor = 1e-3 * np.abs(expected).max(-1)
            K1, K2 = nets.connections(pair, layer)
            second.add(relative(nets.times(K2, f2 - f1), expected, floor))
            second.breaks("the first tower's", relative(nets.times(K1, f1 - f2), expected, floor))

    # Tied weights get [K(x_1) - K(x_2)][K(x_1) - K(x_2)]^T vec(W), the parts of both.
    name = "one pair, tied weights: the parts of both towers"
    whole, off = t.part(name, 1e-11, controls=typical, draws=t.draws), []
    for pair in nets.pairs(t.rng, t.draws, tied=True):
        for layer in range(1, pair.depth + 1):
            g = dw.vec(nets.weight_gradient(pair, layer, both=True))
            floor = 1e-3 * np.abs(g).max(-1)
            K1, K2 = nets.connections(pair, layer)
            w = dw.vec(pair.first[layer - 1])
            minus, plus = (nets.times((K1 + s * K2).swapaxes(1, 2), w) for s in (-1, 1))
            whole.add(relative(nets.times(K1 - K2, minus), g, floor))
            whole.breaks("plus in the bracket", relative(nets.times(K1 - K2, plus), g, floor))
            own = dw.vec(nets.weight_gradient(pair, layer))
            whole.breaks("the first tower's part alone", relative(own, g, floor))
            off.append(dw.off_line(nets.times(K1, minus), g))
    whole.says(off=np.median(np.concatenate(off)))


def _held(at: Layer, case: dw.Case) -> Objective:
    """(near, far) -> E[xi(x, x'') (r_+ - r_-)] with xi of the samples themselves, held."""
    xi = pair_weights(at, case)
    _, p, _, q = dw.parts(at.world)
    S, V = q.shape[1:]

    def objective(near: Array, far: Array) -> Array:
        total = np.zeros(())
        for s, i, t, m in product(range(S), range(V), range(S), range(V)):
            mass = p[:, s] * q[:, s, i] * p[:, t] * q[:, t, m] * xi[:, s, t]
            minus = dw.half(near[..., s, i, :], far[..., t, m, :])
            for j in range(V):
                plus = dw.half(near[..., s, i, :], far[..., s, j, :])
                total = total + mass * q[:, s, j] * (plus - minus)
        return total

    return objective


BOTH = (False, True)  # one tower, both


def _populations(t: Trial, count: int) -> None:
    """Whether two tied towers move twice as far as one, in finite worlds."""
    draws = count * len(dw.DEPTHS)
    places = list(layers(t.rng, count, ends=True))
    cases = ("InfoNCE", dw.infonce(0.5)), ("triplet", dw.triplet(0.5))
    moved = [
        (name, at, case, *(descent(at, case, tied) for tied in BOTH))
        for at, (name, case) in product(places, cases)
    ]

    # L_simp and L_simp^beta: both towers give twice one's, plain and normalised.
    name = r"population, $L_{simp}$ and $L^\beta_{simp}$"
    linear = t.part(name, 1e-8, controls=pooled, draws=draws)
    for at, case, unit in product(places, (dw.simple(), dw.simple(-0.5)), BOTH):
        if not unit or len(at.net) > 1:
            one, two = (descent(at, case, tied, unit) for tied in BOTH)
            linear.add(relative(two, 2 * one, 1e-6))
    for name, _, _, one, two in moved:
        linear.breaks(name, relative(two, 2 * one, 1e-6))

    # The leading part of Theorem 4, from the loss with held xi: both towers give twice one's, which
    # under the loss itself they do not.
    leading = t.part("population, leading part of Theorem 4", 1e-8, controls=pooled, draws=draws)
    for name, at, case, one, two in moved:
        held, held_of_both = (descent(at, _held(at, case), tied) for tied in BOTH)
        leading.add(relative(held_of_both, 2 * held, 1e-6))
        leading.breaks(name, relative(two, 2 * one, 1e-6))

    # InfoNCE and triplet: the library's operator of both towers, against complex steps. It is not
    # twice V^xi/2 with one tower's theta, nor with twice that.
    name = "population, InfoNCE and triplet, with another residue"
    other = t.part(name, 1e-8, controls=pooled, draws=2 * draws)
    for _, at, case, _, two in moved:
        xi = pair_weights(at, case)
        main, theta = (A.numpy() for A in (weighted(at, xi), residue(at, case, xi)))
        right, once, twice = (
            relative(at.times(op), two, 1e-6)
            for op in (
                operator(at, case, tied=True).numpy(),
                2 * main + theta,
                2 * main + 2 * theta,
            )
        )
        other.add(right).breaks("theta once", once).breaks("theta doubled", twice)
    off = [dw.off_line(one, two) for name, _, _, one, two in moved if name == "InfoNCE"]
    other.says(off=np.median(np.concatenate(off)))


def _order(t: Trial, count: int) -> None:
    """theta of both towers over the order of Theorem 4 with c_0, in units of M_K^2 times the slope
    of F; that of one tower stays below 6 there (ddn/thm4), and both have three times its terms."""
    part = t.part("residue of both towers, its order", 18.0, controls=pooled)
    for (name, make), tau in product(CASES.items(), (0.2, 1.0)):
        case, slope = make(tau), slope_of(name, tau)
        weights = dw.weights(t.rng, count, dw.DEPTHS[2])
        for kind, strength in product(co.KINDS, STRENGTHS):
            world = dw.world(t.rng, count, dw.DEPTHS[2][0], kind, strength)
            m, at = Measured(weights, world, case, slope), Layer(world, weights, 1)
            whole, main = operator(at, case, tied=True), weighted(at, pair_weights(at, case))
            theta, size = (
                torch.linalg.matrix_norm(A, 2).numpy() for A in (whole - 2 * main, whole)
            )
            rounding = 1e-13 * m.unit * m.size
            part.add(np.maximum(theta - rounding, 0) / m.unit / m.order(True))
            if strength == STRENGTHS[-1] and tau >= 1:
                part.breaks("the whole operator", size / m.unit / m.order(True))


@check("ddn/towers")
def towers(t: Trial) -> None:
    """Analysing the gradient with respect to one tower's weights is enough (before Definition 1).

    Given   pairs of ReLU nets; tied weights; populations of finite worlds with several losses;
            gradients by complex steps through one tower and through both.
    Claim   To analyse dr/dW_1 is enough: the second tower's gradient is Eq. 1 with the towers
            exchanged; of one pair the shared matrix gets [K(x_1) - K(x_2)][K(x_1) - K(x_2)]^T
            vec(W); of populations exactly twice one tower's under L_simp and L_simp^beta and for
            held weights; under InfoNCE and the triplet loss twice the operator of Theorem 4, with
            another residue of the same order.
    Fails   where one tower's part is read as the gradient of the shared matrix of one pair; under
            InfoNCE and the triplet loss for exactly twice, and for theta once or doubled.
            Controls: the bracket's sign, the first tower's gradient for the second's, the whole
            operator for the residue.
    """
    _pairs(t)
    count = ref.share(min(t.draws, 40), 4)
    _populations(t, count)
    _order(t, count)
