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
from clcore.checks.dual_networks.layers import Layer, Objective, layers
from clcore.checks.dual_networks.residue.theorem4 import STRENGTHS, Measured
from clcore.checks.dual_networks.residue.weights import CASES
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative
from clcore.theory.operator import connection as cn
from clcore.theory.operator import covariance_operator as co


def both_of_pair(pair: nets.Pair, layer: int, normalised: bool = False) -> Array:
    """vec dr/dW_l of tied weights, both towers moving, by complex steps, [draws, n_l n_{l-1}]."""

    def r(w: Array) -> Array:
        weights = [*pair.first[: layer - 1], w, *pair.first[layer:]]
        outs = (nets.passes(weights, x, pair.name)[1][-1] for x in (pair.x1, pair.x2))
        return nets.half(*outs, normalised)

    return nets.column_stack(ref.gradient(r, pair.first[layer - 1]))


def _sine(a: Array, b: Array) -> Array:
    """`dw.off_line` once more, [draws]: of the angle between the two, from its half."""
    u, v = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (a, b))
    return np.sin(2 * np.arctan2(*(np.linalg.norm(x, axis=-1) for x in (u - v, u + v))))


def _pairs(t: Trial) -> None:
    """The second tower's gradient of any pair, and what tied weights get of it."""
    second = t.part("the second tower, any weights", 1e-11, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws):
        turned = nets.Pair(pair.second, pair.first, pair.x2, pair.x1, pair.name)
        f1, f2 = pair.outputs
        for layer in range(1, pair.depth + 1):
            other = nets.column_stack(turned.weight_gradient(layer))
            floor = 1e-3 * np.abs(other).max(-1)
            K1, K2 = (nets.one(cn.connection(net, layer)) for net in pair.traces)
            second.add(relative(nets.times(K2, f2 - f1), other, floor))
            same = relative(nets.times(K1, f1 - f2), other, floor)
            second.breaks("the first tower's", same)
    name = "one pair, tied weights: the parts of both towers"
    whole = t.part(name, 1e-11, controls=typical, draws=t.draws)
    off, again = [], []
    for pair in nets.pairs(t.rng, t.draws, tied=True):
        for layer in range(1, pair.depth + 1):
            g = both_of_pair(pair, layer)
            floor = 1e-3 * np.abs(g).max(-1)
            K1, K2 = (nets.one(cn.connection(net, layer)) for net in pair.traces)
            w = nets.column_stack(pair.first[layer - 1])
            gap, plus = (nets.times((K1 + s * K2).swapaxes(1, 2), w) for s in (-1, 1))
            off.append(dw.off_line(nets.times(K1, gap), g))
            turned = nets.Pair(pair.second, pair.first, pair.x2, pair.x1, pair.name)
            own, rest = (nets.column_stack(v.weight_gradient(layer)) for v in (pair, turned))
            again.append(_sine(own, own + rest))
            whole.breaks("the first tower's part alone", relative(own, g, floor))
            whole.add(relative(nets.times(K1 - K2, gap), g, floor))
            whole.breaks("plus in the bracket", relative(nets.times(K1 - K2, plus), g, floor))
    whole.says(off=np.median(np.concatenate(off)))
    whole.confirms(off=np.median(np.concatenate(again)))


def _fixed(at: Layer, case: dw.Case) -> Objective:
    """(near, far) -> E[xi(x, x'') (r_+ - r_-)] with xi of the samples themselves, held."""
    xi = at.xi(case)
    _, p, _, q = dw.parts(at.world)
    S, V = q.shape[1:]

    def objective(near: Array, far: Array) -> Array:
        total = 0.0
        for s, i, t, m in product(range(S), range(V), range(S), range(V)):
            mass = p[:, s] * q[:, s, i] * p[:, t] * q[:, t, m] * xi[:, s, t]
            minus = dw.half(near[..., s, i, :], far[..., t, m, :])
            for j in range(V):
                plus = dw.half(near[..., s, i, :], far[..., s, j, :])
                total = total + mass * q[:, s, j] * (plus - minus)
        return total

    return objective


def _populations(t: Trial) -> None:
    """Twice or not twice, in finite worlds."""
    count = ref.share(min(t.draws, 40), 4)
    total = count * len(dw.DEPTHS)
    linear, leading = (
        t.part(f"population, {name}", 1e-8, controls=pooled, draws=total)
        for name in (r"$L_{simp}$ and $L^\beta_{simp}$", "leading part of Theorem 4")
    )
    curved = "population, InfoNCE and triplet, with another residue"
    other = t.part(curved, 1e-8, controls=pooled, draws=2 * total)
    typically, again = [], []
    for at in layers(t.rng, count, ends=True):
        for case, unit in product((dw.simple(), dw.simple(-0.5)), (False, True)):
            if not unit or at.depth > 1:
                one, two = (at.descent(case, tied, unit) for tied in (False, True))
                linear.add(relative(two, 2 * one, 1e-6))
        for name, case in (("InfoNCE", dw.infonce(0.5)), ("triplet", dw.triplet(0.5))):
            one, two = (at.descent(case, tied) for tied in (False, True))
            for part in (linear, leading):
                part.breaks(name, relative(two, 2 * one, 1e-6))
            if name == "InfoNCE":
                typically.append(dw.off_line(one, two))
                both = (at.times(at.operator(case, tied=tied)) for tied in (False, True))
                again.append(_sine(*both))
            held = _fixed(at, case)
            first, tied = (at.descent(held, both) for both in (False, True))
            leading.add(relative(tied, 2 * first, 1e-6))
            xi = torch.from_numpy(at.xi(case))
            main, theta = (v.numpy() for v in (at.weighted(xi), at.residue(case, xi)))
            tied_theta = (at.operator(case, tied=True) - 2 * at.weighted(xi)).numpy()
            right, once, twice = (
                relative(at.times(2 * main + v), two, 1e-6) for v in (tied_theta, theta, 2 * theta)
            )
            other.add(right)
            other.breaks("theta once", once)
            other.breaks("theta doubled", twice)
    other.says(off=np.median(np.concatenate(typically)))
    other.confirms(off=np.median(np.concatenate(again)))
    _order(t, ref.share(min(t.draws, 40), 4))


def _order(t: Trial, count: int) -> None:
    """theta of both towers over the order of Theorem 4 with c_0, in units of M_K^2 times the slope
    of F; that of one tower stays below 6 there (ddn/thm4), and both have three times its terms."""
    part = t.part("residue of both towers, its order", 18.0, controls=pooled)
    for (name, make), tau in product(CASES.items(), (0.2, 1.0)):
        case, slope = make(tau), 1 / tau**2 if name == "InfoNCE" else 1 / tau
        weights = dw.weights(t.rng, count, dw.DEPTHS[2])
        for kind, strength in product(co.KINDS, STRENGTHS):
            world = dw.world(t.rng, count, dw.DEPTHS[2][0], kind, strength)
            m, at = Measured(weights, world, case, slope), Layer(world, weights, 1)
            whole, main = at.operator(case, tied=True), at.weighted(torch.from_numpy(at.xi(case)))
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
    _populations(t)
