"""Latent trees: how little of a deep node reaches the root (ddn Theorem 6 in App. C.5, Eq. 180).

And whether the operators are therefore larger at the top of a net, according to Sec. 6.1.2.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import random
from clcore.checks.hltm.operator.covariance import both_sizes
from clcore.checks.hltm.tree import reference as tr
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import Array
from clcore.theory.trees import latent_tree as lt
from clcore.theory.trees import tree_nets

L = 400
NETS = ((2, 1.0), (5, 1.0), (5, 2**0.5))
"""Units a latent and sigma_w: Theorem 5's, and weights of variance 2 / fan-in."""


def _far(rho: Array, distance: int, growth: float = 1.0) -> Array:
    """[draws]: the largest of |rho_0mu|, |P_0mu - 1/2| and the variance over z_0, of a node mu
    `distance` below the root on a path with polarities rho [draws, L]; its activation is
    `growth`^distance where z_mu = 1, else 0."""
    tree = lt.tree(range(-1, rho.shape[1]))
    model = lt.binary(tree, torch.from_numpy(rho), 0.2)
    polarity = lt.path_polarity(tree, torch.from_numpy(rho))[:, distance].abs()
    P = lt.path_transition(model, distance)
    shown = P[..., 1:] * growth**distance
    variance = tree_nets.root_covariance(model.prior, shown)[:, 0, 0]
    return torch.stack([polarity, (P - 0.5).abs().amax((1, 2)), variance]).amax(0).numpy()


def _limit(t: Trial, count: int) -> None:
    """Paths of 400 edges with |rho| <= r; without a bound below 1 it fails (among the controls)."""
    r, rng = 0.95, t.rng
    rho = rng.choice([-1, 1], (count, L)) * rng.uniform(0, r, (count, L))
    rho[0] = r
    layers, distance = np.arange(1, L + 1), np.arange(L + 1.0)
    reach = lt.path_polarity(lt.tree(range(-1, L)), torch.from_numpy(rho)).abs().numpy()
    # What is left at the end of the path; and |rho_0mu| minus r^d at every distance d.
    part = t.part("limit", 1e-8, draws=count).add(_far(rho, L), reach - r**distance)
    near_one = _far(rng.choice([-1, 1], (count, L)) * (1 - 1 / (layers + 1.0) ** 2), L)
    part.breaks("a node 3 below the root", _far(rho[:1], 3))
    part.breaks("polarities tend to 1", near_one)
    part.breaks("r = 0.94", reach - 0.94**distance, by=worst)
    part.breaks("|a_mu| grows as r^-d", _far(rho[:1], L, 1 / r))
    part.breaks("all polarities of size 1", _far(rng.choice([-1.0, 1.0], (count, L)), L))
    part.says(r=r, half=near_one.min())


BRANCHING, CHAIN = lt.complete(3), lt.tree((-1, 0, 1, 2))
"""Depth 3, with two children each and with one."""


def polarities(key: torch.Tensor, tree: lt.Tree, low: float = 0.7) -> torch.Tensor:
    """Of either sign, their sizes uniform on [low, 1]: [draws, edges]."""
    size = lt.polarities(key, tree, low)
    return size * (1 - 2 * random.bernoulli(random.fold_in(key, 1), 0.5, size.shape[1:]).double())


def level_sizes(key: torch.Tensor, units: int, scale: float) -> tuple[Array, Array]:
    """o_mu |a_mu|^2 of Eq. 179 and of Theorem 6's o_mu, mean over a level's nodes, [levels, nets].

    Complete trees of depth 3 with a fair root and `polarities`, untrained nets, by their exact
    laws; from the root down to the last groups above the leaves.
    """
    tree = BRANCHING
    rho = polarities(key, tree)
    model = lt.binary(tree, rho)
    groups = tree_nets.laws(model, tree_nets.net(key, tree, units, scale))
    path = lt.path_polarity(tree, rho)
    ours, theirs = [], []
    for nodes in lt.levels(tree)[:-1]:
        square = torch.stack(
            [(tree_nets.child_selectivity(model, groups, mu) ** 2).sum(-1) for mu in nodes]
        )
        far = torch.stack([path[..., mu] ** 2 for mu in nodes])
        ours.append((far * square).mean(0).numpy())
        theirs.append((far * (1 - far) * square).mean(0).numpy())
    return np.stack(ours), np.stack(theirs)


def _leaf_patterns(model: lt.Model) -> tuple[Array, Array]:
    """All patterns of the leaves, [P, leaves], and P(x | z_0), [draws, 2, P]."""
    below, shown = lt.children(model.tree), lt.leaves(model.tree)
    x = np.array(list(product((0.0, 1.0), repeat=len(shown))))

    def chance(node: int) -> Array:
        if not below[node]:
            here = x[:, shown.index(node)]
            return np.stack([1 - here, here])[None]
        out = np.ones(())
        for child in below[node]:
            out = out * (lt.edge(model, child).numpy() @ chance(child))
        return out

    return x, chance(0)


class Sizes(NamedTuple):
    """By level, from the root down to the last groups above the leaves: [levels, nets]."""

    operator: Array  # |OP_mu|_F, mean over the level's nodes
    step: Array  # |dW_mu|_F / |W_mu|_F of an update at rate 1, likewise
    growth: Array  # <W_l, dW_l> of the whole level
    square: Array  # |W_l|^2 of the whole level


def operator_sizes(
    key: torch.Tensor,
    units: int,
    scale: float,
    low: float = 0.7,
    tree: lt.Tree = BRANCHING,
    one_variance: bool = False,
) -> Sizes:
    """The operators with the net's own Jacobian, and the updates of L_simp by all groups.

    The nets of `level_sizes`, whose weights have variance scale^2 / fan-in, or `one_variance` in
    all groups, that of the root's; the output is the root group's pre-activation. All patterns of
    the leaves are enumerated: OP_mu = V_{z_0}[E[f kron J_mu^T | z_0]], and vec(dW_mu) is
    Cov_{z_0} of that with E[f_L | z_0].
    """
    model = lt.binary(tree, polarities(key, tree, low))
    weights, below = tree_nets.net(key, tree, units, scale), lt.children(tree)
    if one_variance:
        fan_in = weights[0].shape[-1]
        weights = {mu: w * (w.shape[-1] / fan_in) ** 0.5 for mu, w in weights.items()}
    x, chance = _leaf_patterns(model)
    f = tree_nets.forward(tree, weights, torch.from_numpy(x).expand(len(key), *x.shape))
    J = {0: np.broadcast_to(np.eye(units), (len(key), len(x), units, units))}

    def gap(values: Array) -> Array:
        """Half the difference of the means given both states of the root, which is fair."""
        mean = np.einsum("dzx,dx...->dz...", chance, values, optimize=True)
        return (mean[:, 1] - mean[:, 0]) / 2

    levels = []
    for nodes in lt.levels(tree)[:-1]:
        sizes, steps, grown, square = [], [], [], []
        for mu in nodes:
            fed, own = torch.cat([f[child] for child in below[mu]], -1).numpy(), weights[mu].numpy()
            K = np.einsum("dxc,dxou->dxcuo", fed, J[mu])
            apart = gap(K).reshape(len(key), -1, units)
            if mu == 0:
                output = gap(np.einsum("duc,dxc->dxu", own, fed))
            sizes.append(np.linalg.norm(apart @ apart.swapaxes(1, 2), axis=(1, 2)))
            step = np.einsum("dio,do->di", apart, output)
            vec = own.swapaxes(1, 2).reshape(len(key), -1)
            steps.append(np.linalg.norm(step, axis=1) / np.linalg.norm(vec, axis=1))
            grown.append((vec * step).sum(1))
            square.append((vec**2).sum(1))
            start = 0
            for child in below[mu]:
                n = f[child].shape[-1]
                w = own[:, None, :, start : start + n]
                J[child] = J[mu] @ w * (f[child].numpy() > 0)[:, :, None]
                start += n
        means = np.mean([sizes, steps], 1)
        levels.append([*means, np.sum(grown, 0), np.sum(square, 0)])
    return Sizes(*np.swapaxes(levels, 0, 1))


def _levels(t: Trial) -> None:
    """The operator's size and a group's relative step at the bottom over those at the top; and the
    same without mixing, all polarities of size 1."""
    nets, name = 400, "training, bottom over top"  # with 60 a control falls below 1 at some seeds
    draws, many = (len(NETS) + 1) * nets, 5 * nets  # of the nets of `many` half are dead
    part = t.part("size of the operator, bottom over top", 1.0, draws=draws)
    printed = t.part(name, 0.75, draws=draws + many + nets)
    faster = t.corrected(name, 0.75, draws=draws)
    children, ratios, still = [], ([], []), ([], [])
    relative, alone = [], []
    for units, scale in NETS:
        key = tr.keys(t.rng, nets)
        found, fixed = (operator_sizes(key, units, scale, low) for low in (0.7, 1.0))

        # The operator is smaller at the bottom, though the Jacobian grows.
        part.add(_below(found.operator))
        bare = level_sizes(key, units, scale)[0]
        if scale == 1:
            part.breaks("one J at all levels, weights of Theorem 5", _below(bare))
        children.append(_below(found.operator, 1))
        alone.append(_below(bare, 1))

        # Bottom over top: <W_l, dW_l> of a whole level is 1, as all squared norms grow alike; the
        # relative step of one group is smaller. (`relative`: squared norms, top over bottom.)
        relative.append(np.median(found.square[0] / found.square[-1]))
        printed.add(_alike(found)).fails_by(1.0).breaks(
            "no mixing, polarities of size 1", _alike(fixed)
        )
        faster.add(_below(found.step))
        for out, sizes in ((ratios, found), (still, fixed)):
            for values, size in zip(out, (sizes.operator, sizes.step), strict=True):
                values.append(_below(size))

    # Three children each, depth 2; 2 units as in the first of these nets.
    wide = operator_sizes(tr.keys(t.rng, nets), *NETS[0], tree=lt.complete(2, 3))
    part.add(_below(wide.operator))
    printed.add(_alike(wide)).fails_by(1.0)
    faster.add(_below(wide.step))

    # One child each, 2 units; one variance for all weights, 5 units: levels grow alike again.
    chain = operator_sizes(tr.keys(t.rng, many), *NETS[0], tree=CHAIN)
    even = operator_sizes(tr.keys(t.rng, nets), *NETS[1], one_variance=True)
    printed.add(_alike(chain), _alike(even)).fails_by(1.0, 1.0)
    part.breaks("one child each, 2 units", _below(chain.operator))
    faster.breaks("one child each, 2 units", _below(chain.step))
    faster.breaks("weights of one variance, 5 units", _below(even.step))
    part.says(near=min(children), far=max(children))
    printed.says(relative=np.mean(relative), alone=min(alone), most=max(alone))
    for one, now, rest in zip((part, faster), ratios, still, strict=True):
        one.says(least=min(now), most=max(now), still_least=min(rest), still_most=max(rest))


def _below(sizes: Array, level: int = -1) -> float:
    """Of sizes [levels, nets]: the median at a level, the lowest unless given, over the root's."""
    middle = np.median(sizes, 1)
    return middle[level] / middle[0]


def _alike(sizes: Sizes) -> float:
    """Growth of the lowest level's squared norm over the root's, median over nets that move."""
    low, top = sizes.growth[-1], sizes.growth[0]
    return float(np.median(low[top > 0] / top[top > 0]))


@check("ddn/thm6b")
def thm6b(t: Trial) -> None:
    """Very deep trees mix: polarity and covariance vanish (Theorem 6 in App. C.5, Eq. 180; Sec.
    6.1.2).

    Given   paths of 400 edges with |rho| <= r = 0.95; for o_mu a tree with a leaf at every level;
            for operators untrained nets over complete trees of two children and depth 3, or three
            and depth 2, |rho| in [0.7, 1], with their own Jacobians, exact.
    Claim   |rho_0mu| <= r^d, d edges below the root, tends to 0, P_0mu to uniform and the
            covariance to 0; o_mu falls from the root down; the operator is smaller at the bottom
            than at the top, and training is faster at the top.
    Fails   faster training at the top, of a whole level, as all squared norms grow alike
            (corrected: of one group, by its relative step, the root's against the lowest, in these
            nets: two children or three, weights scaled as in Theorem 5). Controls: the limit near
            the root, for polarities that tend to 1 or are 1, for |a_mu| that grows as r^-d, for r
            = 0.94; o_mu of Theorem 6 as typeset, 0 at the root; operators with one J at all levels;
            operators and steps in trees with one child each; steps where all weights have one
            variance; growth of levels without mixing.
    """
    count = min(t.draws, 10)
    _limit(t, count)

    # o_mu falls from the root down: a leaf's covariance over a^2 = (rho/2)^2, at leaves of four
    # levels of a caterpillar; we measure its largest rise.
    w = tr.world(t.rng, max(count, 6), tr.CATERPILLAR, 1)
    equal, typeset = [], []
    for mu, leaf in ((0, 2), (1, 4), (3, 6), (5, 7)):
        size = tr.over_root(w, w.out[leaf])[:, 0, 0]
        equal.append(size / (tr.rho(w)[:, leaf - 1] / 2) ** 2)
        typeset.append(both_sizes(w, mu)[0])
    falls = t.part(r"$o_\mu$, from the root down", 1e-14, controls=pooled)
    falls.add(np.diff(equal, axis=0).max(0))
    falls.breaks("Theorem 6 as printed", np.diff(typeset, axis=0).max(0))

    _levels(t)
