"""Checks of ddn App. A.1: reversible layers, Lemma 1, residual blocks.

The library's G_l, Q_l, V_l against complex steps through numpy nets. g is dr/df and g~ is dr/dpre,
r the halved squared distance of a pair of towers, differentiated in the first one.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.ledger import Check
from clcore.reference import Array, relative, worst
from clcore.theory.operator import connection as cn

EXACT = 1e-11
DEPTHS = (2, 3, 4, 5)
KINDS = (*nets.PIECEWISE, "square", "cube")
OWN = "with the $G_l$, $Q_l$ of Eqs. 16-18"
SLIP = (
    "A definition: tested is that the $G_l$, $Q_l$ of Eqs. 16-18 meet it in the sense in which the "
    "proof of Lemma 1 uses it (Eqs. 24 and 26 have the tildes). "
)


def _kinds(rng: np.random.Generator, draws: int, names: tuple[str, ...]) -> Iterator[nets.Pair]:
    """Pairs of towers; powers only up to three layers, where values stay of order one."""
    for name in names:
        depths = (2, 3) if name in nets.POWERS else DEPTHS
        yield from nets.pairs(rng, ref.share(draws, len(names)), (name,), depths)


def _errors(names: tuple[str, ...], rng: np.random.Generator, draws: int) -> dict[str, list[Array]]:
    """Def. 2 with the library's G_l, Q_l in every reading, all layers above the first.

    forward: pre_l against G_l times pre_{l-1} or f_{l-1}; backward: dr/dpre_{l-1} against
    G_l^T Q_l^T times dr/dpre_l or dr/df_l; the last two with a wrong G, Q.
    """
    out = {k: [] for k in ("pre", "post", "g~", "g", "no gate", "Q = I")}
    for pair in _kinds(rng, draws, names):
        net = pair.traces[0]
        pre, post = nets.passes(pair.first, pair.x1, pair.name)
        slopes = [pair.pre_gradient(k) for k in range(pair.depth + 1)]
        for layer in range(2, pair.depth + 1):
            G, Q = cn.reversible(net, layer)
            G, Q = nets.one(G), Q.numpy()
            back = G.swapaxes(1, 2) @ Q.T
            floor = 1e-3 * np.abs(pre[layer - 1]).max(-1), 1e-3 * np.abs(slopes[-1]).max(-1)
            out["pre"].append(relative(nets.times(G, pre[layer - 2]), pre[layer - 1]))
            out["post"].append(relative(nets.times(G, post[layer - 1]), pre[layer - 1]))
            w = pair.first[layer - 1]
            out["no gate"].append(relative(nets.times(w, pre[layer - 2]), pre[layer - 1], floor[0]))
            goal = slopes[layer - 1]
            out["g~"].append(relative(nets.times(back, slopes[layer]), goal, floor[1]))
            plain = nets.times(G.swapaxes(1, 2), slopes[layer])
            out["Q = I"].append(relative(plain, goal, floor[1]))
            if layer < pair.depth:  # dr/df_l = W_{l+1}^T dr/dpre_{l+1}
                g = nets.times(pair.first[layer].swapaxes(1, 2), slopes[layer + 1])
                out["g"].append(relative(nets.times(back, g), goal, floor[1]))
    return out


def def2(draws: int, seed: int) -> Iterator[Check]:
    """Def. 2 with the paper's own G_l and Q_l for linear, ReLU, leaky-ReLU and power layers.

    Both maps between pre-activations, as in Eqs. 24 and 26. As typeset, forward acts on f_{l-1},
    true for ReLU only because its gates are idempotent, and backward on g_l = dr/df_l: among the
    controls, with no gate and Q = I for the powers.
    """
    rng, check = ref.generator("ddn def2", seed), partial(Check, "ddn/def2", draws=draws)
    errors = _errors(KINDS, rng, draws)
    powers = _errors(("square", "cube"), rng, draws)
    bare = _errors(("relu", "square", "cube"), rng, draws)["no gate"]
    yield check(
        worst(*errors["pre"]),
        EXACT,
        {
            "as typeset, on f_{l-1}": worst(*errors["post"]),
            **ref.pooled({"G = W acting on pre": bare}),
        },
        part=f"forward, {OWN}",
        misprint=r"$\tilde f_l=G_lf_{l-1}$ -> $\tilde f_l=G_l\tilde f_{l-1}$",
        note=SLIP + r"As typeset, linear and ReLU layers meet it and powers do not: $\psi(u)=u^2$, "
        r"all weights 1, $x=2$: $\tilde f_2=4$, $G_2f_1=8$.",
    )
    yield check(
        worst(*errors["g~"]),
        EXACT,
        {
            "as typeset, on g_l": worst(*errors["g"]),
            **ref.pooled({"powers with Q = I": powers["Q = I"]}),
        },
        part=f"backward, {OWN}",
        misprint=r"$\tilde g_{l-1}=G_l^\top Q_l^\top g_l$ -> "
        r"$\tilde g_{l-1}=G_l^\top Q_l^\top\tilde g_l$",
        note=SLIP + r"$\tilde g_l$ is the derivative by $\tilde f_l$.",
    )


def eq16(draws: int, seed: int) -> Iterator[Check]:
    """Linear layers: G_l = W_l, Q_l = I, dense and convolutional.

    The library's G and Q carry numpy's pre-activations up and its complex-step gradients down. A
    convolution is written out position by position, its G as a Toeplitz matrix. Controls: a bias,
    which the condition excludes; twice the backward map; the flipped kernel.
    """
    rng, check = ref.generator("ddn eq16", seed), partial(Check, "ddn/eq16", draws=draws)
    errors, doubled, biased = [], [], []
    for pair in nets.pairs(rng, draws, ("linear",), (2, 3, 4, 5)):
        net = pair.traces[0]
        for layer in range(1, pair.depth + 1):
            G, Q = cn.reversible(net, layer)
            G, w = nets.one(G), pair.first[layer - 1]
            G = np.broadcast_to(G, w.shape)
            below = nets.passes(pair.first, pair.x1, "linear")[1][layer - 1]
            up = nets.times(w, below)
            errors.append(relative(nets.times(G, below), up))
            bias = rng.standard_normal(up.shape)
            biased.append(relative(nets.times(G, below), up + bias))
            goal = pair.pre_gradient(layer - 1)
            down = np.einsum("ij,bj->bi", Q.numpy().T, pair.pre_gradient(layer))
            back = nets.times(G.swapaxes(1, 2), down)
            errors.append(relative(back, goal))
            doubled.append(relative(2 * back, goal))
    yield check(
        worst(*errors),
        EXACT,
        ref.pooled({"a bias": biased, "Q = 2 I": doubled}),
        part="dense",
    )
    n, k = 9, 3
    kernel, x = rng.standard_normal((draws, k)), rng.standard_normal((draws, n))
    goal = rng.standard_normal((draws, n - k + 1))

    def convolve(u: Array) -> Array:
        return np.stack([(kernel * u[..., i : i + k]).sum(-1) for i in range(n - k + 1)], -1)

    def toeplitz(w: Array) -> Array:
        G = np.zeros((draws, n - k + 1, n))
        for i in range(n - k + 1):
            G[:, i, i : i + k] = w
        return G

    slope = ref.gradient(lambda u: nets.half(convolve(u), goal), x)

    def error(w: Array) -> list[Array]:
        net = cn.trace(ref.tensors(toeplitz(w)), *ref.tensors(x[:, None]), cn.LINEAR)
        G = np.broadcast_to(nets.one(cn.reversible(net, 1)[0]), (draws, n - k + 1, n))
        out = convolve(x)
        back = nets.times(G.swapaxes(1, 2), out - goal)
        return [relative(nets.times(G, x), out), relative(back, slope)]

    flipped = {"kernel flipped": error(kernel[:, ::-1])}
    yield check(worst(*error(kernel)), EXACT, ref.pooled(flipped), part="convolution")


def eq17(draws: int, seed: int) -> Iterator[Check]:
    """ReLU and leaky-ReLU nets: pre_l = G_l pre_{l-1} and its transpose, G_l = W_l D_{l-1}.

    D is rebuilt from numpy's pre-activations: binary for ReLU, slopes for leaky ReLU. Controls: the
    gate of the layer above (D_l W_l); no gate.
    """
    rng, check = ref.generator("ddn eq17", seed), partial(Check, "ddn/eq17", draws=draws)
    for name, low in (("relu", 0.0), ("leaky", 0.1)):
        errors, after, bare = [], [], []
        for pair in nets.pairs(rng, ref.share(draws, 2), (name,), DEPTHS):
            net, pre = pair.traces[0], nets.passes(pair.first, pair.x1, name)[0]
            slopes = [pair.pre_gradient(k) for k in range(pair.depth + 1)]
            floor = 1e-3 * np.abs(slopes[-1]).max(-1)
            for layer in range(2, pair.depth + 1):
                w, G = pair.first[layer - 1], nets.one(cn.reversible(net, layer)[0])
                D = np.where(pre[layer - 2] > 0, 1.0, low)
                above = np.where(pre[layer - 1] > 0, 1.0, low)
                errors.append(relative(G, w * D[:, None, :]))
                errors.append(relative(nets.times(G, pre[layer - 2]), pre[layer - 1]))
                goal, top = slopes[layer - 1], slopes[layer]
                errors.append(relative(nets.times(G.swapaxes(1, 2), top), goal, floor))
                wrong = w * above[:, :, None]
                after.append(relative(nets.times(wrong.swapaxes(1, 2), top), goal, floor))
                bare.append(relative(nets.times(w.swapaxes(1, 2), top), goal, floor))
        yield check(
            worst(*errors),
            EXACT,
            ref.pooled({"D_l W_l": after, "no gate": bare}),
            part="ReLU" if name == "relu" else "leaky ReLU",
            note="" if name == "relu" else "the gates are slopes, not binary",
        )


def eq18(draws: int, seed: int) -> Iterator[Check]:
    """psi(u) = u^p for p = 2, 3, and 1.5 on positive pre-activations; G on pre_{l-1}.

    Controls: Q = I; the gate to the power p.
    """
    rng, check = ref.generator("ddn eq18", seed), partial(Check, "ddn/eq18", draws=draws)
    errors = _errors(nets.POWERS, rng, draws)
    controls = {"Q = I": errors["Q = I"], "G = W": errors["no gate"]}
    yield check(worst(*errors["pre"], *errors["g~"]), EXACT, ref.pooled(controls))


def lem1(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 22 at every layer of linear, ReLU, leaky-ReLU and power nets; the shapes of V_l.

    Controls: V^f for V^b in power nets; a plus; V at x_2 in front.
    """
    rng, check = ref.generator("ddn lem1", seed), partial(Check, "ddn/lem1", draws=draws)
    errors, plus, forward, other = [], [], [], []
    typeset, meant, flipped = 0, 0, 0
    for pair in _kinds(rng, draws, KINDS):
        one, two = pair.traces
        floor = 1e-3 * np.abs(pair.pre_gradient(pair.depth)).max(-1)
        for layer in range(1, pair.depth + 1):
            (f1, b1), (f2, b2) = (map(nets.one, cn.transitions(t, layer)) for t in (one, two))
            pre = [nets.one(t.pre[layer - 1]) for t in (one, two)]
            a, b = nets.times(f1, pre[0]), nets.times(f2, pre[1])
            goal = pair.pre_gradient(layer)
            for where, V, gap in (
                (errors, b1, a - b),
                (plus, b1, a + b),
                (forward if pair.name in nets.POWERS and layer < pair.depth else [], f1, a - b),
                (other if layer < pair.depth else [], b2, a - b),
            ):
                where.append(relative(nets.times(V.swapaxes(1, 2), gap), goal, floor))
            (here, below), top = pair.first[layer - 1].shape[1:], pair.first[-1].shape[1]
            shape = cn.transitions(one, layer - 1)[0].shape[2:]
            typeset += shape != (here, below)
            meant += shape != (top, below)
            flipped += shape != (below, top)
    broken = {"a plus": plus, "V^f in front, powers": forward, "V^b at x_2": other}
    yield check(worst(*errors), EXACT, ref.pooled(broken), part="Eq. 22")
    yield check(
        meant,
        0,
        {"as typeset, n_l rows": typeset, "transposed": flipped},
        part="shapes of $V_{l-1}$",
        misprint=r"$V_{l-1}^f,V_{l-1}^b\in\mathbb R^{n_l\times n_{l-1}}$ -> "
        r"$\mathbb R^{n_L\times n_{l-1}}$",
        note=r"Eq. 22 is not touched. Widths $n_0,\dots,n_3=2,3,4,5$: $V_1=V_3G_3G_2$ is "
        r"$5\times3$.",
    )


def rem7(draws: int, seed: int) -> Iterator[Check]:
    """V_l = J_l in ReLU nets, by numpy products of both orders of W and D; teacher and student.

    With G_l = D_l W_l the product is the Jacobian by f_l, not by pre_l. Controls: no gates; the
    two orders of each other; the student's V for the teacher.
    """
    rng, check = ref.generator("ddn rem7", seed), partial(Check, "ddn/rem7", draws=draws)
    equal, first, second, by_post, by_post_other, bare = ([] for _ in range(6))
    taught, untaught = [], []
    for pair in nets.pairs(rng, draws, ("relu",), DEPTHS):
        net = pair.traces[0]
        pre, post = nets.passes(pair.first, pair.x1, "relu")
        gates = [(p > 0).astype(float) for p in pre[:-1]] + [np.ones_like(pre[-1])]
        before = after = plain = np.broadcast_to(
            np.eye(pre[-1].shape[1]), (len(pre[0]), *2 * pre[-1].shape[1:])
        )
        for layer in range(pair.depth - 1, 0, -1):
            w = pair.first[layer]  # of layer + 1
            before = before @ (w * gates[layer - 1][:, None, :])
            after, plain = after @ (gates[layer][:, :, None] * w), plain @ w
            J = nets.jacobian(pair.first[layer:], pre[layer - 1], "relu")
            floor = np.abs(plain).max((1, 2)) * 1e-3
            for where, value in ((first, before), (second, after), (bare, plain)):
                where.append(relative(value, J, floor))
            J_post = nets.jacobian(pair.first[layer + 1 :], pre[layer], "relu") @ w
            by_post.append(relative(after, J_post, floor))
            by_post_other.append(relative(before, J_post, floor))
            Vf, Vb = map(nets.one, cn.transitions(net, layer))
            equal += [
                relative(Vf, before),
                relative(Vb, before),
                relative(nets.times(Vf, pre[layer - 1]), post[-1]),
            ]
        same = nets.Pair(pair.first, pair.second, pair.x1, pair.x1, "relu")
        one, two = same.traces
        for layer in range(1, pair.depth):
            V, star = (nets.one(cn.transitions(t, layer)[0]) for t in (one, two))
            a, b = (nets.one(t.pre[layer - 1]) for t in (one, two))
            goal = same.pre_gradient(layer)
            floor = 1e-3 * np.abs(same.pre_gradient(pair.depth)).max(-1)
            for where, W in ((taught, star), (untaught, V)):
                gap = nets.times(V, a) - nets.times(W, b)
                where.append(relative(nets.times(V.swapaxes(1, 2), gap), goal, floor))
    yield check(worst(*equal), EXACT, ref.pooled({"no gates": bare}), part="$V^f_l=V^b_l$")
    yield check(
        worst(*first),
        EXACT,
        {
            "as typeset, G_l = D_l W_l": worst(*second),
            **ref.pooled({"G_l = D_l W_l, median": second, "no gates": bare}),
        },
        part="$J_l=V_l$",
        misprint=r"$G_l=D_lW_l$ -> $G_l=W_lD_{l-1}$, as in Eq. 17",
        note=r"Of $W_1=-1$, $W_2=1$, $x=1$: $D_2W_2=1$, as the top is linear, and $J_1=0$.",
    )
    yield check(
        worst(*by_post),
        EXACT,
        {"the product with W_l D_{l-1}": ref.typical(*by_post_other)},
        part="$G_l=D_lW_l$",
        note=r"Taken as it is, $D_lW_l$ gives $V_l=\partial f_L/\partial f_l$: the derivative by "
        "activations, not by pre-activations.",
    )
    yield check(
        worst(*taught),
        EXACT,
        ref.pooled({"student's V for the teacher": untaught}),
        part="$x_1=x_2$, teacher weights",
    )


# ---------------------------------------------------------------------------- residual blocks


def _residual(blocks: list[tuple[Array, Array]], pre: Array, top: Array, after: bool) -> Array:
    """f_L from a pre-activation: ReLU if `after`, the blocks above, the linear top."""
    relu = partial(nets.act, "relu")
    f = relu(pre) if after else pre
    for inner, outer in blocks:
        f = f + nets.times(outer, relu(nets.times(inner, f)))
        f = relu(f) if after else f
    return nets.times(top, f)


def rem8(draws: int, seed: int) -> Iterator[Check]:
    """Lemma 1 at the outputs of residual blocks, with and without a ReLU after the sum.

    A net is a dense layer, 1 to 3 blocks, a linear top. Controls: the skip left out of G; the gates
    left out; Theorem 1's form for a matrix inside a block, where K^T vec(W) is not f_L.
    """
    rng, check = ref.generator("ddn rem8", seed), partial(Check, "ddn/rem8", draws=draws)
    errors, skipless, gateless, inside = [], [], [], []
    count = ref.share(draws, 6)
    for depth in (1, 2, 3):
        for after in (True, False):
            d, m = rng.integers(4, 8, 2).tolist()
            towers = [_block_net(rng, count, depth, d, m) for _ in range(2)]
            traces = []
            for first, blocks, top, x in towers:
                layers = [cn.Residual(*ref.tensors(*block)) for block in blocks]
                weights = [*ref.tensors(first), *layers, *ref.tensors(top)]
                psi = cn.RELU if after else cn.LINEAR
                traces.append(cn.trace(weights, *ref.tensors(x[:, None]), psi))
            goal_out = nets.one(traces[1].output)
            _, blocks, top, _ = towers[0]
            delta = nets.one(traces[0].output) - goal_out
            for layer in range(1, depth + 2):
                pre = [nets.one(t.pre[layer - 1]) for t in traces]
                rest = blocks[layer - 1 :]
                slope = ref.gradient(
                    lambda u, rest=rest, top=top, after=after, goal=goal_out: nets.half(
                        _residual(rest, u, top, after), goal
                    ),
                    pre[0],
                )
                floor = 1e-3 * np.abs(delta).max(-1)
                V = [nets.one(cn.transitions(t, layer)[0]) for t in traces]
                gap = nets.times(V[0], pre[0]) - nets.times(V[1], pre[1])
                back = V[0].swapaxes(1, 2)
                errors.append(relative(nets.times(back, gap), slope, floor))
                errors.append(relative(gap, delta, floor))
                if rest:
                    chain = [top, *(o @ i for i, o in reversed(rest))]
                    ungated = [top, *(np.eye(d) + o @ i for i, o in reversed(rest))]
                    for where, parts in ((skipless, chain), (gateless, ungated)):
                        M = parts[0]
                        for part in parts[1:]:
                            M = M @ part
                        where.append(relative(nets.times(M.swapaxes(1, 2), delta), slope, floor))
            inside.append(_inside(towers, traces, depth))
    broken = {"no skip": skipless, "no gates": gateless, "Theorem 1 inside a block": inside}
    yield check(
        worst(*errors),
        EXACT,
        ref.pooled(broken),
        note=r"at block outputs; inside a block $K^\top\mathrm{vec}(W)\ne f_L$, there is a skip",
    )


def _block_net(rng: np.random.Generator, count: int, depth: int, d: int, m: int) -> tuple:
    """(W_1, blocks, W_L, x) of one tower."""

    def normal(*shape: int) -> Array:
        return rng.standard_normal((count, *shape)) / np.sqrt(shape[-1])

    blocks = [(normal(m, d), normal(d, m)) for _ in range(depth)]
    return normal(d, 5), blocks, normal(4, d), rng.standard_normal((count, 5))


def _inside(towers: list[tuple], traces: list[cn.Trace], depth: int) -> Array:
    """[draws]: J W h, K^T vec(W) of the last block's outer W, against f_L, the first tower."""
    inner, outer = towers[0][1][-1]
    f, J = (nets.one(t) for t in (traces[0].post[depth], cn.jacobian(traces[0], depth + 1)))
    hidden = nets.act("relu", nets.times(inner, f))
    return relative(nets.times(J @ outer, hidden), nets.one(traces[0].output))
