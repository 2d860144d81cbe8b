"""Latent trees: how little of a deep node reaches the root (ddn Theorem 6 in App. C.5, Eq. 180).

And whether the operators are therefore larger at the top of a net, as Sec. 6.1.2 says.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import latent_tree as lt
from .. import tree_nets
from ..ledger import Check
from . import reference as ref
from . import tree_reference as tr
from .ddn_tree_covariance import both_sizes
from .reference import Array, best, typical, worst

L = 400
VANISHES = (
    r"If $|\rho_{\alpha\beta}|\le r<1$ on every edge, with one $r$ for all $L$, then "
    r"$|\rho_{0\mu}|\le r^{d(0,\mu)}\to0$ for nodes with $d(0,\mu)\to\infty$, and the covariance "
    r"vanishes as well if $\|\mathbf a_\mu\|$ stays bounded."
)
NETS = ((2, 1.0), (5, 1.0), (5, 2**0.5))
"""Units a latent and sigma_w: Theorem 5's, and weights of variance 2 / fan-in."""


def _far(rho: Array, distance: int, growth: float = 1.0) -> Array:
    """[draws]: the larger of |rho_0mu| and what is left of the variance and of mixing, at the end
    of a path with polarities rho [draws, L], `distance` below the root; the activation that shows
    the node's state is `growth`^distance."""
    tree = lt.tree(range(-1, rho.shape[1]))
    model = lt.binary(tree, torch.from_numpy(rho), 0.2)
    polarity = lt.path_polarity(tree, torch.from_numpy(rho))[:, distance].abs()
    P = lt.path_transition(model, distance)
    shown = P[..., 1:] * growth**distance
    variance = tree_nets.root_covariance(model.prior, shown)[:, 0, 0]
    return torch.stack([polarity, (P - 0.5).abs().amax((1, 2)), variance]).amax(0).numpy()


def _limit(check: partial, rng: np.random.Generator, count: int) -> Iterator[Check]:
    """Paths of 400 edges without a condition, with max |rho| < 1, and with |rho| <= r."""
    r = 0.95
    rho = rng.choice([-1, 1], (count, L)) * rng.uniform(0, r, (count, L))
    rho[0] = r
    layers = np.arange(1, L + 1)
    near_one = rng.choice([-1, 1], (count, L)) * (1 - 1 / (layers + 1.0) ** 2)
    sure = rng.choice([-1.0, 1.0], (count, L))
    reach = lt.path_polarity(lt.tree(range(-1, L)), torch.from_numpy(rho)).abs().numpy()
    distance = np.arange(L + 1.0)
    top, one = best(_far(rho[:1], 3)), best(_far(np.ones((1, L)), L))
    found = worst(_far(rho, L), reach - r**distance)
    broken = {
        "a node 3 below the root": top,
        "polarities tend to 1": best(_far(near_one, L)),
        "r = 0.94": worst(reach - 0.94**distance),
        "|a_mu| grows as r^-d": best(_far(rho[:1], L, 1 / r)),
    }
    for part, printed, control, counterexample in (
        (
            "limit, no condition (App. C.5)",
            worst(_far(sure, L)),
            {"a node 3 below the root": top},
            r"All $\rho=1$: $\rho_{0\mu}=1$ at every depth.",
        ),
        (
            "limit, max |rho| < 1 (Sec. 6.1.2)",
            worst(_far(near_one, L), _far(rho[:1], 3)),
            {"all polarities 1": one},
            r"$\rho=1-1/(l+1)^2$ on the edge below layer $l$, counted from the top: "
            r"$\rho_{0\mu}\to\frac12$. And at a fixed distance from the root "
            r"$\rho_{0\mu}$ does not depend on $L$.",
        ),
    ):
        tag = {"part": part, "draws": count}
        note = r"Largest of $|\rho_{0\mu}|$, distance from uniform and covariance at distance 400."
        yield check(printed, 1e-8, control, counterexample=counterexample, note=note, **tag)
        yield check(
            found,
            1e-8,
            broken,
            form="corrected",
            correction=VANISHES,
            note=rf"$|\rho|\le r={r}$; as above, and $|\rho_{{0\mu}}|-r^{{d(0,\mu)}}$.",
            **tag,
        )


def level_sizes(key: torch.Tensor, units: int, scale: float) -> tuple[Array, Array]:
    """o_mu |a_mu|^2 of Eq. 179 and of Theorem 6's o_mu, mean over a level's nodes, [levels, nets].

    Complete trees of depth 3 with a fair root and polarities uniform on [0.7, 1], untrained nets,
    by their exact laws; from the root down to the last groups above the leaves.
    """
    tree = lt.complete(3)
    rho = lt.polarities(key, tree, 0.7)
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


def _rise(sizes: Array) -> float:
    """The largest rise from a level to the next, of medians over nets, over the largest median."""
    middle = np.median(sizes, 1)
    return float(np.diff(middle).max() / middle.max())


def _top(check: partial, rng: np.random.Generator, count: int) -> Iterator[Check]:
    """The size of the covariance level by level in untrained nets, and at equal |a_mu|."""
    nets, rises, wrong, texts = 60, [], [], []
    for units, scale in NETS:
        ours, theirs = level_sizes(tr.keys(rng, nets), units, scale)
        rises.append(_rise(ours))
        wrong.append(_rise(theirs))
        largest = (ours.argmax(0) == 0).mean()
        middle = ", ".join(f"{m:.2f}" for m in np.median(ours, 1))
        texts.append(
            rf"{units} units, $\sigma_w={scale:.3g}$: {middle}, at the root the largest in "
            f"{largest:.0%} of the nets"
        )
    part = "size of the operator, from the root down"
    yield check(
        worst(np.array(rises)),
        0.0,
        {r"Theorem 6's o_mu": best(np.array(wrong))},
        draws=len(NETS) * nets,
        part=part,
        counterexample=r"With $J_\mu$ left out (equal at all levels): nets at initialisation over "
        "complete trees of depth 3, "
        r"$\rho\sim U[0.7,1]$; medians of $o_\mu\|\mathbf a_\mu\|^2$ at the root, its children and "
        f"theirs: {'; '.join(texts)}.",
        note=r"Largest rise from a level to the next, of $o_\mu\|\mathbf a_\mu\|^2$ with Eq. 179's "
        r"$o_\mu$, over the largest; $J_\mu$ left out.",
    )
    w = tr.world(rng, max(count, 6), tr.CATERPILLAR, 2, 1)
    equal, printed = [], []
    for mu, leaf in ((0, 2), (1, 4), (3, 6), (5, 7)):
        size = tr.over_root(w, w.out[leaf])[:, 0, 0]
        a = tr.rho(w)[:, leaf - 1] / 2
        equal.append(size / a**2)
        printed.append(both_sizes(w, mu)[0])
    yield check(
        worst(np.diff(equal, axis=0)),
        1e-14,
        {r"Theorem 6's o_mu": typical(np.max(np.diff(printed, axis=0), 0))},
        draws=len(equal[0]),
        part=part,
        form="corrected",
        correction=r"At equal $\|\mathbf a_\mu\|$ and $\|J_\mu^\top J_\mu\|_F$: "
        r"$o_\mu=\rho_{0\mu}^2(1-\rho_0^2)$ does not rise from the root down. The operator has the "
        r"size $o_\mu\|\mathbf a_\mu\|^2\|J_\mu^\top J_\mu\|_F$, and $\|\mathbf a_\mu\|$ is often "
        "the smaller at the top.",
        note=r"Largest rise, from the root down, of the covariance over $a_k^2$ at leaves of four "
        r"levels; the $o_\mu$ of Theorem 6 would be $0$ at the root.",
    )


def thm6b(draws: int, seed: int) -> Iterator[Check]:
    """Paths of 400 edges: polarity, distance from uniform and covariance at the far end, and
    |rho_0mu| <= r^d; the size of the covariance level by level. Controls: a node near the root,
    polarities that tend to 1 or are 1, a smaller r, a_mu that grows, Theorem 6's o_mu.
    """
    check, rng = partial(Check, "ddn/thm6b"), ref.generator("thm6b tree", seed)
    count = min(draws, 10)
    yield from _limit(check, rng, count)
    yield from _top(check, rng, count)
