"""Latent trees: messages from the children's units up, and the leaves (ddn App. C.2, C.4).

`clcore.theory.trees.tree_nets` meets the enumeration of all joint states of small trees in numpy.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.hltm import tree_reference as tr
from clcore.ledger import Check
from clcore.reference import absolute, share, typical, worst
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

STATES = ((2, 3, 4, 2, 3, 2, 2), (3, 2, 2, 4, 2, 3, 2, 2, 2), (4, 3, 2, 2, 2, 2, 2, 2))


def categorical(rng: np.random.Generator, count: int) -> list[tr.World]:
    """TR-HLTM worlds over trees of depth 2 and 3, with two to four states a node."""
    return [
        tr.world(rng, count, parents, states, 3)
        for parents, states in zip(tr.SHAPES, STATES, strict=False)
    ]


def eq95(draws: int, seed: int) -> Iterator[Check]:
    """E[f_k | z_mu] = P v_k and V w_j, categorical trees with ReLU units, by enumeration.

    Controls: columns of P in reverse; means given the root in place of z_mu.
    """
    check, rng = partial(Check, "ddn/eq95"), ref.generator("eq95", seed)
    count = min(share(draws, 3), 8)
    lifted, reverse, pre, post, skipped = [], [], [], [], []
    for w in categorical(rng, count):
        for mu in tr.inner(w):
            up, _ = tree_nets.children_moments(w.model, w.groups, mu)
            exact = tr.given(w, mu, tr.fed(w, mu))
            lifted.append(absolute(up, exact))
            flipped = []
            for child in tr.below(w, mu):
                law, P = w.groups[child], lt.edge(w.model, child).flip(-1)
                flipped.append(P @ tree_nets.mean(law.chance, law.out))
            reverse.append(absolute(torch.cat(flipped, -1), exact))
            sums = (up @ w.weights[mu].mT).numpy()
            pre.append(absolute(sums, tr.given(w, mu, w.pre[mu])))
            post.append(absolute(sums, tr.given(w, mu, w.out[mu])))
            if mu:
                skipped.append(absolute(sums, tr.given(w, 0, w.pre[mu])[:, [0]]))
    total = 3 * count
    yield check(
        worst(*lifted),
        1e-13,
        {"columns of P reversed": typical(np.concatenate(reverse))},
        draws=total,
        part="Eqs. 95, 96",
    )
    control = {"given the root instead": typical(np.concatenate(skipped))}
    yield check(
        worst(*pre),
        1e-13,
        {"as typeset, f_j": worst(*post), **control},
        draws=total,
        part="Eq. 97",
        misprint=r"$\tilde{\mathbf v}_j:=[\mathbb E_z[f_j\mid z_\mu]]$ -> "
        r"$[\mathbb E_z[\tilde f_j\mid z_\mu]]$, as in Table 1 and Eq. 131",
        note=r"Of one unit over one leaf $z\in\{0,1\}$ with $w=-1$, $\mathbb P(z=1\mid "
        r"z_\mu)=1/2$: "
        r"$V\mathbf w_j=-1/2$, and $f_j=\max(-z,0)=0$.",
    )


def eq136(draws: int, seed: int) -> Iterator[Check]:
    """u^+- = v-bar +- a, pre-activation means and their gap, mixed signs, by enumeration.

    Controls: polarities left out, the gap without its 2.
    """
    check, rng = partial(Check, "ddn/eq136"), ref.generator("eq136 tree", seed)
    count = min(share(draws, 4), 15)
    means, plain, gaps, halves = [], [], [], []
    # The last one is the complete tree of depth 3.
    last = tr.world(rng, 1, lt.complete(3).parents, 2, 3)
    for w in [*tr.worlds(rng, count, 3), last]:
        for mu in tr.inner(w):
            s, middle, rho = tr.selective(w, mu)
            a, exact = rho * s, tr.given(w, mu, tr.fed(w, mu))
            u = np.stack([middle - a, middle + a], 1)
            means.append(absolute(u, exact))
            plain.append(absolute(np.stack([middle - s, middle + s], 1), exact))
            means.append(absolute(tree_nets.child_selectivity(w.model, w.groups, mu), a))
            pre, weights = tr.given(w, mu, w.pre[mu]), w.weights[mu].numpy()
            means.append(absolute(np.einsum("djk,dck->dcj", weights, u), pre))
            gap = np.einsum("djk,dk->dj", weights, a)
            gaps.append(absolute(pre[:, 1] - pre[:, 0], 2 * gap))
            halves.append(absolute(pre[:, 1] - pre[:, 0], gap))
    total = 4 * count + 1
    yield check(
        worst(*means),
        1e-13,
        {"no polarity": typical(np.concatenate(plain))},
        draws=total,
        part="conditional means",
    )
    yield check(
        worst(*gaps), 1e-13, {"no 2": typical(np.concatenate(halves))}, draws=total, part="gap"
    )


def rem9(draws: int, seed: int) -> Iterator[Check]:
    """Leaves: |s_k| and their variance, by enumeration; |s_j| layer by layer in random nets.

    Controls: hidden units; initial weights so large that selectivity grows.
    """
    check, rng = partial(Check, "ddn/rem9"), ref.generator("rem9 tree", seed)
    count = min(share(draws, 4), 10)
    size, wide, noise, above, hidden = [], [], [], [], []
    for w in tr.worlds(rng, count, 3):
        plus = tr.explore(w.model, w.weights, values=np.array([-1.0, 1.0]))
        for leaf in lt.leaves(w.model.tree):
            for v, out in ((w, size), (plus, wide)):
                means = tr.given(v, leaf, v.out[leaf])
                out.append(np.abs(means[:, 1] - means[:, 0])[:, 0] / 2)
            noise.append(np.abs(tr.spread(w, leaf, w.out[leaf])).reshape(count, -1).max(-1))
        mu = tr.inner(w)[-1]
        means = tr.given(w, mu, w.out[mu])
        above.append(np.abs(means[:, 1] - means[:, 0])[:, 0] / 2)
        hidden.append(tr.spread(w, mu, w.out[mu]).reshape(count, -1).max(-1))
    tag = {"part": "leaves, selectivity", "draws": 4 * count}
    units = np.concatenate(above)
    yield check(
        worst(*(np.abs(s - 0.5) for s in size), *(np.abs(s - 1) for s in wide)),
        1e-13,
        {
            "as typeset, 1": worst(*(np.abs(s - 1) for s in size)),
            "a hidden unit": typical(np.abs(units - 0.5)),
        },
        misprint=r"$|s_k|\equiv1$ -> $|s_k|\equiv\frac12$",
        note=r"$s_k=\frac12(v_k(1)-v_k(0))$ and $z_k\in\{0,1\}$ (Sec. 6.1), the largest that it "
        r"can "
        r"be. $1$ would need leaves shown as $2z-1$, which are negative in places, against what "
        r"Eq. "
        r"147 asks of $\mathbf u^\pm$. The leaves are selective by definition, and nothing rests "
        r"on "
        "the value.",
        **tag,
    )
    yield check(
        worst(*noise),
        1e-15,
        {"hidden units": typical(np.concatenate(hidden))},
        draws=4 * count,
        part="leaves, variance",
    )
    seeds = 30 if draws < 60 else 100
    often = {scale: _falls(rng, seeds, scale) for scale in (3**-0.5, 1.0, 2**0.5, 4.0)}
    yield check(
        min(often[3**-0.5], often[1.0], often[2**0.5]),
        0.5,
        {"sigma_w = 4": often[4.0]},
        relation=">=",
        draws=seeds,
        part="|s_j| often goes down",
        note=r"Least share, over $\sigma_w\in\{1/\sqrt3,1,\sqrt2\}$, of neighbouring layers and "
        r"nets in which the mean $|s_j|$ is smaller above; $L=3$, 5 units, $\rho\sim U[0.7,1]$. "
        r"Large weights turn it around.",
    )


def _falls(rng: np.random.Generator, seeds: int, scale: float) -> float:
    """The share of neighbouring layers whose mean |s_j| falls towards the root."""
    tree = lt.complete(3)
    model = lt.binary(tree, lt.polarities(tr.keys(rng, seeds), tree, 0.7))
    groups = tree_nets.laws(model, tree_nets.net(tr.keys(rng, seeds), tree, 5, scale))
    layers = []
    for nodes in lt.levels(tree):
        laws = [groups[node] for node in nodes]
        s = [tree_nets.selectivity(tree_nets.mean(law.chance, law.out)).abs() for law in laws]
        layers.append(torch.stack([v.mean(-1) for v in s]).mean(0))
    return float(torch.stack([a < b for a, b in pairwise(layers)]).double().mean())
