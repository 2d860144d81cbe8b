"""How Tables 4 and 6 of ddn measure a run: the normalised correlation NC, once more from its words.

Enumeration of all leaves below a latent in numpy, the net evaluated group by group.
"""

from collections.abc import Mapping

import numpy as np

from clcore import random as cr
from clcore.experiments import tree_contrast
from clcore.ledger import Part, Trial, typical
from clcore.reference import Array
from clcore.theory.trees import leaf_patterns, pattern_net

NETS = 6
CASES = ((3, ("", "0", "11"), False), (3, ("", "1"), True), (5, ("101", "0111"), False))
"""(depth, latents, whether leaves are -1 and 1): of the root's 32 leaves in a tree of depth 5 there
are too many patterns."""


def law(rho: Array, path: str, depth: int) -> Array:
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


def group(
    net: Mapping[str, Array],
    path: str,
    leaves: Array,
    first: int = 0,
    held: Mapping[str, Array] | None = None,
) -> Array:
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


def correlations(net: dict[str, Array], rho: Array, path: str, signed: bool) -> Array:
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


def measured(t: Trial) -> None:
    """NC as a run records it is the largest absolute correlation over the group's nodes.

    On nets and on the same with all weights of the latent's group negated, which turns every sign.
    Controls: without absolute values, the first node, the mean over nodes.
    """
    parts = [t.defines("NC", 1e-12, controls=typical, claim=claim) for claim in t.claims]
    for depth, paths, signed in CASES:
        measure = tree_contrast.metrics(paths, (), 0)
        for path in paths:
            found, each = [], []
            for seed in range(NETS):
                key = cr.key(seed)
                rho = leaf_patterns.random_polarity(cr.fold_in(key, 1), depth, 0.3, signs=True)
                params, d = pattern_net.init(key, depth, 3), len(path)
                for sign in (1, -1):
                    turned = {n: sign * v if n[1:] == str(d) else v for n, v in params.items()}
                    seen = measure(turned, {"polarity": rho, "signed": signed})
                    found.append(float(seen[f"nc_s{path}"]))
                    net = {n: v.numpy() for n, v in turned.items()}
                    each.append(correlations(net, rho.numpy(), path, signed))
            nc, own = np.array(found), np.stack(each)
            others = {
                "without absolute values": own.max(1),
                "the first node": np.abs(own[:, 0]),
                "the mean over nodes": np.abs(own).mean(1),
            }
            for part in parts:
                part.add(np.abs(nc - np.abs(own).max(1)))
                for what, other in others.items():
                    wrong = np.abs(other - np.abs(own).max(1)).reshape(NETS, 2).max(1)
                    part.breaks(what, wrong)
    for claim in t.claims:
        _constant(t.defines("NC where a node is constant", 1e-12, controls=typical, claim=claim))
        part = t.defines("NC of small and of large groups", 1e-12, controls=typical, claim=claim)
        for scale in (1e-9, 1e9):
            _constant(part, scale)


def _constant(part: Part, scale: float = 1.0) -> None:
    """A node without weights knows nothing: NC is that of the others, whatever the scale of the
    group's pre-activations. Control: it counts as 1."""
    for depth, paths, signed in CASES[:2]:
        measure = tree_contrast.metrics(paths, (), 0)
        for path in paths:
            d, k, errors = len(path), int(path or "0", 2), []
            for seed in range(NETS):
                key = cr.key(seed)
                rho = leaf_patterns.random_polarity(cr.fold_in(key, 1), depth, 0.3, signs=True)
                net = {n: v.clone() for n, v in pattern_net.init(key, depth, 3).items()}
                net[f"w{d}"][k, 0] = 0.0
                net |= {f"{n}{d}": scale * net[f"{n}{d}"] for n in "wb"}
                found = float(measure(net, {"polarity": rho, "signed": signed})[f"nc_s{path}"])
                others = {n: v.numpy() for n, v in net.items()}
                others |= {f"{n}{d}": others[f"{n}{d}"][:, 1:] for n in "wb"}
                best = np.abs(correlations(others, rho.numpy(), path, signed)).max()
                errors.append([abs(found - best), 1 - best])
            right, wrong = np.array(errors).T
            part.add(right).breaks("a constant node counts as 1", wrong)
