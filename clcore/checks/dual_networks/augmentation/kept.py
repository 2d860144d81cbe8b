"""Checks of ddn Sec. 5: what augmentation keeps, for any net and for a linear neuron.

The covariance over samples against that over what augmentation keeps (Assumption 1), and Gaussian
matrices on a nuisance subspace (Sec. 5.1, Example 1).
"""

from itertools import pairwise, product
from typing import Any

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks import symbols as sy
from clcore.checks.dual_networks.exact_pairs import Proof
from clcore.ledger import Trial, check, pooled, typical
from clcore.ledger import polynomials as poly
from clcore.reference import Array, relative
from clcore.theory.operator import connection as cn
from clcore.theory.operator import translation as tr

EXACT = 1e-12


def _redrawn() -> Proof:
    """V over all x = (z_0, z') of the mean of views that redraw z', against V over z_0."""
    world, _ = sy.world(outputs=2)
    joint = world.p[:, None] * world.q

    def spread(K: Any) -> Any:
        mean = np.einsum("ab,abwk->wk", joint, K)
        return np.einsum("ab,abwk,abvk->wv", joint, K, K) - mean @ mean.T

    bar = np.stack([world.bar, world.bar], 1)  # the same for both z' of an object
    return {
        "shown": poly.equal(spread(bar), world.between),
        "breaks": {"no average over views": poly.unlike(spread(world.K), world.between)},
        "at": "two objects at two places, two outputs, a layer of two numbers",
    }


@check("ddn/rem6")
def rem6(t: Trial) -> None:
    """If augmentation preserves z₀, the operator is a covariance over z₀ (Assumption 1, Sec. 5).

    Given   x = x(z_0, z') of 4 objects and 5 positions with random laws, a 3-layer ReLU net; views
            draw z' anew given z_0, from the data's law of it or from another one.
    Claim   V_x[E_view K_l] = V_z0[Kbar_l(z_0)] at every layer: x by x in numpy against z_0 by z_0
            with the library's connections; proved.
    Fails   for views that move z' to a neighbouring value, without the average over views, for
            views that change z_0, and for uniform z_0.
    """
    draws, shape, widths = min(t.draws, 60), (4, 5), (6, 5, 4, 3)
    prior = t.rng.dirichlet(np.full(4, 3.0), draws)
    given = t.rng.dirichlet(np.full(5, 3.0), (draws, 4))
    x = t.rng.standard_normal((draws, *shape, 6))
    weights = [t.rng.standard_normal((draws, b, a)) for a, b in pairwise(widths)]
    net = cn.trace(ref.tensors(*weights), *ref.tensors(x.reshape(draws, 20, 6)))
    joint, off_by = prior[:, :, None] * given, []
    other = t.rng.dirichlet(np.full(5, 3.0), (draws, 4))
    part = t.part("the operator over $z_0$", EXACT, controls=pooled, draws=draws)
    for layer in (1, 2, 3):
        K = cn.connection(net, layer).numpy().reshape(draws, *shape, -1, 3)
        own = [
            [nets.connection(weights, x[:, a, b], layer, "relu") for b in range(5)]
            for a in range(4)
        ]
        beside = [[(own[a][b - 1] + own[a][(b + 1) % 5]) / 2 for b in range(5)] for a in range(4)]
        for law in (given, other):
            # V_x[E_view K_l], x by x: all x of an object have its views.
            means = [sum(law[:, a, b, None, None] * own[a][b] for b in range(5)) for a in range(4)]
            expected = _spread([[m] * 5 for m in means], joint)

            # V_z0[Kbar_l(z_0)], z_0 by z_0.
            bar = np.einsum("dab,dabwk->dawk", law, K)
            off = bar - np.einsum("da,dawk->dwk", prior, bar)[:, None]
            ours = np.einsum("da,dawk,davk->dwv", prior, off, off)
            part.add(relative(ours, expected))

            off_by.append(relative(ours, _spread(beside, joint)))
            part.breaks("views that move z' to a neighbour", off_by[-1], by=typical)
            part.breaks("no average over views", relative(_spread(own, joint), expected))
            blend = sum(prior[:, a, None, None] * means[a] for a in range(4))
            changed = _spread([[0.7 * m + 0.3 * blend] * 5 for m in means], joint)
            part.breaks("views change z_0", relative(changed, expected))
            flat = off - off.mean(1, keepdims=True)
            even = np.einsum("dawk,davk->dwv", flat, flat) / 4
            part.breaks("uniform z_0", relative(even, expected))
    part.says(beside=np.median(np.concatenate(off_by)))
    part.proves(**_redrawn())


def _spread(K: list[list[Array]], p: Array) -> Array:
    """V[K] with probabilities p [draws, a, b] by E[K K^T] - E[K] E[K]^T, entry by entry."""
    places = list(product(range(p.shape[1]), range(p.shape[2])))
    mean: Any = sum(p[:, a, b, None, None] * K[a][b] for a, b in places)
    square = sum(p[:, a, b, None, None] * K[a][b] @ K[a][b].swapaxes(1, 2) for a, b in places)
    return square - mean @ mean.swapaxes(1, 2)


@check("ddn/ex1")
def ex1(t: Trial) -> None:
    """A linear neuron learns only the subspace that augmentation preserves (Sec. 5.1, example 1).

    Given   a linear neuron on R^10 = semantic (4) + nuisance (6) subspace; a view multiplies the
            nuisance part by a Gaussian matrix of mean 0, and keeps the rest.
    Claim   Kbar_1(x) = Q^s x, Q^s the projector on the semantic subspace, of 4000 views within 6
            standard errors; OP = Q^s V[x] Q^s, of views with their mirror images exactly; its flow
            ends in the top eigenvector of that, and the nuisance part of w stays as it is.
    Fails   for x itself or its nuisance part in place of Q^s x; for V[x] in place of OP, without
            the projection, and for views that are not averaged.
    """
    worlds, views = min(t.draws, 8), 4000
    mean_view = t.part(r"$\bar K_1(x)=Q^sx$", 1.0, controls=pooled, draws=worlds)
    op = t.part("OP", EXACT, controls=pooled, draws=worlds)
    direction = t.part("direction", 1e-9, controls=pooled, draws=worlds)
    kept = t.part("nuisance part is kept", EXACT, controls=pooled, draws=worlds)
    for key in t.keys(worlds):
        basis = np.linalg.qr(t.rng.standard_normal((10, 10)))[0]
        keep, drop = basis[:, :4], basis[:, 4:]
        x = t.rng.standard_normal((12, 10)) * np.exp(t.rng.standard_normal(10) / 2)
        w = t.rng.standard_normal(10)
        V, Q = np.cov(x.T, bias=True), keep @ keep.T

        # Kbar_1(x) = Q^s x: the mean view, in coordinates of both subspaces.
        sample = tr.scramble(key, *ref.tensors(x, drop), views).numpy() @ basis
        mean, error = sample.mean(0), (sample.std(0) / np.sqrt(views))[:, 4:]
        off = mean - x @ basis
        mean_view.add(np.abs(mean[:, 4:] / error).max() / 6)
        mean_view.add(np.abs(off[:, :4]).max() / EXACT)  # the part that must be kept
        mean_view.breaks("x itself", np.abs(off[:, 4:] / error).max() / 6)
        mean_view.breaks("the nuisance part", np.abs(mean[:, :4]).max() / EXACT)

        # OP = Q^s V[x] Q^s: three views and their mirror images have the mean Q^s x exactly.
        drawn = sample[:3] @ basis.T
        mirrored = drawn - 2 * drawn @ drop @ drop.T
        images = torch.from_numpy(np.concatenate([drawn, mirrored])).transpose(0, 1)
        ours, lone = (
            tr.operator(torch.from_numpy(w), v, cn.LINEAR).numpy()
            for v in (images, images.flatten(0, 1)[:, None])  # every view a sample of its own
        )
        expected = (Q @ V @ Q)[None]
        op.add(relative(ours[None], expected))
        op.breaks("no projection", relative(V[None], expected))
        op.breaks("views not averaged", relative(lone[None], expected))

        # Its flow ends in the top eigenvector of that.
        values, vectors = np.linalg.eigh(Q @ V @ Q)
        steps = int(30 * values[-1] / (values[-1] - values[-2]))
        update = np.eye(10) + ours / values[-1]
        end = np.linalg.matrix_power(update / 2, steps) @ w  # half of it, against overflow
        end /= np.linalg.norm(end)
        direction.add(1 - np.abs(end @ vectors[:, -1]))
        direction.breaks("top eigenvector of V", 1 - np.abs(end @ np.linalg.eigh(V)[1][:, -1]))

        # The nuisance part of w stays as it is.
        grown = np.linalg.matrix_power(update, 10) @ w
        kept.add(np.abs(drop.T @ (grown - w)).max() / np.linalg.norm(grown))
        kept.breaks("V for OP", np.abs(drop.T @ (V @ w)).max())
