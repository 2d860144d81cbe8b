"""How the runs of ddn Tables 4, 6 and Figs. 13, 14 are trained and measured, once more by hand.

The views' law by enumeration, the net latent by latent, the loss sample by sample, gradients and
Jacobians by complex steps: what `tree_contrast` and `tree_statistics` do on tables of patterns.
"""

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np
import torch

from clcore.checks.hltm.runs.measure import group, law, measured
from clcore.experiments import tree_contrast as tc
from clcore.ledger import Trial, check, pooled
from clcore.reference import STEP, Array, kolmogorov
from clcore.theory.trees import leaf_patterns, pattern_net

Net = Mapping[str, Array]


def _leaves(patterns: Array, depth: int, signed: bool = False) -> Array:
    """[views, 2^depth], as the blocks' patterns [blocks, views] spell them, 0, 1 or -1, 1."""
    count = 2**depth // len(patterns)
    texts = ("".join(format(p, f"0{count}b") for p in view) for view in patterns.T.tolist())
    bits = np.array([[float(c) for c in text] for text in texts])
    return 2 * bits - 1 if signed else bits


# ------------------------------------------------------------------------------------------ data


def _chances(table: Array) -> Array:
    """The law from which one of Walker's tables draws: an entry stays below its threshold."""
    out = np.zeros(len(table))
    for place, entry in enumerate(table.tolist()):
        stay, alias = entry % 2**25 / 2**24, entry >> 25
        out[place] += stay / len(table)
        out[alias] += (1 - stay) / len(table)
    return out


def _down(rho: Array, depth: int, start: int = 0) -> Array:
    """E of the product of a leaf's sign and of its ancestor's at depth `start`, [2^L]."""
    paths = [format(leaf, f"0{depth}b") for leaf in range(2**depth)]
    edges = [[2**k - 2 + int(path[:k], 2) for k in range(start + 1, depth + 1)] for path in paths]
    return np.array([np.prod([rho[edge] for edge in edge_of]) for edge_of in edges])


def _pairs(rho: Array, depth: int) -> tuple[Array, Array]:
    """E of products of two leaves' signs, [2^L, 2^L]: of one view, of two that share the root."""
    down = [_down(rho, depth, start) for start in range(depth + 1)]
    own = np.empty((2**depth, 2**depth))
    for a, b in np.ndindex(own.shape):
        common = depth - (a ^ b).bit_length()  # of the lowest latent above both
        own[a, b] = down[common][a] * down[common][b]
    return own, np.outer(down[0], down[0])


def _off(patterns: Array, rho: Array, depth: int) -> float:
    """How far the signs of views x_1, x_+, x_- are from `_pairs`, in standard errors."""
    first, plus, minus = np.split(_leaves(patterns, depth, True), 3)
    own, shared = _pairs(rho, depth)
    pairs = ((first, own), (plus, shared), (minus, 0 * shared))
    return max(
        float(np.abs(first.T @ x / len(first) - mean).max()) * len(first) ** 0.5
        for x, mean in pairs
    )


def _views(t: Trial) -> None:
    """Entries of the tables from which views are drawn, and the signs of views that are drawn."""
    tables = t.defines("law of a view", 1e-7, controls=pooled)
    signs = t.defines("signs of two views", 6.5, draws=4000 * min(t.draws, 4))
    for key in t.keys(min(t.draws, 4), "views"):
        c = tc.configuration(0, 0.7, 2, signs=True)
        c |= tc.PROBLEM["setup"](key, c)
        rho, depth, top = c["polarity"].numpy(), c["depth"], pattern_net.block_depth(c["depth"])
        blocks = ["".join(path) for path in product("01", repeat=top)]
        for found, expected in (
            (c["states"], law(rho[: 2 ** (top + 1) - 2], "", top)),
            (c["patterns"], np.concatenate([law(rho, path, depth) for path in blocks])),
        ):
            rows = np.array([_chances(row) for row in found.flatten(0, -2).numpy()])
            tables.add(np.abs(rows - expected).max(1))
            tables.breaks("given another value", np.abs(rows - np.roll(expected, 1, 0)).max(1))
        signs.add(_off(tc.views(key, c, 2000).numpy(), rho, depth))
        roots = torch.arange(4000) % 2
        single = _leaves(leaf_patterns.draw(key, c, roots).numpy(), depth, True)
        told = _down(rho, depth) - (2 * roots.numpy() - 1) @ single / len(single)
        signs.add(np.abs(told).max() * len(single) ** 0.5)
        apart = tc.views(key, c, 2000, shuffled=True).numpy()
        signs.breaks("each view a root of its own", _off(apart, rho, depth))
    spelled = t.defines("leaves that patterns spell", 0.0)
    for key, depth in zip(t.keys(3, "spelled"), (2, 4, 5), strict=True):
        c = tc.configuration(0, 0.7, 2, depth)
        patterns = tc.views(key, c | tc.PROBLEM["setup"](key, c), 50)
        found = leaf_patterns.leaves(patterns, depth).numpy()
        spelled.add(np.abs(found - _leaves(patterns.numpy(), depth)).max(1))
        spelled.breaks("from right to left", np.abs(found - found[:, ::-1]).max())
    _blocks_apart(t)


def _blocks_apart(t: Trial) -> None:
    """Signs of two views where blocks know next to nothing of one another, and a block's leaves a
    good deal of its latent, so that numbers drawn for two of them at once show. Control: all blocks
    drawn with the first one's."""
    part = t.defines("signs of two views, blocks nearly apart", 6.5, draws=3 * 8000)
    rng = t.stream("blocks apart")
    for key, depth in zip(t.keys(3, "blocks apart"), (4, 5, 5), strict=True):
        top = 2 ** (pattern_net.block_depth(depth) + 1) - 2
        low, high = np.repeat([[0.0, 0.5], [0.1, 0.8]], [top, 2 ** (depth + 1) - 2 - top], 1)
        rho = rng.uniform(low, high)
        tables = leaf_patterns.sampler(torch.from_numpy(rho))
        patterns = tc.views(key, tables, 8000).numpy()
        part.add(_off(patterns, rho, depth))
        part.breaks("all blocks the first", _off(patterns[[0] * len(patterns)], rho, depth))


# ------------------------------------------------------------------------------------------ loss


def _unit(f: Array, floor: float = 0.0) -> Array:
    return f / (np.sqrt((f**2).sum(-1, keepdims=True)) + floor)


def _loss(outputs: Array, kind: str, tau: float = tc.TEMPERATURE) -> complex:
    """Eq. 2 with one negative, or what the released program minimises, sample by sample."""
    plus, minus = [], []
    for f in outputs.swapaxes(0, 1):
        one, same, other = _unit(f, 1e-4 if kind == "released" else 0.0)
        plus.append(((one - same) ** 2).sum())
        minus.append(((one - other) ** 2).sum())
    if kind == "released":
        gap = (sum(plus) - sum(minus)) / len(plus) / outputs.shape[-1]
        return -1 / (1 + np.exp(gap / tau))
    gaps = [(p - m) / 2 / tau for p, m in zip(plus, minus, strict=True)]
    return sum(np.log(1 + np.exp(gap)) for gap in gaps) / len(gaps)


def _along(
    net: Net, along: Net, leaves: Array, kind: str, order: tuple[int, ...] = (0, 1, 2)
) -> Array:
    """The loss of views of 0, 1 or -1, 1 and its slope along a direction; order: their roles."""
    f = group({n: w + 1j * STEP * along[n] for n, w in net.items()}, "", leaves)
    found = _loss(f.reshape(3, -1, f.shape[-1])[list(order)], kind)
    return np.array([found.real, found.imag / STEP])


def _step(t: Trial) -> None:
    """The loss of a batch and its gradient along a random direction, for either loss."""
    part = t.defines("loss and gradient of a batch", 1e-10, controls=pooled)
    rng, settings = t.stream("step"), list(product((5, 2), tc.LOSSES, (False, True)))
    for key, (depth, kind, signed) in zip(t.keys(len(settings), "step"), settings, strict=True):
        c = tc.configuration(0, 0.7, 3, depth, kind, signed=signed)
        c |= tc.PROBLEM["setup"](key, c)
        params = {n: w.requires_grad_() for n, w in tc.PROBLEM["init"](key, c).items()}
        patterns = tc.PROBLEM["data"](key, torch.tensor(0), c)
        value = tc.PROBLEM["loss"](params, patterns, c)
        grads = torch.autograd.grad(value, list(params.values()))
        net = {n: w.detach().numpy() for n, w in params.items()}
        to = {n: rng.standard_normal(w.shape) for n, w in net.items()}
        slope = sum((g.numpy() * v).sum() for g, v in zip(grads, to.values(), strict=True))
        ours, leaves = np.array([value.item(), slope]), _leaves(patterns.numpy(), depth, signed)
        more = {n: w * (1 + (n[0] == "b")) for n, w in net.items()}
        part.add(np.abs(_along(net, to, leaves, kind) - ours))
        for what, other in (
            ("x_+ and x_- exchanged", _along(net, to, leaves, kind, (0, 2, 1))),
            ("leaves from right to left", _along(net, to, leaves[:, ::-1], kind)),
            ("twice the biases", _along(more, to, leaves, kind)),
        ):
            part.breaks(what, np.abs(other - ours))


def _starts(t: Trial) -> None:
    """Weights and biases at the start, uniform within 1 / sqrt(fan-in), those of one kind and depth
    apart from all others. Controls: half the range, one kind twice."""
    even, apart = (
        t.defines(f"starts: {name}", bound) for name, bound in (("uniform", 3.0), ("apart", 5.0))
    )
    nets = [pattern_net.init(key, 3, 24) for key in t.keys(8, "starts")]
    values = {n: torch.stack([net[n] for net in nets]).flatten().numpy() for n in nets[0]}
    for name, x in values.items():
        bound = (2 if name[1:] == "2" else 2 * 24) ** -0.5
        even.add(kolmogorov(x, -bound, bound))
        even.breaks("half the range", kolmogorov(x, -bound, 0))
    for a, b in combinations(values.values(), 2):
        n = min(len(a), len(b))
        apart.add(np.sqrt(n) * abs(np.corrcoef(a[:n], b[:n])[0, 1]))
    apart.breaks("one of them twice", np.sqrt(n) * abs(np.corrcoef(a, a)[0, 1]))
    first = t.defines("starts: first values of a kind and depth apart from others'", 5.0)
    nets = [pattern_net.init(key, 3, 4) for key in t.keys(40, "first values")]
    rows = [torch.stack([net[n].flatten()[:4] for net in nets]).flatten().numpy() for n in nets[0]]
    for a, b in combinations(rows, 2):
        first.add(np.sqrt(len(a)) * abs(np.corrcoef(a, b)[0, 1]))
    first.breaks("one of them twice", np.sqrt(len(a)) * abs(np.corrcoef(a, a)[0, 1]))


@check("ddn/tab6", "ddn/tab4")
def training_by_hand(t: Trial) -> None:
    """Correlation of five latents with their best nodes, in training; Correlation of the topmost
    latent with its best node (Tables 4, 6).

    Given   small nets over trees; the words of the protocol.
    Claim   What the runs of both tables train and measure is that: NC of a group, the law of a
            view and of two, the loss of a batch and its gradient (the paper's and the released
            one), and random starts, each against numpy and enumeration.
    Fails   for other measures of a group, views that share no root, roles of the views exchanged,
            leaves in another order, twice the biases.

    What the runs show is judged on runs.
    """
    measured(t)
    _views(t)
    _step(t)
    _starts(t)


# ------------------------------------------------------------------------------------- operators


def _parts(net: Net, path: str, leaves: Array, whole: bool = True) -> dict[str, Array]:
    """Of every view the group's activations, its children's, and these times the slopes of the
    output and of the normalised output in the group's pre-activations. whole: no term of the norm's
    is left out."""
    depth, start = len(net) // 2, group(net, path, leaves)
    children = [path + "0", path + "1"]
    if len(path) + 1 == depth:
        below = np.stack([leaves[:, int(child, 2)] for child in children], -1)
    else:
        below = np.concatenate([np.maximum(group(net, c, leaves), 0) for c in children], -1)
    length = np.sqrt((group(net, "", leaves) ** 2).sum(-1, keepdims=True))
    plain, unit = [], []
    for k in range(start.shape[-1]):
        f = group(net, "", leaves, held={path: start + 1j * STEP * np.eye(start.shape[-1])[k]})
        plain.append(f.imag / STEP)
        unit.append((_unit(f) if whole else f / length).imag / STEP)
    slopes = {"op": np.stack(plain, 1), "unit": np.stack(unit, 1)}  # views, nodes, outputs
    connections = {what: below[:, :, None, None] * s[:, None] for what, s in slopes.items()}
    return {"own": np.maximum(start, 0), "cov": below} | connections


def _norm(values: Array, again: bool = False) -> float:
    """The norm of a covariance by the root's value, from two halves of the views of each value, the
    first of them twice where `again`; values [views, ...], the last axis the outputs if there are
    three."""
    low, low2, high, high2 = (half.mean(0) for half in np.split(values, 4))
    first, second = high - low, (high - low) if again else (high2 - low2)
    if first.ndim == 1:
        return abs(sum(a * b for a, b in zip(first, second, strict=True))) / 4
    cross = np.einsum("ino,inp->op", first, second)
    return float(np.sqrt((cross**2).sum())) / 4


def _rescaled(net: Net, like: Net) -> Net:
    out = {}
    for name, value in net.items():
        size = [sum((p[kind + name[1:]] ** 2).sum() for kind in "wb") for p in (net, like)]
        out[name] = value * np.sqrt(size[1] / size[0])
    return out


@check("ddn/fig13", "ddn/fig14")
def operator_by_hand(t: Trial) -> None:
    """Norm of the covariance operator in training, children of the root; Norm of the covariance
    operator in training, lower latents (Figures 13, 14).

    Given   small nets as they are and rescaled to their first norms, leaves of two codes; the
            nodes of both figures.
    Claim   The norms that are recorded are those of the operator in each reading: loops over
            views, Jacobians by complex steps.
    Fails   for both halves the same views, without the slope of the output's norm, with outputs
            normalised where they are not, for the net as it is in place of the rescaled one.

    What the norms do in training is judged on runs.
    """
    nets, samples, depth = min(t.draws, 6), 24, 3
    for claim, paths in zip(t.claims, (("0", "1"), ("01", "10", "11")), strict=True):
        part = t.defines("the operators' norms", 1e-10, controls=pooled, claim=claim)
        keys = t.keys(nets, claim)
        for i, key in enumerate(keys):
            c = tc.configuration(0, 0.6, 3, depth, signed=bool(i % 2))
            c |= tc.PROBLEM["setup"](key, c)
            first = tc.PROBLEM["init"](key, c)
            params = {n: w * (1 + 0.5 * k) for k, (n, w) in enumerate(first.items())}
            params["w0"] = params["w0"] + pattern_net.init(key + 1, depth, 3)["w0"]
            found = tc.metrics((), paths, samples)(params, c)
            roots = torch.tensor([0, 1]).repeat_interleave(samples)
            patterns = leaf_patterns.draw(c["probe"], c, roots).numpy()
            leaves = _leaves(patterns, depth, c["signed"])
            start = {n: w.numpy() for n, w in pattern_net.init(c["net"], depth, 3).items()}
            net = {n: w.numpy() for n, w in params.items()}
            for suffix, of in (("", net), ("_rescaled", _rescaled(net, start))):
                for path in paths:
                    parts, free = (_parts(of, path, leaves, whole) for whole in (True, False))
                    norms = {what: _norm(values) for what, values in parts.items()}
                    own = {what: float(found[f"{what}{suffix}_s{path}"]) for what in parts}
                    # A norm may be 0 but for rounding, and of a dead group all values are.
                    size = {
                        what: max(norms[what], 1e-3 * (values**2).mean(), 1e-300)
                        for what, values in parts.items()
                    }
                    part.add(*(abs(own[w] - norms[w]) / size[w] for w in own))
                    again = (abs(own[w] - _norm(parts[w], True)) / size[w] for w in own)
                    part.breaks("one half twice", *again)
                    lost = abs(own["unit"] - _norm(free["unit"])) / size["unit"]
                    part.breaks("the norm's slope left out", lost)
                    other = abs(own["op"] - norms["unit"]) / size["op"]
                    part.breaks("outputs normalised", other)
                    if suffix:
                        unscaled = abs(own["own"] - _norm(_parts(net, path, leaves)["own"]))
                        part.breaks("not rescaled", unscaled / size["own"])
