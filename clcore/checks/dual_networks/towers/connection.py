"""Checks of ddn Def. 1 and Theorem 1: the connection of a layer and the gradient of a distance.

The library's connections against Kronecker products of complex-step Jacobians, its gradients
against complex steps through numpy nets, at every layer of nets of depth 1 to 6. All derivatives
are the first tower's.
"""

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import exact_pairs, nets
from clcore.checks.dual_networks import worlds as dw
from clcore.ledger import Trial, check, pooled, total, typical
from clcore.reference import Array, relative
from clcore.theory.operator import connection as cn

EXACT = 1e-12
NORMALISED = 1e-10  # where an output may be close to 0 and is divided by its norm


@check("ddn/def1")
def def1(t: Trial) -> None:
    """Connection of a layer: features times the Jacobian to the output (Definition 1, Eq. 37).

    Given   random ReLU and leaky ReLU nets of 1..6 layers without biases, linear top.
    Claim   K_l(x) = f_{l-1} kron J_l^T, of shape n_l n_{l-1} x n_L: the library's against
            Kronecker products of complex-step Jacobians. K_l^T vec(W_l) = f_L with vec by columns;
            proved.
    Fails   for the factors of the product swapped, K_l transposed, vec by rows.
    """
    kron = t.defines("K_l", EXACT, controls=pooled, draws=t.draws)
    shape = t.defines("shape", 0, measured=total, controls=total, draws=t.draws)
    product = r"$K_l^\top\mathrm{vec}(W_l)=f_L$"
    output = t.part(product, EXACT, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws, ("relu", "leaky")):
        net = pair.traces[0]
        for layer, w in enumerate(pair.first, 1):
            K = nets.one(cn.connection(net, layer))
            K_T = K.swapaxes(1, 2)

            # K_l = f_{l-1} kron J_l^T.
            J, f = nets.one(cn.jacobian(net, layer)), nets.one(net.post[layer - 1])
            expected = nets.connection(pair.first, pair.x1, layer, pair.name)
            swapped = (J.swapaxes(1, 2)[:, :, None] * f[:, None, :, None]).reshape(K.shape)
            kron.add(relative(K, expected)).breaks("J^T kron f", relative(swapped, expected))

            # It is n_l n_{l-1} x n_L.
            size = (len(w), w[0].size, pair.first[-1].shape[1])
            shape.add(K.shape != size).breaks("n_L x n_l n_{l-1}", K_T.shape != size)

            # K_l^T vec(W_l) = f_L.
            by_columns, by_rows = dw.vec(w), w.reshape(len(w), -1)
            output.add(relative(nets.times(K_T, by_columns), pair.outputs[0]))
            output.breaks("vec stacks rows", relative(nets.times(K_T, by_rows), pair.outputs[0]))
    output.proves(**exact_pairs.output_of_connection())


def _by_autograd(pair: nets.Pair, normalised: bool = False) -> list[Array]:
    """dr/dW_{1,l} for all l, by torch through the library's forward pass."""
    weights = [w.requires_grad_() for w in ref.tensors(*pair.first)]
    psi = nets.ACTIVATIONS[pair.name]
    first = cn.trace(weights, *ref.tensors(pair.x1[:, None]), psi)
    r = cn.distance(first, pair.traces[1], normalised)
    return [g.numpy() for g in torch.autograd.grad(r.sum(), weights)]


def _floor(slopes: list[Array]) -> Array:
    """[draws]: the least scale for relative errors, for a layer whose gradient vanishes."""
    return 1e-3 * np.max([np.abs(s).reshape(len(s), -1).max(-1) for s in slopes], 0)


@check("ddn/thm1")
def thm1(t: Trial) -> None:
    """Gradient of the squared distance of two deep ReLU networks (Theorem 1, Eq. 1).

    Given   two towers of 1..6 layers with ReLU and different weights, one input each; r = |f_1
            - f_2|^2/2, derivatives by the first tower's weights.
    Claim   vec(dr/dW_1l) = K_1l [K_1l^T vec(W_1l) - K_2l^T vec(W_2l)], and its matrix form J_1l^T
            [J_1l W_1l f_1,l-1 - J_2l W_2l f_2,l-1] f_1,l-1^T: against complex steps, the first also
            against autograd. Both proved.
    Fails   for a plus in the bracket, for vec by rows, for K_2 in front; the matrix form with
            f_2,l-1^T at the end.
    """
    vector = t.part("Eq. 1, ReLU nets", EXACT, controls=pooled, draws=t.draws)
    matrix = t.part("matrix form", EXACT, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws):
        (one, two), (f1, f2), auto = pair.traces, pair.outputs, _by_autograd(pair)
        floor = _floor(auto)
        for layer in range(1, pair.depth + 1):
            slope = nets.weight_gradient(pair, layer)
            expected = dw.vec(slope)

            # K_1l [K_1l^T vec(W_1l) - K_2l^T vec(W_2l)]; the bracket is f_1 - f_2.
            ours = nets.one(cn.distance_gradient(one, two, layer))
            vector.add(*(relative(ours, g, floor) for g in (expected, dw.vec(auto[layer - 1]))))
            K1, K2 = nets.connections(pair, layer)
            vector.breaks("plus in the bracket", relative(nets.times(K1, f1 + f2), expected))
            vector.breaks("rows stacked", relative(ours, slope.reshape(expected.shape), floor))
            vector.breaks("K_2 in front", relative(nets.times(K2, f1 - f2), expected))

            # J_1l^T [J_1l W_1l f_1,l-1 - J_2l W_2l f_2,l-1] f_1,l-1^T.
            J1, J2 = (nets.one(cn.jacobian(net, layer)) for net in (one, two))
            a, b = (nets.one(net.post[layer - 1]) for net in (one, two))
            bracket = nets.times(J1 @ pair.first[layer - 1], a)
            bracket = bracket - nets.times(J2 @ pair.second[layer - 1], b)
            back = nets.times(J1.swapaxes(1, 2), bracket)[:, :, None]
            matrix.add(relative(back * a[:, None, :], slope, floor))
            matrix.breaks("f_{2,l-1}^T at the end", relative(back * b[:, None, :], slope, floor))
    vector.proves(**exact_pairs.theorem1())
    matrix.proves(**exact_pairs.theorem1_matrix())


@check("ddn/thm1-app")
def thm1_app(t: Trial) -> None:
    """Gradient of the squared distance of deep reversible networks (Theorem 1 in App. A.2, Eq. 32).

    Given   two towers with reversible hidden layers (Definition 2): gates, or powers u^p.
    Claim   g_{W_l} = K_1l [K_1l^T vec(W_1l) - K_2l^T vec(W_2l)]. Corrected: with Q_l = I, as for
            gates; in general the bracket has f_{l-1} (x) V_l^{f T} for K_l.
    Fails   for powers, which have Q_l = p I: Eq. 32 is p^(L-l) times the gradient. Control: a plus
            in the bracket.
    """
    name = "hidden layers"
    printed, mended = (form(name, EXACT, controls=typical) for form in (t.part, t.corrected))
    forward = t.part("hidden layers, V^f in the bracket", EXACT, controls=typical)
    for pair in nets.pairs(t.rng, t.draws, (*nets.PIECEWISE, *nets.POWERS), (2, 3)):
        for layer in range(1, pair.depth):
            expected = dw.vec(nets.weight_gradient(pair, layer))
            floor = _floor([expected])
            K1, K2 = nets.connections(pair, layer)
            w1, w2 = (dw.vec(w[layer - 1]) for w in (pair.first, pair.second))

            # Eq. 32: right for gates; for powers p^(L - l) times the gradient.
            one, two = nets.times(K1.swapaxes(1, 2), w1), nets.times(K2.swapaxes(1, 2), w2)
            error, plus = (
                relative(nets.times(K1, gap), expected, floor) for gap in (one - two, one + two)
            )
            if pair.name in nets.PIECEWISE:
                mended.add(error).breaks("plus in the bracket", plus)
            else:
                p = nets.EXPONENTS[pair.name]
                printed.add(error).fails_by(np.full(len(error), p ** (pair.depth - layer) - 1))
                printed.breaks("plus in the bracket", plus)
                mended.breaks("power activations", error)

            # Any reversible net: f_{l-1} kron V_l^fT in the bracket.
            features = [nets.one(net.post[layer - 1]) for net in pair.traces]
            transitions = [nets.one(cn.transitions(net, layer)[0]) for net in pair.traces]
            one, two = (
                nets.times(nets.kron(f, V).swapaxes(1, 2), w)
                for f, V, w in zip(features, transitions, (w1, w2), strict=True)
            )
            error, plus = (
                relative(nets.times(K1, gap), expected, floor) for gap in (one - two, one + two)
            )
            forward.add(error).breaks("plus in the bracket", plus)
    mended.proves(**exact_pairs.theorem1_reversible())


@check("ddn/eq40")
def eq40(t: Trial) -> None:
    """Gradient of the squared distance at tied weights (Eq. 40).

    Given   tied weights, ReLU nets of 1..6 layers; derivatives by the first tower's copy alone.
    Claim   vec(dr/dW_l) = K_l(x_1) [K_l(x_1) - K_l(x_2)]^T vec(W_l), against complex steps, and
            the library's gradient; proved.
    Fails   for the gradient through both towers, and for a plus in the bracket.
    """
    first = t.part("", EXACT, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws, tied=True):
        for layer in range(1, pair.depth + 1):
            expected = dw.vec(nets.weight_gradient(pair, layer))
            floor = _floor([expected])
            K1, K2 = nets.connections(pair, layer)
            w = dw.vec(pair.first[layer - 1])
            minus, plus = (nets.times((K1 + s * K2).swapaxes(1, 2), w) for s in (-1, 1))
            library = nets.one(cn.distance_gradient(*pair.traces, layer=layer))
            across = dw.vec(nets.weight_gradient(pair, layer, both=True))
            # Eq. 40 by both connections, and the library's gradient, against complex steps.
            for ours in (nets.times(K1, minus), library):
                first.add(relative(ours, expected, floor))
            first.breaks("through both towers", relative(across, expected, floor))
            first.breaks("plus in the bracket", relative(nets.times(K1, plus), expected, floor))
    first.proves(**exact_pairs.theorem1_tied())


@check("ddn/eq41")
def eq41(t: Trial) -> None:
    """Gradient of the normalised distance at tied weights (Eqs. 41-42).

    Given   tied weights, ReLU nets of 1..6 layers with normalised outputs; derivatives by the first
            tower's copy alone.
    Claim   vec(dr_n/dW_l) = K_l^n(x_1) P^perp [K_l^n(x_1) - K_l^n(x_2)]^T vec(W_l), K^n = K/|f|,
            P^perp = I - f f^T/|f|^2 at x_1: by the library, against complex steps and autograd;
            proved.
    Fails   without the projector, for the projector of the other output, with K_l in place of K_l^n
            in front, for the gradient through both towers.
    """
    first = t.part("", NORMALISED, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws, tied=True):
        one, two = pair.traces
        auto = _by_autograd(pair, True)
        floor = _floor(auto)
        P1, P2 = (nets.one(cn.projector(net.output)) for net in (one, two))
        for layer in range(1, pair.depth + 1):
            expected = dw.vec(nets.weight_gradient(pair, layer, True))
            ours = nets.one(cn.distance_gradient(one, two, layer, True))
            first.add(*(relative(ours, g, floor) for g in (expected, dw.vec(auto[layer - 1]))))
            K1, K2 = (nets.one(cn.normalised_connection(net, layer)) for net in (one, two))
            gap = nets.times((K1 - K2).swapaxes(1, 2), dw.vec(pair.first[layer - 1]))
            plain = nets.one(cn.connection(one, layer))
            for what, wrong in (
                ("no projector", nets.times(K1, gap)),
                ("projector of the other", nets.times(K1 @ P2, gap)),
                ("K_l in front", nets.times(plain @ P1, gap)),
                ("through both towers", dw.vec(nets.weight_gradient(pair, layer, True, both=True))),
            ):
                first.breaks(what, relative(wrong, expected, floor))
    first.proves(**exact_pairs.unit_gradient(tied=True))


# --------------------------------------------------------------------------- normalised outputs


@check("ddn/eq28")
def eq28(t: Trial) -> None:
    """Output normalisation as one more reversible layer (Eq. 28).

    Given   random pairs of ReLU nets, f_L != 0.
    Claim   r_n is r of a net with one layer more, f/|f|, and 1 - cosine; G = I/|f_L| and Q = I - f
            f^T of the unit f is a projection of rank n_L - 1. Proved.
    Fails   for r in place of r_n, for I + f f^T, for f_L that is not normalised in Q.
    """
    value = t.part("$r_n$", 1e-12, controls=pooled, draws=t.draws)
    projection = t.part("$Q_{L+1}$ is a projection", 1e-12, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws):
        f, g = pair.outputs
        size_f, size_g = (np.linalg.norm(v, axis=-1, keepdims=True) for v in (f, g))
        eye = np.eye(f.shape[1])

        # r_n is r of a net with one layer more, and 1 - cosine.
        tops = [eye / s[..., None] @ v[..., None] for v, s in ((f, size_f), (g, size_g))]
        extra = ((tops[0] - tops[1]) ** 2).sum((1, 2)) / 2
        cosine = (f * g).sum(-1) / (size_f * size_g)[:, 0]
        rn = nets.one(cn.distance(*pair.traces, True))
        value.add(relative(rn, extra), relative(rn, 1 - cosine))
        value.breaks("r for r_n", relative(nets.half(f, g), extra))

        # Q = I - f f^T of the unit f is a projection of rank n_L - 1: Q^2 = Q = Q^T and spectrum.
        Q, u = nets.one(cn.projector(pair.traces[0].output)), f / size_f
        outer, raw = u[:, :, None] * u[:, None, :], f[:, :, None] * f[:, None, :]
        target = np.r_[0.0, np.ones(f.shape[1] - 1)]
        projection.add(relative(Q @ Q, Q), relative(Q, eye - outer))
        projection.add(ref.absolute(Q, Q.swapaxes(1, 2)))
        projection.add(np.abs(np.linalg.eigvalsh(Q) - target).max(-1))
        for what, P in (("I + f f^T", eye + outer), ("f_L not normalised", eye - raw)):
            projection.breaks(what, relative(P @ P, P))
    value.proves(**exact_pairs.unit_distance())
    for proof in exact_pairs.projection():
        projection.proves(**proof)


@check("ddn/eq29")
def eq29(t: Trial) -> None:
    """Jacobian of l2 normalisation: a projection over the norm (Eq. 29).

    Given   random y of 2..20 dimensions.
    Claim   d(y/|y|)/dy = (I - y^ y^^T)/|y|, y^ = y/|y|, against complex steps; proved.
    Fails   without 1/|y|, and without the projection.
    """
    part = t.part("", 1e-12, controls=pooled, draws=t.draws)
    for d in (2, 3, 5, 10, 20):
        y = t.rng.standard_normal((t.draws, d)) * np.exp(t.rng.standard_normal((t.draws, 1)))
        out = ref.stepped(y)
        out = out / np.sqrt((out**2).sum(-1, keepdims=True))
        J = np.moveaxis(np.imag(out) / ref.STEP, 0, -1)
        size = np.linalg.norm(y, axis=-1)[:, None, None]
        P = cn.projector(*ref.tensors(y)).numpy()
        part.add(relative(P / size, J), relative(P @ (np.eye(d) / size), J))
        part.breaks("no 1/|y|", relative(P, J))
        part.breaks("no projection", relative(np.eye(d) / size, J))
    part.proves(**exact_pairs.unit_jacobian())


@check("ddn/eq30")
def eq30(t: Trial) -> None:
    """Recursive gradient of the distance between normalised outputs (Eq. 30).

    Given   two towers of different weights, ReLU nets of 1..6 layers, normalised outputs.
    Claim   dr_n/dpre_l(x_1) = V_l^nT(x_1) Q_{L+1}(x_1) [V_l^n(x_1) pre_l(x_1) - V_l^n(x_2)
            pre_l(x_2)], V^n = V/|f_L|: against complex steps at every layer; proved.
    Fails   without Q, with Q of the other tower, with V in place of V^n.
    """
    part = t.part("", NORMALISED, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws):
        sizes = [np.linalg.norm(f, axis=-1)[:, None, None] for f in pair.outputs]
        floor = 1e-3 * np.abs(nets.pre_gradient(pair, pair.depth, True)).max(-1)
        Q = [nets.one(cn.projector(net.output)) for net in pair.traces]
        for layer in range(1, pair.depth + 1):
            transitions = (nets.one(cn.transitions(net, layer)[0]) for net in pair.traces)
            V1, V2 = (V / size for V, size in zip(transitions, sizes, strict=True))
            pre1, pre2 = (nets.one(net.pre[layer - 1]) for net in pair.traces)
            gap = nets.times(V1, pre1) - nets.times(V2, pre2)
            back, expected = V1.swapaxes(1, 2), nets.pre_gradient(pair, layer, True)
            right, bare, other, plain = (
                relative(nets.times(M, gap), expected, floor)
                for M in (back @ Q[0], back, back @ Q[1], back * sizes[0] @ Q[0])
            )
            part.add(right).breaks("no Q", bare).breaks("Q of the other", other)
            part.breaks("V for V^n in front", plain)
    part.proves(**exact_pairs.unit_gradient(tied=False))
