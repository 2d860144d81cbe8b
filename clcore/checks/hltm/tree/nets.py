"""Latent trees: messages from the children's units up, and the leaves (ddn App. C.2, C.4).

`clcore.theory.trees.tree_nets` meets the enumeration of all joint states of small trees in numpy.
"""

from itertools import pairwise

import numpy as np
import torch

from clcore.checks.hltm.tree import proofs
from clcore.checks.hltm.tree import reference as tr
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import absolute
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

STATES = ((2, 3, 4, 2, 3, 2, 2), (3, 2, 2, 4, 2, 3, 2, 2, 2), (4, 3, 2, 2, 2, 2, 2, 2))


def categorical(rng: np.random.Generator, count: int) -> list[tr.World]:
    """TR-HLTM worlds over trees of depth 2 and 3, with two to four states per node."""
    out = []
    for parents, states in zip(tr.SHAPES, STATES, strict=False):
        tree = lt.tree(parents, states)
        model = lt.draw(tr.keys(rng, count), tree)
        out.append(tr.explore(model, tree_nets.net(tr.keys(rng, count), tree, 3)))
    return out


@check("ddn/eq95")
def eq95(t: Trial) -> None:
    """Mean activations given a latent, through transition matrices (Eqs. 95-97).

    Given   categorical trees (2..4 states) with random ReLU units, all joint states enumerated.
    Claim   E[f_k|z_mu] = P_{mu nu} v_k, the columns of V; V w_j = E[pre-activation of j|z_mu].
    Fails   Eq. 97 as typeset, with f_j after the ReLU (a misprint); for columns of P in reverse,
            for means given the root, in the proof without w_j.
    """
    count = min(t.share(3), 8)
    lifted = t.part("Eqs. 95, 96", 1e-13, controls=pooled, draws=3 * count)
    summed = t.part("Eq. 97", 1e-13, controls=pooled, draws=3 * count)
    for w in categorical(t.rng, count):
        for mu in tr.inner(w):
            # P_{mu nu} v_k by the library, `up`, against E[f_k|z_mu] by the joint states.
            up, _ = tree_nets.children_moments(w.model, w.groups, mu)
            exact, flipped = tr.given(w, mu, tr.fed(w, mu)), []
            for child in tr.below(w, mu):
                law, P = w.groups[child], lt.edge(w.model, child).flip(-1)
                flipped.append(P @ tree_nets.mean(law.chance, law.out))
            lifted.add(absolute(up, exact))
            lifted.breaks("columns of P reversed", absolute(torch.cat(flipped, -1), exact))

            # V w_j, V = `up`, against E[pre-activation of j|z_mu] by the joint states.
            sums = (up @ w.weights[mu].mT).numpy()
            summed.add(absolute(sums, tr.given(w, mu, w.pre[mu])))
            active = absolute(sums, tr.given(w, mu, w.out[mu]))
            summed.breaks("as typeset, f_j", active, by=worst)
            if mu:
                at_root = tr.given(w, 0, w.pre[mu])[:, [0]]
                summed.breaks("given the root instead", absolute(sums, at_root))
    proofs.eq95(lifted, summed)


@check("ddn/eq136")
def eq136(t: Trial) -> None:
    """Children's means given a latent, and the pre-activation gap (Eqs. 131-138).

    Given   SB-HLTM trees with random ReLU units, polarities of both signs, enumerated; a_mu = [rho
            s_k], vbar_k and s_k the mean and half the difference of v_k(1) and v_k(0).
    Claim   u+- = vbar +- a_mu, mean pre-activations w_j^T u+-, and their gap 2 w_j^T a_mu.
    Fails   for s in place of a_mu, without polarities; the gap without its 2.
    """
    count = min(t.share(4), 15)
    means = t.part("conditional means", 1e-13, controls=pooled, draws=4 * count + 1)
    gaps = t.part("gap", 1e-13, controls=pooled, draws=4 * count + 1)
    # The last one is the complete tree of depth 3.
    last = tr.world(t.rng, 1, lt.complete(3).parents, 3)
    for w in [*tr.worlds(t.rng, count, 3), last]:
        for mu in tr.inner(w):
            s, middle, rho = tr.selective(w, mu)
            a, exact = rho * s, tr.given(w, mu, tr.fed(w, mu))
            pre, weights = tr.given(w, mu, w.pre[mu]), w.weights[mu].numpy()

            # vbar +- a_mu against E[f_k|z_mu]; a_mu by the library; w_j^T u+- against the mean
            # pre-activations.
            u, bare = (np.stack([middle - v, middle + v], 1) for v in (a, s))
            means.add(absolute(u, exact)).breaks("no polarity", absolute(bare, exact))
            means.add(absolute(tree_nets.child_selectivity(w.model, w.groups, mu), a))
            means.add(absolute(np.einsum("djk,dck->dcj", weights, u), pre))

            # Their gap is 2 w_j^T a_mu.
            gap = np.einsum("djk,dk->dj", weights, a)
            gaps.add(absolute(pre[:, 1] - pre[:, 0], 2 * gap))
            gaps.breaks("no 2", absolute(pre[:, 1] - pre[:, 0], gap))
    proofs.eq136(means, gaps)


@check("ddn/rem9")
def rem9(t: Trial) -> None:
    """Leaves are selective; selectivity often drops higher up (Remark after Eq. 165).

    Given   leaves z in {0, 1}, s_k = (v_k(1) - v_k(0))/2, by enumeration; random nets above, L
            = 3, three sizes of weights.
    Claim   Leaves have |s_k| = 1 and no variance; |s_j| often falls from layer to layer, from the
            leaves to the root: in half of neighbouring layers and nets or more.
    Fails   |s_k| = 1 as printed; corrected: 1/2. Controls: hidden units; weights so large (sigma_w
            = 4) that selectivity grows.
    """
    count = min(t.share(4), 10)
    name = "leaves, selectivity"
    printed, size = (form(name, 1e-13, controls=pooled) for form in (t.part, t.corrected))
    noise = t.part("leaves, variance", 1e-15, controls=pooled, draws=4 * count)
    for w in tr.worlds(t.rng, count, 3):
        for leaf in lt.leaves(w.model.tree):
            # |s_k| = (1 - 0)/2 by the joint states, and 1 where a leaf is shown as 2 z - 1.
            s, signed = (_selectivity(w, leaf, f) for f in (w.out[leaf], 2 * w.out[leaf] - 1))
            printed.add(np.abs(s - 1)).fails_by(np.full(count, 0.5))
            size.add(np.abs(s - 0.5), np.abs(signed - 1))
            size.breaks("1 for 1/2", np.abs(s - 1))

            # A leaf does not vary given its latent.
            noise.add(np.abs(tr.spread(w, leaf, w.out[leaf])).reshape(count, -1).max(-1))

        mu = tr.inner(w)[-1]
        s = _selectivity(w, mu, w.out[mu])
        printed.breaks("a hidden unit", np.abs(s - 1))
        size.breaks("a hidden unit", np.abs(s - 0.5))
        noise.breaks("hidden units", tr.spread(w, mu, w.out[mu]).reshape(count, -1).max(-1))

    # |s_j| often falls from layer to layer: in half of cases or more, at all three scales.
    seeds = 30 if t.draws < 60 else 100
    often = t.part("|s_j| often goes down", 0.5, ">=", draws=seeds)
    often.add(*(_falls(t.rng, seeds, scale) for scale in (3**-0.5, 1.0, 2**0.5)))
    often.breaks("sigma_w = 4", _falls(t.rng, seeds, 4.0))


def _selectivity(w: tr.World, node: int, f: np.ndarray) -> np.ndarray:
    """|s| of the first unit of outputs f of a node, [draws]."""
    means = tr.given(w, node, f)
    return np.abs(means[:, 1] - means[:, 0])[:, 0] / 2


def _falls(rng: np.random.Generator, seeds: int, scale: float) -> float:
    """The share of neighbouring layers, from the leaves to the root, whose mean |s_j| is smaller
    above."""
    tree = lt.complete(3)
    model = lt.binary(tree, lt.polarities(tr.keys(rng, seeds), tree, 0.7))
    groups = tree_nets.laws(model, tree_nets.net(tr.keys(rng, seeds), tree, 5, scale))
    layers = []
    for nodes in lt.levels(tree):
        laws = [groups[node] for node in nodes]
        s = [tree_nets.selectivity(tree_nets.mean(law.chance, law.out)).abs() for law in laws]
        layers.append(torch.stack([v.mean(-1) for v in s]).mean(0))
    return float(torch.stack([a < b for a, b in pairwise(layers)]).double().mean())
