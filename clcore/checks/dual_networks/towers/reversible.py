"""Checks of ddn App. A.1: reversible layers, Lemma 1, residual blocks.

The library's G_l, Q_l, V_l against complex steps through numpy nets. g is dr/df and g~ is dr/dpre,
r the halved squared distance of a pair of towers, differentiated in the first one.
"""

from collections.abc import Iterator
from functools import partial, reduce
from itertools import product

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks.towers import exact_layers
from clcore.ledger import Trial, check, pooled, total, typical, worst
from clcore.reference import Array, relative
from clcore.theory.operator import connection as cn

EXACT = 1e-11
DEPTHS = (2, 3, 4, 5)
KINDS = (*nets.PIECEWISE, "square", "cube")
OWN = "with the $G_l$, $Q_l$ of Eqs. 16-18"


def _kinds(rng: np.random.Generator, draws: int, names: tuple[str, ...]) -> Iterator[nets.Pair]:
    """Pairs of towers; powers only up to three layers, where values stay of order one."""
    for name in names:
        depths = (2, 3) if name in nets.POWERS else DEPTHS
        yield from nets.pairs(rng, ref.share(draws, len(names)), (name,), depths)


def _errors(names: tuple[str, ...], rng: np.random.Generator, draws: int) -> dict[str, list[Array]]:
    """Def. 2 with the library's G_l, Q_l in every reading, all layers above the first.

    Forward: f~_l against G_l times f~_{l-1}, f_{l-1}, or f~_{l-1} with W_l for G_l. Backward:
    g~_{l-1} against G_l^T Q_l^T times g~_l, g_l, or g~_l with I for Q_l.
    """
    out = {k: [] for k in ("f~", "f", "g~", "g", "G = W", "Q = I")}
    for pair in _kinds(rng, draws, names):
        net = pair.traces[0]
        pre, post = nets.passes(pair.first, pair.x1, pair.name)
        slopes = [nets.pre_gradient(pair, k) for k in range(pair.depth + 1)]
        for layer in range(2, pair.depth + 1):
            G, Q = cn.reversible(net, layer)
            G, Q = nets.one(G), Q.numpy()
            back = G.swapaxes(1, 2) @ Q.T
            floor = 1e-3 * np.abs(pre[layer - 1]).max(-1), 1e-3 * np.abs(slopes[-1]).max(-1)
            out["f~"].append(relative(nets.times(G, pre[layer - 2]), pre[layer - 1]))
            out["f"].append(relative(nets.times(G, post[layer - 1]), pre[layer - 1]))
            w = pair.first[layer - 1]
            out["G = W"].append(relative(nets.times(w, pre[layer - 2]), pre[layer - 1], floor[0]))
            goal = slopes[layer - 1]
            out["g~"].append(relative(nets.times(back, slopes[layer]), goal, floor[1]))
            plain = nets.times(G.swapaxes(1, 2), slopes[layer])
            out["Q = I"].append(relative(plain, goal, floor[1]))
            if layer < pair.depth:  # dr/df_l = W_{l+1}^T dr/dpre_{l+1}
                g = nets.times(pair.first[layer].swapaxes(1, 2), slopes[layer + 1])
                out["g"].append(relative(nets.times(back, g), goal, floor[1]))
    return out


@check("ddn/def2")
def def2(t: Trial) -> None:
    """Reversible layers: the backward map transposes the forward map (Definition 2).

    Given   random linear, ReLU, leaky ReLU and power nets (u^2, u^3), with the G_l and Q_l of Eqs.
            16-18. f~_l is layer l before its nonlinearity, f_l after it; g~_l and g_l are the
            gradients by them.
    Claim   With all tildes, as the proof of Lemma 1 uses it (Eqs. 24, 26): (1) f~_l of a forward
            pass is G_l f~_{l-1}; (2) g~_{l-1} by complex steps is G_l^T Q_l^T g~_l. Proved for
            width 2.
    Fails   as typeset: f_{l-1} in (1) for leaky ReLU and powers, g_l in (2) for all but linear
            nets; for W_l in place of G_l; for powers with Q = I.
    """
    errors = _errors(KINDS, t.rng, t.draws)
    powers = _errors(("square", "cube"), t.rng, t.draws)
    gated = _errors(("relu", "square", "cube"), t.rng, t.draws)  # there G_l is not W_l

    # (1) Forward, f~_l = G_l f~_{l-1}.
    forward = t.part(f"forward, {OWN}", EXACT, controls=pooled, draws=t.draws)
    forward.add(*errors["f~"])
    forward.breaks("as typeset, on f_{l-1}", *errors["f"], by=worst)
    forward.breaks("G = W acting on pre", *gated["G = W"])
    forward.proves(**exact_layers.forward())

    # (2) Backward, g~_{l-1} = G_l^T Q_l^T g~_l.
    backward = t.part(f"backward, {OWN}", EXACT, controls=pooled, draws=t.draws)
    backward.add(*errors["g~"])
    backward.breaks("as typeset, on g_l", *errors["g"], by=worst)
    backward.breaks("powers with Q = I", *powers["Q = I"])
    backward.proves(**exact_layers.backward())


@check("ddn/eq16")
def eq16(t: Trial) -> None:
    """Linear layers, dense and convolutional, are reversible (Eq. 16).

    Given   dense linear layers in nets of 2..5, and a one-dimensional convolution written out
            position by position; no bias.
    Claim   G_l = W_l (for the convolution a Toeplitz matrix) and Q_l = I carry values up and
            complex-step gradients down. Proved.
    Fails   with a bias, for Q = 2 I, for the kernel flipped.
    """
    dense = t.part("dense", EXACT, controls=pooled, draws=t.draws)
    for pair in nets.pairs(t.rng, t.draws, ("linear",), (2, 3, 4, 5)):
        post = nets.passes(pair.first, pair.x1, "linear")[1]
        for layer, w in enumerate(pair.first, 1):
            G, Q = cn.reversible(pair.traces[0], layer)
            G = np.broadcast_to(nets.one(G), w.shape)

            # Up: pre_l = G_l f_{l-1}.
            up, expected = nets.times(G, post[layer - 1]), nets.times(w, post[layer - 1])
            dense.add(relative(up, expected))
            dense.breaks("a bias", relative(up, expected + t.rng.standard_normal(expected.shape)))

            # Down: dr/df_{l-1} = G_l^T Q_l^T dr/dpre_l.
            top = np.einsum("ij,bj->bi", Q.numpy().T, nets.pre_gradient(pair, layer))
            down, expected = nets.times(G.swapaxes(1, 2), top), nets.pre_gradient(pair, layer - 1)
            dense.add(relative(down, expected))
            dense.breaks("Q = 2 I", relative(2 * down, expected))
    dense.proves(**exact_layers.dense())
    _convolution(t)


def _convolution(t: Trial) -> None:
    """Both passes of a convolution, position by position, against G = W, its Toeplitz matrix."""
    draws, n, k = t.draws, 9, 3
    kernel, x = t.rng.standard_normal((draws, k)), t.rng.standard_normal((draws, n))
    goal = t.rng.standard_normal((draws, n - k + 1))

    def convolve(u: Array) -> Array:
        return np.stack([(kernel * u[..., i : i + k]).sum(-1) for i in range(n - k + 1)], -1)

    def toeplitz(w: Array) -> Array:
        G = np.zeros((draws, n - k + 1, n))
        for i in range(n - k + 1):
            G[:, i, i : i + k] = w
        return G

    out, slope = convolve(x), ref.gradient(lambda u: nets.half(convolve(u), goal), x)

    def errors(w: Array) -> list[Array]:
        net = cn.trace(ref.tensors(toeplitz(w)), *ref.tensors(x[:, None]), cn.LINEAR)
        G = np.broadcast_to(nets.one(cn.reversible(net, 1)[0]), (draws, n - k + 1, n))
        back = nets.times(G.swapaxes(1, 2), out - goal)
        return [relative(nets.times(G, x), out), relative(back, slope)]  # up, down

    part = t.part("convolution", EXACT, controls=pooled, draws=draws).add(*errors(kernel))
    part.breaks("kernel flipped", *errors(kernel[:, ::-1]))
    part.proves(**exact_layers.convolution())


@check("ddn/eq17")
def eq17(t: Trial) -> None:
    """ReLU and leaky ReLU networks are reversible (Eq. 17).

    Given   random ReLU and leaky ReLU nets of 2..5 layers.
    Claim   G_l = W_l D_{l-1}, Q_l = I: D rebuilt from numpy's pre-activations, binary for ReLU and
            slopes for leaky ReLU; pre_l = G_l pre_{l-1}, and its transpose carries complex-step
            gradients down. Proved.
    Fails   for the gate of the layer above (D_l W_l), and without a gate.
    """
    for name, words, low in (("relu", "ReLU", 0.0), ("leaky", "leaky ReLU", 0.1)):
        part = t.part(words, EXACT, controls=pooled, draws=t.draws)
        for pair in nets.pairs(t.rng, t.share(2), (name,), DEPTHS):
            net, pre = pair.traces[0], nets.passes(pair.first, pair.x1, name)[0]
            slopes = [nets.pre_gradient(pair, k) for k in range(pair.depth + 1)]
            floor = 1e-3 * np.abs(slopes[-1]).max(-1)
            for layer in range(2, pair.depth + 1):
                # G_l = W_l D_{l-1}, up and down; pre[k] is pre_{k+1}, above D_l.
                w, G = pair.first[layer - 1], nets.one(cn.reversible(net, layer)[0])
                here, above = (np.where(pre[k] > 0, 1.0, low) for k in (layer - 2, layer - 1))
                part.add(relative(G, w * here[:, None, :]))
                part.add(relative(nets.times(G, pre[layer - 2]), pre[layer - 1]))
                goal, top = slopes[layer - 1], slopes[layer]
                part.add(relative(nets.times(G.swapaxes(1, 2), top), goal, floor))
                for what, wrong in (("D_l W_l", w * above[:, :, None]), ("no gate", w)):
                    back = nets.times(wrong.swapaxes(1, 2), top)
                    part.breaks(what, relative(back, goal, floor))
        part.proves(**exact_layers.gated(name))


@check("ddn/eq18")
def eq18(t: Trial) -> None:
    """Power activations are reversible, with Q = pI (Eq. 18).

    Given   psi(u) = u^p, p = 2 and 3 of any sign, 1.5 on positive pre-activations.
    Claim   G_l = W_l diag^(p-1)(pre_{l-1}) and Q_l = p I carry pre-activations up and complex-step
            gradients down. Proved.
    Fails   for Q = I, and for G = W.
    """
    errors = _errors(nets.POWERS, t.rng, t.draws)
    part = t.part("", EXACT, controls=pooled, draws=t.draws).add(*errors["f~"], *errors["g~"])
    part.breaks("Q = I", *errors["Q = I"])
    part.breaks("G = W", *errors["G = W"])
    part.proves(**exact_layers.power_layer())


@check("ddn/lem1")
def lem1(t: Trial) -> None:
    """Recursive gradient of the squared distance in reversible networks (Lemma 1, Eqs. 19-22).

    Given   two towers of linear, ReLU, leaky ReLU and power nets with different weights, 2..5
            layers; and two with a hidden normalisation, where Q_2 is not symmetric.
    Claim   dr/dpre_l(x_1) = V_l^bT(x_1) [V_l^f(x_1) pre_l(x_1) - V_l^f(x_2) pre_l(x_2)] at every
            layer, and at the input with pre_0 = x: against complex steps. V_{l-1} has n_L rows (a
            misprint has n_l). Proved.
    Fails   for a plus, for V^b at x_2, for Q_l^T; in power nets for V^f in front and for
            Definition 2 as typeset, W_l for G_l; the shapes as typeset or transposed.
    """
    eq22 = t.part("Eq. 22", EXACT, controls=pooled, draws=t.draws)
    shapes = t.part("shapes of $V_{l-1}$", 0, draws=t.draws, measured=total, controls=total)
    bottom = t.part("Eq. 22 at the input", EXACT, controls=pooled, draws=t.draws)
    for pair in _kinds(t.rng, t.draws, KINDS):
        (one, two), top = pair.traces, pair.first[-1].shape[1]
        power = pair.name in nets.POWERS
        floor = 1e-3 * np.abs(nets.pre_gradient(pair, pair.depth)).max(-1)

        def off(V: Array, gap: Array, layer: int, pair=pair, floor=floor) -> Array:
            down = nets.times(V.swapaxes(1, 2), gap)
            return relative(down, nets.pre_gradient(pair, layer), floor)

        # At the input, where pre_0 = x.
        (f1, b1), (f2, _) = (map(nets.one, cn.transitions(net, 0)) for net in (one, two))
        gap = nets.times(f1, pair.x1) - nets.times(f2, pair.x2)
        bottom.add(off(b1, gap, 0))
        if power:
            bottom.breaks("V^f in front, powers", off(f1, gap, 0))

        for layer in range(1, pair.depth + 1):
            # dr/dpre_l(x_1) = V_l^bT(x_1) [V_l^f(x_1) pre_l(x_1) - V_l^f(x_2) pre_l(x_2)].
            (f1, b1), (f2, b2) = (map(nets.one, cn.transitions(net, layer)) for net in (one, two))
            u, v = (nets.one(net.pre[layer - 1]) for net in (one, two))
            a, b = nets.times(f1, u), nets.times(f2, v)
            eq22.add(off(b1, a - b, layer)).breaks("a plus", off(b1, a + b, layer))
            if layer < pair.depth:
                eq22.breaks("V^b at x_2", off(b2, a - b, layer))
                if power:
                    eq22.breaks("V^f in front, powers", off(f1, a - b, layer))
                    up = [reduce(np.matmul, w[: layer - 1 : -1]) for w in (pair.first, pair.second)]
                    typeset = nets.times(up[0], u) - nets.times(up[1], v)  # V^f of G_l = W_l
                    eq22.breaks("Def. 2 as typeset, powers", off(b1, typeset, layer))

            # V_{l-1} is n_L x n_{l-1}.
            here, below = pair.first[layer - 1].shape[1:]
            shape = cn.transitions(one, layer - 1)[0].shape[2:]
            shapes.add(shape != (top, below))
            shapes.breaks("as typeset, n_l rows", shape != (here, below))
            shapes.breaks("transposed", shape != (below, top))
    # Behind a hidden normalisation Q_l is not symmetric.
    ours, turned, goal = nets.normalised_hidden(t.rng, t.draws)
    hidden = t.part("a hidden normalisation", EXACT, controls=pooled, draws=t.draws)
    hidden.add(relative(ours, goal)).breaks("$Q_l^\\top$ for $Q_l$", relative(turned, goal))
    eq22.proves(**exact_layers.lemma1())
    shapes.proves(**exact_layers.shapes())


@check("ddn/rem7")
def rem7(t: Trial) -> None:
    """In ReLU networks the transition matrices are the Jacobian (App. A.1; Eq. 31).

    Given   ReLU nets of 2..5 layers, linear top; then x_1 = x_2 with a teacher's weights.
    Claim   V_l^f = V_l^b =: V_l, V_l pre_l = f_L, and V_l = df_L/dpre_l with G_l = W_l D_{l-1},
            products in numpy; Lemma 1 of teacher and student follows. With G_l = D_l W_l, as
            printed here, the product is df_L/df_l. All proved.
    Fails   without gates, for one order of W and D in place of the other, for the student's V on
            the teacher.
    """
    equal, printed, post, teacher = (
        t.part(name, EXACT, controls=pooled, draws=t.draws)
        for name in ("$V^f_l=V^b_l$", "$J_l=V_l$", "$G_l=D_lW_l$", "$x_1=x_2$, teacher weights")
    )
    for pair in nets.pairs(t.rng, t.draws, ("relu",), DEPTHS):
        pre, top = nets.passes(pair.first, pair.x1, "relu")[0], pair.outputs[0]
        gates = [(p > 0).astype(float) for p in pre[:-1]] + [np.ones_like(pre[-1])]
        before = after = bare = np.broadcast_to(np.eye(top.shape[1]), (*top.shape, top.shape[1]))
        for layer in range(pair.depth - 1, 0, -1):
            w = pair.first[layer]  # of layer + 1
            before = before @ (w * gates[layer - 1][:, None, :])
            after, bare = after @ (gates[layer][:, :, None] * w), bare @ w
            floor = np.abs(bare).max((1, 2)) * 1e-3
            J = nets.jacobian(pair.first[layer:], pre[layer - 1], "relu")

            # V_l^f = V_l^b is the product of W D, and takes pre_l to f_L.
            Vf, Vb = map(nets.one, cn.transitions(pair.traces[0], layer))
            equal.add(relative(Vf, before), relative(Vb, before))
            equal.add(relative(nets.times(Vf, pre[layer - 1]), top))
            equal.breaks("no gates", relative(bare, J, floor))

            # The product of W D is df_L/dpre_l.
            printed.add(relative(before, J, floor))
            printed.breaks("as typeset, G_l = D_l W_l", relative(after, J, floor), by=worst)
            printed.breaks("G_l = D_l W_l, median", relative(after, J, floor))
            printed.breaks("no gates", relative(bare, J, floor))

            # The product of D W is df_L/df_l.
            J_post = nets.jacobian(pair.first[layer + 1 :], pre[layer], "relu") @ w
            post.add(relative(after, J_post, floor))
            post.breaks("the product with W_l D_{l-1}", relative(before, J_post, floor), by=typical)

        # Lemma 1 of teacher and student, at one input.
        same = nets.Pair(pair.first, pair.second, pair.x1, pair.x1, "relu")
        floor = 1e-3 * np.abs(nets.pre_gradient(same, pair.depth)).max(-1)
        for layer in range(1, pair.depth):
            V, star = (nets.one(cn.transitions(net, layer)[0]) for net in same.traces)
            a, b = (nets.one(net.pre[layer - 1]) for net in same.traces)
            expected = nets.pre_gradient(same, layer)
            taught, untaught = (
                nets.times(V.swapaxes(1, 2), nets.times(V, a) - nets.times(W, b)) for W in (star, V)
            )
            teacher.add(relative(taught, expected, floor))
            teacher.breaks("student's V for the teacher", relative(untaught, expected, floor))
    equal.proves(**exact_layers.equal_transitions())
    printed.proves(**exact_layers.jacobians(after=False))
    post.proves(**exact_layers.jacobians(after=True))
    teacher.proves(**exact_layers.teacher())


# ---------------------------------------------------------------------------- residual blocks


def _residual(blocks: list[tuple[Array, Array]], pre: Array, top: Array, after: bool) -> Array:
    """f_L from a pre-activation: ReLU if `after`, the blocks above, the linear top."""
    relu = partial(nets.act, "relu")
    f = relu(pre) if after else pre
    for inner, outer in blocks:
        f = f + nets.times(outer, relu(nets.times(inner, f)))
        f = relu(f) if after else f
    return nets.times(top, f)


def _traces(towers: list[tuple], after: bool) -> list[cn.Trace]:
    """Towers of residual blocks in the library."""
    out = []
    for first, blocks, top, x in towers:
        layers = [cn.Residual(*ref.tensors(inner, outer)) for inner, outer in blocks]
        weights = [*ref.tensors(first), *layers, *ref.tensors(top)]
        psi = cn.RELU if after else cn.LINEAR
        out.append(cn.trace(weights, *ref.tensors(x[:, None]), psi))
    return out


@check("ddn/rem8")
def rem8(t: Trial) -> None:
    """Residual blocks with ReLU have the same reversible structure (App. A.1).

    Given   nets of a dense layer, 1..3 residual ReLU blocks and a linear top, with and without a
            ReLU after the sum; no batch norm.
    Claim   Lemma 1 holds at the outputs of blocks: the library's V_l against complex steps, and
            V_l pre_l = f_L; proved.
    Fails   without the skip in G, without the gates; for Theorem 1's form inside a block, where
            K^T vec(W) is not f_L.
    """
    part, count = t.part("", EXACT, controls=pooled, draws=t.draws), t.share(6)
    for depth, after in product((1, 2, 3), (True, False)):
        d, m = t.rng.integers(4, 8, 2).tolist()
        towers = [_block_net(t.rng, count, depth, d, m) for _ in range(2)]
        traces = _traces(towers, after)
        goal = nets.one(traces[1].output)
        _, blocks, top, _ = towers[0]
        delta = nets.one(traces[0].output) - goal
        floor = 1e-3 * np.abs(delta).max(-1)
        for layer in range(1, depth + 2):
            pre = [nets.one(net.pre[layer - 1]) for net in traces]
            rest = blocks[layer - 1 :]

            def r(u: Array, rest=rest, top=top, after=after, goal=goal) -> Array:
                return nets.half(_residual(rest, u, top, after), goal)

            slope = ref.gradient(r, pre[0])
            V = [nets.one(cn.transitions(net, layer)[0]) for net in traces]
            gap = nets.times(V[0], pre[0]) - nets.times(V[1], pre[1])
            part.add(relative(nets.times(V[0].swapaxes(1, 2), gap), slope, floor))
            part.add(relative(gap, delta, floor))  # V_l pre_l = f_L, one tower minus the other
            if rest:
                for what, skip in (("no skip", 0), ("no gates", np.eye(d))):
                    chain = reduce(np.matmul, [top, *(skip + o @ i for i, o in reversed(rest))])
                    back = nets.times(chain.swapaxes(1, 2), delta)
                    part.breaks(what, relative(back, slope, floor))
        part.breaks("Theorem 1 inside a block", _inside(towers, traces, depth))
    part.proves(**exact_layers.residual())


def _block_net(rng: np.random.Generator, count: int, depth: int, d: int, m: int) -> tuple:
    """(W_1, blocks, W_L, x) of one tower."""

    def normal(*shape: int) -> Array:
        return rng.standard_normal((count, *shape)) / np.sqrt(shape[-1])

    blocks = [(normal(m, d), normal(d, m)) for _ in range(depth)]
    return normal(d, 5), blocks, normal(4, d), rng.standard_normal((count, 5))


def _inside(towers: list[tuple], traces: list[cn.Trace], depth: int) -> Array:
    """[draws]: K^T vec(W) = J W h for the last block's outer W, off f_L; the first tower."""
    inner, outer = towers[0][1][-1]
    f, J = (nets.one(t) for t in (traces[0].post[depth], cn.jacobian(traces[0], depth + 1)))
    hidden = nets.act("relu", nets.times(inner, f))
    return relative(nets.times(J @ outer, hidden), nets.one(traces[0].output))
