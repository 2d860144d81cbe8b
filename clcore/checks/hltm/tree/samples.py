"""Frequencies in samples of latent trees in standard errors; random trees (ddn App. C.2)."""

from itertools import product

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Trial, typical
from clcore.reference import Array
from clcore.theory.trees import latent_tree as lt

SIGMAS = 7.0  # of the largest of some ten thousand errors
SAMPLES = 10_000


def pairs(chance: Array, z: Array) -> Array:
    """P(z_a = 1, z_b = 1) of all pairs of nodes, [draws, nodes, nodes]; chance [draws, J]."""
    return np.einsum("ds,sa,sb->dab", chance, z, z, optimize=True)


def standard_errors(found: Array, expected: Array, n: int) -> Array:
    """[draws]: the largest error of frequencies in standard errors (with a floor)."""
    error = np.sqrt(np.maximum(expected * (1 - expected), 0) / n) + 1e-4
    return (np.abs(found - expected) / error).reshape(len(found), -1).max(-1)


def random_trees(t: Trial) -> None:
    """Samples of random trees of unequal nodes: how often a node and the root show each pair of
    states; and that the root's law is drawn apart from the edges.

    Controls: nodes that know nothing of the root; a root drawn with the first edge's numbers.
    """
    count = min(t.draws, 6)
    tree = lt.tree((-1, 0, 0, 1, 1, 2), (3, 2, 4, 3, 2, 5))
    model = lt.draw(t.keys(count, "trees"), tree)
    z = lt.sample(t.keys(count, "samples"), model, SAMPLES).numpy()
    joint = t.defines("samples", SIGMAS, controls=typical)
    states = t.defines("only states that there are", 0.0)
    states.add((z >= tree.states).sum((1, 2)) + (z < 0).sum((1, 2)))
    states.breaks("states of the root", (z[..., :1] >= 2).sum((1, 2)))
    # Single precision takes probabilities whose sum ends below 1 by rounding.
    low = torch.tensor([0.5, 0.5 - 8e-6])
    short = lt.categorical(lt.tree((-1, 0)), low, [torch.stack([low, low])], regular=False)
    states.add(float((lt.sample(t.keys(1, "rounding")[0], short, 10**6) > 1).sum()))
    prior = model.prior.numpy()[..., None]
    for node in range(1, len(tree.parents)):
        m, own = tree.states[node], np.eye(tree.states[node])[z[..., node]]
        found = np.einsum("dna,dnb->dab", np.eye(3)[z[..., 0]], own) / SAMPLES
        C = np.eye(3)
        for step in lt.path(tree, node)[1:]:
            C = C @ lt.deviation(lt.edge(model, step)).numpy()
        joint.add(standard_errors(found, prior * (1 / m + C), SAMPLES))
        if node < 3:
            joint.breaks("apart from the root", standard_errors(found, prior / m + 0 * C, SAMPLES))
    model = lt.draw(t.keys(2000, "roots"), lt.tree((-1, 0), (3, 3)))
    apart = t.defines("root drawn apart", 5.0)
    table, prior = model.table.numpy()[:, 0], model.prior.numpy()
    for a, b, c in product(range(3), repeat=3):
        apart.add(2000**0.5 * abs(np.corrcoef(prior[:, a], table[:, b, c])[0, 1]))
    own = table[:, 0]  # as a law of the root
    apart.breaks(
        "the edge's first row", 2000**0.5 * abs(np.corrcoef(own[:, 0], table[:, 0, 0])[0, 1])
    )
    # Where a law of three states is uniform on its simplex, P(z_0 > s) = (1 - s)^2.
    even = t.defines("root's law uniform on the simplex", 3.0)
    even.add(*(ref.kolmogorov((1 - v) ** 2, 0, 1) for v in prior.T))
    even.breaks("each as likely in between", ref.kolmogorov(prior[:, 0], 0, 1))
