"""Checks of ddn Def. 1 and Theorem 1: the connection of a layer and the gradient of a distance.

The library's connections against Kronecker products of complex-step Jacobians, its gradients
against complex steps through numpy nets, at every layer of nets of depth 1 to 6. All derivatives
are the first tower's.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks.towers import ONE_SAMPLE, both_of_pair
from clcore.ledger import Check
from clcore.reference import Array, relative, worst
from clcore.theory.operator import connection as cn

EXACT = 1e-12
NORMALISED = 1e-10  # where an output may be close to 0 and is divided by its norm


def def1(draws: int, seed: int) -> Iterator[Check]:
    """K_l of the library against numpy's; its shape; K_l^T vec(W_l) = f_L.

    Controls: the Kronecker factors swapped, a vec that stacks rows, K_l transposed.
    """
    rng, check = ref.generator("ddn def1", seed), partial(Check, "ddn/def1", draws=draws)
    errors, swapped, sums, rows = [], [], [], []
    shapes, turned = 0, 0
    for pair in nets.pairs(rng, draws, ("relu", "leaky")):
        net = pair.traces[0]
        for layer, w in enumerate(pair.first, 1):
            K = nets.one(cn.connection(net, layer))
            size = (len(w), w[0].size, pair.first[-1].shape[1])
            shapes += K.shape != size
            turned += K.swapaxes(1, 2).shape != size
            J, f = nets.one(cn.jacobian(net, layer)), nets.one(net.post[layer - 1])
            expected = nets.kron(pair.first, pair.x1, layer, pair.name)
            errors.append(relative(K, expected))
            other = (J.swapaxes(1, 2)[:, :, None] * f[:, None, :, None]).reshape(K.shape)
            swapped.append(relative(other, expected))
            out = pair.outputs[0]
            sums.append(relative(nets.times(K.swapaxes(1, 2), nets.column_stack(w)), out))
            rows.append(relative(nets.times(K.swapaxes(1, 2), w.reshape(len(w), -1)), out))
    yield check(
        worst(*errors), EXACT, ref.pooled({"J^T kron f": swapped}), part="K_l", note="vs np.kron"
    )
    yield check(shapes, 0, {"n_L x n_l n_{l-1}": turned}, part="shape")
    yield check(
        worst(*sums),
        EXACT,
        ref.pooled({"vec stacks rows": rows}),
        part=r"$K_l^\top\mathrm{vec}(W_l)=f_L$",
        note="piecewise linear activations",
    )


def _by_autograd(pair: nets.Pair, normalised: bool = False) -> list[Array]:
    """dr/dW_{1,l} for all l, by torch through the library's forward pass."""
    weights = [w.requires_grad_() for w in ref.tensors(*pair.first)]
    psi = nets.ACTIVATIONS[pair.name]
    first = cn.trace(weights, *ref.tensors(pair.x1[:, None]), psi)
    r = cn.distance(first, pair.traces[1], normalised)
    return [g.numpy() for g in torch.autograd.grad(r.sum(), weights)]


def _floor(slopes: list[Array]) -> Array:
    """[draws]: what errors are relative to at least, where a layer's gradient vanishes."""
    return 1e-3 * np.max([np.abs(s).reshape(len(s), -1).max(-1) for s in slopes], 0)


def thm1(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 1 and its matrix form against complex steps and autograd, two different towers.

    Controls: the bracket's sign, a vec by rows, K_2 in front.
    """
    rng, check = ref.generator("ddn thm1", seed), partial(Check, "ddn/thm1", draws=draws)
    vectors, matrices = [], []
    broken = {"plus in the bracket": [], "rows stacked": [], "K_2 in front": []}
    transposed = []
    for pair in nets.pairs(rng, draws):
        one, two = pair.traces
        auto = _by_autograd(pair)
        floor = _floor(auto)
        for layer in range(1, pair.depth + 1):
            slope = pair.weight_gradient(layer)
            expected = nets.column_stack(slope)
            g = nets.one(cn.distance_gradient(one, two, layer))
            vectors += [relative(g, expected, floor)]
            vectors += [relative(g, nets.column_stack(auto[layer - 1]), floor)]
            K1, K2 = (nets.one(cn.connection(t, layer)) for t in (one, two))
            f1, f2 = pair.outputs
            broken["plus in the bracket"].append(relative(nets.times(K1, f1 + f2), expected))
            broken["K_2 in front"].append(relative(nets.times(K2, f1 - f2), expected))
            broken["rows stacked"].append(relative(g, slope.reshape(expected.shape), floor))
            J1, J2 = (nets.one(cn.jacobian(t, layer)) for t in (one, two))
            a, b = (nets.one(t.post[layer - 1]) for t in (one, two))
            gap = nets.times(J1 @ pair.first[layer - 1], a)
            gap = gap - nets.times(J2 @ pair.second[layer - 1], b)
            back = nets.times(J1.swapaxes(1, 2), gap)
            matrices.append(relative(back[:, :, None] * a[:, None, :], slope, floor))
            wrong = nets.times(J1.swapaxes(1, 2), gap)[:, :, None] * b[:, None, :]
            transposed.append(relative(wrong, slope, floor))
    yield check(worst(*vectors), EXACT, ref.pooled(broken), part="Eq. 1, ReLU nets")
    yield check(
        worst(*matrices),
        EXACT,
        ref.pooled({"f_{2,l-1}^T at the end": transposed}),
        part="matrix form",
    )


def thm1_app(draws: int, seed: int) -> Iterator[Check]:
    """Theorem 1 as restated for reversible nets (Eq. 32), against complex steps, hidden layers.

    Piecewise linear nets have Q_l = I; powers have not, and need V^f in the bracket, where J_l is
    V^b. Controls: the bracket's sign; for the corrected form V^b in the bracket of powers.
    """
    rng, check = ref.generator("ddn thm1 app", seed), partial(Check, "ddn/thm1-app", draws=draws)
    printed: dict[bool, list[Array]] = {True: [], False: []}
    mended, plus = [], []
    for pair in nets.pairs(rng, draws, (*nets.PIECEWISE, *nets.POWERS), (2, 3)):
        one, two = pair.traces
        for layer in range(1, pair.depth):
            expected = nets.column_stack(pair.weight_gradient(layer))
            floor = _floor([expected])
            K1, K2 = (nets.one(cn.connection(t, layer)) for t in (one, two))
            w1, w2 = (nets.column_stack(w[layer - 1]) for w in (pair.first, pair.second))
            gap = nets.times(K1.swapaxes(1, 2), w1) - nets.times(K2.swapaxes(1, 2), w2)
            identity = pair.name in nets.PIECEWISE
            printed[identity].append(relative(nets.times(K1, gap), expected, floor))
            gaps = []
            for net, w in ((one, w1), (two, w2)):
                V, f = nets.one(cn.transitions(net, layer)[0]), nets.one(net.post[layer - 1])
                K = np.stack([np.kron(g[:, None], v.T) for g, v in zip(f, V, strict=True)])
                gaps.append(nets.times(K.swapaxes(1, 2), w))
            mended.append(relative(nets.times(K1, gaps[0] - gaps[1]), expected, floor))
            plus.append(relative(nets.times(K1, gaps[0] + gaps[1]), expected, floor))
    signs = {"plus in the bracket": ref.typical(*plus)}
    yield check(
        worst(*printed[True], *printed[False]),
        EXACT,
        signs,
        part="reversible nets",
        counterexample=r"$f=v(wx)^2$, one hidden unit, linear top $v=1$, $w=x_1=1$, $x_2=0$: "
        r"$\partial r/\partial w=2$, "
        "Eq. 32 gives 4",
        note=f"with $Q_l=I$ at most {ref.worst(*printed[True]):.0e}, as for the ReLU nets of the "
        "main text and of the proof (Eq. 31); the restatement is for reversible nets, which App. "
        r"A.1 finds powers to be, with $Q_l=pI$",
    )
    yield check(
        worst(*printed[True], *mended),
        EXACT,
        signs | {"power activations, as printed": ref.typical(*printed[False])},
        part="reversible nets",
        form="corrected",
        correction=r"with $Q_l=I$, that is, for activations homogeneous of degree 1; in general "
        r"the bracket has $f_{l-1}\otimes V_l^{f\top}$ for $K_l$, and in front stands "
        r"$f_{l-1}\otimes V_l^{b\top}$",
    )


def eq40(draws: int, seed: int) -> Iterator[Check]:
    """Tied weights: Eq. 40 against complex steps in the first tower's copy, and the library.

    Controls: the gradient through both towers; the bracket's sign.
    """
    rng, check = ref.generator("ddn eq40", seed), partial(Check, "ddn/eq40", draws=draws)
    first, across, plus = [], [], []
    for pair in nets.pairs(rng, draws, tied=True):
        one, two = pair.traces
        for layer in range(1, pair.depth + 1):
            expected = nets.column_stack(pair.weight_gradient(layer))
            floor = _floor([expected])
            K1, K2 = (nets.one(cn.connection(t, layer)) for t in (one, two))
            w = nets.column_stack(pair.first[layer - 1])
            gap, sum_ = (nets.times((K1 + s * K2).swapaxes(1, 2), w) for s in (-1, 1))
            library = nets.one(cn.distance_gradient(one, two, layer))
            for ours in (nets.times(K1, gap), library):
                first.append(relative(ours, expected, floor))
            across.append(relative(both_of_pair(pair, layer), expected, floor))
            plus.append(relative(nets.times(K1, sum_), expected, floor))
    yield check(
        worst(*first),
        EXACT,
        ref.pooled({"through both towers": across, "plus in the bracket": plus}),
        note=ONE_SAMPLE,
    )


def eq41(draws: int, seed: int) -> Iterator[Check]:
    """Tied weights, normalised outputs: complex steps and autograd against Eqs. 41, 42.

    Controls: without the projector, with the projector of the other output, K_l for K_l^n in front,
    the derivative through both towers.
    """
    rng, check = ref.generator("ddn eq41", seed), partial(Check, "ddn/eq41", draws=draws)
    errors: list[Array] = []
    broken = {"no projector": [], "projector of the other": [], "K_l in front": []}
    across = []
    for pair in nets.pairs(rng, draws, tied=True):
        one, two = pair.traces
        auto = _by_autograd(pair, True)
        floor = _floor(auto)
        for layer in range(1, pair.depth + 1):
            expected = nets.column_stack(pair.weight_gradient(layer, True))
            g = nets.one(cn.distance_gradient(one, two, layer, True))
            errors += [relative(g, expected, floor)]
            errors += [relative(g, nets.column_stack(auto[layer - 1]), floor)]
            K1, K2 = (nets.one(cn.normalised_connection(t, layer)) for t in (one, two))
            gap = nets.times((K1 - K2).swapaxes(1, 2), nets.column_stack(pair.first[layer - 1]))
            P1, P2 = (nets.one(cn.projector(t.output)) for t in (one, two))
            plain = nets.one(cn.connection(one, layer))
            for name, value in zip(
                broken,
                (
                    nets.times(K1, gap),
                    nets.times(K1 @ P2, gap),
                    nets.times(plain @ P1, gap),
                ),
                strict=True,
            ):
                broken[name].append(relative(value, expected, floor))
            across.append(relative(both_of_pair(pair, layer, True), expected, floor))
    yield check(
        worst(*errors),
        NORMALISED,
        ref.pooled(broken | {"through both towers": across}),
        note=ONE_SAMPLE,
    )


# --------------------------------------------------------------------------- normalised outputs


def eq28(draws: int, seed: int) -> Iterator[Check]:
    """r_n is r of a net with one layer more, G = I/|f_L|, Q = I - f f^T a projection.

    Controls: r for r_n; I + f f^T; f_L itself in Q.
    """
    rng, check = ref.generator("ddn eq28", seed), partial(Check, "ddn/eq28", draws=draws)
    values, plain, squares, added, unnormed, ranks = [], [], [], [], [], []
    for pair in nets.pairs(rng, draws):
        one, two = pair.traces
        f, g = pair.outputs
        sizes = [np.linalg.norm(v, axis=-1, keepdims=True) for v in (f, g)]
        tops = [
            np.eye(f.shape[1]) / s[..., None] @ v[..., None]
            for v, s in zip((f, g), sizes, strict=True)
        ]
        extra = ((tops[0] - tops[1]) ** 2).sum((1, 2)) / 2
        cosine = (f * g).sum(-1) / (sizes[0] * sizes[1])[:, 0]
        rn = nets.one(cn.distance(one, two, True))
        values += [relative(rn, extra), relative(rn, 1 - cosine)]
        plain.append(relative(nets.half(f, g), extra))
        Q = nets.one(cn.projector(one.output))
        u, eye = f / sizes[0], np.eye(f.shape[1])
        outer, raw = u[:, :, None] * u[:, None, :], f[:, :, None] * f[:, None, :]
        for where, P in ((squares, Q), (added, eye + outer), (unnormed, eye - raw)):
            where += [relative(P @ P, P)]
        squares += [relative(Q, eye - outer), ref.absolute(Q, Q.swapaxes(1, 2))]
        spectrum = np.linalg.eigvalsh(Q)
        target = np.r_[0.0, np.ones(f.shape[1] - 1)]
        ranks.append(np.abs(spectrum - target).max(-1))
    yield check(worst(*values), 1e-12, ref.pooled({"r for r_n": plain}), part="$r_n$")
    broken = {"I + f f^T": added, "f_L not normalised": unnormed}
    yield check(
        worst(*squares, *ranks), 1e-12, ref.pooled(broken), part="$Q_{L+1}$ is a projection"
    )


def eq29(draws: int, seed: int) -> Iterator[Check]:
    """Complex-step Jacobian of y/|y|, dimensions 2 to 20, against (I - y^ y^^T)/|y|.

    Controls: without 1/|y|; without the projection.
    """
    rng, check = ref.generator("ddn eq29", seed), partial(Check, "ddn/eq29", draws=draws)
    errors, unscaled, bare = [], [], []
    for d in (2, 3, 5, 10, 20):
        y = rng.standard_normal((draws, d)) * np.exp(rng.standard_normal((draws, 1)))
        out = ref.stepped(y)
        out = out / np.sqrt((out**2).sum(-1, keepdims=True))
        J = np.moveaxis(np.imag(out) / ref.STEP, 0, -1)
        size = np.linalg.norm(y, axis=-1)[:, None, None]
        P = cn.projector(*ref.tensors(y)).numpy()
        errors += [relative(P / size, J), relative(P @ (np.eye(d) / size), J)]
        unscaled.append(relative(P, J))
        bare.append(relative(np.eye(d) / size, J))
    yield check(worst(*errors), 1e-12, ref.pooled({"no 1/|y|": unscaled, "no projection": bare}))


def eq30(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 30 against complex steps of r_n at every pre-activation, two different towers.

    Controls: Q dropped; Q of the other tower; V for V^n.
    """
    rng, check = ref.generator("ddn eq30", seed), partial(Check, "ddn/eq30", draws=draws)
    errors = []
    broken = {"no Q": [], "Q of the other": [], "V for V^n in front": []}
    for pair in nets.pairs(rng, draws):
        one, two = pair.traces
        sizes = [np.linalg.norm(f, axis=-1) for f in pair.outputs]
        floor = 1e-3 * np.abs(pair.pre_gradient(pair.depth, True)).max(-1)
        Q = [nets.one(cn.projector(t.output)) for t in (one, two)]
        for layer in range(1, pair.depth + 1):
            V = [
                nets.one(cn.transitions(t, layer)[0]) / s[:, None, None]
                for t, s in zip((one, two), sizes, strict=True)
            ]
            pre = [nets.one(t.pre[layer - 1]) for t in (one, two)]
            gap = nets.times(V[0], pre[0]) - nets.times(V[1], pre[1])
            back, goal = V[0].swapaxes(1, 2), pair.pre_gradient(layer, True)
            errors.append(relative(nets.times(back @ Q[0], gap), goal, floor))
            plain = back * sizes[0][:, None, None]
            for name, M in zip(broken, (back, back @ Q[1], plain @ Q[0]), strict=True):
                broken[name].append(relative(nets.times(M, gap), goal, floor))
    yield check(worst(*errors), NORMALISED, ref.pooled(broken))
