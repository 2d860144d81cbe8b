"""Checks of ddn Sec. 5: what augmentation keeps, for any net and for a linear neuron.

The covariance over samples against that over what augmentation keeps (Assumption 1), and Gaussian
matrices on a nuisance subspace (Sec. 5.1, Example 1).
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise, product

import numpy as np
import torch

from clcore import random as cr
from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.ledger import Check
from clcore.reference import Array, relative, worst
from clcore.theory.operator import connection as cn
from clcore.theory.operator import translation as tr

EXACT = 1e-12


def rem6(draws: int, seed: int) -> Iterator[Check]:
    """V over x of the view average is V over z_0, at every layer of a 3-layer net.

    4 objects, 5 positions; x by x with numpy's connections against z_0 by z_0 with the library's.
    Views redraw z', or change it as printed: to a neighbour's, say, which fails. Controls: no
    average over views; views that redraw z_0 in 3 of 10 cases; z_0 taken as uniform.
    """
    rng, check = ref.generator("ddn rem6", seed), partial(Check, "ddn/rem6", draws=min(draws, 60))
    draws = min(draws, 60)
    shape, widths = (4, 5), (6, 5, 4, 3)
    prior = rng.dirichlet(np.full(4, 3.0), draws)
    given = rng.dirichlet(np.full(5, 3.0), (draws, 4))
    x = rng.standard_normal((draws, *shape, 6))
    weights = [rng.standard_normal((draws, b, a)) for a, b in pairwise(widths)]
    net = cn.trace(ref.tensors(*weights), *ref.tensors(x.reshape(draws, 20, 6)))
    joint = prior[:, :, None] * given
    errors, moved = [], []
    broken = {"no average over views": [], "views change z_0": [], "uniform z_0": []}
    for layer in (1, 2, 3):
        K = cn.connection(net, layer).numpy().reshape(draws, *shape, -1, 3)
        own = [[nets.kron(weights, x[:, a, b], layer, "relu") for b in range(5)] for a in range(4)]
        means = [sum(given[:, a, b, None, None] * own[a][b] for b in range(5)) for a in range(4)]
        blend = sum(prior[:, a, None, None] * means[a] for a in range(4))
        mixed = [0.7 * m + 0.3 * blend for m in means]
        for_x = [[means[a]] * 5 for a in range(4)]  # every x of an object has its views
        expected = _spread(for_x, joint)
        bar = np.einsum("dab,dabwk->dawk", given, K)
        off = bar - np.einsum("da,dawk->dwk", prior, bar)[:, None]
        ours = np.einsum("da,dawk,davk->dwv", prior, off, off)
        errors.append(relative(ours, expected))
        beside = [[(own[a][b - 1] + own[a][(b + 1) % 5]) / 2 for b in range(5)] for a in range(4)]
        moved.append(relative(ours, _spread(beside, joint)))
        flat = off.mean(1, keepdims=True)
        even = np.einsum("dawk,davk->dwv", off - flat, off - flat) / 4
        for name, value in zip(
            broken,
            (_spread(own, joint), _spread([[m] * 5 for m in mixed], joint), even),
            strict=True,
        ):
            broken[name].append(relative(value, expected))
    control, part = ref.pooled(broken), "the operator over $z_0$"
    yield check(
        worst(*errors, *moved),
        EXACT,
        control,
        part=part,
        counterexample=r"the ring of Eq. 11 with $d=8$, a linear unit, augmentation "
        r"$z'\to z'\pm1$: $\mathrm{tr}\,\mathbb V_x[\bar K]=0.75$, and the right side is 0",
        note="views that redraw $z'$, and views that change it to a neighbouring one",
    )
    yield check(
        worst(*errors),
        EXACT,
        control | {"views that change z' to a neighbour": ref.typical(*moved)},
        part=part,
        form="corrected",
        correction="if augmentation redraws $z'$ from its distribution given $z_0$, whatever $z'$ "
        "was, as it does in the example of Eq. 11",
    )


def _spread(K: list[list[Array]], p: Array) -> Array:
    """V[K] with probabilities p [draws, a, b] by E[K K^T] - E[K] E[K]^T, entry by entry."""
    places = list(product(range(p.shape[1]), range(p.shape[2])))
    mean = sum(p[:, a, b, None, None] * K[a][b] for a, b in places)
    square = sum(p[:, a, b, None, None] * K[a][b] @ K[a][b].swapaxes(1, 2) for a, b in places)
    return square - mean @ mean.swapaxes(1, 2)


def ex1(draws: int, seed: int) -> Iterator[Check]:
    """Gaussian matrices on a nuisance subspace of R^10 (4 + 6): the mean of views, OP, the growth.

    The mean of sampled views is within 6 standard errors of Q^s x, entry by entry. Controls:
    x itself; the nuisance part instead. For OP some views are taken with their mirror images in
    the nuisance subspace, which the Gaussian gives equal chances, so that their mean is exact.
    OP's flow ends in the top eigenvector of Q^s V Q^s.
    """
    worlds, views = min(draws, 8), 4000
    rng, check = ref.generator("ddn ex1", seed), partial(Check, "ddn/ex1", draws=worlds)
    scores, broken = [], {"x itself": [], "the nuisance part": []}
    ops, whole, single, cosines, raw, kept, loose = [], [], [], [], [], [], []
    for world in range(worlds):
        basis = np.linalg.qr(rng.standard_normal((10, 10)))[0]
        keep, drop = basis[:, :4], basis[:, 4:]
        Q = keep @ keep.T
        x = rng.standard_normal((12, 10)) * np.exp(rng.standard_normal(10) / 2)
        key = cr.fold_in(cr.key(seed), world)
        sample = tr.scramble(key, *ref.tensors(x, drop), views).numpy() @ basis
        mean, error = sample.mean(0), sample.std(0) / np.sqrt(views)
        kind = np.abs(mean - x @ basis)[:, :4].max()  # of the part that must be kept
        nuisance = error[:, 4:]
        scores.append(np.r_[np.abs(mean[:, 4:] / nuisance).max() / 6, kind / 1e-12])
        broken["x itself"].append(np.abs((mean - x @ basis)[:, 4:] / nuisance).max()[None] / 6)
        broken["the nuisance part"].append(np.abs(mean[:, :4]).max()[None] / 1e-12)
        drawn = sample[:3] @ basis.T
        mirrored = drawn - 2 * drawn @ drop @ drop.T
        images = torch.from_numpy(np.concatenate([drawn, mirrored])).transpose(0, 1)
        V = np.cov(x.T, bias=True)
        w = rng.standard_normal(10)
        op = tr.operator(torch.from_numpy(w), images, cn.LINEAR).numpy()
        ops.append(relative(op[None], (Q @ V @ Q)[None]))
        whole.append(relative(V[None], (Q @ V @ Q)[None]))
        flat = images.flatten(0, 1)[:, None]  # every view a sample of its own
        lone = tr.operator(torch.from_numpy(w), flat, cn.LINEAR).numpy()
        single.append(relative(lone[None], (Q @ V @ Q)[None]))
        values, vectors = np.linalg.eigh(Q @ V @ Q)
        steps = int(30 * values[-1] / (values[-1] - values[-2]))
        update = np.eye(10) + op / values[-1]
        end = np.linalg.matrix_power(update / 2, steps) @ w  # half of it, against overflow
        end /= np.linalg.norm(end)
        cosines.append(1 - np.abs(end @ vectors[:, -1])[None])
        raw.append(1 - np.abs(end @ np.linalg.eigh(V)[1][:, -1])[None])
        grown = np.linalg.matrix_power(update, 10) @ w
        kept.append(np.abs(drop.T @ (grown - w)).max()[None] / np.linalg.norm(grown))
        loose.append(np.abs(drop.T @ (V @ w)).max()[None])
    yield check(worst(*scores), 1.0, ref.pooled(broken), part=r"$\bar K_1(x)=Q^sx$", note="sampled")
    broken = {"no projection": whole, "views not averaged": single}
    note = "views of every sample that mirror each other in the nuisance subspace"
    yield check(worst(*ops), EXACT, ref.pooled(broken), part="OP", note=note)
    yield check(worst(*cosines), 1e-9, ref.pooled({"top eigenvector of V": raw}), part="direction")
    yield check(worst(*kept), EXACT, ref.pooled({"V for OP": loose}), part="nuisance part is kept")
