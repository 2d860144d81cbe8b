"""Latent trees, their nets and losses once more, from their words: numpy, recursions, loops.

A latent's path is text, "" for the root and "0", "1" for the sides; a net is {w0, b0, w1, ...} with
a group of nodes per latent. Slopes are complex steps.
"""

import numpy as np

from clcore.reference import STEP


def law(rho, path, depth):
    """P(leaves below | latent), [2, patterns], the leftmost leaf as the most significant bit."""
    if len(path) == depth:
        return np.eye(2)
    sides = []
    for side in "01":
        child = path + side
        same = (1 + rho[2 ** len(child) - 2 + int(child, 2)]) / 2
        step = np.array([[same, 1 - same], [1 - same, same]])
        sides.append(step @ law(rho, child, depth))
    return np.stack([np.outer(left, right).ravel() for left, right in zip(*sides, strict=True)])


def group(net, path, leaves, first=0, held=None):
    """Pre-activations of a group, [patterns, N]; leaves [patterns, below], the first `first`. held:
    groups whose pre-activations are given."""
    if held and path in held:
        return held[path]
    d, number, inputs = len(path), int(path or "0", 2), []
    for child in (path + "0", path + "1"):
        if d + 1 == len(net) // 2:
            inputs.append(leaves[:, int(child, 2) - first][:, None])
        else:
            inputs.append(np.maximum(group(net, child, leaves, first, held), 0))
    return np.concatenate(inputs, 1) @ net[f"w{d}"][number].T + net[f"b{d}"][number]


def correlations(net, rho, path, signed):
    """Of a latent with every node of its group, [N], the latent fair."""
    depth = len(net) // 2
    joint = law(rho, path, depth) / 2
    below = 2 ** (depth - len(path))
    bits = (np.arange(2**below)[:, None] >> np.arange(below)[::-1]) & 1
    leaves = 2.0 * bits - 1 if signed else bits.astype(float)
    f = group(net, path, leaves, below * int(path or "0", 2))
    z = np.array([0.0, 1.0])[:, None, None]
    mean_f, mean_z = (joint[..., None] * f).sum((0, 1)), (joint[..., None] * z).sum((0, 1))
    cross = (joint[..., None] * (z - mean_z) * (f - mean_f)).sum((0, 1))
    square = [(joint[..., None] * (v - m) ** 2).sum((0, 1)) for v, m in ((z, mean_z), (f, mean_f))]
    return cross / np.sqrt(square[0] * square[1])


def spelled(patterns, depth, signed=False):
    """Leaves [views, 2^depth] that the blocks' patterns [blocks, views] spell, 0, 1 or -1, 1."""
    count = 2**depth // len(patterns)
    texts = ("".join(format(p, f"0{count}b") for p in view) for view in patterns.T.tolist())
    bits = np.array([[float(c) for c in text] for text in texts])
    return 2 * bits - 1 if signed else bits


def down(rho, depth, start=0):
    """E of the product of a leaf's sign and of its ancestor's at depth `start`, [2^depth]."""
    paths = [format(leaf, f"0{depth}b") for leaf in range(2**depth)]
    edges = [[2**k - 2 + int(path[:k], 2) for k in range(start + 1, depth + 1)] for path in paths]
    return np.array([np.prod([rho[edge] for edge in edge_of]) for edge_of in edges])


def pairs(rho, depth):
    """E of products of two leaves' signs, [2^L, 2^L]: of one view, of two that share the root."""
    means = [down(rho, depth, start) for start in range(depth + 1)]
    own = np.empty((2**depth, 2**depth))
    for a, b in np.ndindex(own.shape):
        common = depth - (a ^ b).bit_length()  # of the lowest latent above both
        own[a, b] = means[common][a] * means[common][b]
    return own, np.outer(means[0], means[0])


def unit(f, floor=0.0):
    return f / (np.sqrt((f**2).sum(-1, keepdims=True)) + floor)


def loss(outputs, kind, tau):
    """ddn Eq. 2 with one negative, or what the released program minimises, sample by sample.

    outputs: of x_1, x_+, x_-, [3, samples, n]."""
    plus, minus = [], []
    for f in outputs.swapaxes(0, 1):
        one, same, other = unit(f, 1e-4 if kind == "released" else 0.0)
        plus.append(((one - same) ** 2).sum())
        minus.append(((one - other) ** 2).sum())
    if kind == "released":
        gap = (sum(plus) - sum(minus)) / len(plus) / outputs.shape[-1]
        return -1 / (1 + np.exp(gap / tau))
    gaps = [(p - m) / 2 / tau for p, m in zip(plus, minus, strict=True)]
    return sum(np.log(1 + np.exp(gap)) for gap in gaps) / len(gaps)


def features(net, path, leaves):
    """Of every view, for one group: its activations (own), its children's (cov), and these times
    the slopes of the output (op) and of the normalised output (unit) in its pre-activations."""
    depth, start = len(net) // 2, group(net, path, leaves)
    children = [path + "0", path + "1"]
    if len(path) + 1 == depth:
        below = np.stack([leaves[:, int(child, 2)] for child in children], -1)
    else:
        below = np.concatenate([np.maximum(group(net, c, leaves), 0) for c in children], -1)
    plain, normalised = [], []
    for k in range(start.shape[-1]):
        f = group(net, "", leaves, held={path: start + 1j * STEP * np.eye(start.shape[-1])[k]})
        plain.append(f.imag / STEP)
        normalised.append(unit(f).imag / STEP)
    slopes = {"op": np.stack(plain, 1), "unit": np.stack(normalised, 1)}  # views, nodes, outputs
    connections = {what: below[:, :, None, None] * s[:, None] for what, s in slopes.items()}
    return {"own": np.maximum(start, 0), "cov": below} | connections


def norm(values):
    """The norm of a covariance by the root's value, from two halves of the views of each value,
    [views, ...], the last axis the outputs if there are three."""
    low, low2, high, high2 = (half.mean(0) for half in np.split(values, 4))
    first, second = high - low, high2 - low2
    if first.ndim == 1:
        return abs(sum(a * b for a, b in zip(first, second, strict=True))) / 4
    cross = np.einsum("ino,inp->op", first, second)
    return float(np.sqrt((cross**2).sum())) / 4


def rescaled(net, like):
    """Each layer with the norm that it has in another net."""
    out = {}
    for name, value in net.items():
        size = [sum((p[kind + name[1:]] ** 2).sum() for kind in "wb") for p in (net, like)]
        out[name] = value * np.sqrt(size[1] / size[0])
    return out
